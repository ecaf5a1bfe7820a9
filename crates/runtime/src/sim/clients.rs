//! The clients' half of the driver: what they compute and send, and how long that takes.

use super::agenda::Happening;
use super::drive::Drive;
use crate::event::{Event, Phase, Span};
use crate::executor::Step;
use crate::recorder::Recorder;
use crate::{Equipment, RuntimeError, Way};
use formant_federation::{SessionAction, SessionEvent, Time, Until};
use formant_numerics::{Rng, Stream};

impl Drive<'_> {
    pub(super) fn tell_client(&mut self, client: usize, event: SessionEvent) {
        let after_shared = matches!(event, SessionEvent::SharedDone { .. });
        for action in self.situation.sessions[client].handle(event) {
            self.act(client, action, after_shared);
        }
    }

    /// What a client wants done.
    fn act(&mut self, client: usize, action: SessionAction, after_shared: bool) {
        match action {
            SessionAction::TrainShared { round } => {
                let shared = self.lasting(client, round, Phase::Shared, self.situation.now);
                self.order(client, round, Phase::Shared, None, shared);
                if self.situation.sessions[client].personal_follows() {
                    // Computed together, though the client does not know of it yet.
                    let from = Time::from_seconds(shared.end);
                    let personal = self.lasting(client, round, Phase::Personal, from);
                    self.order(client, round, Phase::Personal, None, personal);
                }
                self.enter(shared.end, Happening::SharedDone { client, round });
            }
            SessionAction::TrainPersonal { round, until: Until::Epochs } => {
                let personal = self.lasting(client, round, Phase::Personal, self.situation.now);
                if !after_shared {
                    self.order(client, round, Phase::Personal, None, personal);
                }
                self.enter(personal.end, Happening::PersonalDone { client, round });
            }
            SessionAction::TrainPersonal { round, until: Until::Broadcast } => {
                self.situation.endless.insert(client, (round, self.situation.now));
            }
            SessionAction::StopPersonal => self.stop_personal(client),
            SessionAction::Upload { round } => {
                let sent = self.situation.sent(client, round).map_or(0, |(bytes, _)| *bytes);
                let clock = self.travel(client, round, sent, Way::Up);
                if let Some((_, since)) = self.situation.sent(client, round) {
                    *since = Time::from_seconds(clock.start);
                }
                let at = Time::from_seconds(clock.end).max(self.situation.now);
                let upload = Happening::Uploaded { client, round };
                self.situation.agenda.enter_drawn(at, self.draw(client, round), upload);
            }
            SessionAction::ReportFailure { round } => {
                let clock = self.travel(client, round, 0, Way::Up);
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
        let cost = desk.cost(round as usize, Phase::Personal);
        let (batches, mut samples) = desk.batches_within(equipment.samples(seconds) / cost);
        if desk.samples(round as usize, Phase::Personal) == 0 {
            // The method has nothing to train yet.
            samples = 0;
        }
        let clock = Span { start, end: start + equipment.compute(samples as f64 * cost) };
        self.order(client, round, Phase::Personal, Some(batches), clock);
        self.enter(clock.end, Happening::PersonalDone { client, round });
    }

    /// Puts a phase on the list of what is to be computed.
    fn order(
        &mut self,
        client: usize,
        round: u64,
        phase: Phase,
        batches: Option<u64>,
        clock: Span,
    ) {
        self.situation.busy[client] += clock.end - clock.start;
        let end = Time::from_seconds(clock.end);
        self.situation.last_phase = self.situation.last_phase.max(end);
        let clock = self.course.is_timed().then_some(clock);
        let step = Step { round, phase, batches, clock };
        self.situation.jobs.entry(client).or_default().push(step);
    }

    pub(super) fn enter(&mut self, seconds: f64, happening: Happening) {
        // Nothing happens before now, whatever rounding says.
        let at = Time::from_seconds(seconds).max(self.situation.now);
        self.situation.agenda.enter(at, happening);
    }

    pub(super) fn equipment(&self, client: usize) -> Equipment {
        self.course.plan.profile.draw(self.course.plan.seed, client)
    }

    /// From when to when a phase of fixed epochs lasts.
    pub(super) fn lasting(&self, client: usize, round: u64, phase: Phase, from: Time) -> Span {
        let desk = self.course.plan.desk(self.course.method, client);
        let work = desk.samples(round as usize, phase) as f64 * desk.cost(round as usize, phase);
        let start = from.seconds();
        Span { start, end: start + self.equipment(client).compute(work) }
    }

    /// The place of an upload among those that come at the same time.
    fn draw(&self, client: usize, round: u64) -> u64 {
        let seed = self.course.plan.seed;
        let mut rng = Rng::new(seed, Stream::Equipment, 2 * round + 1, client as u64);
        1 + rng.next_u64() / 2
    }

    /// From when to when some bytes are on their way. A link carries one thing after the other.
    pub(super) fn travel(&mut self, client: usize, round: u64, bytes: u64, way: Way) -> Span {
        let address = 2 * round + u64::from(way == Way::Up);
        let mut rng = Rng::new(self.course.plan.seed, Stream::Equipment, address, client as u64);
        let seconds = self.equipment(client).transfer(bytes, way, &mut rng);
        let free = &mut self.situation.links[client][usize::from(way == Way::Down)];
        let start = self.situation.now.max(*free).seconds();
        let clock = Span { start, end: start + seconds };
        *free = Time::from_seconds(clock.end);
        clock
    }

    pub(super) fn log_receipt(
        &self,
        client: usize,
        round: u64,
        bytes: u64,
        clock: Span,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        if !self.course.is_timed() {
            return Ok(());
        }
        let (method, round) = (self.course.method.label.clone(), round as usize);
        recorder.record(&Event::Received { method, round, client, bytes, clock })
    }

    pub(super) fn log_upload(
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
