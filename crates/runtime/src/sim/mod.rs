//! The simulator: all clients on one machine, one worker per core, parallel over clients.
//!
//! The thread count decides only who computes what first. Every client's randomness is keyed by
//! `(seed, phase, round, client)`, uploads are summed in client order, and the log is written in
//! client order: one, two or eight threads give the same bits.

mod aggregation;
mod crew;
mod evaluate;
mod order;
mod round;
mod turns;

use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::files::{create_folder, lock};
use crate::recorder::{Observer, Recorder};
use crate::store::Store;
use crate::{MethodPlan, RunPlan, RuntimeError, resumption};
use crew::Crew;
use formant_methods::Value;
use formant_numerics::{Model, Rng, Stream};
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
    let mut recorder =
        Recorder::open(run_dir, checkpoint.as_ref().map_or(0, |c| c.log_bytes), observer)?;
    let mut checkpoint = if let Some(checkpoint) = checkpoint {
        checkpoint
    } else {
        recorder.record(&Event::RunStarted(plan.header.clone()))?;
        let start = Checkpoint::at_method(0, recorder.sync()?, 0.0);
        start.write(run_dir)?;
        start
    };
    let mut crew = Crew::new(plan);
    let init = plan.network.init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
    while checkpoint.method < plan.methods.len() {
        let session =
            Session { plan, run_dir, init: &init, stop, method: &plan.methods[checkpoint.method] };
        match session.run_method(&checkpoint, &mut crew, &mut recorder)? {
            Some(next) => checkpoint = next,
            None => return Ok(Outcome::Interrupted),
        }
    }
    Ok(Outcome::Complete)
}

/// One method of a run under way.
struct Session<'a> {
    plan: &'a RunPlan,
    run_dir: &'a Path,
    init: &'a Model,
    stop: &'a AtomicBool,
    method: &'a MethodPlan,
}

impl Session<'_> {
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
            self.run_rounds(from, &store, crew, recorder)
        })
    }

    fn run_rounds(
        &self,
        from: &Checkpoint,
        store: &Store<'_>,
        crew: &mut Crew,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Checkpoint>, RuntimeError> {
        let method = &*self.method.method;
        let mut server = match &from.server {
            Some(stored) => method.decode_server(&store.load(stored)?)?,
            None => method.start_server(self.init),
        };
        for (client, stored) in from.clients.iter().enumerate() {
            if let Some(stored) = stored {
                store.adopt(client, stored.clone());
            }
        }
        let clock = Clock { started: Instant::now(), before: from };
        let label = self.method.label.clone();
        if from.round == 0 {
            recorder.record(&Event::MethodStarted { method: label.clone() })?;
        }
        let mut round = from.round;
        let mut stopped = None;
        while round < self.plan.rounds && stopped.is_none() {
            round += 1;
            stopped = self.run_round(round, &mut server, store, crew, recorder)?;
            if stopped.is_none()
                && (round.is_multiple_of(self.plan.evaluation.every) || round == self.plan.rounds)
            {
                let evaluated = self.evaluate(round, &server, store, crew)?;
                recorder.record(&Event::Evaluated(evaluated))?;
            }
            recorder.flush()?;
            let interrupted = self.stop.load(Ordering::Relaxed);
            let last = round == self.plan.rounds || stopped.is_some();
            if !last && (interrupted || round.is_multiple_of(self.plan.checkpoint_every)) {
                self.save(from, (round, &server), store, recorder, &clock)?;
                if interrupted {
                    return Ok(None);
                }
            }
        }
        recorder.record(&Event::MethodFinished {
            method: label,
            rounds: if stopped.is_some() { round - 1 } else { round },
            seconds: clock.method_seconds(),
            fingerprint: self.fingerprint(&server, store)?,
            stopped,
        })?;
        let index = from.method + 1;
        if index == self.plan.methods.len() {
            recorder.record(&Event::RunFinished { seconds: clock.run_seconds() })?;
        }
        let next = Checkpoint::at_method(index, recorder.sync()?, clock.run_seconds());
        next.write(self.run_dir)?;
        store.sweep(next.stored());
        let finished = index == self.plan.methods.len();
        if self.stop.load(Ordering::Relaxed) && !finished {
            return Ok(None);
        }
        Ok(Some(next))
    }

    fn save(
        &self,
        from: &Checkpoint,
        (round, server): (usize, &Value),
        store: &Store<'_>,
        recorder: &mut Recorder<'_>,
        clock: &Clock<'_>,
    ) -> Result<(), RuntimeError> {
        let server = Some(store.write_value("server", server)?);
        let clients = store.persist(self.plan.federation.clients.len())?;
        let checkpoint = Checkpoint {
            round,
            log_bytes: recorder.sync()?,
            method_seconds: clock.method_seconds(),
            run_seconds: clock.run_seconds(),
            version: store.version(),
            server,
            clients,
            ..from.clone()
        };
        checkpoint.write(self.run_dir)?;
        store.sweep(checkpoint.stored());
        Ok(())
    }

    /// A client's state, made the first time it is asked for.
    fn take_state(&self, store: &Store<'_>, client: usize) -> Result<Value, RuntimeError> {
        let method = &*self.method.method;
        store.take(client, || method.start_client(self.init))
    }

    /// A hash of the final states of server and clients, in client order.
    fn fingerprint(&self, server: &Value, store: &Store<'_>) -> Result<String, RuntimeError> {
        let mut hash = Xxh3::new();
        hash.update(&server.encode()?);
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
        Ok(format!("{:032x}", hash.digest128()))
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
