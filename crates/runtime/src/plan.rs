//! A run, fully decided: what the simulator executes.

use crate::event::RunStarted;
use crate::{Aggregator, Attacks, Desk, Guard, Keep, Privacy, Profile, RateSchedule};
use formant_data::{ClientData, Federation};
use formant_federation::{Personal, Protocol};
use formant_methods::{Combine, ErasedMethod, Moment, PhaseSettings};
use formant_model::Card;
use formant_numerics::{Engine, Measures, Model, Pulse, Rng, Samples, Stream};
use std::borrow::Cow;
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
    /// How the server combines uploads.
    pub combine: Arc<dyn Combine>,
    /// What uploads may reveal of their clients; without it, as much as they do.
    pub privacy: Option<Privacy>,
    /// Who attacks, and how.
    pub attacks: Attacks,
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
        let (clients, rounds) = (self.federation.clients.len(), self.rounds as u64);
        method.rules(&Protocol { clients, rounds, ..self.protocol.clone() })
    }

    /// Samples in the largest training step of a method: no more than the largest client holds.
    pub fn largest_batch(&self, method: &MethodPlan) -> usize {
        method.largest_batch(self.largest_holding())
    }

    /// Training samples of whoever has most, newcomers included.
    pub(crate) fn largest_holding(&self) -> usize {
        let Federation { clients, newcomers, .. } = &self.federation;
        let held = clients.iter().chain(&newcomers.clients).map(|data| data.train.len());
        held.max().unwrap_or(0)
    }

    /// Size of the set on which the GM is scored.
    pub fn scored_globally(&self) -> usize {
        self.evaluation.split.size(&self.federation)
    }

    /// Samples on which client `client`'s PM is scored.
    pub fn scored(&self, client: usize) -> Cow<'_, [u32]> {
        let federation = &self.federation;
        self.evaluation.scored(&federation.clients[client], &*federation.dataset.train)
    }
}

/// One method with all that a server and its clients agree on: what they hold in common, and nobody's
/// data. Each of them computes its own part of it.
pub struct Task {
    /// Trains and scores models, and knows the network that they belong to.
    pub engine: Box<dyn Engine>,
    /// The method.
    pub method: MethodPlan,
    /// How a round of it proceeds.
    pub rules: Protocol,
    /// How the server combines uploads.
    pub combine: Arc<dyn Combine>,
    /// What uploads may reveal of their clients; without it, as much as they do.
    pub privacy: Option<Privacy>,
    /// Keys all randomness.
    pub seed: u64,
    /// Rounds until the end.
    pub rounds: usize,
    /// When and on what models are scored.
    pub evaluation: Evaluation,
    /// What all models have in common; see [`Task::card_of`].
    pub card: Card,
}

impl Task {
    /// A client's place of work: all samples that it has, and which of them it trains on.
    pub fn desk<'a>(
        &'a self,
        client: usize,
        samples: &'a dyn Samples,
        train: &'a [u32],
    ) -> Desk<'a> {
        Desk {
            network: self.engine.network(),
            samples,
            train,
            seed: self.seed,
            rounds: self.rounds,
            client,
            plan: &self.method,
            privacy: self.privacy.filter(Privacy::is_local),
            misled: None,
            pulse: Pulse::NONE,
        }
    }

    /// The server's half of a round.
    pub fn aggregator(&self) -> Aggregator<'_> {
        Aggregator {
            network: self.engine.network(),
            method: &self.method,
            rules: &self.rules,
            seed: self.seed,
            combine: &*self.combine,
        }
    }

    /// The model that everybody starts from.
    pub fn init(&self) -> Model {
        self.engine.network().init(&mut Rng::new(self.seed, Stream::Init, 0, 0))
    }
}

/// When and on what models are scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Rounds between evaluations; the last round is always scored.
    pub every: usize,
    /// On which samples.
    pub split: Scored,
    /// By what; the first is the figure that decides.
    pub metrics: Measures,
    /// Between which models clients choose the one that they serve.
    pub guard: Guard,
    /// After how many evaluations in a row without improvement a method ends, if it does.
    pub patience: Option<usize>,
    /// Of how many clients, the first by id, the log shows the spectra of personal models.
    pub spectra: usize,
    /// Epochs that newcomers train for.
    pub adapt_epochs: usize,
    /// At which learning rate they fine-tune; without it, at that of the method's personal phase.
    pub adapt_learning_rate: Option<f32>,
}

formant_methods::choice! {
    /// The samples that models are scored on.
    pub enum Scored {
        /// Local test sets, and the global one for the GM.
        Test = "test",
        /// Local validation sets, and their union for the GM, so that no test sample is ever seen
        /// while tuning.
        Validation = "validation",
    }
}

impl Scored {
    /// The samples of a client on which its PM is scored.
    pub fn of(self, data: &ClientData) -> &[u32] {
        match self {
            Self::Test => &data.test,
            Self::Validation => &data.validation,
        }
    }

    /// Size of the set on which the GM is scored.
    pub fn size(self, federation: &Federation) -> usize {
        match self {
            Self::Test => federation.dataset.test.len(),
            Self::Validation => federation.clients.iter().map(|c| c.validation.len()).sum(),
        }
    }
}

/// One method of a run.
#[derive(Clone)]
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

impl MethodPlan {
    /// How its rounds proceed under rules for methods with a personal phase.
    pub fn rules(&self, rules: &Protocol) -> Protocol {
        let at = Moment { round: 1, rounds: rules.rounds as usize };
        let exists = self.method.hints(at).personal_phase;
        let personal = Personal { exists, ..rules.personal };
        Protocol { personal, ..rules.clone() }
    }

    /// Samples in its largest training step, if no client holds more than so many.
    pub fn largest_batch(&self, held: usize) -> usize {
        self.shared.base.batch.max(self.personal.base.batch).min(held).max(1)
    }
}

/// The optimiser of one phase over all rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// Settings, with the learning rate that the schedule is a share of.
    pub base: PhaseSettings,
    /// How the learning rate goes over the rounds.
    pub schedule: RateSchedule,
    /// Device time of a sample on the virtual clock, as a multiple of plain training.
    pub cost: f64,
}

impl PhasePlan {
    /// Settings of a round.
    pub fn at(&self, at: Moment) -> PhaseSettings {
        let mut settings = self.base.clone();
        let rate = &mut settings.optimiser.learning_rate;
        *rate = (f64::from(*rate) * self.schedule.share(at)) as f32;
        settings
    }
}
