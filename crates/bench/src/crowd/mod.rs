//! Many clients at one server, over real sockets with mutual TLS.
//!
//! The server is a process of its own (what `formant serve` runs), so that its memory and its processor
//! time are its own; the clients are many in a few other processes. A client here speaks the whole
//! protocol with a certificate and a connection of its own, and every byte of it goes over the wire, but
//! it trains nothing: its upload is the broadcast, moved a little. A thousand real clients on the server's
//! own cores and disk would measure themselves.

mod certificates;
mod client;
mod clients;
mod draw;
mod experiment;
mod line;
mod process;
mod report;
mod server;
mod wire;

use anyhow::{Context as _, ensure};
use clap::Subcommand;
use experiment::Plan;
use serde_json::Value;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    plan: Plan,
    /// Where certificates and the server's state are kept; without it, a temporary folder
    #[arg(long)]
    folder: Option<PathBuf>,
    /// A JSON object in place of tables
    #[arg(long)]
    json: bool,
}

/// What the processes of a measurement are started as.
#[derive(Debug, Subcommand)]
enum Part {
    /// The server's process
    #[command(hide = true)]
    Server(server::Args),
    /// A process of clients
    #[command(hide = true)]
    Clients(clients::Args),
}

pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    match &args.part {
        Some(Part::Server(args)) => {
            return server::run(args).map(|()| Value::String(String::new()));
        }
        Some(Part::Clients(args)) => {
            return clients::run(args).map(|()| Value::String(String::new()));
        }
        None => {}
    }
    args.plan.check()?;
    let temporary = std::env::temp_dir().join(format!("formant-crowd-{}", std::process::id()));
    let folder = args.folder.clone().unwrap_or_else(|| temporary.clone());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make --folder {}", folder.display()))?;
    let measured = process::measure(&args.plan, &folder);
    if args.folder.is_none() {
        // What was measured does not depend on it.
        let _ = std::fs::remove_dir_all(&temporary);
    }
    let report = measured?;
    ensure!(
        report.is_complete(),
        "the run did not come to its end: {}\nhint: the clients' own messages stand above",
        report.end
    );
    Ok(if args.json { serde_json::to_value(&report)? } else { Value::String(report.text()) })
}
