//! What a client computes: both phases of its round, for every driver of the protocol.

use crate::event::Phase;
use crate::guard::Blender;
use crate::{MethodPlan, PhasePlan, Privacy, RunPlan, RuntimeError};
use formant_methods::{Hints, Loan, Local, MethodError, Moment, Value};
use formant_numerics::{
    Detail, Engine, Meter, Model, Network, NumericsError, Patience, Pulse, Rng, Samples, Stream,
    Tally, Worker,
};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// One thread's memory.
pub struct Hand {
    /// For training and evaluation.
    pub worker: Box<dyn Worker>,
    /// A client's state as it was before the phase under way, to go back to.
    before: Vec<u8>,
    /// For models between two others.
    pub(crate) blender: Blender,
}

impl Hand {
    /// Memory for batches of up to so many samples.
    pub fn new(engine: &dyn Engine, batch: usize) -> Self {
        let (worker, before) = (engine.worker(batch), Vec::new());
        Self { worker, before, blender: Blender::default() }
    }

    /// How a model does on some samples; an error if it is stopped.
    pub fn score(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
        pulse: Pulse<'_>,
    ) -> Result<Tally, MethodError> {
        let tally = self.worker.score_watched(model, samples, indices, detail, pulse);
        if tally.samples < indices.len() { Err(MethodError::Stopped) } else { Ok(tally) }
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
    /// Samples, some of which are the client's.
    pub samples: &'a dyn Samples,
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
    /// What the client does to its uploads so that they reveal little of it, if anything.
    pub privacy: Option<Privacy>,
    /// Who it is in a simulation that is attacked, for an attacker.
    pub misled: Option<&'a RunPlan>,
    /// Who waits for its phases. One that is stopped is an error, [`MethodError::Stopped`], and leaves a
    /// state of which nothing may be used.
    pub pulse: Pulse<'a>,
}

/// Which round a phase belongs to, and how long it lasts.
#[derive(Debug, Clone, Copy)]
pub struct Lasting<'a> {
    /// Counted from 1.
    pub round: usize,
    /// How long.
    pub patience: Patience<'a>,
}

impl RunPlan {
    /// A client's place of work.
    pub fn desk<'a>(&'a self, method: &'a MethodPlan, client: usize) -> Desk<'a> {
        Desk {
            network: self.engine.network(),
            samples: &*self.federation.dataset.train,
            train: &self.federation.clients[client].train,
            seed: self.seed,
            rounds: self.rounds,
            client,
            plan: method,
            privacy: self.privacy.filter(Privacy::is_local),
            misled: self.attacks.has(client).then_some(self),
            pulse: Pulse::NONE,
        }
    }
}

