//! What `formant status` shows.

use super::core::Core;
use super::vault::{End, Manifest};
use formant_runtime::event::Spent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Where a server's run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub formant: String,
    /// The run's own name.
    pub run: String,
    /// The experiment's name.
    pub name: String,
    /// The hash by which clients approve it.
    #[serde(default)]
    pub experiment: String,
    /// The method's label.
    pub method: String,
    /// The round that is open, from 1.
    pub round: u64,
    /// Rounds planned.
    pub rounds: u64,
    /// Seconds since the run began, without those in which no server ran.
    pub seconds: f64,
    /// Seconds since the open round began.
    pub round_seconds: f64,
    /// Uploads that wait for the next aggregation.
    pub kept: usize,
    /// Every client, in the order of their places.
    pub clients: Vec<ClientStatus>,
    /// Uploads that were refused since this process began, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Bytes received since this process began.
    pub received_bytes: u64,
    /// Bytes sent since this process began.
    pub sent_bytes: u64,
    /// What the models so far may have revealed of a client; absent without `[privacy]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Spent>,
    /// How the run ended, if it has.
    pub end: Option<End>,
    /// Why no round can close, or why the run has stopped, if that is so: `/healthz` fails with it.
    #[serde(default)]
    pub trouble: Option<String>,
    /// How often the run was taken back.
    #[serde(default)]
    pub generation: u32,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its name.
    pub name: String,
    /// Whether it is connected.
    pub present: bool,
    /// Whether an upload of it waits for the next aggregation.
    pub uploaded: bool,
    /// Whether it was taken out of the run.
    #[serde(default)]
    pub excluded: bool,
}

impl Status {
    pub(super) fn of(
        core: &Core,
        manifest: &Manifest,
        present: impl Iterator<Item = usize>,
        seconds: f64,
        privacy: Option<Spent>,
    ) -> Self {
        let header = &core.wiring.header;
        let names = core.wiring.settings.clients.iter();
        let mut clients: Vec<ClientStatus> = names
            .map(|name| ClientStatus {
                name: name.clone(),
                present: false,
                uploaded: false,
                excluded: false,
            })
            .collect();
        for client in manifest.machine.excluded() {
            clients[client].excluded = true;
        }
        for client in present {
            clients[client].present = true;
        }
        for (client, _) in manifest.machine.kept() {
            clients[client].uploaded = true;
        }
        let round_seconds = seconds - manifest.round_began;
        let there = clients.iter().filter(|client| client.present).count();
        Self {
            trouble: trouble(manifest, round_seconds, there),
            generation: manifest.generation,
            formant: header.formant.clone(),
            run: core.run.clone(),
            name: header.name.clone(),
            experiment: core.wiring.hash.clone(),
            method: core.wiring.method().label.clone(),
            round: manifest.machine.round(),
            rounds: manifest.machine.protocol().rounds,
            seconds,
            round_seconds,
            kept: manifest.machine.kept().count(),
            clients,
            refused: core.metrics.refused(),
            received_bytes: core.metrics.traffic.received.load(Relaxed),
            sent_bytes: core.metrics.traffic.sent.load(Relaxed),
            privacy,
            end: manifest.end.clone(),
        }
    }
}

/// How long a round may be open where no time is set.
const PATIENCE: f64 = 3_600.0;

/// Why this run does not get on by itself, if it does not.
fn trouble(manifest: &Manifest, round_seconds: f64, there: usize) -> Option<String> {
    if let Some(end) = &manifest.end {
        return end.stopped.as_ref().map(|why| format!("the run has stopped: {why}"));
    }
    let machine = &manifest.machine;
    let most = machine.protocol().deadline.map_or(PATIENCE, |deadline| deadline.as_secs_f64());
    // A round that is over its time still waits because nothing has come that it could close with.
    (round_seconds > most && machine.is_collecting()).then(|| {
        format!(
            "round {} cannot close: it has been open for {round_seconds:.0} s, and {most:.0} s is the most; {there} of {} clients are connected, {} uploads are there",
            machine.round(),
            machine.protocol().clients,
            machine.kept().count()
        )
    })
}
