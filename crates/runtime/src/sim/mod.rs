//! The simulator: all clients on one machine, one worker per core, parallel over clients.
//!
//! The thread count decides only who computes what first. Every client's randomness is keyed by
//! `(seed, phase, round, client)`, uploads are summed in client order, and the log is written in
//! client order: one, two or eight threads give the same bits.

mod agenda;
mod aggregation;
mod broadcasts;
mod clients;
mod crew;
mod drive;
mod evaluate;
mod jobs;
mod order;
mod shelf;
mod situation;
mod turns;

pub(crate) use shelf::StoredBest;
pub(crate) use situation::Situation;

use crate::checkpoint::Checkpoint;
use crate::event::{Event, Ready, Runtime};
use crate::event_log::LogMark;
use crate::files::{create_folder, lock};
use crate::recorder::{Observer, Recorder};
use crate::store::Store;
use crate::{MethodPlan, RunPlan, RuntimeError, resumption};
use broadcasts::Broadcasts;
use crew::Crew;
use drive::{Drive, Milestone};
use formant_federation::Protocol;
use formant_methods::Value;
use formant_numerics::{Model, Rng, Stream};
use shelf::{Best, Shelf};
use std::borrow::Cow;
use std::path::Path;
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

/// Runs a plan in a folder, or goes on where its checkpoint stands.
///
/// `stop` may be set from anywhere (Ctrl-C): the current round is finished, a checkpoint written.
pub fn run(
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
    let mut crew = Crew::new(plan);
    let init = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
    while checkpoint.method < plan.methods.len() {
        let method = &plan.methods[checkpoint.method];
        let (index, rules) = (checkpoint.method, plan.rules(method));
        let course = Course { plan, run_dir, init: &init, stop, method, index, rules };
        match course.run_method(&checkpoint, &mut crew, &mut recorder)? {
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
    init: &'a Model,
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
        crew: &mut Crew,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let folder = self.run_dir.join("states");
        create_folder(&folder)?;
        let method = &*self.method.method;
        let store = Store::new(&folder, self.plan.memory, from.version, method);
        store.sweep(from.stored());
        std::thread::scope(|scope| {
            let _background = store.in_background(scope);
            self.run_to_the_end(from, &store, crew, recorder)
        })
    }

    fn run_to_the_end(
        &self,
        from: &Checkpoint,
        store: &Store<'_>,
        crew: &mut Crew,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let method = &*self.method.method;
        let server = match &from.server {
            Some(stored) => method.decode_server(&store.load(stored)?)?,
            None => method.start_server(self.init),
        };
        for (client, stored) in from.clients.iter().enumerate() {
            if let Some(stored) = stored {
                store.adopt(client, stored.clone());
            }
        }
        store.adopt_uploads(&from.kept);
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
            crew,
            prepared: None,
            best,
        };
        if from.round == 0 {
            drive.begin(recorder)?;
        }
        let Some(end) = self.run_rounds(from, &mut drive, recorder, &clock)? else {
            return Ok(None);
        };
        self.keep_models(&end, &mut drive, recorder)?;
        self.finish((from, &clock), &drive, end, recorder)
    }

    /// Runs rounds to the end; `None` if it was asked to stop.
    fn run_rounds(
        &self,
        from: &Checkpoint,
        drive: &mut Drive<'_, '_>,
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
                    return Ok(Some(End { round, stopped, is_scored: true }));
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
                self.evaluate_after(round, drive, None, recorder)?;
            }
            started = Instant::now();
            milestone = drive.open_next(round as u64, recorder)?;
            recorder.flush()?;
            let interrupted = self.stop.load(Ordering::Relaxed);
            if !last && (interrupted || round.is_multiple_of(self.plan.checkpoint_every)) {
                self.save(from, (round, drive), recorder, clock)?;
                if interrupted {
                    return Ok(None);
                }
            }
        }
    }

    /// Scores both models and records it; gives the generic one.
    fn evaluate_after<'d>(
        &self,
        round: usize,
        drive: &'d mut Drive<'_, '_>,
        shelf: Option<&Shelf<'_>>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Cow<'d, Model>, RuntimeError> {
        let (mut evaluated, generic) =
            self.evaluate(round, &drive.server, (drive.store, shelf), drive.crew)?;
        let (gm, pm) = drive.situation.ready();
        evaluated.clock = self.is_timed().then_some(Ready { gm, pm });
        if let Some(gm) = evaluated.gm {
            self.remember(&mut drive.best, (round, gm.accuracy), &generic)?;
        }
        recorder.record(&Event::Evaluated(evaluated))?;
        Ok(generic)
    }

    /// The last evaluation, in which the models are written that it scores. Those of a method that was
    /// stopped are kept, though nothing is recorded of their scores.
    fn keep_models(
        &self,
        end: &End,
        drive: &mut Drive<'_, '_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), RuntimeError> {
        let shelf = self.shelf(end.round)?;
        let generic = if end.is_scored {
            self.evaluate_after(end.round, drive, shelf.as_ref(), recorder)?.into_owned()
        } else if shelf.is_some() {
            let places = (drive.store, shelf.as_ref());
            self.evaluate(end.round, &drive.server, places, drive.crew)?.1.into_owned()
        } else {
            return Ok(());
        };
        match shelf {
            Some(shelf) => shelf.close(&generic, drive.best.as_ref(), recorder),
            None => Ok(()),
        }
    }

    /// Closes the method's part of the log; gives the checkpoint at the start of the next one.
    fn finish(
        &self,
        (from, clock): (&Checkpoint, &Clock<'_>),
        drive: &Drive<'_, '_>,
        end: End,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let (fingerprint, server_fingerprint) = self.fingerprint(&drive.server, drive.store)?;
        let (closed, seconds) = drive.situation.ready();
        let idle = drive.situation.idle();
        recorder.record(&Event::MethodFinished {
            method: self.method.label.clone(),
            rounds: end.round,
            seconds: clock.method_seconds(),
            fingerprint: Some(fingerprint),
            server_fingerprint: Some(server_fingerprint),
            clock: self.is_timed().then_some(Runtime { closed, seconds, idle }),
            stopped: end.stopped,
        })?;
        let index = from.method + 1;
        let finished = index == self.plan.methods.len();
        if finished {
            recorder.record(&Event::RunFinished { seconds: clock.run_seconds() })?;
        }
        let next = Checkpoint::at_method(index, recorder.sync()?, clock.run_seconds());
        next.write(self.run_dir)?;
        drive.store.sweep(next.stored());
        if self.stop.load(Ordering::Relaxed) && !finished {
            return Ok(None);
        }
        Ok(Some(next))
    }

    fn save(
        &self,
        from: &Checkpoint,
        (round, drive): (usize, &mut Drive<'_, '_>),
        recorder: &mut Recorder<'_>,
        clock: &Clock<'_>,
    ) -> Result<(), RuntimeError> {
        let store = drive.store;
        let checkpoint = Checkpoint {
            round,
            server: Some(store.write_value("server", &drive.server)?),
            clients: store.persist(self.plan.federation.clients.len())?,
            kept: store.persist_uploads()?,
            broadcasts: drive.broadcasts.older().clone(),
            best: drive.best.as_mut().map(|best| best.persist(store)).transpose()?,
            situation: Some(drive.situation.clone()),
            log: recorder.sync()?,
            method_seconds: clock.method_seconds(),
            run_seconds: clock.run_seconds(),
            version: store.version(),
            ..from.clone()
        };
        checkpoint.write(self.run_dir)?;
        store.sweep(checkpoint.stored());
        Ok(())
    }

    /// Whether the virtual clock has anything to say.
    fn is_timed(&self) -> bool {
        !self.plan.profile.is_instant()
    }

    /// A client's state, made the first time it is asked for.
    fn take_state(&self, store: &Store<'_>, client: usize) -> Result<Value, RuntimeError> {
        let method = &*self.method.method;
        store.take(client, || method.start_client(self.init))
    }

    /// A hash of the final states of server and clients, in client order, and one of the server's.
    fn fingerprint(
        &self,
        server: &Value,
        store: &Store<'_>,
    ) -> Result<(String, String), RuntimeError> {
        let mut hash = Xxh3::new();
        hash.update(&server.encode()?);
        let alone = format!("{:032x}", hash.digest128());
        let clients: Vec<usize> = (0..self.plan.federation.clients.len()).collect();
        let _ahead = store.read_ahead(&clients);
        let mut bytes = Vec::new();
        for client in clients {
            let state = self.take_state(store, client)?;
            bytes.clear();
            state.encode_to(&mut bytes)?;
            hash.update(&bytes);
            store.give_back(client, state, false)?;
        }
        Ok((format!("{:032x}", hash.digest128()), alone))
    }
}

/// How a method ended.
struct End {
    /// Rounds that were done.
    round: usize,
    /// Why no more, if there should have been.
    stopped: Option<String>,
    /// Whether its models go into the table.
    is_scored: bool,
}

impl End {
    fn early(round: usize, why: String) -> Self {
        Self { round, stopped: Some(why), is_scored: false }
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
