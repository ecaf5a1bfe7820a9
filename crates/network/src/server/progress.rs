//! How the run proceeds: what every event makes of it, and what the log says about it.

use super::actor::{Actor, Offer, Step, Upload};
use super::aggregation::Aggregation;
use super::metrics::Figures;
use super::refusals::Refused;
use super::vault::{End, Past};
use super::verdict::{Blame, Fault};
use crate::audit::Entry;
use crate::error::NetworkError;
use crate::wire::fingerprint;
use formant_federation::{Action, Event, Refusal, Verdict};
use formant_methods::Judgement;
use formant_runtime::event::{self, Event as Line};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use tracing::{info, warn};

impl Actor {
    /// An upload is whole, checked and synced.
    pub(super) fn uploaded(&mut self, upload: Upload) -> Result<Step, NetworkError> {
        let Upload { client, round, bytes, samples, hash, norm, loss } = upload;
        let machine = &self.manifest.machine;
        let changed = machine.upload_changes(client, round);
        let is_accepted = machine.verdict(client, round) == Verdict::Accept;
        let actions = self.handle(Event::Uploaded { client, round })?;
        if is_accepted {
            self.manifest.samples.entry(client).or_insert(samples);
            self.core.metrics.upload(self.core.name(client), Figures { norm, samples, loss });
            let name = self.core.name(client).to_owned();
            self.book.note(Entry::Kept {
                client: name,
                round,
                bytes,
                hash,
                norm,
                samples,
                loss,
            })?;
            let (method, round) = (self.label(), round as usize);
            self.journal.record_now(&Line::Uploaded {
                method,
                round,
                client,
                bytes,
                clock: None,
            })?;
        } else if !self.manifest.machine.kept().any(|kept| kept == (client, round)) {
            self.vault.discard(client, round)?;
        }
        Ok(Step { actions, changed })
    }

    /// An upload is refused for good. If it is wrong in itself, the round need not wait for it: it came
    /// as it was sent, so it will not get better.
    pub(super) fn refused(&mut self, offer: Offer, fault: &Fault) -> Result<Step, NetworkError> {
        let Offer { client, round, bytes } = offer;
        let refused = Refused { client, round, reason: fault.reason };
        if self.refusals.is_news(self.manifest.machine.round(), refused) {
            self.journal.record_now(&Line::Refused {
                method: self.label(),
                round: usize::try_from(round).unwrap_or(usize::MAX),
                client,
                bytes,
                reason: fault.reason.word().into(),
                detail: Some(fault.detail.clone()),
            })?;
            self.book.note(Entry::Refused {
                client: Some(self.core.name(client).to_owned()),
                call: "upload".into(),
                round: Some(round),
                reason: fault.reason.word().into(),
                detail: fault.detail.clone(),
            })?;
        }
        if fault.blame != Blame::Content {
            return Ok(Step { actions: Vec::new(), changed: false });
        }
        self.without(client, round)
    }

    /// A client cannot answer.
    pub(super) fn failed(
        &mut self,
        client: usize,
        round: u64,
        error: String,
    ) -> Result<Step, NetworkError> {
        if self.manifest.machine.failure_changes(client, round) {
            warn!(client = self.core.name(client), round, error, "a client cannot answer");
            let (name, why) = (self.core.name(client).to_owned(), error.clone());
            self.book.note(Entry::Failed { client: name, round, why })?;
            let (method, phase) = (self.label(), event::Phase::Shared);
            let round = round as usize;
            self.journal.record_now(&Line::ClientFailed { method, round, client, phase, error })?;
        }
        self.without(client, round)
    }

    /// The round goes on without a client's answer.
    fn without(&mut self, client: usize, round: u64) -> Result<Step, NetworkError> {
        let changed = self.manifest.machine.failure_changes(client, round);
        if changed {
            self.core.metrics.failures.fetch_add(1, Relaxed);
        }
        let actions = self.handle(Event::Failed { client, round })?;
        Ok(Step { actions, changed })
    }

