//! What a phase may use: the client's data, a generator of its own, and an optimiser; and what an aggregation may.

use crate::{Combine, MethodError, Moment};
use formant_numerics::{
    Augmentation, Augmenter, BatchPlan, Batches, Criterion, Descent, Loss, Meter, Model, Network,
    NumericsError, Objective, Optimiser, Output, Part, Patience, Phase, Pulse, Rng, Samples, Scope,
    Selection, SpectralBlend, Weighted, Worker, vector,
};
use std::sync::Arc;

/// How one phase of one round trains.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseSettings {
    /// Passes over the local data.
    pub epochs: usize,
    /// Samples a step.
    pub batch: usize,
    /// Learning rate (that of the round), weight decay, clipping and the rule of a step.
    pub optimiser: Optimiser,
    /// `ε`: share of a label that is spread over all classes.
    pub label_smoothing: f32,
    /// What samples count for.
    pub class_weights: ClassWeights,
    /// What may happen to samples on the way.
    pub augment: Augmentation,
}

/// What samples count for in the loss of training, by their class.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ClassWeights {
    /// All the same.
    #[default]
    Equal,
    /// `n / (k n_c)`: of the `k` classes that a client's `n` training samples have, each counts as much as any
    /// other. A class that it does not have, of which it can only be told by smoothing, counts 1.
    Balanced,
    /// A number for each class.
    Given(Arc<[f32]>),
}

/// What one client lends to one phase.
#[derive(Debug)]
pub struct Loan<'a> {
    /// Samples, some of which are the client's.
    pub samples: &'a dyn Samples,
    /// Which of them it trains on.
    pub train: &'a [u32],
    /// The phase's own generator.
    pub rng: Rng,
    /// The optimiser.
    pub settings: PhaseSettings,
    /// When.
    pub at: Moment,
    /// How long the phase lasts.
    pub patience: Patience<'a>,
}

/// A phase of a method at one client.
pub struct Local<'a> {
    network: &'a dyn Network,
    worker: &'a mut dyn Worker,
    loan: Loan<'a>,
    /// Counts the epochs of the whole phase, however many stretches of training it has.
    augmenter: Option<Augmenter>,
    /// What samples of each class count for, if not all the same.
    weights: Option<Arc<[f32]>>,
    meter: Meter,
    pulse: Pulse<'a>,
}

/// Some epochs of stochastic gradient descent: what [`Local::training`] gives, with whatever differs.
#[derive(Debug, Clone, Copy)]
pub struct Training<'t> {
    /// Passes over the local data.
    pub epochs: usize,
    /// What is trained.
    pub part: Part,
    /// What the logits are scored by.
    pub loss: Loss<'t>,
    /// What is added to the loss.
    pub terms: &'t [Weighted<'t>],
}

impl<'a> Local<'a> {
    /// Lends a client's data and a worker to a phase.
    pub fn new(network: &'a dyn Network, worker: &'a mut dyn Worker, loan: Loan<'a>) -> Self {
        let augment = loan.settings.augment;
        let augmenter = (!augment.is_none()).then(|| Augmenter::new(augment, &loan.rng));
        let weights = loan.class_weights(network.classes());
        let (meter, pulse) = (Meter::default(), Pulse::NONE);
        Self { network, worker, loan, augmenter, weights, meter, pulse }
    }

    /// The same phase, followed and perhaps stopped by somebody: then training ends at a batch with
    /// [`MethodError::Stopped`].
    #[must_use]
    pub fn watched(self, pulse: Pulse<'a>) -> Self {
        Self { pulse, ..self }
    }

    /// Whether somebody has asked the phase to end: it then trains no further, and nothing that it gives is used.
    pub fn is_stopped(&self) -> bool {
        self.pulse.is_stopped()
    }

    /// `n_i`.
    pub fn samples(&self) -> usize {
        self.loan.train.len()
    }

    /// The round, and of how many.
    pub fn at(&self) -> Moment {
        self.loan.at
    }

    /// Epochs of this phase: `E_G` in the shared phase, `E_p` in the personal one.
    pub fn epochs(&self) -> usize {
        self.loan.settings.epochs
    }

    /// Samples of a step, at most.
    pub fn batch(&self) -> usize {
        self.loan.settings.batch
    }

    /// The optimiser's settings.
    pub fn optimiser(&self) -> Optimiser {
        self.loan.settings.optimiser
    }

    /// Clips gradients at a norm, unless the experiment has said where.
    pub fn clip_unless_told(&mut self, norm: f32) {
        self.loan.settings.optimiser.clip.get_or_insert(norm);
    }

