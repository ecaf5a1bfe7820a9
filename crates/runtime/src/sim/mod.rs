//! The simulator: one driver that decides who does what and aggregates, and an
//! [`Executor`] that holds the clients' states and computes.
//!
//! Who computes what first decides nothing. Every client's randomness is keyed by
//! `(seed, phase, round, client)`, uploads are summed in client order, and the log is written in
//! client order: one, two or eight threads give the same bits.

mod agenda;
mod aggregation;
mod broadcasts;
mod clients;
mod drive;
mod evaluate;
mod insight;
mod jobs;
mod newcomers;
mod patience;
mod shelf;
mod situation;

pub(crate) use evaluate::personal_score;
pub(crate) use patience::Standing;
pub(crate) use shelf::StoredBest;
pub(crate) use situation::Situation;

use crate::checkpoint::Checkpoint;
use crate::event::{Event, Runtime};
use crate::event_log::LogMark;
use crate::executor::{Executor, Held, Start, Threads};
use crate::files::{create_folder, lock};
use crate::recorder::{Observer, Recorder};
use crate::store::{Kept, Room, ServerStore, Stored};
use crate::{MethodPlan, RunPlan, RuntimeError, resumption};
use broadcasts::Broadcasts;
use drive::{Drive, Milestone};
use formant_federation::Protocol;
use formant_methods::Value;
use shelf::Best;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use xxhash_rust::xxh3::Xxh3;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All methods, all rounds.
    Complete,
    /// Stopped on request after a whole round, with a checkpoint.
    Interrupted,
}

