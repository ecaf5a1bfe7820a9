//! Drives the machines of the protocol by a virtual clock: what they order happens on the agenda, what
//! they want computed is computed in waves.

use super::Course;
use super::agenda::Happening;
use super::aggregation::History;
use super::broadcasts::Broadcasts;
use super::insight::Lens;
use super::jobs::{Destination, Outcome, failed_aggregation};
use super::patience::Standing;
use super::shelf::Best;
use super::situation::Situation;
use crate::checkpoint::Checkpoint;
use crate::event::{Event, Phase};
use crate::executor::Executor;
use crate::recorder::Recorder;
use crate::store::{Sender, ServerStore, Stored};
use crate::{RuntimeError, Way};
use core::time::Duration;
use formant_federation::{Action, Event as ServerEvent, Refusal, SessionEvent};
use formant_methods::{MethodError, Value};

/// What the driver needs of the run.
pub(super) struct Drive<'d> {
    pub(super) course: &'d Course<'d>,
    pub(super) situation: Situation,
    pub(super) server: Value,
    pub(super) broadcasts: Broadcasts,
    /// What the server keeps.
    pub(super) store: &'d ServerStore<'d>,
    /// Where the clients' states live.
    pub(super) executor: &'d mut dyn Executor,
    /// The round whose aggregation was made while its clients were computed.
    pub(super) prepared: Option<u64>,
    /// The generic model that has scored best so far.
    pub(super) best: Option<Best>,
    /// The best evaluation so far, if the method has patience.
    pub(super) standing: Option<Standing>,
    /// For looking at spectra.
    pub(super) lens: Option<Lens>,
}

/// What the loop around the driver has to look at.
pub(super) enum Milestone {
    /// The uploads of a round are aggregated; [`Drive::open_next`] goes on.
    Aggregated(u64),
    /// The method cannot go on.
    Stopped(String),
    /// Everybody is done.
    Over,
}

