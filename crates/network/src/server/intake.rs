//! Receives uploads: every byte is checked before anything counts.

use super::actor::{Message, Offer, Upload};
use super::core::Core;
use super::upload::{Header, Part};
use super::verdict::Fault;
use crate::error::NetworkError;
use crate::wire::{hex, is_whole, proto};
use formant_federation::Refusal;
use proto::upload_part::Part as Sent;
use proto::verdict::Kind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};
use tracing::{error, warn};

/// What ends a transfer that did not come to an end by itself.
enum Trouble {
    /// The client is told.
    Fault(Fault),
    /// The server cannot go on.
    Own(NetworkError),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// How much of an upload is there already, or a verdict if nothing need be sent.
pub(crate) async fn resume(
    core: Arc<Core>,
    client: usize,
    header: proto::UploadHeader,
) -> Result<proto::UploadOffset, Status> {
    let answer = async {
        let verdict = wanted(&core, client, &header).await?;
        if verdict.kind() == Kind::Kept {
            return Ok(proto::UploadOffset { offset: 0, verdict: Some(verdict) });
        }
        // Only a look: whoever writes has the turn.
        let (uploads, asked) = (core.folder.join("uploads"), Header::of(&header));
        let offset = blocking(move || Part::look(&uploads, client, &asked)).await?;
        Ok(proto::UploadOffset { offset, verdict: None })
    };
    let answer = answer.await;
    match settle(&core, client, Some(&header), answer).await? {
        Ok(offset) => Ok(offset),
        Err(verdict) => Ok(proto::UploadOffset { offset: 0, verdict: Some(verdict) }),
    }
}

/// Receives one upload.
pub(crate) async fn receive(
    core: Arc<Core>,
    client: usize,
    mut parts: Streaming<proto::UploadPart>,
) -> Result<proto::Verdict, Status> {
    let mut offered = None;
    let answer = async {
        let idle = core.wiring.settings.idle_timeout;
        let Some(Sent::Header(header)) = next(&mut parts, idle).await? else {
            return Err(
                Fault::on_the_way(Refusal::Malformed, "an upload begins with its header").into()
            );
        };
        offered = Some(header.clone());
        let verdict = wanted(&core, client, &header).await?;
        if verdict.kind() == Kind::Kept {
            return Ok(verdict);
        }
        // Whoever comes later has the newer connection.
        let lane = &core.lanes[client];
        lane.newest.send_modify(|newest| *newest += 1);
        let mut newest = lane.newest.subscribe();
        newest.borrow_and_update();
        let turn = lane.turn.clone().lock_owned().await;
        // Somebody may have sent it while this one waited.
        let verdict = wanted(&core, client, &header).await?;
        if verdict.kind() == Kind::Kept {
            return Ok(verdict);
        }
        let part = open(&core, client, turn, &header).await?;
        let part = tokio::select! {
            filled = fill(&core, part, &header, &mut parts) => filled?,
            _ = newest.changed() => {
                return Err(Fault::on_the_way(Refusal::Replaced, Refusal::Replaced.sentence()).into());
            }
        };
        finish(&core, client, part, header).await
    };
    let answer = answer.await;
    let settled = settle(&core, client, offered.as_ref(), answer).await?;
    Ok(settled.unwrap_or_else(|verdict| verdict))
}

/// Counts, logs and reports what went wrong with an upload, of which the header has come or has not.
/// What is refused for good is an event of the run; what may be sent again is not.
async fn settle<T>(
    core: &Core,
    client: usize,
    header: Option<&proto::UploadHeader>,
    answer: Result<T, Trouble>,
) -> Result<Result<T, proto::Verdict>, Status> {
    let round = header.map(|header| header.round);
    let fault = match answer {
        Ok(value) => return Ok(Ok(value)),
        Err(Trouble::Fault(fault)) => fault,
        Err(Trouble::Own(error)) => {
            error!(client = core.name(client), round, %error, "cannot keep an upload");
            return Err(Status::internal("the server cannot keep the upload"));
        }
    };
    if fault.is_stopping() {
        return Err(Status::unavailable(fault.detail));
    }
    let (reason, detail) = (fault.reason.word(), &fault.detail);
    core.metrics.refuse(reason);
    if let Some(more) = core.lines.take(std::time::Instant::now()) {
        warn!(client = core.name(client), round, reason, detail, more, "upload refused");
    }
    let verdict = fault.verdict();
    if let (Some(header), true) = (header, fault.is_final()) {
        let size = header.file.as_ref().map(|file| file.bytes);
        let bytes = size.filter(|bytes| (1..=core.limit).contains(bytes));
        let offer = Offer { client, round: header.round, bytes };
        // The client hears of it once the run knows.
        let told = core.ask(|reply| Message::Refused { offer, fault, reply }).await;
        if let Err(fault) = told
            && fault.is_stopping()
        {
            // It will offer the upload again, and the next server says so again.
            return Err(Status::unavailable(fault.detail));
        }
    }
    Ok(Err(verdict))
}

/// Whether the round wants this upload, before a byte of it is read.
async fn wanted(
    core: &Core,
    client: usize,
    header: &proto::UploadHeader,
) -> Result<proto::Verdict, Trouble> {
    let round = header.round;
    let samples = header.samples;
    let verdict = core.ask(|reply| Message::Ask { client, round, samples, reply }).await?;
    if verdict.kind() == Kind::Kept {
        return Ok(verdict);
    }
    let settings = &core.wiring.settings;
    let (bytes, limit) = (header.file.as_ref().map_or(0, |file| file.bytes), core.limit);
    // As numbers: words that this version does not know would be read as its defaults.
    let packing: (i32, i32) = (settings.packing.encoding.into(), settings.packing.precision.into());
    if bytes == 0 {
        return Err(Fault::in_content(Refusal::WrongLength, "it has no bytes").into());
    }
    if bytes > limit {
        let detail = format!("{bytes} bytes, and {limit} is the most");
        return Err(Fault::in_content(Refusal::Oversize, detail).into());
    }
    if header.samples == 0 || header.samples > settings.max_samples {
        let (samples, most) = (header.samples, settings.max_samples);
        let detail = format!("{samples} samples, and from 1 to {most} are plausible");
        return Err(Fault::in_content(Refusal::Samples, detail).into());
    }
    if (header.encoding, header.precision) != packing {
        let detail = "it is not packed as the server said";
        return Err(Fault::in_content(Refusal::Malformed, detail).into());
    }
    Ok(verdict)
}

async fn open(
    core: &Core,
    client: usize,
    turn: OwnedMutexGuard<()>,
    header: &proto::UploadHeader,
) -> Result<Part, Trouble> {
    let (uploads, header) = (core.folder.join("uploads"), Header::of(header));
    blocking(move || Part::open(&uploads, client, turn, &header)).await
}

/// Appends chunks until everything is there.
async fn fill(
    core: &Core,
    mut part: Part,
    header: &proto::UploadHeader,
    parts: &mut Streaming<proto::UploadPart>,
) -> Result<Part, Trouble> {
    let settings = &core.wiring.settings;
    let total = header.file.as_ref().map_or(0, |file| file.bytes);
    let (began, first) = (Instant::now(), part.offset);
    if first > 0 {
        core.metrics.resumed.fetch_add(1, Relaxed);
    }
    loop {
        let chunk = match next(parts, settings.idle_timeout).await? {
            Some(Sent::Chunk(chunk)) => chunk,
            Some(Sent::Header(_)) => {
                return Err(Fault::on_the_way(Refusal::Malformed, "a second header").into());
            }
            None if part.offset == total => return Ok(part),
            None => {
                let detail = format!("it ends after {} of {total} bytes", part.offset);
                return Err(Fault::on_the_way(Refusal::WrongLength, detail).into());
            }
        };
        if chunk.data.is_empty() || !is_whole(&chunk) {
            return Err(
                Fault::on_the_way(Refusal::Checksum, "a chunk does not have its checksum").into()
            );
        }
        if chunk.offset != part.offset {
            let detail = format!("a chunk at {} where {} is next", chunk.offset, part.offset);
            return Err(Fault::on_the_way(Refusal::Offset, detail).into());
        }
        if part.offset + chunk.data.len() as u64 > total {
            let detail = format!("it goes on beyond the {total} bytes that were announced");
            return Err(Fault::on_the_way(Refusal::WrongLength, detail).into());
        }
        part = blocking(move || part.append(&chunk.data).map(|()| part)).await?;
        check_rate(part.offset - first, began.elapsed(), settings.idle_timeout, settings.min_rate)?;
    }
}

/// A stream that drips holds memory and a place: it is given up after a while.
fn check_rate(
    bytes: u64,
    elapsed: Duration,
    patience: Duration,
    min_rate: u64,
) -> Result<(), Fault> {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-9);
    if elapsed > patience && rate < min_rate as f64 {
        let detail = format!("{rate:.0} bytes per second, and {min_rate} is the least");
        return Err(Fault::on_the_way(Refusal::Slow, detail));
    }
    Ok(())
}