/// Runs a plan in a folder, or goes on where its checkpoint stands, with as many threads as the plan
/// says.
///
/// `stop` may be set from anywhere (Ctrl-C): the current round is finished, a checkpoint written.
pub fn run(
    plan: &RunPlan,
    run_dir: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Outcome, RuntimeError> {
    std::thread::scope(|scope| {
        run_on(&mut Threads::new(plan, scope), plan, run_dir, observer, stop)
    })
}

/// The same with any executor, made for the same plan. Which one it is changes no result, and a run may
/// go on with another one.
pub fn run_on(
    executor: &mut dyn Executor,
    plan: &RunPlan,
    run_dir: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Outcome, RuntimeError> {
    create_folder(run_dir)?;
    let _lock = lock(run_dir)?;
    let checkpoint = resumption::checkpoint(plan, run_dir)?;
    let from = checkpoint.as_ref().map_or_else(LogMark::default, |checkpoint| checkpoint.log);
    let mut recorder = Recorder::open(run_dir, from, observer)?;
    let mut checkpoint = if let Some(checkpoint) = checkpoint {
        checkpoint
    } else {
        recorder.record(&Event::RunStarted(plan.header.clone()))?;
        let start = Checkpoint::at_method(0, recorder.sync()?, 0.0);
        start.write(run_dir)?;
        start
    };
    while checkpoint.method < plan.methods.len() {
        let method = &plan.methods[checkpoint.method];
        let (index, rules) = (checkpoint.method, plan.rules(method));
        let course = Course { plan, run_dir, stop, method, index, rules };
        match course.run_method(&checkpoint, executor, &mut recorder)? {
            Some(next) => checkpoint = next,
            None => return Ok(Outcome::Interrupted),
        }
    }
    Ok(Outcome::Complete)
}

/// One method of a run under way.
struct Course<'a> {
    plan: &'a RunPlan,
    run_dir: &'a Path,
    stop: &'a AtomicBool,
    method: &'a MethodPlan,
    /// The method's place in the run.
    index: usize,
    rules: Protocol,
}

impl Course<'_> {
    /// Runs a method from a checkpoint to its end; gives the checkpoint at the start of the next
    /// method, or `None` if it was asked to stop.
    fn run_method(
        &self,
        from: &Checkpoint,
        executor: &mut dyn Executor,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let folder = self.run_dir.join("states");
        create_folder(&folder)?;
        let room = Arc::new(Room::new(self.plan.memory));
        let named: Vec<Stored> = from.stored().cloned().collect();
        let store = ServerStore::new(&folder, from.version, room.clone(), &*self.method.method);
        store.sweep(&named);
        let held = Held { clients: from.clients.clone(), sent: from.kept.sent.clone() };
        let (method, folder) = (self.index, folder.as_path());
        executor.begin(&Start { method, folder, room: &room, held: &held, named: &named })?;
        let outcome = self.run_to_the_end(from, &store, executor, recorder);
        executor.end();
        outcome
    }

    fn run_to_the_end(
        &self,
        from: &Checkpoint,
        store: &ServerStore<'_>,
        executor: &mut dyn Executor,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let method = &*self.method.method;
        let server = match &from.server {
            Some(stored) => method.decode_server(&store.load(stored)?)?,
            None => method.start_server(&self.plan.init()),
        };
        store.uploads.adopt(&from.kept.uploads);
        let clock = Clock { started: Instant::now(), before: from };
        if from.round == 0 {
            recorder.record(&Event::MethodStarted { method: self.method.label.clone() })?;
        }
        let situation = from.situation.clone().unwrap_or_else(|| Situation::new(self));
        let newest = method.broadcast(&server)?;
        let broadcasts =
            Broadcasts::new(situation.round().max(1), newest, from.broadcasts.clone())?;
        let best = from.best.as_ref().map(|best| Best::restore(best, store)).transpose()?;
        let mut drive = Drive {
            course: self,
            situation,
            server,
            broadcasts,
            store,
            executor,
            prepared: None,
            best,
            standing: from.standing.clone(),
            lens: None,
        };
        if from.round == 0 {
            drive.begin(recorder)?;
        }
        let Some(end) = self.run_rounds(from, &mut drive, recorder, &clock)? else {
            return Ok(None);
        };
        self.keep_models(&end, &mut drive, recorder)?;
        self.adapt_newcomers(&end, &mut drive, recorder)?;
        self.finish(from, &clock, &mut drive, end, recorder)
    }

    /// Runs rounds to the end; `None` if it was asked to stop.
    fn run_rounds(
        &self,
        from: &Checkpoint,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
        clock: &Clock<'_>,
    ) -> Result<Option<End>, RuntimeError> {
        let mut started = Instant::now();
        let (mut round, mut milestone) = (from.round, None);
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
            recorder.record(&Event::RoundFinished {
                method: self.method.label.clone(),
                round,
                seconds: started.elapsed().as_secs_f64(),
                broadcast_bytes: drive.broadcasts.bytes(),
                clock: self.is_timed().then(|| drive.situation.ready().0),
            })?;
            let last = round == self.plan.rounds;
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
            let interrupted = self.stop.load(Ordering::Relaxed);
            if !last && (interrupted || round.is_multiple_of(self.plan.checkpoint_every)) {
                self.save(from, round, drive, recorder, clock)?;
                if interrupted {
                    return Ok(None);
                }
            }
        }
    }

    /// Closes the method's part of the log; gives the checkpoint at the start of the next one.
    fn finish(
        &self,
        from: &Checkpoint,
        clock: &Clock<'_>,
        drive: &mut Drive<'_>,
        end: End,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let (fingerprint, server_fingerprint) = fingerprints(&drive.server, &mut *drive.executor)?;
        let (closed, seconds) = drive.situation.ready();
        let idle = drive.situation.idle();
        let best_round = drive.standing.as_ref().map(|standing| standing.round);
        recorder.record(&Event::MethodFinished {
            method: self.method.label.clone(),
            rounds: end.round,
            seconds: clock.method_seconds(),
            fingerprint: Some(fingerprint),
            server_fingerprint: Some(server_fingerprint),
            clock: self.is_timed().then_some(Runtime { closed, seconds, idle }),
            best_round: best_round.filter(|_| end.is_planned),
            stopped: end.stopped,
        })?;
        let index = from.method + 1;
        let finished = index == self.plan.methods.len();
        if finished {
            recorder.record(&Event::RunFinished { seconds: clock.run_seconds() })?;
        }
        let next = Checkpoint::at_method(index, recorder.sync()?, clock.run_seconds());
        next.write(self.run_dir)?;
        drive.sweep(&next);
        if self.stop.load(Ordering::Relaxed) && !finished {
            return Ok(None);
        }
        Ok(Some(next))
    }

    fn save(
        &self,
        from: &Checkpoint,
        round: usize,
        drive: &mut Drive<'_>,
        recorder: &mut Recorder<'_>,
        clock: &Clock<'_>,
    ) -> Result<(), RuntimeError> {
        let store = drive.store;
        if let Some(standing) = &mut drive.standing {
            self.sync_best(standing)?;
        }
        let Held { clients, sent } = drive.executor.persist()?;
        let checkpoint = Checkpoint {
            round,
            server: Some(store.write_value("server", &drive.server)?),
            clients,
            kept: Kept { uploads: store.uploads.persist()?, sent },
            broadcasts: drive.broadcasts.older().clone(),
            best: drive.best.as_mut().map(|best| best.persist(store)).transpose()?,
            standing: drive.standing.clone(),
            situation: Some(drive.situation.clone()),
            log: recorder.sync()?,
            method_seconds: clock.method_seconds(),
            run_seconds: clock.run_seconds(),
            version: store.version(),
            ..from.clone()
        };
        checkpoint.write(self.run_dir)?;
        drive.sweep(&checkpoint);
        Ok(())
    }

    /// Whether the virtual clock has anything to say.
    fn is_timed(&self) -> bool {
        !self.plan.profile.is_instant()
    }
}

/// A hash of the final states of server and clients, in client order, and one of the server's.
fn fingerprints(
    server: &Value,
    executor: &mut dyn Executor,
) -> Result<(String, String), RuntimeError> {
    let mut hash = Xxh3::new();
    hash.update(&server.encode()?);
    let alone = format!("{:032x}", hash.digest128());
    executor.each_state(&mut |state| hash.update(state))?;
    Ok((format!("{:032x}", hash.digest128()), alone))
}

/// How a method ended.
struct End {
    /// Rounds that were done.
    round: usize,
    /// Why no more, if there should have been.
    stopped: Option<String>,
    /// Whether its models are still to be scored for the table.
    is_scored: bool,
    /// Whether it should have ended here: after all rounds, or because its patience was over.
    is_planned: bool,
}

impl End {
    fn early(round: usize, why: String) -> Self {
        Self { round, stopped: Some(why), is_scored: false, is_planned: false }
    }
}

/// Wall time over all sessions of a run.
struct Clock<'a> {
    started: Instant,
    before: &'a Checkpoint,
}

impl Clock<'_> {
    fn method_seconds(&self) -> f64 {
        self.before.method_seconds + self.started.elapsed().as_secs_f64()
    }

    fn run_seconds(&self) -> f64 {
        self.before.run_seconds + self.started.elapsed().as_secs_f64()
    }
}
