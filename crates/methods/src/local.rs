//! What a phase may use: the client's data, a generator of its own, and SGD.

use crate::MethodError;
use formant_data::Images;
use formant_numerics::{
    CrossEntropy, Length, Model, Network, NumericsError, Output, OutputLoss, Part, Rng, Scope, Sgd,
    Spectrum, Term, Worker,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The optimiser's settings for one phase of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseSettings {
    /// Passes over the local data.
    pub epochs: usize,
    /// Samples a step.
    pub batch: usize,
    /// Learning rate (decayed already), momentum, weight decay, clipping.
    pub sgd: Sgd,
}

/// How long a phase lasts.
#[derive(Debug, Clone, Copy)]
pub enum Patience<'a> {
    /// Its epochs.
    Epochs,
    /// So many batches, and at least one, epoch after epoch.
    Batches(u64),
    /// Until somebody sets this, then to the end of the batch; epoch after epoch.
    Flag(&'a AtomicBool),
}

impl Patience<'_> {
    /// Epochs of a loop that asks for so many.
    fn epochs(self, asked: usize) -> usize {
        if matches!(self, Self::Epochs) { asked } else { usize::MAX }
    }

    /// Whether to stop after so many batches.
    fn is_over(self, batches: u64) -> bool {
        match self {
            Self::Epochs => false,
            Self::Batches(most) => batches >= most,
            Self::Flag(stop) => stop.load(Ordering::Relaxed),
        }
    }
}

/// How much work a phase did.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Meter {
    /// Samples that went forward and backward.
    pub samples: u64,
    /// Optimiser steps.
    pub steps: u64,
    /// Sum of the objective over the steps.
    pub objective: f64,
}

impl Meter {
    /// Mean objective a step, if there was one.
    pub fn mean_objective(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.objective / self.steps as f64)
    }
}

/// What one client lends to one phase of a method.
pub struct Local<'a> {
    network: &'a dyn Network,
    images: &'a Images,
    train: &'a [u32],
    worker: &'a mut Worker,
    rng: Rng,
    settings: PhaseSettings,
    round: usize,
    rounds: usize,
    meter: Meter,
    patience: Patience<'a>,
}

impl<'a> Local<'a> {
    /// Lends a client's data and a worker to a phase of `round` (from 1) of `rounds`.
    pub fn new(
        network: &'a dyn Network,
        (images, train): (&'a Images, &'a [u32]),
        worker: &'a mut Worker,
        (rng, settings): (Rng, PhaseSettings),
        (round, rounds): (usize, usize),
    ) -> Self {
        Self {
            network,
            images,
            train,
            worker,
            rng,
            settings,
            round,
            rounds,
            meter: Meter::default(),
            patience: Patience::Epochs,
        }
    }

    /// The same, for as long as told instead of some epochs.
    #[must_use]
    pub fn lasting(self, patience: Patience<'a>) -> Self {
        Self { patience, ..self }
    }

    /// `n_i`.
    pub fn samples(&self) -> usize {
        self.train.len()
    }

    /// The round, from 1.
    pub fn round(&self) -> usize {
        self.round
    }

    /// Rounds of the whole run, `T`.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Epochs of this phase: `E_G` in the shared phase, `E_p` in the personal one.
    pub fn epochs(&self) -> usize {
        self.settings.epochs
    }

    /// Samples a step.
    pub fn batch(&self) -> usize {
        self.settings.batch
    }

    /// The optimiser's settings.
    pub fn optimiser(&self) -> Sgd {
        self.settings.sgd
    }

    /// Clips gradients at a norm, unless the experiment has said where.
    pub fn clip_unless_told(&mut self, norm: f32) {
        self.settings.sgd.clip.get_or_insert(norm);
    }