/// Checks the whole upload, keeps it and tells the round.
async fn finish(
    core: &Arc<Core>,
    client: usize,
    mut part: Part,
    header: proto::UploadHeader,
) -> Result<proto::Verdict, Trouble> {
    let (round, file) = (header.round, header.file.unwrap_or_default());
    let (bytes, hash) = (file.bytes, hex(&file.hash));
    let Ok(permit) = core.checking.acquire().await else {
        return Err(Fault::stopping().into());
    };
    // The transfer may have taken long: the certificate it began with may be revoked by now.
    if core.door.still_known(client).is_err() {
        return Err(Fault::on_the_way(Refusal::Revoked, Refusal::Revoked.sentence()).into());
    }
    let shared = core.clone();
    let checked = blocking(move || {
        Ok::<_, NetworkError>(match part.check(&shared, client, &file)? {
            Ok(norm) => Ok((part, norm)),
            Err(fault) => {
                part.discard()?;
                Err(fault)
            }
        })
    })
    .await?;
    // It is not in memory any more: others are checked while this one waits for the disk.
    drop(permit);
    let (part, norm) = checked?;
    let Ok(permit) = core.syncing.acquire().await else {
        return Err(Fault::stopping().into());
    };
    let shared = core.clone();
    // Nobody else may write before the round knows.
    let _turn = blocking(move || {
        shared.door.keep(client, &shared.folder)?;
        part.keep()
    })
    .await?;
    drop(permit);
    let samples = header.samples;
    let loss = header.loss.filter(|loss| loss.is_finite());
    let upload = Upload { client, round, bytes, samples, hash, norm, loss };
    Ok(core.ask(|reply| Message::Uploaded { upload, reply }).await?)
}

/// The next part of a stream, if it comes in time.
async fn next(
    parts: &mut Streaming<proto::UploadPart>,
    patience: Duration,
) -> Result<Option<Sent>, Fault> {
    match timeout(patience, parts.message()).await {
        Err(_) => {
            let detail = format!("nothing came for {} seconds", patience.as_secs_f64());
            Err(Fault::on_the_way(Refusal::Slow, detail))
        }
        Ok(Err(status)) => Err(Fault::on_the_way(Refusal::Interrupted, status.message())),
        Ok(Ok(None)) => Ok(None),
        Ok(Ok(Some(part))) => match part.part {
            Some(sent) => Ok(Some(sent)),
            None => Err(Fault::on_the_way(Refusal::Malformed, "an empty message")),
        },
    }
}

/// Does file work where it does not hold up other tasks.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, Trouble>
where
    T: Send + 'static,
    E: Into<NetworkError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| Trouble::Own(error.into())),
        Err(_) => Err(Trouble::Own(NetworkError::Stopped { what: "file thread" })),
    }
}