    /// What a client has sent does not count any more. While an aggregation is under way it is in it
    /// already, or waits; whoever asks comes again.
    pub(super) fn withdrawn(&mut self, client: usize) -> Result<Vec<Action>, NetworkError> {
        let machine = &self.manifest.machine;
        let kept: Vec<(usize, u64)> = machine.kept().filter(|(who, _)| *who == client).collect();
        let round = machine.round();
        let nothing = kept.is_empty() && !machine.failure_changes(client, round);
        if nothing || self.server.is_none() || machine.is_over() {
            return Ok(Vec::new());
        }
        self.take_out(client, &kept)?;
        self.handle(Event::Withdrawn { client })
    }

    /// Notes that what a client has sent does not count.
    fn take_out(&mut self, client: usize, kept: &[(usize, u64)]) -> Result<(), NetworkError> {
        let (round, name) = (self.manifest.machine.round(), self.core.name(client).to_owned());
        warn!(client = name, round, "its certificate is revoked: what it has sent does not count");
        self.core.metrics.failures.fetch_add(1, Relaxed);
        self.book.note(Entry::Withdrawn { client: name, round })?;
        // Removed once it is durable that nobody needs it.
        self.spent.extend(kept);
        for (_, answered) in kept {
            self.journal.record_now(&Line::Refused {
                method: self.label(),
                round: *answered as usize,
                client,
                bytes: None,
                reason: Refusal::Revoked.word().into(),
                detail: Some(Refusal::Revoked.sentence().into()),
            })?;
        }
        Ok(())
    }

    /// Orders of the machine, without an aggregation that has something of a client in it whose certificate
    /// does not hold at this moment: the list is asked here, whenever it was asked before.
    pub(super) fn without_revoked(
        &mut self,
        mut actions: Vec<Action>,
    ) -> Result<Vec<Action>, NetworkError> {
        loop {
            let ordered = actions.iter().find_map(|action| match action {
                Action::Aggregate { uploads, .. } => Some(uploads.clone()),
                _ => None,
            });
            let Some(ordered) = ordered else { return Ok(actions) };
            let revoked = self.core.door.revoked();
            let Some(client) =
                revoked.into_iter().find(|client| ordered.iter().any(|(who, _)| who == client))
            else {
                return Ok(actions);
            };
            let kept: Vec<(usize, u64)> =
                self.manifest.machine.kept().filter(|(who, _)| *who == client).collect();
            self.take_out(client, &kept)?;
            actions.retain(|action| !matches!(action, Action::Aggregate { .. }));
            let now = self.now();
            actions.extend(self.manifest.machine.handle(now, Event::Withdrawn { client }));
        }
    }

