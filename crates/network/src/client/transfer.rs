//! Downloads and uploads that go on where they were cut.

use super::backoff::Backoff;
use crate::wire::{NAME_KEY, chunk, hex, is_file, is_whole, proto};
use bytes::Bytes;
use formant_runtime::files::faults::{Call, pass};
use formant_runtime::files::{self, Named, Synced};
use proto::federation_client::FederationClient;
use proto::upload_part::Part;
use proto::verdict::Kind;
use std::collections::BTreeMap;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tracing::warn;

/// Puts the client's name on a request, where there is no certificate that says it.
#[derive(Clone)]
pub(crate) struct Signer(pub(crate) Option<MetadataValue<Ascii>>);

impl Interceptor for Signer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(name) = &self.0 {
            request.metadata_mut().insert(NAME_KEY, name.clone());
        }
        Ok(request)
    }
}

/// What calls go through.
pub(crate) type Caller = FederationClient<InterceptedService<Channel, Signer>>;

/// What a transfer goes by.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) caller: Caller,
    pub(crate) progress: Arc<Progress>,
}

/// The line is gone, or the disk; the connection is made anew.
pub(crate) struct Lost(pub(crate) String);

impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        Self(format!("{:?}: {}", status.code(), status.message()))
    }
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<formant_runtime::RuntimeError> for Lost {
    fn from(error: formant_runtime::RuntimeError) -> Self {
        Self(error.to_string())
    }
}

/// Whether connections bring a client further, though each may be lost before its transfer ends.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Steps>);

#[derive(Default)]
struct Steps {
    further: bool,
    /// How far each transfer has come: what is fetched or sent a second time is no progress.
    marks: BTreeMap<(Direction, u64), u64>,
    failed: Failed,
}

/// How often a broadcast could not be had without coming any further.
#[derive(Default)]
struct Failed {
    round: u64,
    times: u32,
    /// Whether it has come further since it last failed.
    moved: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Down,
    Up,
}

/// Transfers that are remembered; older ones are over.
const MARKS: usize = 64;

impl Progress {
    /// So much of a round's broadcast is on disk, or the server has so much of its upload.
    fn reached(&self, way: Direction, round: u64, offset: u64) {
        let mut steps = self.steps();
        let mark = steps.marks.entry((way, round)).or_default();
        let further = offset > *mark;
        *mark = offset.max(*mark);
        steps.further |= further;
        if further {
            steps.failed = Failed { round, times: 0, moved: true };
        }
        while steps.marks.len() > MARKS {
            let oldest = steps.marks.keys().min_by_key(|(_, round)| *round).copied();
            oldest.and_then(|key| steps.marks.remove(&key));
        }
    }

    /// The broadcast of a round could not be had. It is not asked for again at once, however often the
    /// connection is made anew meanwhile and whatever else goes well on it.
    fn failed(&self, round: u64) {
        let failed = &mut self.steps().failed;
        if failed.round != round {
            *failed = Failed { round, ..Failed::default() };
        }
        if !std::mem::take(&mut failed.moved) {
            failed.times = failed.times.saturating_add(1);
        }
    }

    /// How long to wait before the broadcast of a round is asked for.
    fn pause(&self, round: u64) -> Duration {
        match self.steps().failed {
            Failed { round: of, times, .. } if of == round => Backoff::after(times),
            _ => Duration::ZERO,
        }
    }

