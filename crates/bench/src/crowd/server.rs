//! The server's process: what `formant serve` runs, and a line about itself whenever a round opens.

use super::clients::say;
use super::process::{Usage, reset_peak};
use formant_methods::Zoo;
use formant_network::ServerSettings;
use formant_network::identity::ServerIdentity;
use formant_network::server::{RunningServer, Trust};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Threads for file work, as `formant serve` has them.
const FILE_THREADS: usize = 32;
/// How often it is asked whether the run is over, in the last round and before.
const LOOK: Duration = Duration::from_millis(20);
const GLANCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The server's file
    file: PathBuf,
}

/// What the server's process says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It listens.
    Listening(SocketAddr),
    /// So many rounds are done.
    Stands { rounds: u64, usage: Usage, received: u64, sent: u64 },
    /// The run is over.
    Over {
        rounds: u64,
        fingerprint: String,
        stopped: Option<String>,
        metrics: BTreeMap<String, f64>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(FILE_THREADS)
        .build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let (experiment, settings) = ServerSettings::read(&args.file, &Zoo::standard())?;
    let trust = Trust::of(&ServerIdentity::read(&settings.certs)?)?;
    let server = RunningServer::start(&experiment, settings, trust).await?;
    tell(&Said::Listening(server.address()))?;
    let mut rounds = 0;
    let metrics = loop {
        // A round is over when the next one opens; after the last, none does.
        tokio::select! {
            () = server.wait_for_round(rounds + 2) => {}
            () = ended(&server, rounds) => {}
        }
        let Some(status) = server.status().await else { anyhow::bail!("the server has stopped") };
        rounds = status.end.as_ref().map_or(status.round - 1, |end| end.rounds);
        tell(&Said::Stands {
            rounds,
            usage: Usage::of("self")?,
            received: status.received_bytes,
            sent: status.sent_bytes,
        })?;
        reset_peak()?;
        if status.end.is_some() {
            break metrics(server.ops()).await?;
        }
    };
    let end = server.finish(std::future::pending()).await?;
    let end = end.ok_or_else(|| anyhow::anyhow!("the server has stopped"))?;
    let (rounds, fingerprint, stopped) = (end.rounds, end.fingerprint, end.stopped);
    tell(&Said::Over { rounds, fingerprint, stopped, metrics })
}

/// Waits until the run is over. Asking disturbs the server, so it is asked often in the last round alone.
async fn ended(server: &RunningServer, rounds: u64) {
    loop {
        let status = server.status().await;
        let Some(status) = status.filter(|status| status.end.is_none()) else { return };
        let is_last = rounds + 1 == status.rounds;
        tokio::time::sleep(if is_last { LOOK } else { GLANCE }).await;
    }
}

/// What the server has counted, as Prometheus reads it; without lines about single clients.
async fn metrics(address: Option<SocketAddr>) -> anyhow::Result<BTreeMap<String, f64>> {
    let Some(address) = address else { return Ok(BTreeMap::new()) };
    let mut line = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    line.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    line.read_to_string(&mut text).await?;
    let counted = text.lines().filter(|line| !line.contains("client=") && !line.contains("le="));
    let pairs = counted.filter_map(|line| line.strip_prefix("formant_")?.split_once(' '));
    Ok(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

fn tell(said: &Said) -> anyhow::Result<()> {
    say(&serde_json::to_string(said)?)
}
