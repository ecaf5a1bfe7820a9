//! How the run proceeds: what every event makes of it, and what the log says about it.

use super::actor::Actor;
use super::aggregation::Aggregation;
use super::vault::End;
use crate::error::NetworkError;
use crate::wire::fingerprint;
use formant_federation::{Action, Event, Schedule};
use formant_runtime::event::{self, Event as Line};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use tracing::{info, warn};

impl Actor {
    /// Gives what follows, and whether anything has changed: a client may repeat itself.
    pub(super) fn uploaded(
        &mut self,
        client: usize,
        round: u64,
        (bytes, samples): (u64, u64),
    ) -> Result<(Vec<Action>, bool), NetworkError> {
        let before = self.manifest.machine.clone();
        let actions = self.handle(Event::Uploaded { client, round })?;
        if actions.contains(&Action::Accept { client, round }) {
            self.manifest.samples.entry(client).or_insert(samples);
            let (method, round) = (self.label(), round as usize);
            self.journal.record(&Line::Uploaded { method, round, client, bytes, clock: None })?;
        } else if !self.manifest.machine.kept().any(|kept| kept == (client, round)) {
            self.vault.discard(client, round)?;
        }
        Ok((actions, self.manifest.machine != before))
    }

    /// The same of a client that cannot answer.
    pub(super) fn failed(
        &mut self,
        client: usize,
        round: u64,
        error: String,
    ) -> Result<(Vec<Action>, bool), NetworkError> {
        let before = self.manifest.machine.clone();
        let actions = self.handle(Event::Failed { client, round })?;
        let changed = self.manifest.machine != before;
        if changed {
            warn!(client = self.core.name(client), round, error, "a client cannot answer");
            self.core.metrics.failures.fetch_add(1, Relaxed);
            let (method, phase) = (self.label(), event::Phase::Shared);
            let round = round as usize;
            self.journal.record(&Line::ClientFailed { method, round, client, phase, error })?;
        }
        Ok((actions, changed))
    }

    /// The aggregation is done and its files are synced; from this commit on, they count.
    pub(super) fn aggregated(
        &mut self,
        aggregation: Result<Aggregation, NetworkError>,
    ) -> Result<Vec<Action>, NetworkError> {
        let Aggregation { round, server, uploads, outcome } = aggregation?;
        let done = match outcome {
            Ok(done) => done,
            Err(why) => {
                self.server = Some(server);
                return self.stop(round, &why);
            }
        };
        let seconds = self.seconds() - self.manifest.round_began;
        info!(round, seconds, aggregation = done.seconds, uploads = uploads.len(), "round done");
        self.core.metrics.aggregations.fetch_add(1, Relaxed);
        self.core.metrics.aggregation_took(done.seconds);
        self.core.metrics.round_took(seconds);
        self.journal.record(&Line::RoundFinished {
            method: self.label(),
            round: round as usize,
            seconds,
            broadcast_bytes: self.manifest.broadcast_bytes,
            clock: None,
        })?;
        if let Some((score, seconds)) = done.score {
            self.scored(round, score, seconds)?;
        }
        self.server = Some(server);
        self.manifest.server = done.kept.server;
        self.manifest.broadcast_bytes = done.kept.broadcast_bytes;
        self.manifest.broadcasts.insert(round + 1, done.kept.broadcast);
        let actions = self.handle(Event::Aggregated { round })?;
        let needed = self.needed();
        self.manifest.broadcasts.retain(|round, _| needed.contains(round));
        self.core.shelve(&self.manifest.broadcasts);
        self.spent = uploads;
        Ok(actions)
    }

    /// The broadcasts that somebody may still be sent, or that an upload may still answer; and the
    /// newest, which after the last round is the final model.
    pub(super) fn needed(&self) -> BTreeSet<u64> {
        let machine = &self.manifest.machine;
        let mut needed = machine.open_rounds();
        needed.extend(machine.due_rounds());
        needed.extend(self.manifest.broadcasts.keys().last());
        needed
    }

    /// What the server trains can diverge as well; that ends the run.
    pub(super) fn stop(&mut self, round: u64, why: &str) -> Result<Vec<Action>, NetworkError> {
        let why = format!("the aggregation of round {round} failed: {why}");
        self.finish(round - 1, Some(why))?;
        Ok(self.manifest.machine.abandon())
    }

    pub(super) fn scored(
        &mut self,
        round: u64,
        gm: event::Score,
        seconds: f64,
    ) -> Result<(), NetworkError> {
        info!(round, accuracy = gm.accuracy, loss = gm.loss, "the generic model");
        // Personal models never leave their clients, and neither do their scores.
        let pm = event::PersonalScore {
            weighted: f64::NAN,
            mean: f64::NAN,
            worst_decile: f64::NAN,
            per_client: Vec::new(),
        };
        let evaluated = event::Evaluated {
            method: self.label(),
            round: round as usize,
            gm,
            gm_candidates: Vec::new(),
            pm,
            seconds,
            clock: None,
        };
        Ok(self.journal.record(&Line::Evaluated(evaluated))?)
    }

    /// Hands an event to the machine and notes what follows from it for the log.
    pub(super) fn handle(&mut self, event: Event) -> Result<Vec<Action>, NetworkError> {
        let (now, before) = (self.now(), self.manifest.machine.round());
        let actions = self.manifest.machine.handle(now, event);
        self.note(before, &actions)?;
        Ok(actions)
    }

    pub(super) fn note(&mut self, before: u64, actions: &[Action]) -> Result<(), NetworkError> {
        let round = self.manifest.machine.round();
        self.core.metrics.round.store(round, Relaxed);
        self.core.opened.send_replace(round);
        if round > before {
            self.manifest.round_began = self.seconds();
            let protocol = self.manifest.machine.protocol();
            let buffered = matches!(protocol.schedule, Schedule::Buffered { .. });
            let participants = if buffered { Vec::new() } else { protocol.participants(round) };
            info!(round, "round open");
            self.journal.record(&Line::RoundStarted {
                method: self.label(),
                round: round as usize,
                participants,
            })?;
        }
        for action in actions {
            match action {
                Action::Finish => self.finish(round, None)?,
                Action::Abandon { round } => {
                    let why = format!("no client could answer round {round}");
                    self.finish(round - 1, Some(why))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The run is over: once in its life.
    pub(super) fn finish(
        &mut self,
        rounds: u64,
        stopped: Option<String>,
    ) -> Result<(), NetworkError> {
        if self.manifest.end.is_some() {
            return Ok(());
        }
        let Some(server) = &self.server else { return Ok(()) };
        let fingerprint = fingerprint(&server.encode()?);
        let method = &*self.core.wiring.method().method;
        if let Some(model) = method.global_model(server)? {
            self.core.keep_generic(rounds, &model)?;
        }
        let seconds = self.seconds();
        info!(rounds, fingerprint, stopped, seconds, "the run is over");
        self.journal.record(&Line::MethodFinished {
            method: self.label(),
            rounds: rounds as usize,
            seconds,
            fingerprint: String::new(),
            server_fingerprint: Some(fingerprint.clone()),
            clock: None,
            stopped: stopped.clone(),
        })?;
        self.journal.record(&Line::RunFinished { seconds })?;
        self.manifest.end = Some(End { rounds, fingerprint, stopped });
        Ok(())
    }
}
