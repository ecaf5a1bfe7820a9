//! Going back: states of earlier rounds, and what makes the run go on from one of them.

use super::{Best, Kept, Manifest, Vault, keep};
use crate::audit::{Book, Entry};
use crate::error::NetworkError;
use crate::server::plan::Wiring;
use crate::settings::Rollback;
use formant_federation::Server;
use formant_runtime::LogMark;
use formant_runtime::files::Named;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What the run was after some round: enough to go on from there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Past {
    server: Named,
    broadcast: Named,
    broadcast_bytes: u64,
    /// Where the event log stood.
    log: LogMark,
    /// Wall time of the run.
    seconds: f64,
    best: Option<Best>,
}

impl Past {
    pub(crate) fn of(kept: &Kept, log: LogMark, seconds: f64, best: Option<Best>) -> Self {
        Self {
            server: kept.server.clone(),
            broadcast: kept.broadcast.clone(),
            broadcast_bytes: kept.broadcast_bytes,
            log,
            seconds,
            best,
        }
    }

    /// The files that it needs.
    pub(crate) fn files(&self) -> [&Named; 2] {
        [&self.server, &self.broadcast]
    }
}

impl Manifest {
    /// Keeps the present state to come back to, and lets the oldest go.
    pub(crate) fn remember(&mut self, aggregations: u64, past: Past, most: usize) {
        self.history.insert(aggregations, past);
        // The present one is there in any case.
        while self.history.len() > most + 1 {
            self.history.pop_first();
        }
    }
}

impl Vault {
    /// Takes the run back. One manifest replaces another: a crash leaves the run as it was, or taken back.
    pub(super) fn roll_back(
        &self,
        manifest: &mut Manifest,
        wiring: &Wiring,
        rollback: &Rollback,
    ) -> Result<(), NetworkError> {
        let Rollback { round, exclude } = rollback;
        if wiring.task.privacy.is_some() {
            // A round that is trained again would give its clients away twice, and ε would count it once.
            return Err(NetworkError::setting(
                format!("--rollback {round}: rounds with noise for privacy are not trained twice"),
                "what [privacy] promises is spent; begin a new run in a new folder (--state)",
            ));
        }
        let Some(past) = manifest.history.get(round).cloned() else {
            let kept: Vec<String> = manifest.history.keys().map(u64::to_string).collect();
            return Err(NetworkError::setting(
                format!("--rollback {round}: the state after round {round} is not kept"),
                format!(
                    "choose one of {}; server.keep_states says how many are kept",
                    kept.join(", ")
                ),
            ));
        };
        let mut excluded: BTreeSet<usize> = manifest.machine.excluded().collect();
        let names = &wiring.settings.clients;
        for name in exclude {
            let place = names.iter().position(|known| known == name);
            excluded.insert(place.ok_or_else(|| {
                NetworkError::setting(
                    format!("--exclude {name}: there is no such client"),
                    format!("server.clients has {}", names.join(", ")),
                )
            })?);
        }
        if excluded.len() == names.len() {
            return Err(NetworkError::setting(
                "--exclude takes every client out of the run",
                "leave somebody who can answer",
            ));
        }
        let from = manifest.machine.round();
        let rules = wiring.task.rules.clone();
        let out = excluded.iter().map(|client| names[*client].clone()).collect();
        manifest.samples.retain(|client, _| !excluded.contains(client));
        manifest.machine = Server::after(rules, *round, excluded);
        manifest.server = past.server;
        manifest.broadcasts = BTreeMap::from([(round + 1, past.broadcast)]);
        manifest.broadcast_bytes = past.broadcast_bytes;
        (manifest.log, manifest.seconds, manifest.best) = (past.log, past.seconds, past.best);
        (manifest.end, manifest.since) = (None, *round);
        manifest.generation += 1;
        manifest.history.retain(|kept, _| kept <= round);
        let mut book = Book::open(&self.folder, &manifest.audit)?;
        let from = from.saturating_sub(1);
        book.note(Entry::RolledBack { round: *round, from, excluded: out })?;
        manifest.audit = book.sync()?;
        self.commit(manifest)?;
        tracing::warn!(round, from, ?exclude, "the run is taken back");
        Ok(())
    }

    /// Makes broadcasts anew that are not as the manifest says: each follows from a state of the server.
    pub(super) fn mend(
        &self,
        manifest: &mut Manifest,
        wiring: &Wiring,
    ) -> Result<(), NetworkError> {
        let rounds: Vec<u64> = manifest.broadcasts.keys().copied().collect();
        let newest = rounds.last().copied();
        for round in rounds {
            let Some(named) = manifest.broadcasts.get(&round).cloned() else { continue };
            let Err(damage) = named.read(&self.states()) else { continue };
            let aggregations = round.saturating_sub(1);
            let state = if newest == Some(round) {
                Some(manifest.server.clone())
            } else {
                manifest.history.get(&aggregations).map(|past| past.server.clone())
            };
            // Without the state that it follows from, it cannot be made.
            let Some(state) = state else { return Err(damage.into()) };
            let server = wiring.method().method.decode_server(&state.read(&self.states())?)?;
            let again = keep(&self.states(), wiring, &server, aggregations)?;
            tracing::warn!(file = named.file, %damage, "a broadcast is made anew from the server's state");
            if let Some(past) = manifest.history.get_mut(&aggregations) {
                past.broadcast = again.broadcast.clone();
            }
            manifest.broadcasts.insert(round, again.broadcast);
            self.commit(manifest)?;
        }
        Ok(())
    }
}
