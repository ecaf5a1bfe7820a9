//! What a phase may use: the client's data, a generator of its own, and SGD; and what an aggregation may.

use crate::{Combine, MethodError, Moment};
use formant_numerics::{
    Augmentation, Augmenter, BatchPlan, Batches, Descent, Loss, Meter, Model, Network,
    NumericsError, Objective, Output, Part, Patience, Phase, Rng, Samples, Sgd, Weighted, Worker,
};

/// How one phase of one round trains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseSettings {
    /// Passes over the local data.
    pub epochs: usize,
    /// Samples a step.
    pub batch: usize,
    /// Learning rate (decayed already), momentum, weight decay, clipping.
    pub sgd: Sgd,
    /// What may happen to samples on the way.
    pub augment: Augmentation,
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
    meter: Meter,
}

/// Some epochs of SGD: what [`Local::training`] gives, with whatever differs.
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
        Self { network, worker, loan, augmenter, meter: Meter::default() }
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

    /// The optimiser's settings.
    pub fn optimiser(&self) -> Sgd {
        self.loan.settings.sgd
    }

    /// Clips gradients at a norm, unless the experiment has said where.
    pub fn clip_unless_told(&mut self, norm: f32) {
        self.loan.settings.sgd.clip.get_or_insert(norm);
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
        let mut counts = vec![0; self.network.classes()];
        for index in self.loan.train {
            counts[self.loan.samples.label(*index as usize)] += 1;
        }
        counts
    }

    /// This phase's own generator, from which the batch order is drawn too.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.loan.rng
    }

    /// The phase's epochs of SGD by all parameters on cross-entropy plus weighted terms, over shuffled
    /// batches; the last batch of an epoch may be smaller. Starts with no velocity.
    pub fn sgd(&mut self, model: &mut Model, terms: &[Weighted<'_>]) -> Result<(), MethodError> {
        self.train(model, Training { terms, ..self.training() })
    }

    /// What [`Local::sgd`] does without terms: to be changed.
    pub fn training(&self) -> Training<'static> {
        let epochs = self.epochs();
        Training { epochs, part: Part::All, loss: Loss::CrossEntropy, terms: &[] }
    }

    /// Epochs of SGD over shuffled batches. Starts with no velocity.
    pub fn train(&mut self, model: &mut Model, how: Training<'_>) -> Result<(), MethodError> {
        let Training { epochs, part, loss, terms } = how;
        let sgd = self.loan.settings.sgd;
        let mut phase = Phase {
            batches: &mut self.loan.batches(epochs, self.augmenter.as_mut()),
            descent: Descent { sgd, part },
            objective: Objective { loss, terms },
        };
        let done = self.worker.train(model, &mut phase)?;
        self.meter.add(done);
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
        self.worker.begin();
        let mut batches = self.loan.batches(epochs, self.augmenter.as_mut());
        while let Some(batch) = batches.next() {
            self.worker.take(batch);
            visit(&mut Step { worker: self.worker, meter: &mut self.meter })?;
        }
        Ok(())
    }
}

impl Loan<'_> {
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
    meter: &'s mut Meter,
}

impl Step<'_> {
    /// The labels of the batch.
    pub fn labels(&self) -> &[u32] {
        self.worker.labels()
    }

    /// One step of a model down an objective. There is one velocity: whoever steps two models by turns
    /// must do without momentum.
    pub fn descend(
        &mut self,
        model: &mut Model,
        descent: Descent,
        objective: &Objective<'_>,
    ) -> Result<(), MethodError> {
        let value = self.worker.step(model, descent, objective)?;
        self.meter.count(self.worker.labels().len(), value);
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
        self.meter.count(self.worker.labels().len(), objective);
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
    /// How uploads are combined.
    pub combine: &'a dyn Combine,
}
