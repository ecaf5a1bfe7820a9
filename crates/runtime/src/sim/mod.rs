//! The simulator: one driver that decides who does what and aggregates, and an
//! [`Executor`] that holds the clients' states and computes.
//!
//! Who computes what first decides nothing. Every client's randomness is keyed by
//! `(seed, phase, round, client)`, uploads are summed in client order, and the log is written in
//! client order: one, two or eight threads give the same bits.

mod agenda;
mod aggregation;
mod attackers;
mod broadcasts;
mod clients;
mod drive;
mod evaluate;
mod insight;
mod jobs;
mod newcomers;
mod patience;
mod rounds;
mod shelf;
mod situation;

pub(crate) use evaluate::personal_score;
pub(crate) use patience::Standing;
pub(crate) use shelf::StoredBest;
pub(crate) use situation::Situation;

use crate::checkpoint::{Checkpoint, Ended};
use crate::event::{Event, Ranks, Runtime};
use crate::event_log::LogMark;
use crate::executor::{Executor, Held, Start, Threads};
use crate::files::{create_folder, lock};
use crate::recorder::{Observer, Recorder};
use crate::resumption::{self, Found};
use crate::store::{Room, ServerStore, Stored};
use crate::{MethodPlan, Progress, RunPlan, RuntimeError};
use broadcasts::Broadcasts;
use drive::Drive;
use formant_federation::Protocol;
use formant_methods::Value;
use formant_numerics::Pulse;
use rounds::Keeper;
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
    /// Stopped on request. The run stands at a checkpoint, from which it goes on to the same bits.
    Interrupted,
}

/// Runs a plan in a folder, or goes on where its checkpoint stands, with as many threads as the plan
/// says.
///
/// `stop` may be set from anywhere (Ctrl-C): the run ends with the batches under way. What the round under
/// way has computed is dropped, and so are rounds after the last checkpoint, of which the oldest ended ten
/// seconds ago at most (or twenty times as long as writing a checkpoint takes).
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
    go(executor, &Session { plan, run_dir, observer, stop, may_extend: false })
}

/// Goes on with a run that was interrupted, or that has ended and now has more rounds or further methods:
/// the plan is that of the longer run. More rounds need what was kept at the end of each method; they give
/// the bits of having run as many from the start.
pub fn extend(
    plan: &RunPlan,
    run_dir: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Outcome, RuntimeError> {
    std::thread::scope(|scope| {
        extend_on(&mut Threads::new(plan, scope), plan, run_dir, observer, stop)
    })
}

/// The same with any executor.
pub fn extend_on(
    executor: &mut dyn Executor,
    plan: &RunPlan,
    run_dir: &Path,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<Outcome, RuntimeError> {
    go(executor, &Session { plan, run_dir, observer, stop, may_extend: true })
}

/// Whether [`extend`] would go on, asked before anything is changed.
pub fn check_extension(plan: &RunPlan, run_dir: &Path) -> Result<(), RuntimeError> {
    resumption::found(plan, run_dir, true).map(drop)
}

/// One process's part of a run.
struct Session<'a> {
    plan: &'a RunPlan,
    run_dir: &'a Path,
    observer: &'a dyn Observer,
    stop: &'a AtomicBool,
    may_extend: bool,
}

impl Session<'_> {
    /// Opens the log, or opens it again for an extension, and says where the run stands.
    fn begin(&self, found: Found) -> Result<(Checkpoint, Recorder<'_>), RuntimeError> {
        let mut recorder = Recorder::open(self.run_dir, found.log(), self.observer)?;
        let begun = match found {
            Found::Underway(checkpoint) => return Ok((checkpoint, recorder)),
            Found::Complete(checkpoint) => Checkpoint { method: 0, ..checkpoint },
            Found::Nothing => Checkpoint::at_method(0, LogMark::default(), 0.0),
        };
        let header = recorder.end().bytes;
        recorder.record(&Event::RunStarted(Box::new(self.plan.header.clone())))?;
        let method = begun.next_method(self.plan.methods.len(), self.plan.rounds);
        let checkpoint = Checkpoint { method, header, log: recorder.sync()?, ..begun };
        checkpoint.write(self.run_dir)?;
        Ok((checkpoint, recorder))
    }
}

