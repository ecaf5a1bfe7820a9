//! A process of clients, and what they share: the uploads of a round, and what was noted.

use super::certificates::bundle;
use super::client::Client;
use super::draw::{VARIANTS, shift};
use super::experiment::Plan;
use super::wire::{file_of, proto};
use anyhow::Context as _;
use bytes::Bytes;
use formant_network::identity::ClientIdentity;
use formant_numerics::Model;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    plan: Plan,
    /// Which of the processes this is
    #[arg(long)]
    process: u32,
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    folder: PathBuf,
}

/// What a process of clients has seen.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// Seconds from a client's decision to join until its handshake was done, and until it was welcome.
    pub(crate) handshakes: Vec<f64>,
    pub(crate) joins: Vec<f64>,
    /// The same of clients that came back.
    pub(crate) returns: Vec<f64>,
    /// Seconds of the calls.
    pub(crate) downloads: Vec<f64>,
    pub(crate) offers: Vec<f64>,
    pub(crate) uploads: Vec<f64>,
    /// Connections that were cut on purpose.
    pub(crate) cuts: u64,
    /// Other ends of connections and refusals, by what was said.
    pub(crate) troubles: BTreeMap<String, u64>,
    /// The mean parameter of every broadcast.
    pub(crate) means: BTreeMap<u64, f64>,
}

impl Notes {
    pub(crate) fn joined(&mut self, is_new: bool, connected: Duration, welcomed: Duration) {
        if is_new {
            self.handshakes.push(connected.as_secs_f64());
            self.joins.push(welcomed.as_secs_f64());
        } else {
            self.returns.push(welcomed.as_secs_f64());
        }
    }

    pub(crate) fn trouble(&mut self, error: &anyhow::Error) {
        *self.troubles.entry(format!("{error:#}")).or_default() += 1;
    }
}

/// What a process knows of the newest broadcast.
#[derive(Default)]
struct Known {
    round: u64,
    /// Clients that are fetching a newer one and keep its bytes.
    keepers: usize,
    /// The uploads that answer it.
    uploads: Vec<(Bytes, proto::File)>,
}

pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) server: SocketAddr,
    /// Who may make a connection.
    pub(crate) joining: Semaphore,
    /// How many have joined, and whether rounds may begin.
    joined: watch::Sender<u32>,
    go: watch::Sender<bool>,
    known: watch::Sender<Known>,
    notes: Mutex<Notes>,
}

/// A client that keeps the bytes of a broadcast; dropped when it has published them, or cannot.
pub(crate) struct Keeper<'s>(&'s Shared);

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.0.known.send_modify(|known| known.keepers -= 1);
    }
}

impl Shared {
    pub(crate) fn note(&self, note: impl FnOnce(&mut Notes)) {
        note(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until everybody is there.
    pub(crate) async fn has_joined(&self) {
        self.joined.send_modify(|joined| *joined += 1);
        let _ = self.go.subscribe().wait_for(|go| *go).await;
    }

    /// Whether the caller is to keep the bytes of a broadcast: one of a process is enough.
    pub(crate) fn keep(&self, round: u64) -> Option<Keeper<'_>> {
        let is_wanted = |known: &mut Known| {
            let is_wanted = known.round < round && known.keepers == 0;
            known.keepers += usize::from(is_wanted);
            is_wanted
        };
        self.known.send_if_modified(is_wanted).then(|| Keeper(self))
    }

    /// Makes the uploads of a round, of which every client sends one.
    pub(crate) fn publish(&self, round: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let model: Model = postcard::from_bytes(bytes).context("a broadcast is no model")?;
        let sum: f64 = model.parameters.iter().map(|value| f64::from(*value)).sum();
        self.note(|notes| {
            notes.means.insert(round, sum / model.parameters.len() as f64);
        });
        let mut uploads = Vec::new();
        for variant in 0..VARIANTS {
            let mut moved = model.clone();
            moved.parameters.iter_mut().for_each(|value| *value += shift(variant));
            let bytes = postcard::to_stdvec(&moved)?;
            uploads.push((file_of(&bytes), Bytes::from(bytes)));
        }
        let uploads = uploads.into_iter().map(|(file, bytes)| (bytes, file)).collect();
        self.known.send_modify(|known| (known.round, known.uploads) = (round, uploads));
        Ok(())
    }

    /// Waits until the uploads of a round are there; false if nobody makes them any more.
    pub(crate) async fn is_known(&self, round: u64) -> bool {
        let mut known = self.known.subscribe();
        let known = known.wait_for(|known| known.round >= round || known.keepers == 0).await;
        known.is_ok_and(|known| known.round >= round)
    }

    /// A client's upload.
    pub(crate) fn upload(&self, round: u64, client: u32) -> anyhow::Result<(Bytes, proto::File)> {
        let known = self.known.borrow();
        let upload = known.uploads.get((client % VARIANTS) as usize);
        upload.filter(|_| known.round == round).cloned().context("a round that is over already")
    }
}

/// Where a client's connections come from: 127.1.0.1 and so on, an address each.
fn address(plan: &Plan, client: u32) -> SocketAddr {
    let host = if plan.one_address { 0 } else { client };
    let address = Ipv4Addr::new(
        127,
        1 + (host / 62_500) as u8,
        (host / 250 % 250) as u8,
        1 + (host % 250) as u8,
    );
    (address, 0).into()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    // One thread: what clients compute is their TLS, and the server's cores are these.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all(args))
}

async fn all(args: &Args) -> anyhow::Result<()> {
    let own = args.plan.share(args.process);
    let shared = Arc::new(Shared {
        plan: args.plan.clone(),
        server: args.address,
        joining: Semaphore::new(args.plan.joining as usize),
        joined: watch::Sender::new(0),
        go: watch::Sender::new(false),
        known: watch::Sender::new(Known::default()),
        notes: Mutex::default(),
    });
    let mut clients = JoinSet::new();
    for place in own.clone() {
        let identity = ClientIdentity::read(&bundle(&args.folder, place))?;
        let client = Client {
            place,
            shared: shared.clone(),
            tls: Arc::new(identity.client_config()?),
            from: address(&args.plan, place),
            hurt: 0,
            chunk: 1,
        };
        clients.spawn(client.run());
    }
    let everybody = async {
        let mut joined = shared.joined.subscribe();
        let _ = joined.wait_for(|joined| *joined as usize == own.len()).await;
        say("joined")?;
        let read = || std::io::stdin().read_line(&mut String::new());
        tokio::task::spawn_blocking(read).await??;
        shared.go.send_replace(true);
        anyhow::Ok(())
    };
    let ended = async {
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        anyhow::Ok(())
    };
    // A client that gives up while others still wait ends the process.
    tokio::try_join!(everybody, ended)?;
    let notes = std::mem::take(&mut *shared.notes.lock().unwrap_or_else(PoisonError::into_inner));
    say(&serde_json::to_string(&notes)?)
}

/// Tells the process that has started this one.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn everybody_has_an_address_of_its_own() {
        let parse = |more: &[&str]| {
            #[derive(clap::Parser)]
            struct Line {
                #[command(flatten)]
                plan: Plan,
            }
            let line = ["crowd", "--clients", "60000"].iter().chain(more);
            <Line as clap::Parser>::parse_from(line).plan
        };
        let own = parse(&[]);
        let all: HashSet<_> = (0..own.clients).map(|client| address(&own, client)).collect();
        assert_eq!(all.len(), 60_000);
        assert!(all.iter().all(|address| address.ip().is_loopback()));
        let one = parse(&["--one-address"]);
        assert_eq!(address(&one, 5), address(&one, 500));
    }
}
