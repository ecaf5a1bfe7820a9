//! Where models are trained and scored: on this processor, or wherever an [`Engine`] keeps them.
//!
//! An engine trains whole phases and scores whole sets. Everything that it needs to know is data: the
//! [`Objective`], the optimiser, the batches. So it may keep a phase on its device. The CPU's engine,
//! [`Cpu`](crate::Cpu), is the default and the oracle; bits are promised per engine.

use crate::augment::{Augmenter, Scratch, Selection};
use crate::{
    Detail, Model, Network, NetworkSpec, NumericsError, Objective, Optimiser, Output, Part, Pulse,
    Rng, Samples, Shape, Tally,
};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples in one batch when a set is scored.
pub const EVALUATION_BATCH: usize = 64;

/// Trains and scores the models of one network.
pub trait Engine: Send + Sync {
    /// The network that models belong to.
    fn network(&self) -> &dyn Network;
    /// Memory and whatever else one thread needs, for batches of up to so many samples. A worker that
    /// scores needs room for [`EVALUATION_BATCH`].
    fn worker(&self, batch: usize) -> Box<dyn Worker>;
    /// Bytes that passes over a batch of `batch` samples take in a worker, forwards alone or backwards as
    /// well; nothing is allocated.
    fn pass_bytes(&self, batch: usize, backwards: bool) -> u64;
}

/// Makes engines: for whoever has networks computed elsewhere than on this processor, or brings networks that are
/// not in the catalogue.
pub trait Engines: Send + Sync + std::fmt::Debug {
    /// What computes, for logs: a run goes on with the same one only.
    fn name(&self) -> String;
    /// The engine of a network for samples of a shape.
    fn engine(
        &self,
        network: &NetworkSpec,
        input: Shape,
        classes: usize,
    ) -> Result<Box<dyn Engine>, NumericsError>;
}

/// One thread's place at an engine: it serves one client after the other.
pub trait Worker: Send {
    /// Forgets velocity and moments and counts steps anew: every phase starts at rest.
    fn begin(&mut self);
    /// Takes in a batch, with whatever happens to its samples on the way.
    fn take(&mut self, batch: Selection<'_>);
    /// Takes in samples as they are.
    fn load(&mut self, samples: &dyn Samples, batch: &[u32]) {
        self.take(Selection::plain(samples, batch));
    }
    /// The classes of the batch.
    fn labels(&self) -> &[u32];
    /// One step on the batch; gives the objective before it. Allocates nothing, unless the objective
    /// has a spectral term, whose teacher must be transformed.
    fn step(
        &mut self,
        model: &mut Model,
        descent: Descent,
        objective: &Objective<'_>,
    ) -> Result<f64, NumericsError>;
    /// What the terms have added to the objective of the last step, weights included; none if it had
    /// none. It costs nothing: a step computes it anyway. A term that acts on every k-th step alone has
    /// added k times its value there, and nothing in between.
    fn terms(&self) -> Option<f64>;
    /// Features and logits of the batch, and its classes; the model learns nothing.
    fn look(&mut self, model: &Model) -> (Output<'_>, &[u32]);
    /// How a model does on some samples, in as much detail as is wanted. They take the place of the
    /// batch that was loaded.
    fn score(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
    ) -> Tally;
    /// The same while somebody waits for it. What was counted when it was stopped is of no use.
    fn score_watched(
        &mut self,
        model: &Model,
        samples: &dyn Samples,
        indices: &[u32],
        detail: Detail,
        pulse: Pulse<'_>,
    ) -> Tally {
        let tally = self.score(model, samples, indices, detail);
        pulse.count(indices.len() as u64);
        tally
    }

    /// Trains a model for a whole phase, from rest.
    fn train(
        &mut self,
        model: &mut Model,
        phase: &mut Phase<'_, '_>,
    ) -> Result<Meter, NumericsError> {
        self.begin();
        let mut meter = Meter::default();
        while let Some(batch) = phase.batches.next() {
            let samples = batch.len();
            self.take(batch);
            let objective = self.step(model, phase.descent, &phase.objective)?;
            meter.count(samples, objective, self.terms());
        }
        Ok(meter)
    }
}

/// How a step goes down.
#[derive(Debug, Clone, Copy)]
pub struct Descent {
    /// The optimiser.
    pub optimiser: Optimiser,
    /// Which parameters it moves. Running statistics follow the batch whatever the part.
    pub part: Part,
}

/// What a whole phase trains on, by and for.
#[derive(Debug)]
pub struct Phase<'p, 'b> {
    /// The batches, in order.
    pub batches: &'p mut Batches<'b>,
    /// How steps go down.
    pub descent: Descent,
    /// What they minimise.
    pub objective: Objective<'p>,
}

/// How much work a phase did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// Samples that went forward and backward.
    pub samples: u64,
    /// Optimiser steps.
    pub steps: u64,
    /// Sum of the objective over the steps.
    pub objective: f64,
    /// Sum over the steps of what terms have added to it; none if no step had any.
    #[serde(default)]
    pub terms: Option<f64>,
}

impl Meter {
    /// Counts a step, with what terms have added to its objective.
    pub fn count(&mut self, samples: usize, objective: f64, terms: Option<f64>) {
        self.samples += samples as u64;
        self.steps += 1;
        self.objective += objective;
        self.add_terms(terms);
    }

