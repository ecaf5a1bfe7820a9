//! One client's memory, ready to step, and the options that every measurement of steps takes.

use anyhow::Context as _;
use formant_numerics::{
    CpuWorker, Descent, LayerTime, Model, Moments, NetworkSpec, Objective, Optimiser, Part, Rng,
    Rule, Shape, SpectralTerm, Stream, Tape,
};
use std::sync::Arc;

/// CIFAR's.
pub(crate) const SHAPE: Shape = Shape::new(3, 32, 32);
pub(crate) const CLASSES: usize = 10;
/// So small that a model which sees one batch thousands of times does not end up with a loss of
/// zero, whose gradients are denormal numbers and slow.
pub(crate) const LEARNING_RATE: f32 = 1e-4;

/// What is trained, by how many, for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Work {
    /// A network of the catalogue
    #[arg(long, default_value = "cnn")]
    pub(crate) network: String,
    /// Images in a step
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) batch: u32,
    /// What becomes of a gradient
    #[arg(long, value_enum, default_value_t = Descends::Sgd)]
    pub(crate) optimiser: Descends,
    /// Workers at once, each with a model of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) workers: u32,
    /// Seconds to measure
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Seconds to warm up before
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warm_up: f64,
}

/// The optimisers, with the settings that people use.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Descends {
    /// Plain SGD
    Sgd,
    /// SGD with momentum and weight decay
    Momentum,
    /// The same with Nesterov's momentum
    Nesterov,
    /// Adam
    Adam,
    /// AdamW
    Adamw,
}

impl Descends {
    fn optimiser(self) -> Optimiser {
        let plain = Optimiser::sgd(LEARNING_RATE);
        let decayed = Optimiser { weight_decay: 1e-4, ..plain };
        let moments = Moments::default();
        match self {
            Self::Sgd => plain,
            Self::Momentum => Optimiser { rule: Rule::momentum(0.9), ..decayed },
            Self::Nesterov => {
                Optimiser { rule: Rule::Sgd { momentum: 0.9, nesterov: true }, ..decayed }
            }
            // A rate at which steps are about as short as SGD's here.
            Self::Adam => Optimiser { learning_rate: 1e-6, rule: Rule::Adam(moments), ..plain },
            Self::Adamw => Optimiser { learning_rate: 1e-6, rule: Rule::AdamW(moments), ..decayed },
        }
    }
}

impl Work {
    pub(crate) fn network(&self) -> anyhow::Result<Arc<Tape>> {
        NetworkSpec::named(&self.network).build(SHAPE, CLASSES).context("--network")
    }

    pub(crate) fn clients(&self, network: &Arc<Tape>) -> Vec<Client> {
        let optimiser = self.optimiser.optimiser();
        let client = |i| Client::new(network, self.batch as usize, optimiser, i);
        (0..u64::from(self.workers)).map(client).collect()
    }
}

/// One client with random images and labels.
pub(crate) struct Client {
    worker: CpuWorker,
    optimiser: Optimiser,
    pub(crate) model: Model,
    /// The objective before the last step.
    pub(crate) objective: f64,
}

impl Client {
    fn new(network: &Arc<Tape>, batch: usize, optimiser: Optimiser, client: u64) -> Self {
        let mut rng = Rng::new(1, Stream::Test, 0, client);
        let model = network.init(&mut rng);
        let mut worker = CpuWorker::new(network.clone(), batch);
        worker.inputs.extend((0..batch * SHAPE.len()).map(|_| rng.normal() as f32));
        worker.labels.extend((0..batch).map(|_| rng.below(CLASSES) as u32));
        Self { worker, optimiser, model, objective: f64::NAN }
    }

    /// From now on, passes are timed layer by layer, from zero.
    pub(crate) fn time_layers(&mut self) {
        self.worker.workspace.time_layers();
    }

    /// What has been timed.
    pub(crate) fn layer_times(&self) -> &[LayerTime] {
        self.worker.workspace.layer_times()
    }

    /// One step on cross-entropy. An objective that is not finite is kept for the caller to
    /// see.
    pub(crate) fn step(&mut self) {
        self.step_on(&Objective::CROSS_ENTROPY, &mut []);
    }

    /// The same on another objective, whose teachers were transformed before.
    pub(crate) fn step_on(&mut self, objective: &Objective<'_>, teachers: &mut [SpectralTerm]) {
        let descent = Descent { optimiser: self.optimiser, part: Part::All };
        let outcome = self.worker.descend(&mut self.model, descent, objective, teachers);
        self.objective = outcome.unwrap_or(f64::NAN);
    }
}

/// The largest objective: a network that diverged has not been measured.
pub(crate) fn objective(clients: &[Client]) -> anyhow::Result<f64> {
    let worst = clients.iter().map(|client| client.objective).fold(0.0, f64::max);
    let finite = clients.iter().all(|client| client.objective.is_finite());
    anyhow::ensure!(finite, "training diverged; its speed means nothing");
    Ok(worst)
}