    /// Whether there was any since the last time.
    pub(crate) fn take(&self) -> bool {
        std::mem::take(&mut self.steps().further)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often something that was damaged on the way is tried again.
const TRIES: usize = 5;
/// A download without a chunk for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Chunks that are read from disk ahead of the network.
const AHEAD: usize = 2;

/// Downloads a broadcast into the folder; `None` if the server does not have it any more. What an
/// earlier connection has brought is not fetched again.
pub(crate) async fn download(
    mut way: Way,
    states: &Path,
    round: u64,
    file: proto::File,
) -> Result<Option<Named>, Lost> {
    let name = format!("broadcast-{round}.bin");
    let whole = states.join(&name);
    if let Ok(bytes) = tokio::fs::read(&whole).await
        && is_file(&file, &bytes)
    {
        return Ok(Some(Named::of(name, &bytes)));
    }
    // The hash in its name: only the same bytes may go on.
    let part = states.join(format!("broadcast-{round}-{}.part", hex(&file.hash)));
    for _ in 0..TRIES {
        tokio::time::sleep(way.progress.pause(round)).await;
        match fetch(&mut way, &part, round, file.bytes).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(lost) => {
                way.progress.failed(round);
                return Err(lost);
            }
        }
        let bytes = tokio::fs::read(&part).await?;
        if is_file(&file, &bytes) {
            let named = Named::of(name, &bytes);
            let kept = move || files::settle(&part, &whole, Synced::Name);
            tokio::task::spawn_blocking(kept).await.map_err(|error| Lost(error.to_string()))??;
            return Ok(Some(named));
        }
        way.progress.failed(round);
        warn!(round, "a broadcast does not have its hash; it is fetched again");
        files::remove(&part)?;
    }
    Err(Lost(format!("the broadcast of round {round} was damaged {TRIES} times")))
}

/// Appends what is missing. False if the server does not have it any more.
async fn fetch(way: &mut Way, part: &Path, round: u64, total: u64) -> Result<bool, Lost> {
    pass(Call::Open, part)?;
    let mut options = tokio::fs::OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.create(true).append(true).open(part).await?;
    let mut offset = file.metadata().await?.len();
    if offset > total {
        file.set_len(0).await?;
        offset = 0;
    }
    let mut chunks = match way.caller.download(proto::DownloadRequest { round, offset }).await {
        Ok(chunks) => chunks.into_inner(),
        Err(status) if status.code() == Code::NotFound => return Ok(false),
        Err(status) => return Err(status.into()),
    };
    while offset < total {
        let next = tokio::time::timeout(PATIENCE, chunks.message()).await;
        let next = next.map_err(|_| Lost("a download has stalled".into()))??;
        let Some(chunk) = next else {
            return Err(Lost(format!("a download ends after {offset} of {total} bytes")));
        };
        if !is_whole(&chunk) || chunk.offset != offset {
            return Err(Lost("a chunk was damaged on the way".into()));
        }
        // What was announced is what may be written.
        if chunk.data.is_empty() || chunk.data.len() as u64 > total - offset {
            let (more, left) = (chunk.data.len(), total - offset);
            return Err(Lost(format!("a chunk of {more} bytes where {left} are missing")));
        }
        pass(Call::Write, part)?;
        file.write_all(&chunk.data).await?;
        // Nothing may be written later, when another connection goes on with the file.
        file.flush().await?;
        offset += chunk.data.len() as u64;
        way.progress.reached(Direction::Down, round, offset);
    }
    Ok(true)
}

/// Sends an upload, from wherever the server has it already, and gives the server's verdict.
pub(crate) async fn upload(
    mut way: Way,
    header: proto::UploadHeader,
    path: PathBuf,
    chunk_size: usize,
) -> Result<proto::Verdict, Lost> {
    let mut last = proto::Verdict::default();
    for _ in 0..TRIES {
        let resumed = way.caller.resume(header.clone()).await?.into_inner();
        let verdict = if let Some(verdict) = resumed.verdict {
            verdict
        } else {
            way.progress.reached(Direction::Up, header.round, resumed.offset);
            send(&mut way.caller, &header, &path, resumed.offset, chunk_size).await?
        };
        match verdict.kind() {
            Kind::Again | Kind::Unspecified => last = verdict,
            _ => return Ok(verdict),
        }
        warn!(round = header.round, reason = last.reason, detail = last.detail, "sending again");
    }
    Err(Lost(format!("the server could not take an upload {TRIES} times: {}", last.detail)))
}

async fn send(
    caller: &mut Caller,
    header: &proto::UploadHeader,
    path: &Path,
    mut offset: u64,
    chunk_size: usize,
) -> Result<proto::Verdict, Lost> {
    let mut file = tokio::fs::File::open(path).await?;
    file.seek(SeekFrom::Start(offset)).await?;
    let (parts, stream) = mpsc::channel(AHEAD);
    let part = |part| proto::UploadPart { part: Some(part) };
    let _ = parts.try_send(part(Part::Header(header.clone())));
    let reader = tokio::spawn(async move {
        loop {
            let mut data = Vec::with_capacity(chunk_size);
            let read = (&mut file).take(chunk_size as u64).read_to_end(&mut data).await;
            if read.map_or(true, |read| read == 0) {
                return;
            }
            let length = data.len() as u64;
            let next = part(Part::Chunk(chunk(offset, Bytes::from(data))));
            // The server may have said its verdict already.
            if parts.send(next).await.is_err() {
                return;
            }
            offset += length;
        }
    });
    let verdict = caller.upload(ReceiverStream::new(stream)).await;
    reader.abort();
    Ok(verdict?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_what_was_not_there_before() {
        let progress = Progress::default();
        for (way, round, offset, further) in [
            (Direction::Up, 1, 0, false),
            (Direction::Up, 1, 10, true),
            (Direction::Up, 2, 5, true),
            (Direction::Up, 1, 10, false),
            (Direction::Up, 1, 30, true),
            (Direction::Down, 1, 20, true),
            // Fetched anew, because it was damaged.
            (Direction::Down, 1, 10, false),
        ] {
            progress.reached(way, round, offset);
            assert_eq!(progress.take(), further, "{offset} of round {round}");
        }
        for round in 0..1_000 {
            progress.reached(Direction::Down, round, 1);
        }
        assert!(progress.take() && !progress.take() && progress.steps().marks.len() <= MARKS);
    }

    #[test]
    fn a_broadcast_that_fails_again_and_again_is_asked_for_less_and_less_often() {
        let progress = Progress::default();
        assert_eq!(progress.pause(1), Duration::ZERO);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            progress.failed(1);
            pauses.push(progress.pause(1));
            // What else goes well does not count.
            progress.reached(Direction::Down, 1, 0);
        }
        assert!(pauses[0] >= Duration::from_millis(50), "{pauses:?}");
        assert!(pauses.is_sorted() && pauses[11] == pauses[10], "{pauses:?}");
        assert!(pauses[11] >= Duration::from_secs(10), "{pauses:?}");
        // Another one, or one that comes further, is another matter.
        assert_eq!(progress.pause(2), Duration::ZERO);
        progress.reached(Direction::Down, 1, 10);
        assert_eq!(progress.pause(1), Duration::ZERO);
        // A line that breaks after it has brought something is no failure of the broadcast.
        progress.failed(1);
        assert_eq!(progress.pause(1), Duration::ZERO);
    }
}