impl Desk<'_> {
    /// The shared phase: gives the upload. If it diverges, or if its upload could not be aggregated,
    /// there is none, and the state is what it was before.
    pub fn shared(
        &self,
        round: usize,
        state: &mut Value,
        got: &Value,
        hand: &mut Hand,
    ) -> Result<(Option<Value>, PhaseRecord), RuntimeError> {
        let method = &*self.plan.method;
        hand.remember(state)?;
        let lasting = Lasting { round, patience: Patience::Epochs };
        let (upload, mut record) =
            self.phase(Phase::Shared, lasting, &mut *hand.worker, |local| {
                method.train_shared(state, got, local)
            })?;
        // What a server would refuse is a failure of this client, here as over the network.
        let mut upload = upload.filter(|upload| {
            let checked = method.check_upload(self.client, upload, got, self.network);
            record.error = checked.err().map(|fault| fault.to_string());
            record.error.is_none()
        });
        match (&mut upload, self.privacy) {
            (None, _) => *state = method.decode_client(&hand.before)?,
            // Nobody but this function has seen it yet.
            (Some(upload), Some(privacy)) => {
                privacy.hide(self.seed, round, self.client, method, upload, got)?;
            }
            (Some(_), None) => {}
        }
        Ok((upload, record))
    }

    /// The personal phase, beside what was received and sent. If it diverges, the state is what it was
    /// before.
    pub fn personal(
        &self,
        lasting: Lasting<'_>,
        state: &mut Value,
        got: &Value,
        sent: &Value,
        hand: &mut Hand,
    ) -> Result<PhaseRecord, RuntimeError> {
        let method = &*self.plan.method;
        hand.remember(state)?;
        let (done, record) = self.phase(Phase::Personal, lasting, &mut *hand.worker, |local| {
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
        phase: Phase,
        lasting: Lasting<'_>,
        worker: &mut dyn Worker,
        train: impl FnOnce(&mut Local<'_>) -> Result<T, MethodError>,
    ) -> Result<(Option<T>, PhaseRecord), RuntimeError> {
        let (stream, plan) = match phase {
            Phase::Shared => (Stream::SharedPhase, &self.plan.shared),
            Phase::Personal => (Stream::PersonalPhase, &self.plan.personal),
        };
        let loan = self.loan(stream, plan, lasting);
        let mut local = Local::new(self.network, worker, loan).watched(self.pulse);
        let started = Instant::now();
        let outcome = train(&mut local);
        let mut record = PhaseRecord {
            seconds: started.elapsed().as_secs_f64(),
            meter: local.meter(),
            error: None,
        };
        match outcome {
            Ok(value) => Ok((Some(value), record)),
            Err(error @ MethodError::Numerics(NumericsError::Engine(_))) => Err(error.into()),
            Err(error @ MethodError::Numerics(_)) => {
                record.error = Some(error.to_string());
                Ok((None, record))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the method may use to make the personal model for an evaluation after a round.
    pub fn evaluation<'w>(&'w self, round: usize, worker: &'w mut dyn Worker) -> Local<'w> {
        let lasting = Lasting { round, patience: Patience::Epochs };
        let loan = self.loan(Stream::Evaluation, &self.plan.personal, lasting);
        // Its steps are no samples that are scored.
        Local::new(self.network, worker, loan).watched(Pulse { samples: None, ..self.pulse })
    }

    fn loan<'w>(&'w self, stream: Stream, plan: &PhasePlan, lasting: Lasting<'w>) -> Loan<'w> {
        let Lasting { round, patience } = lasting;
        let at = Moment { round, rounds: self.rounds };
        let shared = stream == Stream::SharedPhase;
        let misled = self.misled.filter(|_| shared).and_then(|run| run.misled(self.client, round));
        Loan {
            samples: misled.unwrap_or(self.samples),
            train: self.train,
            rng: Rng::new(self.seed, stream, round as u64, self.client as u64),
            settings: plan.at(at),
            at,
            patience,
        }
    }

    /// What the method says of a round.
    pub fn hints(&self, round: usize) -> Hints {
        self.plan.method.hints(Moment { round, rounds: self.rounds })
    }

    /// Samples of a round's phase of fixed epochs.
    pub fn samples(&self, round: usize, phase: Phase) -> u64 {
        let hints = self.hints(round);
        let (passes, plan) = match phase {
            Phase::Shared => (hints.shared, &self.plan.shared),
            Phase::Personal if !hints.personal_phase => return 0,
            Phase::Personal => (hints.personal, &self.plan.personal),
        };
        passes.samples(self.train.len(), plan.base.epochs) as u64
    }

    /// Device time of a sample in a round's phase, in units of plain training.
    pub fn cost(&self, round: usize, phase: Phase) -> f64 {
        match phase {
            Phase::Shared if self.hints(round).is_plain => 1.0,
            Phase::Shared => self.plan.shared.cost,
            Phase::Personal => self.plan.personal.cost,
        }
    }

    /// Of a personal phase without an end: how many batches it takes to go on with so many samples
    /// and to finish the batch then under way, and how many samples these are.
    pub fn batches_within(&self, samples: f64) -> (u64, u64) {
        let (own, batch) = (self.train.len() as u64, self.plan.personal.base.batch as u64);
        if own == 0 {
            return (0, 0);
        }
        let (epochs, rest) = ((samples / own as f64) as u64, samples % own as f64);
        // A phase that is stopped at once makes one step.
        let partial = ((rest / batch as f64).ceil() as u64).max(u64::from(epochs == 0));
        (epochs * own.div_ceil(batch) + partial, epochs * own + (partial * batch).min(own))
    }
}
