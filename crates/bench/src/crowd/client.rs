//! One client: it joins, answers every round with the broadcast moved a little, loses its connection when
//! it is its turn, and leaves when the run is over.

use super::clients::Shared;
use super::draw::{Accident, During, accident};
use super::line::Line;
use super::wire::proto::dismiss::Cause;
use super::wire::proto::order::Order;
use super::wire::proto::upload_part::Part;
use super::wire::proto::verdict::Kind;
use super::wire::proto::{self, DownloadRequest, Farewell, Hello};
use super::wire::{chunk, is_whole};
use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use xxhash_rust::xxh3::Xxh3;

/// The version of the protocol.
const VERSION: u32 = formant_network::VERSION;
/// Samples that a client claims; all weigh the same.
const SAMPLES: u64 = 100;
/// How often a client may be turned away or lose its line unasked before that counts as a failure of the run.
const TRIES: u32 = 50;
/// Chunks that are ready before the line takes them, as of the real client.
const AHEAD: usize = 2;
/// Until it comes back then.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Client {
    pub(crate) place: u32,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) from: SocketAddr,
    /// The last round in which it had its accident.
    pub(crate) hurt: u64,
    /// Most bytes in a chunk, as the server has said.
    pub(crate) chunk: usize,
}

/// How a connection came to its end.
enum Ended {
    /// The run is over.
    Over,
    /// It was to be cut.
    Cut(Duration),
}

/// What came of a transfer.
enum Transfer<T> {
    Done(T),
    Cut(Duration),
}