    /// Adds the work of another stretch.
    pub fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.steps += other.steps;
        self.objective += other.objective;
        self.add_terms(other.terms);
    }

    fn add_terms(&mut self, terms: Option<f64>) {
        if let Some(terms) = terms {
            *self.terms.get_or_insert(0.0) += terms;
        }
    }

    /// Mean of what terms have added a step, if any has.
    pub fn mean_terms(&self) -> Option<f64> {
        Some(self.terms? / self.steps as f64)
    }

    /// Mean objective a step, if there was one.
    pub fn mean_objective(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.objective / self.steps as f64)
    }
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
    /// Whether to stop after so many batches.
    fn is_over(self, batches: u64) -> bool {
        match self {
            Self::Epochs => false,
            Self::Batches(most) => batches >= most,
            Self::Flag(stop) => stop.load(Ordering::Relaxed),
        }
    }
}

/// Which samples are trained on, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct BatchPlan<'a> {
    /// All samples, of which `train` are visited.
    pub samples: &'a dyn Samples,
    /// Indices into them.
    pub train: &'a [u32],
    /// Samples in a batch; the last one of an epoch may be smaller.
    pub batch: usize,
    /// Passes over the samples, unless patience says otherwise.
    pub epochs: usize,
    /// How long to go on.
    pub patience: Patience<'a>,
}

/// The batches of some epochs, each over samples that were shuffled anew and, if that is wanted, augmented
/// anew. Order and augmentation are the same for every engine.
#[derive(Debug)]
pub struct Batches<'a> {
    plan: BatchPlan<'a>,
    rng: &'a mut Rng,
    augmenter: Option<&'a mut Augmenter>,
    /// Positions in the list of samples to train on.
    order: Vec<u32>,
    /// The samples of the batch that was given last.
    indices: Vec<u32>,
    /// What happens to them.
    scratch: Scratch,
    /// Where the next batch begins.
    at: usize,
    epochs: usize,
    /// Batches that were given.
    given: u64,
    pulse: Pulse<'a>,
    is_stopped: bool,
}

impl<'a> Batches<'a> {
    /// Draws the order from a generator.
    pub fn new(plan: BatchPlan<'a>, rng: &'a mut Rng) -> Self {
        let len = plan.train.len();
        let batch = plan.batch.min(len);
        Self {
            order: (0..len as u32).collect(),
            indices: Vec::with_capacity(batch),
            scratch: Scratch::default(),
            at: len,
            epochs: 0,
            given: 0,
            augmenter: None,
            pulse: Pulse::NONE,
            is_stopped: false,
            plan,
            rng,
        }
    }

    /// The same batches, augmented.
    #[must_use]
    pub fn augmented(self, by: &'a mut Augmenter) -> Self {
        let batch = self.plan.batch.min(self.plan.train.len());
        let scratch = Scratch::new(batch, self.plan.samples.shape());
        Self { augmenter: Some(by), scratch, ..self }
    }

    /// The same batches, as long as nobody stops them.
    #[must_use]
    pub fn watched(self, pulse: Pulse<'a>) -> Self {
        Self { pulse, ..self }
    }

    /// Whether somebody has stopped them: what was learnt is then no phase.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Where the samples lie.
    pub fn samples(&self) -> &'a dyn Samples {
        self.plan.samples
    }

    /// Whether somebody looks after every batch whether it was the last one, so that none may be asked for ahead of
    /// time.
    pub fn is_open_ended(&self) -> bool {
        matches!(self.plan.patience, Patience::Flag(_))
    }

    /// The next batch, until the phase is over or somebody stops it.
    #[expect(
        clippy::should_implement_trait,
        reason = "what it gives is lent, which no iterator can"
    )]
    pub fn next(&mut self) -> Option<Selection<'_>> {
        // Whoever asks for a batch is done with the one before.
        self.pulse.count(self.indices.len() as u64);
        self.indices.clear();
        // Nobody would ever end a phase without batches.
        if self.order.is_empty() || self.given > 0 && self.plan.patience.is_over(self.given) {
            return None;
        }
        let is_new_epoch = self.at == self.order.len();
        let by_epochs = matches!(self.plan.patience, Patience::Epochs);
        if is_new_epoch && by_epochs && self.epochs == self.plan.epochs {
            return None;
        }
        if self.pulse.is_stopped() {
            self.is_stopped = true;
            return None;
        }
        if is_new_epoch {
            self.epochs += 1;
            self.rng.shuffle(&mut self.order);
            if let Some(augmenter) = &mut self.augmenter {
                augmenter.begin_epoch();
            }
            self.at = 0;
        }
        let end = (self.at + self.plan.batch).min(self.order.len());
        let positions = &self.order[self.at..end];
        let (samples, train) = (self.plan.samples, self.plan.train);
        self.indices.extend(positions.iter().map(|position| train[*position as usize]));
        let nth = self.at.div_ceil(self.plan.batch) as u32;
        (self.at, self.given) = (end, self.given + 1);
        Some(match &self.augmenter {
            None => Selection::plain(samples, &self.indices),
            Some(by) => self.scratch.select(samples, &self.indices, by, positions, nth),
        })
    }
}
