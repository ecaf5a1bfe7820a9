//! The rounds of a method, one after the other, and when a checkpoint is written.
//!
//! A run may be stopped at any batch. What is under way then is dropped, and the run stands at its last
//! checkpoint. Those are written every so many rounds, and after a round that ends [`LEAST`] or more after
//! the last one: besides the round under way, no more than that is lost.

use super::drive::{Drive, Milestone};
use super::{Clock, Course, End};
use crate::RuntimeError;
use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::executor::Held;
use crate::recorder::Recorder;
use crate::store::Kept;
use std::time::{Duration, Instant};

/// Rounds that are done are at risk no longer than this, unless checkpoints take long.
const LEAST: Duration = Duration::from_secs(10);

/// Checkpoints by time cost at most one part in so many of a run.
const SHARE: u32 = 20;

/// Where between two rounds a checkpoint stands.
#[derive(Clone, Copy, PartialEq)]
enum Point {
    /// A round is aggregated; it is to be scored, and the next one to be opened.
    Closed,
    /// The next round is open.
    Open,
}

/// Writes a method's checkpoints.
pub(super) struct Keeper<'a> {
    course: &'a Course<'a>,
    from: &'a Checkpoint,
    clock: &'a Clock<'a>,
    /// When the last one was written.
    last: Instant,
    /// How long that took.
    cost: Duration,
    /// Where the method stood when its last round was aggregated, if that is kept for more of them.
    pub(super) end: Option<Checkpoint>,
}

impl<'a> Keeper<'a> {
    /// Before the first one after the one that a session goes on from.
    pub(super) fn new(course: &'a Course<'a>, from: &'a Checkpoint, clock: &'a Clock<'a>) -> Self {
        let is_last = from.is_closed() && from.round == course.plan.rounds;
        let end = (is_last && course.is_extensible).then(|| from.clone());
        Self { course, from, clock, last: Instant::now(), cost: Duration::ZERO, end }
    }

    /// Whether rounds that are done have been at risk for long enough.
    fn is_due(&self) -> bool {
        is_due(self.last.elapsed(), self.cost)
    }

    fn save(
        &mut self,
        point: Point,
        round: usize,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Checkpoint, RuntimeError> {
        let (store, started) = (drive.store, Instant::now());
        if let Some(standing) = &mut drive.standing {
            self.course.sync_best(standing)?;
        }
        let Held { clients, sent } = drive.executor.persist()?;
        let newest = match point {
            Point::Closed => Some(drive.broadcasts.write_newest(store)?),
            Point::Open => None,
        };
        let checkpoint = Checkpoint {
            round,
            server: Some(store.write_value("server", &drive.server)?),
            clients,
            kept: Kept { uploads: store.uploads.persist()?, sent },
            broadcasts: drive.broadcasts.older().clone(),
            newest,
            best: drive.best.as_mut().map(|best| best.persist(store)).transpose()?,
            standing: drive.standing.clone(),
            situation: Some(drive.situation.clone()),
            log: recorder.sync()?,
            method_seconds: self.clock.method_seconds(),
            run_seconds: self.clock.run_seconds(),
            version: store.version(),
            ..self.from.clone()
        };
        if drive.executor.is_spread() {
            store.sync(checkpoint.stored())?;
        }
        checkpoint.write(self.course.run_dir)?;
        drive.sweep(&checkpoint);
        (self.last, self.cost) = (Instant::now(), started.elapsed());
        Ok(checkpoint)
    }
}

/// Whether so long after a checkpoint that took so long it is time for the next one.
fn is_due(since: Duration, cost: Duration) -> bool {
    since >= LEAST.max(cost * SHARE)
}

impl Course<'_> {
    /// Runs rounds to the end; `None` if it was asked to stop.
    pub(super) fn run_rounds(
        &self,
        keeper: &mut Keeper<'_>,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<End>, RuntimeError> {
        let mut started = Instant::now();
        let privacy = self.plan.privacy;
        let mut ledger =
            privacy.and_then(|privacy| privacy.ledger(&*self.method.method, &self.rules));
        let mut round = keeper.from.round;
        // A round that a checkpoint has closed is in the log already.
        let mut is_told = keeper.from.is_closed();
        let mut milestone = is_told.then_some(Milestone::Aggregated(round as u64));
        loop {
            let reached = match milestone.take() {
                Some(reached) => reached,
                None => drive.go_on(recorder)?,
            };
            match reached {
                Milestone::Stopped(why) => return Ok(Some(End::early(round, why))),
                Milestone::Over => {
                    let waiting = || "nobody is left who would answer".to_owned();
                    let unfinished = (round < self.plan.rounds).then(waiting);
                    let stopped = drive.compute(recorder)?.or(unfinished);
                    let is_planned = stopped.is_none();
                    return Ok(Some(End { round, stopped, is_scored: true, is_planned }));
                }
                Milestone::Aggregated(done) => round = done as usize,
            }
            let last = round == self.plan.rounds;
            if !std::mem::take(&mut is_told) {
                self.progress.round_done(round);
                recorder.record(&Event::RoundFinished {
                    method: self.method.label.clone(),
                    round,
                    seconds: started.elapsed().as_secs_f64(),
                    broadcast_bytes: drive.broadcasts.bytes(),
                    clock: self.is_timed().then(|| drive.situation.ready().0),
                    privacy: ledger.as_mut().map(|ledger| ledger.spent(round as u64)),
                })?;
                let interrupted = self.is_stopped();
                // What follows the last round may take long as well.
                if interrupted || last && (self.is_extensible || keeper.is_due()) {
                    let closed = keeper.save(Point::Closed, round, drive, recorder)?;
                    keeper.end = (last && self.is_extensible).then_some(closed);
                }
                if interrupted {
                    return Ok(None);
                }
            }
            if !last && round.is_multiple_of(self.plan.evaluation.every) {
                if let Some(why) = drive.compute(recorder)? {
                    return Ok(Some(End::early(round, why)));
                }
                if let Some(end) = self.evaluate_between(round, drive, recorder)? {
                    return Ok(Some(end));
                }
            }
            started = Instant::now();
            milestone = drive.open_next(round as u64, recorder)?;
            recorder.flush()?;
            let interrupted = self.is_stopped();
            let is_due = keeper.is_due() || round.is_multiple_of(self.plan.checkpoint_every);
            // A milestone that is reached already would be missing in a checkpoint.
            if !last && milestone.is_none() && (interrupted || is_due) {
                keeper.save(Point::Open, round, drive, recorder)?;
                if interrupted {
                    return Ok(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_come_after_ten_seconds_unless_they_are_dear() {
        let due = |since, cost| is_due(Duration::from_secs(since), Duration::from_millis(cost));
        assert!(!due(9, 0) && due(10, 0) && due(10, 500));
        assert!(!due(10, 600) && due(12, 600) && !due(59, 3_000) && due(60, 3_000));
    }
}