    /// The aggregation is done and its files are synced; from this commit on, they count.
    pub(super) fn aggregated(
        &mut self,
        aggregation: Result<Aggregation, NetworkError>,
    ) -> Result<Vec<Action>, NetworkError> {
        let Aggregation { round, server, uploads, outcome, committed } = aggregation?;
        let done = match outcome {
            Ok(done) => done,
            Err(why) => {
                // What it has made of the state is worth nothing: the run ends with the one before.
                let bytes = self.manifest.server.read(&self.vault.states())?;
                self.server = Some(self.core.wiring.method().method.decode_server(&bytes)?);
                return self.stop(round, &why);
            }
        };
        let names = uploads.iter().map(|(client, _)| self.core.name(*client).to_owned());
        let state = done.kept.server.hash.clone();
        let verdicts = done.judgements.iter().map(|Judgement { client, treatment, share }| {
            let (client, verdict) = (self.core.name(*client).to_owned(), treatment.word().into());
            crate::audit::Verdict { client, verdict, share: *share }
        });
        let (clients, verdicts) = (names.collect(), verdicts.collect());
        self.book.note(Entry::Aggregated { round, clients, state, verdicts })?;
        let seconds = self.seconds() - self.manifest.round_began;
        info!(round, seconds, aggregation = done.seconds, uploads = uploads.len(), "round done");
        self.core.metrics.aggregations.fetch_add(1, Relaxed);
        self.core.metrics.aggregation_took(done.seconds);
        self.core.metrics.round_took(seconds);
        self.journal.record_now(&Line::RoundFinished {
            method: self.label(),
            round: round as usize,
            seconds,
            broadcast_bytes: self.manifest.broadcast_bytes,
            clock: None,
            privacy: self.ledger.as_mut().map(|ledger| ledger.spent(round)),
        })?;
        let mut stops = Vec::new();
        self.server = Some(server);
        let past = Past::of(&done.kept, self.journal.end(), self.seconds(), self.manifest.best);
        self.manifest.remember(round, past, self.core.wiring.settings.keep_states);
        if let Some((score, seconds)) = done.score {
            self.scored(round, score.clone(), seconds)?;
            stops = self.watch(round, &score)?;
        }
        self.manifest.server = done.kept.server;
        self.manifest.broadcast_bytes = done.kept.broadcast_bytes;
        self.manifest.broadcasts.insert(round + 1, done.kept.broadcast);
        stops.extend(self.give_up()?);
        let actions =
            if stops.is_empty() { self.handle(Event::Aggregated { round })? } else { stops };
        let needed = self.needed();
        self.manifest.broadcasts.retain(|round, _| needed.contains(round));
        self.core.shelf.replace(&self.manifest.broadcasts);
        self.spent.extend(uploads);
        self.waiting = Some(committed);
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
        let evaluated = event::Evaluated {
            method: self.label(),
            round: round as usize,
            gm: Some(gm),
            gm_candidates: Vec::new(),
            // Personal models never leave their clients, and neither do their scores.
            pm: None,
            attackers: None,
            guard: None,
            seconds,
            clock: None,
        };
        Ok(self.journal.record_now(&Line::Evaluated(evaluated))?)
    }

    /// Hands an event to the machine and notes what follows from it for the log.
    pub(super) fn handle(&mut self, event: Event) -> Result<Vec<Action>, NetworkError> {
        let (now, before) = (self.now(), self.manifest.machine.round());
        let actions = self.manifest.machine.handle(now, event);
        let actions = self.without_revoked(actions)?;
        self.note(before, &actions)?;
        Ok(actions)
    }

    pub(super) fn note(&mut self, before: u64, actions: &[Action]) -> Result<(), NetworkError> {
        let round = self.manifest.machine.round();
        self.core.metrics.round.store(round, Relaxed);
        // Whoever waits for a round is woken by a round, not by everything that happens.
        self.core.opened.send_if_modified(|open| std::mem::replace(open, round) != round);
        if round > before {
            self.manifest.round_began = self.seconds();
            self.book.turn_page()?;
            // Of the buffered schedule: whoever is at work.
            let participants = self.manifest.machine.asked().collect();
            info!(round, "round open");
            self.journal.record_now(&Line::RoundStarted {
                method: self.label(),
                round: round as usize,
                participants,
            })?;
        }
        for action in actions {
            match action {
                Action::Finish => self.finish(round, None)?,
                Action::Abandon { round } => {
                    let few = self.manifest.machine.shortage();
                    let why = few.map_or_else(
                        || format!("no client could answer round {round}"),
                        |few| format!("{few} in round {round}"),
                    );
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
        // Nobody may see a model that a crash could still make again with other noise.
        self.commit()?;
        let Some(server) = &self.server else { return Ok(()) };
        let fingerprint = fingerprint(&server.encode()?);
        let method = &*self.core.wiring.method().method;
        if let Some(model) = method.global_model(server)? {
            self.core.keep_generic(rounds, &model)?;
        }
        let seconds = self.seconds();
        info!(rounds, fingerprint, stopped, seconds, "the run is over");
        self.journal.record_now(&Line::MethodFinished {
            method: self.label(),
            rounds: rounds as usize,
            seconds,
            // Nobody has the states of all clients.
            fingerprint: None,
            server_fingerprint: Some(fingerprint.clone()),
            clock: None,
            stopped: stopped.clone(),
            best_round: None,
        })?;
        self.journal.record_now(&Line::RunFinished { seconds })?;
        self.book.note(Entry::Ended { rounds, stopped: stopped.clone() })?;
        self.manifest.end = Some(End { rounds, fingerprint, stopped });
        Ok(())
    }
}