    /// The network that models belong to.
    pub fn network(&self) -> &'a dyn Network {
        self.network
    }

    /// Work done so far.
    pub fn meter(&self) -> Meter {
        self.meter
    }

    /// Fourier plans for this network's parameters.
    pub fn spectrum(&mut self, scope: Scope, length: Length) -> Arc<Spectrum> {
        self.worker.spectrum(self.network, (scope, length))
    }

    /// `n_{i,c}`: training samples of each class.
    pub fn label_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.network.classes()];
        for index in self.train {
            counts[self.images.label(*index as usize)] += 1;
        }
        counts
    }

    /// This phase's own generator, from which the batch order is drawn too.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Epochs of SGD on cross-entropy plus weighted terms, over shuffled batches; the last batch of
    /// an epoch may be smaller. Starts with no velocity.
    pub fn sgd(
        &mut self,
        model: &mut Model,
        epochs: usize,
        part: Part,
        terms: &mut [(f32, &mut dyn Term)],
    ) -> Result<(), MethodError> {
        self.sgd_on(model, (epochs, part), &mut CrossEntropy, terms)
    }

    /// [`Local::sgd`] with another loss than cross-entropy.
    pub fn sgd_on(
        &mut self,
        model: &mut Model,
        (epochs, part): (usize, Part),
        loss: &mut dyn OutputLoss,
        terms: &mut [(f32, &mut dyn Term)],
    ) -> Result<(), MethodError> {
        let sgd = self.settings.sgd;
        self.for_each_batch(epochs, |step| step.descend_on(model, (&sgd, part), loss, terms))?;
        self.check(model)
    }

    /// An error if training has left the finite numbers.
    pub fn check(&self, model: &Model) -> Result<(), MethodError> {
        if !model.is_finite() {
            let step = self.meter.steps;
            return Err(NumericsError::Diverged { step, what: "a parameter" }.into());
        }
        Ok(())
    }

    /// Visits the batches of some epochs, for methods whose step is not plain SGD. Starts with no
    /// velocity.
    pub fn for_each_batch(
        &mut self,
        epochs: usize,
        mut visit: impl FnMut(&mut Step<'_>) -> Result<(), MethodError>,
    ) -> Result<(), MethodError> {
        self.worker.begin_phase();
        let mut order = self.train.to_vec();
        if order.is_empty() {
            // Nobody would ever end a phase without batches.
            return Ok(());
        }
        let (patience, mut batches) = (self.patience, 0);
        for _ in 0..patience.epochs(epochs) {
            self.rng.shuffle(&mut order);
            for batch in order.chunks(self.settings.batch) {
                self.worker.inputs.resize(batch.len() * self.network.input().len(), 0.0);
                self.images.gather(batch, &mut self.worker.inputs);
                self.images.gather_labels(batch, &mut self.worker.labels);
                visit(&mut Step {
                    network: self.network,
                    worker: self.worker,
                    meter: &mut self.meter,
                })?;
                batches += 1;
                if patience.is_over(batches) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// One batch, loaded into the worker.
pub struct Step<'s> {
    network: &'s dyn Network,
    worker: &'s mut Worker,
    meter: &'s mut Meter,
}

impl Step<'_> {
    /// The labels of the batch.
    pub fn labels(&self) -> &[u32] {
        &self.worker.labels
    }

    /// One SGD step of a model on a loss plus weighted terms.
    pub fn descend_on(
        &mut self,
        model: &mut Model,
        settings: (&Sgd, Part),
        loss: &mut dyn OutputLoss,
        terms: &mut [(f32, &mut dyn Term)],
    ) -> Result<(), MethodError> {
        let objective = self.worker.step_on(self.network, model, settings, (loss, terms))?;
        self.count(objective);
        Ok(())
    }

    /// Features and logits of the batch, and its labels; the model learns nothing.
    pub fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]) {
        self.worker.look(self.network, model)
    }

    /// Counts a step that a method made itself.
    pub fn made(&mut self, objective: f64) -> Result<(), MethodError> {
        if !objective.is_finite() {
            let step = self.meter.steps + 1;
            return Err(NumericsError::Diverged { step, what: "the objective" }.into());
        }
        self.count(objective);
        Ok(())
    }

    fn count(&mut self, objective: f64) {
        self.meter.samples += self.worker.labels.len() as u64;
        self.meter.steps += 1;
        self.meter.objective += objective;
    }
}

/// What the server lends to an aggregation.
pub struct Central<'a> {
    /// The network that models belong to.
    pub network: &'a dyn Network,
    /// Keyed by the round.
    pub rng: Rng,
    /// The round, from 1.
    pub round: usize,
    /// All clients of the federation, whether they take part in the round or not.
    pub clients: usize,
}
