//! A head that is trained beside a network which stays as it is.

use crate::{Local, MethodError, Step};
use formant_numerics::{Head, Memory, Model, Optimiser};

/// What learning a personal head needs: memory and the optimiser.
pub(super) struct Pupil {
    pub(super) head: Head,
    optimiser: Optimiser,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    memory: Memory,
}

impl Pupil {
    pub(super) fn new(head: Head, local: &Local<'_>) -> Self {
        Self {
            head,
            optimiser: local.optimiser(),
            logits: Vec::new(),
            d_logits: Vec::new(),
            gradient: vec![0.0; head.weights()],
            memory: Memory::default(),
        }
    }

    /// `CE(G(z) + P(z), y)` on a batch, with its gradient by `P` alone.
    pub(super) fn learn(&mut self, step: &mut Step<'_>, generic: &Model, personal: &[f32]) -> f64 {
        let criterion = step.criterion();
        let (output, labels) = step.look(generic);
        self.logits.clear();
        self.logits.extend_from_slice(output.logits);
        self.head.add_logits(personal, output.features, &mut self.logits);
        self.d_logits.resize(self.logits.len(), 0.0);
        let objective = criterion.evaluate(&self.logits, labels, &mut self.d_logits);
        self.gradient.fill(0.0);
        self.head.add_gradient(1.0, output.features, &self.d_logits, &mut self.gradient);
        objective
    }

    /// One step of the head down the gradient that was learnt last.
    pub(super) fn descend(&mut self, weights: &mut [f32]) {
        let all = 0..weights.len();
        self.optimiser.descend(weights, &mut self.gradient, all, &mut self.memory);
    }

    /// The same of weights that a head is made of, along a gradient of their own.
    pub(super) fn descend_along(&mut self, weights: &mut [f32], gradient: &mut [f32]) {
        self.optimiser.descend(weights, gradient, 0..weights.len(), &mut self.memory);
    }
}

pub(super) fn finite(local: &Local<'_>, weights: &[f32]) -> Result<(), MethodError> {
    local.check(&Model { parameters: weights.to_vec(), buffers: Vec::new() })
}
