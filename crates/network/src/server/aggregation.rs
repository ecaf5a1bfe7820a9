//! One aggregation: uploads are read from disk one at a time, in client order, and what comes out is
//! synced before anybody hears of it.
//!
//! With differential privacy at the server an aggregation draws noise that nobody can draw again. One that a
//! crash interrupts is made anew with other noise, so nothing of it may have been seen: two noisy models
//! of one round would reveal more than one does, and no ledger counts them. Broadcasts, scores and the log's
//! lines leave with the commit that names the state they are of; the file of the generic model waits for it
//! too. What an interrupted aggregation leaves in `states/` is named by no manifest, and swept at the start.

use super::actor::Message;
use super::collapse;
use super::core::Core;
use super::upload::read_kept;
use super::vault::{self, Kept};
use crate::codec::expand;
use crate::error::NetworkError;
use formant_methods::{Judgement, MethodError, Value};
use formant_numerics::{Detail, EVALUATION_BATCH};
use formant_runtime::Arrival;
use formant_runtime::event::Score;
use formant_runtime::files::Named;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

/// What is to be aggregated.
pub(crate) struct Job {
    pub(crate) core: Arc<Core>,
    /// The folders of states and of uploads. The lock stays with the actor: what is scored after the
    /// aggregation does not keep the run.
    pub(crate) states: PathBuf,
    pub(crate) received: PathBuf,
    pub(crate) broadcasts: BTreeMap<u64, Named>,
    pub(crate) round: u64,
    /// Clients with the rounds that their uploads answer, ascending.
    pub(crate) uploads: Vec<(usize, u64)>,
}

/// What came of it.
pub(crate) struct Aggregation {
    pub(crate) round: u64,
    pub(crate) server: Value,
    pub(crate) uploads: Vec<(usize, u64)>,
    /// Who is told that it is durable and counts.
    pub(crate) committed: Sender<Committed>,
    /// The synced files, or why the method cannot go on.
    pub(crate) outcome: Result<Done, String>,
}

/// An aggregation is durable: whatever happens, it is not made again.
pub(crate) struct Committed;

/// An aggregation that succeeded.
pub(crate) struct Done {
    pub(crate) kept: Kept,
    pub(crate) seconds: f64,
    /// Which uploads did not count as they were sent.
    pub(crate) judgements: Vec<Judgement>,
    /// Of the last round's generic model, which is scored before anybody hears that it was the last.
    pub(crate) score: Option<(Score, f64)>,
}

impl Job {
    /// Aggregates and reports to the actor; scores the generic model while clients train on.
    pub(crate) fn run(self, server: Value) {
        let task = &self.core.wiring.task;
        let round = self.round;
        let is_last = round as usize == task.rounds;
        let is_scored = is_last || (round as usize).is_multiple_of(task.evaluation.every);
        let (committed, commit) = mpsc::channel();
        let result = self.aggregate(server, is_last, committed);
        let later = match &result {
            Ok(Aggregation { server, outcome: Ok(_), .. }) if !is_last => {
                let model = task.method.method.global_model(server);
                model.ok().flatten().map(std::borrow::Cow::into_owned)
            }
            _ => None,
        };
        let _ = self.core.actor.send(Message::Aggregated(Box::new(result)));
        if later.is_none() || commit.recv().is_err() {
            return;
        }
        if let Some(model) = &later
            && let Err(error) = self.core.keep_generic(round, model)
        {
            // The run does not depend on it, and the last one is written by the run itself.
            tracing::warn!(round, %error, "the file of the generic model is not renewed");
        }
        if let Some(model) = later
            && is_scored
            && let Ok(_one_at_a_time) = self.core.scoring.try_lock()
            && let Some((score, seconds)) = self.score(&model)
        {
            let _ = self.core.actor.send(Message::Scored { round, score, seconds });
        }
    }

    fn aggregate(
        &self,
        mut server: Value,
        is_last: bool,
        committed: Sender<Committed>,
    ) -> Result<Aggregation, NetworkError> {
        let started = Instant::now();
        let (round, uploads) = (self.round, self.uploads.clone());
        let judgements = match self.sum(&mut server) {
            Ok(judgements) => judgements,
            // What a server trains can diverge as well.
            Err(MethodError::Numerics(error)) => {
                let outcome = Err(error.to_string());
                return Ok(Aggregation { round, server, uploads, committed, outcome });
            }
            Err(error) => return Err(error.into()),
        };
        let wiring = &self.core.wiring;
        if !collapse::is_finite(&*wiring.method().method, &server)? {
            let outcome = Err("the GM has values that are not finite".to_owned());
            return Ok(Aggregation { round, server, uploads, committed, outcome });
        }
        let kept = vault::keep(&self.states, wiring, &server, round)?;
        let seconds = started.elapsed().as_secs_f64();
        let model = if is_last { wiring.method().method.global_model(&server)? } else { None };
        let score = model.and_then(|model| self.score(&model));
        let outcome = Ok(Done { kept, seconds, judgements, score });
        Ok(Aggregation { round, server, uploads, committed, outcome })
    }

    fn sum(&self, server: &mut Value) -> Result<Vec<Judgement>, MethodError> {
        let storage = |error: NetworkError| MethodError::Storage(error.to_string());
        let mut arrivals = self.uploads.iter().map(|&(client, answered)| {
            let kept = read_kept(&self.core, &self.received, client, answered);
            let (header, message) = kept.map_err(storage)?;
            let known = self.core.wiring.settings.samples[client];
            // Where the operator knows it, nobody's word is taken.
            let samples = known.unwrap_or(header.samples) as f64;
            Ok(Arrival { client, answered, samples, message })
        });
        let older = |round| self.broadcast(round).map(Arc::new).map_err(storage);
        let aggregator = self.core.wiring.task.aggregator();
        aggregator.aggregate_judged(self.round, server, &mut arrivals, &older)
    }

    fn broadcast(&self, round: u64) -> Result<Value, NetworkError> {
        let named = self.broadcasts.get(&round).ok_or_else(|| {
            NetworkError::setting(
                format!("the broadcast of round {round} is gone, and an upload answers it"),
                "restore the whole state folder from a copy",
            )
        })?;
        decode_broadcast(&self.core, named, &self.states)
    }

    /// Scores a model on the dataset's own test images, if they are here.
    fn score(&self, model: &formant_numerics::Model) -> Option<(Score, f64)> {
        let wiring = &self.core.wiring;
        let started = Instant::now();
        let samples = &*wiring.test;
        let indices: Vec<u32> = (0..samples.len() as u32).collect();
        let measures = &wiring.task.evaluation.metrics;
        let mut worker = wiring.task.engine.worker(EVALUATION_BATCH);
        let tally = worker.score(model, samples, &indices, Detail::of(measures));
        let score = Score::of(&tally, measures)?;
        Some((score, started.elapsed().as_secs_f64()))
    }
}

/// Reads a broadcast back.
pub(crate) fn decode_broadcast(
    core: &Core,
    named: &Named,
    states: &std::path::Path,
) -> Result<Value, NetworkError> {
    let bytes = named.read(states)?;
    let encoding = core.wiring.settings.packing.encoding;
    let bytes = expand(bytes, encoding, u64::MAX - 1)
        .map_err(|error| crate::wire::confused(format!("{}: {error}", named.file)))?;
    Ok(core.wiring.method().method.decode_broadcast(&bytes)?)
}
