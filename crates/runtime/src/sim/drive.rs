//! Drives the machines of the protocol by a virtual clock: what they order happens on the agenda, what
//! they want computed is computed in waves.

use super::Course;
use super::agenda::{Agenda, Happening};
use super::broadcasts::Broadcasts;
use super::crew::Crew;
use super::jobs::{Jobs, Step, Wave};
use crate::event::{Event, Phase, Span};
use crate::recorder::Recorder;
use crate::store::Store;
use crate::{Equipment, RuntimeError, Way};
use core::time::Duration;
use formant_federation::{
    Action, Event as ServerEvent, Refusal, Server, Session, SessionAction, SessionEvent, Time,
    Until,
};
use formant_methods::Value;
use formant_numerics::{Rng, Stream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where server, clients and clock stand. Together with the states, a checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Situation {
    now: Time,
    server: Server,
    sessions: Vec<Session>,
    agenda: Agenda,
    /// What clients have begun and nobody has computed yet.
    jobs: Jobs,
    /// Shared phases that are computed and not over: the size of the upload, if there is one.
    computed: BTreeMap<usize, Option<u64>>,
    /// Personal phases without an end: which round's, and since when.
    endless: BTreeMap<usize, (u64, Time)>,
    /// Uploads on their way: their size, and since when.
    on_their_way: BTreeMap<usize, BTreeMap<u64, (u64, Time)>>,
    /// Why clients failed in the open round.
    failures: BTreeMap<usize, String>,
    /// Seconds that each client has computed.
    busy: Vec<f64>,
    /// When the last phase that is computed will be over.
    last_phase: Time,
    /// When the last aggregation was.
    last_round: Time,
}

/// What the driver needs of the run.
pub(super) struct Drive<'d, 'm> {
    pub(super) course: &'d Course<'d>,
    pub(super) situation: Situation,
    pub(super) server: Value,
    pub(super) broadcasts: Broadcasts,
    pub(super) store: &'d Store<'m>,
    pub(super) crew: &'d mut Crew,
    /// The round whose aggregation was made while its clients were computed.
    pub(super) prepared: Option<u64>,
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

impl Situation {
    /// Before the first round.
    pub(super) fn new(course: &Course<'_>) -> Self {
        let clients = course.rules.clients;
        Self {
            now: Time::ZERO,
            server: Server::new(course.rules.clone()),
            sessions: vec![Session::new(&course.rules); clients],
            agenda: Agenda::default(),
            jobs: Jobs::new(),
            computed: BTreeMap::new(),
            endless: BTreeMap::new(),
            on_their_way: BTreeMap::new(),
            failures: BTreeMap::new(),
            busy: vec![0.0; clients],
            last_phase: Time::ZERO,
            last_round: Time::ZERO,
        }
    }

    /// The round that is open, from 1.
    pub(super) fn round(&self) -> u64 {
        self.server.round()
    }

    /// When the last round was closed, and when the last phase was or will be over, in seconds.
    pub(super) fn ready(&self) -> (f64, f64) {
        (self.last_round.seconds(), self.last_round.max(self.last_phase).seconds())
    }

    /// An upload is no longer on its way: its size, and since when it was.
    fn arrived(&mut self, client: usize, round: u64) -> Option<(u64, Time)> {
        let sent = self.on_their_way.get_mut(&client)?;
        let arrived = sent.remove(&round);
        if sent.is_empty() {
            self.on_their_way.remove(&client);
        }
        arrived
    }

    /// Seconds of the whole time in which each client computed nothing.
    pub(super) fn idle(&self) -> Vec<f64> {
        let (_, total) = self.ready();
        self.busy.iter().map(|busy| (total - busy).max(0.0)).collect()
    }

    /// Whether it belongs to a run of so many clients.
    pub(crate) fn fits(&self, clients: usize) -> bool {
        self.sessions.len() == clients && self.busy.len() == clients
    }

    /// The oldest round whose broadcast somebody may still need.
    fn oldest_needed(&self) -> u64 {
        let jobs = self.jobs.values().flatten().map(|step| step.round);
        let endless = self.endless.values().map(|(round, _)| *round);
        let waiting = self.sessions.iter().filter_map(Session::waiting);
        let others = [self.server.oldest_open(), self.server.oldest_due()];
        let rounds = jobs.chain(endless).chain(waiting).chain(self.agenda.oldest_on_its_way());
        rounds.chain(others).min().unwrap_or(0)
    }
}

impl Drive<'_, '_> {
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
        while let Some((at, happening)) = self.situation.agenda.next() {
            if happening == Happening::Tick && self.situation.server.is_over() {
                continue;
            }
            self.situation.now = self.situation.now.max(at);
            if let Some(milestone) = self.happen(happening, recorder)? {
                return Ok(milestone);
            }
        }
        Ok(Milestone::Over)
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
            Happening::Tick => return self.tell_server(ServerEvent::Tick, recorder),
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
            let needed = self.situation.oldest_needed();
            self.broadcasts.advance((round + 1, newest), needed, self.store)?;
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
                    let clock = self.travel(client, round, (self.broadcasts.bytes(), Way::Down));
                    self.log_receipt(client, round, clock, recorder)?;
                    self.enter(clock.end, Happening::Received { client, round, role });
                }
                Action::Accept { client, round } => {
                    self.log_upload(client, round, recorder)?;
                    self.tell_client(client, SessionEvent::Acknowledged { round });
                }
                Action::Acknowledge { client, round } => {
                    self.tell_client(client, SessionEvent::Acknowledged { round });
                }
                Action::Refuse { client, round, reason } => {
                    self.refuse((client, round), reason, recorder)?;
                }
                Action::Aggregate { round, uploads } => {
                    milestone = Some(self.aggregate(round, &uploads)?);
                }
                Action::Wake { at } => self.situation.agenda.enter(at, Happening::Tick),
                Action::Abandon { round } => {
                    let why = self.situation.failures.values().next();
                    let why = why.map_or("no participant", String::as_str);
                    milestone = Some(Milestone::Stopped(format!(
                        "no client finished its shared phase in round {round}: {why}"
                    )));
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
        use formant_methods::MethodError::Numerics;
        if self.prepared.take() != Some(round) {
            let kept = (self.store, &self.broadcasts);
            match self.course.aggregate_kept(round, (&mut self.server, uploads), kept) {
                Err(RuntimeError::Method(Numerics(error))) => {
                    let why = format!("the aggregation of round {round} failed: {error}");
                    return Ok(Milestone::Stopped(why));
                }
                outcome => outcome?,
            }
        }
        self.situation.last_round = self.situation.now;
        Ok(Milestone::Aggregated(round))
    }

    fn refuse(
        &mut self,
        (client, round): (usize, u64),
        reason: Refusal,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        self.situation.arrived(client, round);
        // It was computed, and nobody wants it.
        self.store.take_upload((client, round))?;
        recorder.record(&Event::Refused {
            method: self.course.method.label.clone(),
            round: round as usize,
            client,
            reason: format!("{reason:?}").to_lowercase(),
        })?;
        self.tell_client(client, SessionEvent::Refused { round });
        Ok(())
    }

    fn tell_client(&mut self, client: usize, event: SessionEvent) {
        let after_shared = matches!(event, SessionEvent::SharedDone { .. });
        for action in self.situation.sessions[client].handle(event) {
            self.act(client, action, after_shared);
        }
    }

    /// What a client wants done.
    fn act(&mut self, client: usize, action: SessionAction, after_shared: bool) {
        match action {
            SessionAction::TrainShared { round } => {
                let shared = self.lasting(client, (round, Phase::Shared), self.situation.now);
                self.order(client, (round, Phase::Shared, None), shared);
                if self.situation.sessions[client].personal_follows() {
                    // Computed together, though the client does not know of it yet.
                    let from = Time::from_seconds(shared.end);
                    let personal = self.lasting(client, (round, Phase::Personal), from);
                    self.order(client, (round, Phase::Personal, None), personal);
                }
                self.enter(shared.end, Happening::SharedDone { client, round });
            }
            SessionAction::TrainPersonal { round, until: Until::Epochs } => {
                let personal = self.lasting(client, (round, Phase::Personal), self.situation.now);
                if !after_shared {
                    self.order(client, (round, Phase::Personal, None), personal);
                }
                self.enter(personal.end, Happening::PersonalDone { client, round });
            }
            SessionAction::TrainPersonal { round, until: Until::Broadcast } => {
                self.situation.endless.insert(client, (round, self.situation.now));
            }
            SessionAction::StopPersonal => self.stop_personal(client),
            SessionAction::Upload { round } => {
                let now = self.situation.now;
                let sent = self.situation.on_their_way.get_mut(&client);
                let sent = sent.and_then(|sent| sent.get_mut(&round));
                let bytes = sent.map_or(0, |(bytes, since)| {
                    *since = now;
                    *bytes
                });
                let clock = self.travel(client, round, (bytes, Way::Up));
                self.enter(clock.end, Happening::Uploaded { client, round });
            }
            SessionAction::ReportFailure { round } => {
                let clock = self.travel(client, round, (0, Way::Up));
                self.enter(clock.end, Happening::Failed { client, round });
            }
            SessionAction::End => {}
        }
    }

    /// Ends a personal phase that had no end, with the batch under way.
    fn stop_personal(&mut self, client: usize) {
        let Some((round, since)) = self.situation.endless.remove(&client) else { return };
        let (start, equipment) = (since.seconds(), self.equipment(client));
        let desk = self.course.plan.desk(self.course.method, client);
        let seconds = (self.situation.now - since).as_secs_f64();
        let (batches, samples) = desk.batches_within(equipment.samples(seconds));
        let clock = Span { start, end: start + equipment.compute(samples) };
        self.order(client, (round, Phase::Personal, Some(batches)), clock);
        self.enter(clock.end, Happening::PersonalDone { client, round });
    }

    /// Puts a phase on the list of what is to be computed.
    fn order(
        &mut self,
        client: usize,
        (round, phase, batches): (u64, Phase, Option<u64>),
        clock: Span,
    ) {
        self.situation.busy[client] += clock.end - clock.start;
        let end = Time::from_seconds(clock.end);
        self.situation.last_phase = self.situation.last_phase.max(end);
        let clock = self.course.is_timed().then_some(clock);
        let step = Step { round, phase, batches, clock };
        self.situation.jobs.entry(client).or_default().push(step);
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
        let whole = self.course.rules.waits_for_all() && {
            let shared = jobs.iter().filter(|(_, steps)| {
                steps.iter().any(|step| (step.phase, step.round) == (Phase::Shared, round))
            });
            shared.map(|(client, _)| *client).eq(self.course.rules.participants(round))
        };
        let together = whole.then_some((round, &mut self.server));
        let kept = (self.store, &self.broadcasts);
        let wave =
            self.course.run_wave(&jobs, together, kept, (&mut *self.crew, &mut *recorder))?;
        if whole {
            self.prepared = Some(round);
        }
        let records = match wave {
            Wave::Done(records) => records,
            Wave::Stopped(why) => return Ok(Some(why)),
        };
        for record in records {
            if let Some(why) = record.failure() {
                self.situation.failures.insert(record.client, why.into());
            }
            if let Some((_, bytes)) = record.shared {
                self.situation.computed.insert(record.client, bytes);
            }
        }
        Ok(None)
    }

    fn enter(&mut self, seconds: f64, happening: Happening) {
        // Nothing happens before now, whatever rounding says.
        let at = Time::from_seconds(seconds).max(self.situation.now);
        self.situation.agenda.enter(at, happening);
    }

    fn equipment(&self, client: usize) -> Equipment {
        self.course.plan.profile.draw(self.course.plan.seed, client)
    }

    /// From when to when a phase of fixed epochs lasts.
    fn lasting(&self, client: usize, (round, phase): (u64, Phase), from: Time) -> Span {
        let desk = self.course.plan.desk(self.course.method, client);
        let samples = desk.samples(round as usize, phase);
        let start = from.seconds();
        Span { start, end: start + self.equipment(client).compute(samples) }
    }

    /// From when to when some bytes are on their way.
    fn travel(&self, client: usize, round: u64, (bytes, way): (u64, Way)) -> Span {
        let address = 2 * round + u64::from(way == Way::Up);
        let mut rng = Rng::new(self.course.plan.seed, Stream::Equipment, address, client as u64);
        let start = self.situation.now.seconds();
        Span { start, end: start + self.equipment(client).transfer(bytes, way, &mut rng) }
    }

    fn log_receipt(
        &self,
        client: usize,
        round: u64,
        clock: Span,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        if !self.course.is_timed() {
            return Ok(());
        }
        let (method, round) = (self.course.method.label.clone(), round as usize);
        recorder.record(&Event::Received { method, round, client, clock })
    }

    fn log_upload(
        &mut self,
        client: usize,
        round: u64,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let sent = self.situation.arrived(client, round);
        let (bytes, since) = sent.unwrap_or((0, self.situation.now));
        let clock = Span { start: since.seconds(), end: self.situation.now.seconds() };
        recorder.record(&Event::Uploaded {
            method: self.course.method.label.clone(),
            round: round as usize,
            client,
            bytes,
            clock: self.course.is_timed().then_some(clock),
        })
    }
}