impl Drive<'_> {
    /// Lets everybody join and opens the first round.
    pub(super) fn begin(&mut self, recorder: &mut Recorder<'_>) -> Result<(), RuntimeError> {
        let now = self.situation.now;
        let actions = self.situation.server.start(now);
        self.log_round(recorder)?;
        let mut told = self.serve(actions, recorder)?;
        for client in 0..self.situation.sessions.len() {
            self.situation.sessions[client].handle(SessionEvent::Connected);
            let actions = self.situation.server.handle(now, ServerEvent::Joined { client });
            told = told.or(self.serve(actions, recorder)?);
        }
        debug_assert!(told.is_none(), "nothing is over before it began");
        Ok(())
    }

    /// Lets things happen until there is something to look at.
    pub(super) fn go_on(&mut self, recorder: &mut Recorder<'_>) -> Result<Milestone, RuntimeError> {
        loop {
            if let Some(milestone) = self.wake(recorder)? {
                return Ok(milestone);
            }
            let Some((at, happening)) = self.situation.agenda.next() else {
                return Ok(Milestone::Over);
            };
            self.situation.now = self.situation.now.max(at);
            if let Some(milestone) = self.happen(happening, recorder)? {
                return Ok(milestone);
            }
        }
    }

    /// Wakes the server if nothing else happens before it wants to be.
    fn wake(&mut self, recorder: &mut Recorder<'_>) -> Result<Option<Milestone>, RuntimeError> {
        while let Some(at) = self.situation.wake
            && !self.situation.server.is_over()
            && self.situation.agenda.next_time().is_none_or(|next| at < next)
        {
            self.situation.wake = None;
            self.situation.now = self.situation.now.max(at);
            let milestone = self.tell_server(ServerEvent::Tick, recorder)?;
            if milestone.is_some() {
                return Ok(milestone);
            }
        }
        Ok(None)
    }

    fn happen(
        &mut self,
        happening: Happening,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Milestone>, RuntimeError> {
        match happening {
            Happening::Received { client, round, role } => {
                self.tell_client(client, SessionEvent::Broadcast { round, role });
            }
            Happening::SharedDone { client, round } => {
                if self.situation.jobs.contains_key(&client)
                    && let Some(why) = self.compute(recorder)?
                {
                    return Ok(Some(Milestone::Stopped(why)));
                }
                let sent = self.situation.computed.remove(&client).flatten();
                let event = match sent {
                    Some(_) => SessionEvent::SharedDone { round },
                    None => SessionEvent::SharedFailed { round },
                };
                if sent.is_none() && self.situation.sessions[client].personal_follows() {
                    // It was counted, and will not be.
                    let personal = self.lasting(client, round, Phase::Personal, self.situation.now);
                    self.situation.busy[client] -= personal.end - personal.start;
                }
                if let Some(bytes) = sent {
                    let since = self.situation.now;
                    let sent = self.situation.on_their_way.entry(client).or_default();
                    sent.insert(round, (bytes, since));
                }
                self.tell_client(client, event);
            }
            Happening::PersonalDone { client, round } => {
                self.tell_client(client, SessionEvent::PersonalDone { round });
            }
            Happening::Dismissed { client } => self.tell_client(client, SessionEvent::Finished),
            Happening::Uploaded { client, round } => {
                return self.tell_server(ServerEvent::Uploaded { client, round }, recorder);
            }
            Happening::Failed { client, round } => {
                return self.tell_server(ServerEvent::Failed { client, round }, recorder);
            }
        }
        Ok(None)
    }

    /// Opens the round after one that is aggregated.
    pub(super) fn open_next(
        &mut self,
        round: u64,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Milestone>, RuntimeError> {
        self.situation.failures.clear();
        let actions =
            self.situation.server.handle(self.situation.now, ServerEvent::Aggregated { round });
        if !self.situation.server.is_over() {
            let newest = self.course.method.method.broadcast(&self.server)?;
            let needed = self.situation.needed();
            self.broadcasts.advance(round + 1, newest, &needed, self.store)?;
            self.log_round(recorder)?;
        }
        self.serve(actions, recorder)
    }

    fn log_round(&self, recorder: &mut Recorder<'_>) -> Result<(), RuntimeError> {
        recorder.record(&Event::RoundStarted {
            method: self.course.method.label.clone(),
            round: self.situation.round() as usize,
            participants: self.situation.server.asked().collect(),
        })
    }

    fn tell_server(
        &mut self,
        event: ServerEvent,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Milestone>, RuntimeError> {
        let actions = self.situation.server.handle(self.situation.now, event);
        self.serve(actions, recorder)
    }

    /// What the server wants done.
    fn serve(
        &mut self,
        actions: Vec<Action>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Milestone>, RuntimeError> {
        let mut milestone = None;
        for action in actions {
            match action {
                Action::Broadcast { client, round, role } => {
                    let bytes = self.broadcasts.bytes();
                    let clock = self.travel(client, round, bytes, Way::Down);
                    self.log_receipt(client, round, bytes, clock, recorder)?;
                    self.enter(clock.end, Happening::Received { client, round, role });
                }
                Action::Accept { client, round } => {
                    self.log_upload(client, round, recorder)?;
                    self.tell_client(client, SessionEvent::Acknowledged { round });
                }
                Action::Acknowledge { client, round } => {
                    if self.situation.arrived(client, round).is_some() {
                        // It has answered a newer round in the meantime.
                        self.store.uploads.take(Sender { client, round })?;
                    }
                    self.tell_client(client, SessionEvent::Acknowledged { round });
                }
                Action::Refuse { client, round, reason } => {
                    self.refuse(client, round, reason, recorder)?;
                }
                Action::Aggregate { round, uploads } => {
                    milestone = Some(self.aggregate(round, &uploads)?);
                }
                Action::Wake { at } => self.situation.wake = Some(at),
                Action::Abandon { round } => {
                    let why = self.situation.failures.values().next();
                    let why = why.map_or("no participant", String::as_str);
                    let server = &self.situation.server;
                    // The server hears of one failure after the other; what a wave has found out is known at once.
                    let some_are_left = self.situation.failures.len() < server.asked().count();
                    milestone = Some(Milestone::Stopped(match server.shortage() {
                        Some(few) if some_are_left => format!("{few} in round {round}: {why}"),
                        _ => format!("no client finished its shared phase in round {round}: {why}"),
                    }));
                }
                Action::Finish => {}
                Action::Dismiss { client } => {
                    let delay = self.equipment(client).latency();
                    let at = self.situation.now + Duration::from_secs_f64(delay);
                    self.situation.agenda.enter(at, Happening::Dismissed { client });
                }
            }
        }
        Ok(milestone)
    }

    fn aggregate(
        &mut self,
        round: u64,
        uploads: &[(usize, u64)],
    ) -> Result<Milestone, RuntimeError> {
        if self.prepared.take() != Some(round) {
            let (course, waiting) = (self.course, &self.store.uploads);
            let conspiracy = course.conspire(round, uploads, waiting)?;
            let mut kept = uploads.iter().filter_map(|&(client, answered)| {
                let upload = waiting.take(Sender { client, round: answered }).transpose()?;
                Some(upload.map(|upload| course.arrival(client, answered, upload)))
            });
            let history = History { broadcasts: &self.broadcasts, store: self.store };
            match course.aggregate(round, &mut self.server, &mut kept, history, &conspiracy) {
                Err(RuntimeError::Method(MethodError::Numerics(error))) => {
                    return Ok(Milestone::Stopped(failed_aggregation(round, &error)));
                }
                outcome => outcome?,
            }
        }
        self.situation.last_round = self.situation.now;
        Ok(Milestone::Aggregated(round))
    }

    fn refuse(
        &mut self,
        client: usize,
        round: u64,
        reason: Refusal,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let bytes = self.situation.arrived(client, round).map(|(bytes, _)| bytes);
        // It was computed, and nobody wants it.
        self.store.uploads.take(Sender { client, round })?;
        recorder.record(&Event::Refused {
            method: self.course.method.label.clone(),
            round: round as usize,
            client,
            bytes,
            reason: reason.word().into(),
            detail: Some(reason.sentence().into()),
        })?;
        self.tell_client(client, SessionEvent::Refused { round });
        Ok(())
    }

    /// Lets everything go that a checkpoint does not name.
    pub(super) fn sweep(&mut self, checkpoint: &Checkpoint) {
        let named: Vec<Stored> = checkpoint.stored().cloned().collect();
        self.store.sweep(&named);
        self.executor.sweep(&named);
    }

    /// Computes everything that has been begun. Gives the reason if the method cannot go on.
    pub(super) fn compute(
        &mut self,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<String>, RuntimeError> {
        let jobs = std::mem::take(&mut self.situation.jobs);
        if jobs.is_empty() {
            return Ok(None);
        }
        let round = self.situation.round();
        // Whoever conspires must know all of them first.
        let conspire = self.course.plan.attacks.collude(round as usize);
        let whole = self.course.rules.waits_for_all() && !conspire && {
            let shared = jobs.iter().filter(|(_, steps)| {
                steps.iter().any(|step| (step.phase, step.round) == (Phase::Shared, round))
            });
            shared.map(|(client, _)| *client).eq(self.course.rules.participants(round))
        };
        let destination = if whole {
            let least = self.situation.server.least();
            Destination::Aggregation { round, server: &mut self.server, least }
        } else {
            Destination::Store
        };
        let history = History { broadcasts: &self.broadcasts, store: self.store };
        let wave =
            self.course.run_wave(&jobs, destination, history, &mut *self.executor, recorder)?;
        let records = match wave {
            Outcome::Done { records, aggregated } => {
                // Without enough uploads the round is not over: others may be asked.
                if aggregated {
                    self.prepared = Some(round);
                }
                records
            }
            Outcome::Stopped(why) => return Ok(Some(why)),
        };
        for record in records {
            if let Some(why) = record.failure() {
                self.situation.failures.insert(record.client, why.into());
            }
            if let Some(shared) = record.shared {
                self.situation.computed.insert(record.client, shared.bytes);
            }
        }
        Ok(None)
    }
}