impl Client {
    /// Until the run is over.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let mut is_new = true;
        let mut tries = 0;
        loop {
            let shared = self.shared.clone();
            let turn = if is_new { Some(shared.joining.acquire().await?) } else { None };
            let joined = self.join(is_new).await;
            drop(turn);
            let ended = match joined {
                Ok((line, orders)) => {
                    if is_new {
                        is_new = false;
                        shared.has_joined().await;
                    }
                    self.session(line, orders).await
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(Ended::Over) => return Ok(()),
                Ok(Ended::Cut(away)) => tokio::time::sleep(away).await,
                Err(error) => {
                    shared.note(|notes| notes.trouble(&error));
                    tries += 1;
                    if tries == TRIES {
                        let place = self.place;
                        return Err(error.context(format!("client {place}, {TRIES} times")));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Connects and waits for the welcome.
    async fn join(&mut self, is_new: bool) -> anyhow::Result<(Line, Streaming<proto::Order>)> {
        let began = Instant::now();
        let line = Line::to(self.shared.server, self.from, self.tls.clone()).await?;
        let connected = began.elapsed();
        let hello = Hello { version: VERSION, born: now() };
        let mut orders = line.caller.clone().join(hello).await?.into_inner();
        let first = orders.message().await?.and_then(|order| order.order);
        let Some(Order::Welcome(welcome)) = first else { bail!("the first order is no welcome") };
        self.chunk = welcome.chunk.max(1) as usize;
        self.shared.note(|notes| notes.joined(is_new, connected, began.elapsed()));
        Ok((line, orders))
    }

    async fn session(
        &mut self,
        line: Line,
        mut orders: Streaming<proto::Order>,
    ) -> anyhow::Result<Ended> {
        loop {
            let order = orders.message().await?.context("the server has closed the connection")?;
            match order.order {
                Some(Order::Broadcast(order)) => {
                    if let Transfer::Cut(away) = self.answer(&line, order).await? {
                        return Ok(Ended::Cut(away));
                    }
                }
                Some(Order::Dismiss(order)) => {
                    ensure!(order.cause() != Cause::Replaced, "somebody else has its name");
                    let last = order.last.context("a dismissal without a last model")?;
                    let file = last.file.context("a last model without a file")?;
                    self.fetch(&line, last.round, &file, None).await?;
                    line.caller.clone().leave(Farewell {}).await?;
                    return Ok(Ended::Over);
                }
                Some(Order::Welcome(_)) | None => bail!("an order that says nothing"),
            }
        }
    }

    /// Fetches a broadcast and sends an upload.
    async fn answer(
        &mut self,
        line: &Line,
        order: proto::Broadcast,
    ) -> anyhow::Result<Transfer<()>> {
        let round = order.round;
        let file = order.file.context("a broadcast without a file")?;
        let plan = &self.shared.plan;
        let accident = if self.hurt < round {
            accident((plan.seed, plan.churn), round, self.place)
        } else {
            None
        };
        if accident.is_some() {
            self.hurt = round;
            self.shared.note(|notes| notes.cuts += 1);
        }
        let fetched = self.fetch(line, round, &file, accident).await?;
        if let Transfer::Cut(away) = fetched {
            return Ok(Transfer::Cut(away));
        }
        self.send(line, round, accident).await
    }

    /// Downloads a broadcast, and sees to it that this process knows what is in it.
    async fn fetch(
        &self,
        line: &Line,
        round: u64,
        file: &proto::File,
        accident: Option<Accident>,
    ) -> anyhow::Result<Transfer<()>> {
        let cut = accident.filter(|accident| accident.during == During::Download);
        loop {
            let keeps = self.shared.keep(round);
            let began = Instant::now();
            let Transfer::Done(bytes) = download(line, round, file, keeps.is_some(), cut).await?
            else {
                return Ok(Transfer::Cut(cut.map_or(PAUSE, |accident| accident.away)));
            };
            self.shared.note(|notes| notes.downloads.push(began.elapsed().as_secs_f64()));
            if let Some(bytes) = bytes {
                self.shared.publish(round, &bytes)?;
            }
            drop(keeps);
            // Whoever kept the bytes may have lost its connection.
            if self.shared.is_known(round).await {
                return Ok(Transfer::Done(()));
            }
        }
    }

    /// Offers the upload and sends what the server does not have of it.
    async fn send(
        &self,
        line: &Line,
        round: u64,
        accident: Option<Accident>,
    ) -> anyhow::Result<Transfer<()>> {
        let (bytes, file) = self.shared.upload(round, self.place)?;
        let header = proto::UploadHeader {
            loss: None,
            round,
            file: Some(file),
            encoding: 0,
            precision: 0,
            samples: SAMPLES,
        };
        let began = Instant::now();
        let resumed = line.caller.clone().resume(header.clone()).await?.into_inner();
        self.shared.note(|notes| notes.offers.push(began.elapsed().as_secs_f64()));
        if resumed.verdict.is_some_and(|verdict| verdict.kind() == Kind::Kept) {
            return Ok(Transfer::Done(()));
        }
        let size = self.chunk;
        let cut = accident.filter(|accident| accident.during == During::Upload);
        let most = cut.map(|cut| (cut.after * bytes.len() as f64) as usize);
        let mut caller = line.caller.clone();
        let parts = ReceiverStream::new(parts(header, bytes, resumed.offset as usize, size, most));
        let began = Instant::now();
        let sent = tokio::spawn(async move { caller.upload(parts).await });
        if let Some(cut) = cut {
            // Long enough for some of it to be on its way, on a quick line.
            tokio::time::sleep(Duration::from_millis(20)).await;
            line.cut();
            let _ = sent.await;
            return Ok(Transfer::Cut(cut.away));
        }
        let verdict = sent.await??.into_inner();
        self.shared.note(|notes| notes.uploads.push(began.elapsed().as_secs_f64()));
        match verdict.kind() {
            Kind::Accepted | Kind::Kept => Ok(Transfer::Done(())),
            kind => bail!("{kind:?}: {} ({})", verdict.reason, verdict.detail),
        }
    }
}

/// Receives a broadcast and checks it; keeps the bytes if it is to.
async fn download(
    line: &Line,
    round: u64,
    file: &proto::File,
    keeps: bool,
    cut: Option<Accident>,
) -> anyhow::Result<Transfer<Option<Vec<u8>>>> {
    let request = DownloadRequest { round, offset: 0 };
    let mut chunks = line.caller.clone().download(request).await?.into_inner();
    let (mut hash, mut offset, mut bytes) = (Xxh3::new(), 0, Vec::new());
    while offset < file.bytes {
        let chunk = chunks.message().await?.context("a download ends too early")?;
        ensure!(is_whole(&chunk) && chunk.offset == offset, "a chunk was damaged on the way");
        offset += chunk.data.len() as u64;
        if cut.is_some_and(|cut| offset as f64 >= cut.after * file.bytes as f64) {
            line.cut();
            return Ok(Transfer::Cut(PAUSE));
        }
        hash.update(&chunk.data);
        if keeps {
            bytes.extend_from_slice(&chunk.data);
        }
    }
    ensure!(hash.digest128().to_le_bytes()[..] == file.hash, "a broadcast was damaged on the way");
    Ok(Transfer::Done(keeps.then_some(bytes)))
}

/// The messages of an upload, from an offset on. If it is to be cut, so many bytes of it and then silence:
/// one that ended there would be an upload that is too short, which is another matter.
fn parts(
    header: proto::UploadHeader,
    bytes: Bytes,
    offset: usize,
    size: usize,
    most: Option<usize>,
) -> mpsc::Receiver<proto::UploadPart> {
    let (sender, parts) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let end = most.map_or(bytes.len(), |most| most.max(offset));
        let chunks = (offset..end).step_by(size).map(|at| {
            let data = bytes.slice(at..(at + size).min(end));
            Part::Chunk(chunk(at as u64, data))
        });
        for part in std::iter::once(Part::Header(header)).chain(chunks) {
            if sender.send(proto::UploadPart { part: Some(part) }).await.is_err() {
                return;
            }
        }
        if most.is_some() {
            sender.closed().await;
        }
    });
    parts
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
