//! What a client computes: both phases of its round, for every driver of the protocol.

use crate::event::Phase;
use crate::{MethodPlan, PhasePlan, RunPlan, RuntimeError};
use formant_data::Images;
use formant_methods::{Local, Meter, MethodError, Patience, Value};
use formant_numerics::{Batch, Model, Network, Pass, Rng, Stream, Worker, accuracy_and_loss};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Samples in one batch of an evaluation.
pub const EVALUATION_BATCH: usize = 64;

/// One thread's memory.
pub struct Hand {
    /// For training and evaluation.
    pub worker: Worker,
    /// A client's state as it was before the phase under way, to go back to.
    before: Vec<u8>,
}

impl Hand {
    /// Memory for batches of up to so many samples.
    pub fn new(network: &dyn Network, batch: usize) -> Self {
        Self { worker: Worker::new(network, batch), before: Vec::new() }
    }

    /// Copies a state into memory that is there already.
    fn remember(&mut self, state: &Value) -> Result<(), MethodError> {
        self.before.clear();
        state.encode_to(&mut self.before)
    }
}

/// What one phase did: its work, or why it failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Wall time.
    pub seconds: f64,
    /// Samples, steps and objective.
    pub meter: Meter,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A client's place of work: its data and what the experiment has decided. Everything that is drawn
/// here is keyed by `(seed, phase, round, client)`, so it does not matter where and when a phase runs.
pub struct Desk<'a> {
    /// The network that all models belong to.
    pub network: &'a dyn Network,
    /// Images, some of which are the client's.
    pub images: &'a Images,
    /// Which of them it trains on.
    pub train: &'a [u32],
    /// Keys all randomness.
    pub seed: u64,
    /// Rounds of the run.
    pub rounds: usize,
    /// Who it is.
    pub client: usize,
    /// The method and its settings.
    pub plan: &'a MethodPlan,
}

impl RunPlan {
    /// A client's place of work.
    pub fn desk<'a>(&'a self, method: &'a MethodPlan, client: usize) -> Desk<'a> {
        Desk {
            network: &*self.network,
            images: &self.federation.dataset.train,
            train: &self.federation.clients[client].train,
            seed: self.seed,
            rounds: self.rounds,
            client,
            plan: method,
        }
    }
}

