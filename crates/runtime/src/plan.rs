//! A run, fully decided: what the simulator executes.

use crate::event::RunStarted;
use crate::{Keep, Profile};
use formant_data::{Federation, Split};
use formant_federation::{Personal, Protocol};
use formant_methods::{ErasedMethod, Moment, PhaseSettings};
use formant_model::Card;
use formant_numerics::{Engine, Sgd};
use std::sync::Arc;

/// Everything that a run needs; no key is looked up later.
pub struct RunPlan {
    /// The log's first line.
    pub header: RunStarted,
    /// Trains and scores models, and knows the network that they belong to.
    pub engine: Box<dyn Engine>,
    /// Data and clients.
    pub federation: Federation,
    /// The methods, run one after the other.
    pub methods: Vec<MethodPlan>,
    /// Keys all randomness.
    pub seed: u64,
    /// Rounds per method.
    pub rounds: usize,
    /// How a round proceeds, for a method with a personal phase; see [`RunPlan::rules`].
    pub protocol: Protocol,
    /// Devices and links of the virtual clock.
    pub profile: Profile,
    /// When and on what models are scored.
    pub evaluation: Evaluation,
    /// Rounds between checkpoints.
    pub checkpoint_every: usize,
    /// Worker threads.
    pub threads: usize,
    /// Bytes of client states and uploads that may stay in memory; the rest lives on disk.
    pub memory: u64,
    /// Which models are kept.
    pub keep: Keep,
    /// Bytes of models that may be kept.
    pub keep_limit: u64,
    /// What all models of the run have in common; see [`RunPlan::card_of`].
    pub card: Card,
}

impl RunPlan {
    /// How a round of a method proceeds.
    pub fn rules(&self, method: &MethodPlan) -> Protocol {
        let at = Moment { round: 1, rounds: self.rounds };
        let exists = method.method.hints(at).personal_phase;
        let personal = Personal { exists, ..self.protocol.personal };
        let (clients, rounds) = (self.federation.clients.len(), self.rounds as u64);
        Protocol { clients, rounds, personal, ..self.protocol.clone() }
    }

    /// Samples in the largest training step of a method: no more than the largest client holds.
    pub fn largest_batch(&self, method: &MethodPlan) -> usize {
        let asked = method.shared.first.batch.max(method.personal.first.batch);
        let held = self.federation.clients.iter().map(|data| data.train.len()).max();
        asked.min(held.unwrap_or(0)).max(1)
    }

    /// Size of the set on which the GM is scored.
    pub fn scored_globally(&self) -> usize {
        match self.evaluation.split {
            Split::Validation => {
                self.federation.clients.iter().map(|c| c.size(Split::Validation)).sum()
            }
            _ => self.federation.dataset.test.len(),
        }
    }

    /// Samples on which client `client`'s PM is scored.
    pub fn scored(&self, client: usize) -> &[u32] {
        let data = &self.federation.clients[client];
        match self.evaluation.split {
            Split::Validation => &data.validation,
            _ => &data.test,
        }
    }
}

/// When and on what models are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluation {
    /// Rounds between evaluations; the last round is always scored.
    pub every: usize,
    /// [`Split::Test`]: local test sets and the global one. [`Split::Validation`]: local validation
    /// sets, and their union for the GM, so that no test sample is ever seen while tuning.
    pub split: Split,
}

/// One method of a run.
pub struct MethodPlan {
    /// Unique in the run.
    pub label: String,
    /// The method.
    pub method: Arc<dyn ErasedMethod>,
    /// `E_G` and the shared phase's optimiser.
    pub shared: PhasePlan,
    /// `E_p` and the personal phase's optimiser.
    pub personal: PhasePlan,
}

/// The optimiser of one phase over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhasePlan {
    /// Settings of the first round.
    pub first: PhaseSettings,
    /// Factor on the learning rate from one round to the next.
    pub decay: f64,
    /// Device time of a sample on the virtual clock, as a multiple of plain training.
    pub cost: f64,
}

impl PhasePlan {
    /// Settings of a round, counted from 1.
    pub fn at(&self, round: usize) -> PhaseSettings {
        // In software, like all randomness: the same bits on every machine.
        let factor = libm::pow(self.decay, round as f64 - 1.0);
        let rate = (f64::from(self.first.sgd.learning_rate) * factor) as f32;
        PhaseSettings { sgd: Sgd { learning_rate: rate, ..self.first.sgd }, ..self.first }
    }
}