    /// The network that models belong to.
    pub fn network(&self) -> &'a dyn Network {
        self.network
    }

    /// Work done so far.
    pub fn meter(&self) -> Meter {
        self.meter
    }

    /// `n_{i,c}`: training samples of each class.
    pub fn label_counts(&self) -> Vec<usize> {
        self.loan.label_counts(self.network.classes())
    }

    /// This phase's own generator, from which the batch order is drawn too.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.loan.rng
    }

    /// The phase's epochs of stochastic gradient descent, with whatever optimiser the experiment has, by all
    /// parameters on cross-entropy plus weighted terms, over shuffled batches; the last batch of an epoch may
    /// be smaller. Starts at rest.
    pub fn sgd(&mut self, model: &mut Model, terms: &[Weighted<'_>]) -> Result<(), MethodError> {
        self.train(model, Training { terms, ..self.training() })
    }

    /// What [`Local::sgd`] does without terms: to be changed.
    pub fn training(&self) -> Training<'static> {
        let epochs = self.epochs();
        Training { epochs, part: Part::All, loss: Loss::CrossEntropy, terms: &[] }
    }

    /// Epochs of stochastic gradient descent over shuffled batches. Starts at rest.
    pub fn train(&mut self, model: &mut Model, how: Training<'_>) -> Result<(), MethodError> {
        let Training { epochs, part, loss, terms } = how;
        let optimiser = self.loan.settings.optimiser;
        let smoothing = self.loan.settings.label_smoothing;
        let criterion = Criterion { smoothing, weights: self.weights.as_deref() };
        let mut batches = self.loan.batches(epochs, self.augmenter.as_mut()).watched(self.pulse);
        let mut phase = Phase {
            batches: &mut batches,
            descent: Descent { optimiser, part },
            objective: Objective { loss, criterion, terms },
        };
        let done = self.worker.train(model, &mut phase)?;
        if batches.is_stopped() {
            return Err(MethodError::Stopped);
        }
        self.meter.add(done);
        self.check(model)
    }

    /// Moves a part of a model by `β` of the way towards another one, and its statistics with it:
    /// `w ← w + β (v − w)`. With `β = 0` nothing changes.
    pub fn blend(&self, model: &mut Model, towards: &Model, beta: f32, part: Part) {
        let own = self.network.layout().range(part);
        let to = &mut model.parameters[own.clone()];
        vector::interpolate(beta, &towards.parameters[own], to);
        vector::interpolate(beta, &towards.buffers, &mut model.buffers);
    }

    /// The same of the lowest share `τ` of the frequencies alone: `w ← F⁻¹[ŵ + β (v̂ − ŵ) in the band, ŵ elsewhere]`.
    /// Statistics have no frequency and move by `β`. With `τ = 1` it is [`Local::blend`].
    pub fn blend_low(
        &self,
        model: &mut Model,
        towards: &Model,
        beta: f32,
        tau: f64,
        part: Part,
    ) -> Result<(), MethodError> {
        if tau >= 1.0 || beta == 0.0 {
            self.blend(model, towards, beta, part);
            return Ok(());
        }
        let layout = self.network.layout();
        let mut bands = SpectralBlend::new(layout, Scope::Flat, &[tau], part == Part::Body)?;
        let betas = [beta, 0.0, 0.0];
        let betas = &betas[..bands.shares()];
        bands.blend(&mut model.parameters, &towards.parameters, betas);
        vector::interpolate(beta, &towards.buffers, &mut model.buffers);
        Ok(())
    }

    /// An error if training has left the finite numbers.
    pub fn check(&self, model: &Model) -> Result<(), MethodError> {
        if !model.is_finite() {
            let step = self.meter.steps;
            return Err(NumericsError::Diverged { step, what: "a parameter" }.into());
        }
        Ok(())
    }

    /// Draws the batches of some epochs, for whoever computes with them in a way of their own: nothing is trained.
    pub fn draw(
        &mut self,
        epochs: usize,
        mut visit: impl FnMut(Selection<'_>),
    ) -> Result<(), MethodError> {
        let pulse = Pulse { samples: None, ..self.pulse };
        let mut batches = self.loan.batches(epochs, self.augmenter.as_mut()).watched(pulse);
        while let Some(batch) = batches.next() {
            visit(batch);
        }
        if batches.is_stopped() { Err(MethodError::Stopped) } else { Ok(()) }
    }

    /// One step of a method's own over samples of the client, by their indices.
    pub fn on_batch<T>(
        &mut self,
        indices: &[u32],
        visit: impl FnOnce(&mut Step<'_>) -> Result<T, MethodError>,
    ) -> Result<T, MethodError> {
        if self.is_stopped() {
            return Err(MethodError::Stopped);
        }
        let smoothing = self.loan.settings.label_smoothing;
        let criterion = Criterion { smoothing, weights: self.weights.as_deref() };
        self.worker.load(self.loan.samples, indices);
        let before = self.meter.samples;
        let done = visit(&mut Step { worker: self.worker, criterion, meter: &mut self.meter });
        self.pulse.count(self.meter.samples - before);
        done
    }

    /// Velocity and moments are forgotten: what follows starts at rest.
    pub fn rest(&mut self) {
        self.worker.begin();
    }

    /// All samples, of which [`Local::train_indices`] are the client's.
    pub fn all_samples(&self) -> &'a dyn Samples {
        self.loan.samples
    }

    /// The client's training samples.
    pub fn train_indices(&self) -> &'a [u32] {
        self.loan.train
    }

    /// Visits the batches of some epochs, for methods whose step is one of their own. Starts at rest.
    pub fn for_each_batch(
        &mut self,
        epochs: usize,
        mut visit: impl FnMut(&mut Step<'_>) -> Result<(), MethodError>,
    ) -> Result<(), MethodError> {
        self.worker.begin();
        let smoothing = self.loan.settings.label_smoothing;
        let criterion = Criterion { smoothing, weights: self.weights.as_deref() };
        // Steps count here, of which a batch may have several.
        let pulse = Pulse { samples: None, ..self.pulse };
        let mut batches = self.loan.batches(epochs, self.augmenter.as_mut()).watched(pulse);
        while let Some(batch) = batches.next() {
            self.worker.take(batch);
            let before = self.meter.samples;
            visit(&mut Step { worker: self.worker, criterion, meter: &mut self.meter })?;
            self.pulse.count(self.meter.samples - before);
        }
        if batches.is_stopped() { Err(MethodError::Stopped) } else { Ok(()) }
    }
}