impl Desk<'_> {
    /// The shared phase: gives the upload. If it diverges there is none, and the state is what it
    /// was before.
    pub fn shared(
        &self,
        round: usize,
        state: &mut Value,
        got: &Value,
        hand: &mut Hand,
    ) -> Result<(Option<Value>, PhaseRecord), RuntimeError> {
        let method = &*self.plan.method;
        hand.remember(state)?;
        let (upload, record) =
            self.phase(round, (Phase::Shared, Patience::Epochs), &mut hand.worker, |local| {
                method.train_shared(state, got, local)
            })?;
        if upload.is_none() {
            *state = method.decode_client(&hand.before)?;
        }
        Ok((upload, record))
    }

    /// The personal phase, beside what was sent. If it diverges, the state is what it was before.
    pub fn personal(
        &self,
        (round, patience): (usize, Patience<'_>),
        state: &mut Value,
        (got, sent): (&Value, &Value),
        hand: &mut Hand,
    ) -> Result<PhaseRecord, RuntimeError> {
        let method = &*self.plan.method;
        hand.remember(state)?;
        let (done, record) =
            self.phase(round, (Phase::Personal, patience), &mut hand.worker, |local| {
                method.train_personal(state, got, sent, local)
            })?;
        if done.is_none() {
            *state = method.decode_client(&hand.before)?;
        }
        Ok(record)
    }

    /// Lends the client's data to one phase. A divergence is an outcome, any other failure an error.
    fn phase<T>(
        &self,
        round: usize,
        (phase, patience): (Phase, Patience<'_>),
        worker: &mut Worker,
        train: impl FnOnce(&mut Local<'_>) -> Result<T, MethodError>,
    ) -> Result<(Option<T>, PhaseRecord), RuntimeError> {
        let (stream, plan): (_, &PhasePlan) = match phase {
            Phase::Shared => (Stream::SharedPhase, &self.plan.shared),
            Phase::Personal => (Stream::PersonalPhase, &self.plan.personal),
        };
        let mut local = self.local(stream, round, plan, worker).lasting(patience);
        let started = Instant::now();
        let outcome = train(&mut local);
        let mut record = PhaseRecord {
            seconds: started.elapsed().as_secs_f64(),
            meter: local.meter(),
            error: None,
        };
        match outcome {
            Ok(value) => Ok((Some(value), record)),
            Err(error @ MethodError::Numerics(_)) => {
                record.error = Some(error.to_string());
                Ok((None, record))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the method may use to make the personal model for an evaluation after a round.
    pub fn evaluation<'w>(&'w self, round: usize, worker: &'w mut Worker) -> Local<'w> {
        self.local(Stream::Evaluation, round, &self.plan.personal, worker)
    }

    fn local<'w>(
        &'w self,
        stream: Stream,
        round: usize,
        plan: &PhasePlan,
        worker: &'w mut Worker,
    ) -> Local<'w> {
        let rng = Rng::new(self.seed, stream, round as u64, self.client as u64);
        Local::new(
            self.network,
            (self.images, self.train),
            worker,
            (rng, plan.at(round.max(1))),
            (round, self.rounds),
        )
    }

    /// Samples of a round's phase of fixed epochs.
    pub fn samples(&self, round: usize, phase: Phase) -> u64 {
        let method = &*self.plan.method;
        let samples = match phase {
            Phase::Shared => method.shared_work(self.train.len(), self.plan.shared.first.epochs),
            Phase::Personal => {
                let epochs = self.plan.personal.first.epochs;
                method.personal_work(self.train.len(), epochs, (round, self.rounds))
            }
        };
        samples as u64
    }

    /// Device time of a sample in a round's phase, in units of plain training.
    pub fn cost(&self, round: usize, phase: Phase) -> f64 {
        match phase {
            Phase::Shared if self.plan.method.trains_plainly((round, self.rounds)) => 1.0,
            Phase::Shared => self.plan.shared.cost,
            Phase::Personal => self.plan.personal.cost,
        }
    }

    /// Of a personal phase without an end: how many batches it takes to go on with so many samples
    /// and to finish the batch then under way, and how many samples these are.
    pub fn batches_within(&self, samples: f64) -> (u64, u64) {
        let (own, batch) = (self.train.len() as u64, self.plan.personal.first.batch as u64);
        if own == 0 {
            return (0, 0);
        }
        let (epochs, rest) = ((samples / own as f64) as u64, samples % own as f64);
        // A phase that is stopped at once makes one step.
        let partial = ((rest / batch as f64).ceil() as u64).max(u64::from(epochs == 0));
        (epochs * own.div_ceil(batch) + partial, epochs * own + (partial * batch).min(own))
    }
}

/// How many samples a model gets right, and the sum of its cross-entropies.
pub fn score(
    network: &dyn Network,
    model: &Model,
    images: &Images,
    indices: &[u32],
    worker: &mut Worker,
) -> (usize, f64) {
    let (mut right, mut loss) = (0, 0.0);
    for chunk in indices.chunks(EVALUATION_BATCH) {
        worker.inputs.resize(chunk.len() * network.input().len(), 0.0);
        images.gather(chunk, &mut worker.inputs);
        images.gather_labels(chunk, &mut worker.labels);
        let batch = Batch { inputs: &worker.inputs, labels: &worker.labels };
        let output = network.forward(Pass::Eval(model), &batch, &mut worker.workspace);
        let (r, l) = accuracy_and_loss(output.logits, &worker.labels);
        right += r;
        loss += l;
    }
    (right, loss)
}
