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
            .map(|name| ClientStatus { name: name.clone(), present: false, uploaded: false })
            .collect();
        for client in present {
            clients[client].present = true;
        }
        for (client, _) in manifest.machine.kept() {
            clients[client].uploaded = true;
        }
        Self {
            formant: header.formant.clone(),
            run: core.run.clone(),
            name: header.name.clone(),
            experiment: core.wiring.hash.clone(),
            method: core.wiring.method().label.clone(),
            round: manifest.machine.round(),
            rounds: manifest.machine.protocol().rounds,
            seconds,
            round_seconds: seconds - manifest.round_began,
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