fn go(executor: &mut dyn Executor, session: &Session<'_>) -> Result<Outcome, RuntimeError> {
    let Session { plan, run_dir, observer, stop, may_extend } = *session;
    create_folder(run_dir)?;
    let _lock = lock(run_dir)?;
    let found = resumption::found(plan, run_dir, may_extend)?;
    let (mut checkpoint, mut recorder) = session.begin(found)?;
    let extensible = plan.extensible()?;
    let mut load = plan.workload();
    for (work, ended) in load.methods.iter_mut().zip(&checkpoint.ended) {
        work.leave_out(ended.rounds(plan.rounds));
    }
    let progress = Arc::new(Progress::new(load));
    observer.progress(&progress);
    while checkpoint.method < plan.methods.len() {
        let method = &plan.methods[checkpoint.method];
        let (index, rules) = (checkpoint.method, plan.rules(method));
        let from = checkpoint.at_work(plan.rounds);
        progress.begin(index, from.round, !from.is_closed());
        let (progress, is_extensible) = (&*progress, extensible[index]);
        let course = Course { plan, run_dir, stop, progress, method, index, rules, is_extensible };
        match course.run_method(&from, executor, &mut recorder) {
            Ok(Some(next)) => checkpoint = next,
            Ok(None) => return Ok(Outcome::Interrupted),
            Err(error) if error.is_stop() => return Ok(Outcome::Interrupted),
            Err(error) => return Err(error),
        }
    }
    progress.begin(checkpoint.method, 0, false);
    Ok(Outcome::Complete)
}

/// One method of a run under way.
struct Course<'a> {
    plan: &'a RunPlan,
    run_dir: &'a Path,
    stop: &'a AtomicBool,
    progress: &'a Progress,
    method: &'a MethodPlan,
    /// The method's place in the run.
    index: usize,
    rules: Protocol,
    /// Whether what more rounds would need is kept.
    is_extensible: bool,
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
        let newest = match &from.newest {
            Some(stored) => method.decode_broadcast(&store.load(stored)?)?,
            None => method.broadcast(&server)?,
        };
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
        let mut keeper = Keeper::new(self, from, &clock);
        let Some(end) = self.run_rounds(&mut keeper, &mut drive, recorder)? else {
            return Ok(None);
        };
        self.keep_models(&end, &mut drive, recorder)?;
        self.adapt_newcomers(&end, &mut drive, recorder)?;
        let ended = match keeper.end {
            _ if end.stopped.is_some() => Ended::Early,
            // What became of other methods is no part of it.
            Some(kept) => Ended::Kept(Box::new(Checkpoint { ended: Vec::new(), ..kept })),
            None => Ended::Unkept,
        };
        self.finish(from, &clock, &mut drive, (end, ended), recorder)
    }

    /// Closes the method's part of the log; gives the checkpoint at the start of the next one.
    fn finish(
        &self,
        from: &Checkpoint,
        clock: &Clock<'_>,
        drive: &mut Drive<'_>,
        (end, outcome): (End, Ended),
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let (fingerprint, server_fingerprint) = fingerprints(&drive.server, &mut *drive.executor)?;
        let (closed, seconds) = drive.situation.ready();
        let idle = drive.situation.idle();
        let best_round = drive.standing.as_ref().map(|standing| standing.round);
        let ranks = drive.executor.places();
        if !ranks.is_empty() {
            let (method, seconds) = (self.method.label.clone(), clock.session_seconds());
            recorder.record(&Event::Ranks(Ranks { method, seconds, ranks }))?;
        }
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
        let mut ended = from.ended.clone();
        match ended.get_mut(self.index) {
            Some(before) => *before = outcome,
            None => ended.push(outcome),
        }
        let run_seconds = clock.run_seconds();
        let next = Checkpoint {
            version: drive.store.version(),
            header: from.header,
            ended,
            ..Checkpoint::at_method(self.index + 1, recorder.end(), run_seconds)
        };
        let (methods, rounds) = (self.plan.methods.len(), self.plan.rounds);
        let method = next.next_method(methods, rounds);
        let finished = method == methods;
        if finished {
            recorder.record(&Event::RunFinished { seconds: run_seconds })?;
        }
        let next = Checkpoint { method, log: recorder.sync()?, ..next };
        next.write(self.run_dir)?;
        drive.sweep(&next);
        Ok((finished || !self.is_stopped()).then_some(next))
    }

    /// Whether somebody wants the run to end.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Who waits for clients that train.
    fn training_pulse(&self) -> Pulse<'_> {
        Pulse { stop: Some(self.stop), samples: Some(&self.progress.trained) }
    }

    /// Who waits for models to be scored.
    fn scoring_pulse(&self) -> Pulse<'_> {
        Pulse { stop: Some(self.stop), samples: Some(&self.progress.scored) }
    }

    /// Who waits for work that is no part of the workload.
    fn other_pulse(&self) -> Pulse<'_> {
        Pulse { stop: Some(self.stop), samples: None }
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
    fn session_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn method_seconds(&self) -> f64 {
        self.before.method_seconds + self.started.elapsed().as_secs_f64()
    }

    fn run_seconds(&self) -> f64 {
        self.before.run_seconds + self.started.elapsed().as_secs_f64()
    }
}