impl Loan<'_> {
    fn label_counts(&self, classes: usize) -> Vec<usize> {
        let mut counts = vec![0; classes];
        for index in self.train {
            counts[self.samples.label(*index as usize)] += 1;
        }
        counts
    }

    fn class_weights(&self, classes: usize) -> Option<Arc<[f32]>> {
        match &self.settings.class_weights {
            ClassWeights::Equal => None,
            ClassWeights::Given(weights) => Some(weights.clone()),
            ClassWeights::Balanced => {
                let counts = self.label_counts(classes);
                let present = counts.iter().filter(|count| **count > 0).count();
                let mean = self.train.len() as f64 / present.max(1) as f64;
                let weight = |count: &usize| if *count > 0 { mean / *count as f64 } else { 1.0 };
                Some(counts.iter().map(|count| weight(count) as f32).collect())
            }
        }
    }

    fn batches<'b>(
        &'b mut self,
        epochs: usize,
        augmenter: Option<&'b mut Augmenter>,
    ) -> Batches<'b> {
        let plan = BatchPlan {
            samples: self.samples,
            train: self.train,
            batch: self.settings.batch,
            epochs,
            patience: self.patience,
        };
        let batches = Batches::new(plan, &mut self.rng);
        match augmenter {
            Some(augmenter) => batches.augmented(augmenter),
            None => batches,
        }
    }
}

/// One batch, loaded into the worker.
pub struct Step<'s> {
    worker: &'s mut dyn Worker,
    criterion: Criterion<'s>,
    meter: &'s mut Meter,
}

impl<'s> Step<'s> {
    /// The labels of the batch.
    pub fn labels(&self) -> &[u32] {
        self.worker.labels()
    }

    /// How the experiment has a cross-entropy count samples and classes, for losses that a method computes
    /// itself.
    pub fn criterion(&self) -> Criterion<'s> {
        self.criterion
    }

    /// One step of a model down a loss and weighted terms. There is one velocity, and one
    /// pair of moments: whoever steps two models by turns must do without momentum and without Adam.
    pub fn descend(
        &mut self,
        model: &mut Model,
        descent: Descent,
        loss: Loss<'_>,
        terms: &[Weighted<'_>],
    ) -> Result<(), MethodError> {
        let objective = Objective { loss, criterion: self.criterion, terms };
        let value = self.worker.step(model, descent, &objective)?;
        self.meter.count(self.worker.labels().len(), value, self.worker.terms());
        Ok(())
    }

    /// Features and logits of the batch, and its labels; the model learns nothing.
    pub fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]) {
        self.worker.look(model)
    }

    /// Counts a step that a method made itself.
    pub fn made(&mut self, objective: f64) -> Result<(), MethodError> {
        if !objective.is_finite() {
            let step = self.meter.steps + 1;
            return Err(NumericsError::Diverged { step, what: "the objective" }.into());
        }
        self.meter.count(self.worker.labels().len(), objective, None);
        Ok(())
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
    /// The [vectors](crate::Message::vectors) of the broadcast that the uploads answer.
    pub reference: &'a [&'a [f32]],
    /// How uploads are combined.
    pub combine: &'a dyn Combine,
}
