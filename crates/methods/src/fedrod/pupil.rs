//! A head that is trained beside a network which stays as it is.

use crate::{Local, MethodError, Step};
use formant_numerics::{Head, Model, Sgd, cross_entropy};

/// What learning a personal head needs: memory and the optimiser.
pub(super) struct Pupil {
    pub(super) head: Head,
    sgd: Sgd,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    pub(super) gradient: Vec<f32>,
    velocity: Vec<f32>,
}

impl Pupil {
    pub(super) fn new(head: Head, local: &Local<'_>) -> Self {
        Self {
            head,
            sgd: local.optimiser(),
            logits: Vec::new(),
            d_logits: Vec::new(),
            gradient: vec![0.0; head.weights()],
            velocity: Vec::new(),
        }
    }

    /// `CE(G(z) + P(z), y)` on a batch, with its gradient by `P` alone.
    pub(super) fn learn(&mut self, step: &mut Step<'_>, generic: &Model, personal: &[f32]) -> f64 {
        let (output, labels) = step.look(generic);
        self.logits.clear();
        self.logits.extend_from_slice(output.logits);
        self.head.add_logits(personal, output.features, &mut self.logits);
        self.d_logits.resize(self.logits.len(), 0.0);
        let objective = cross_entropy(&self.logits, labels, &mut self.d_logits);
        self.gradient.fill(0.0);
        self.head.add_gradient(1.0, output.features, &self.d_logits, &mut self.gradient);
        objective
    }

    /// One step of the head down the gradient that was learnt last.
    pub(super) fn descend(&mut self, weights: &mut [f32]) {
        self.velocity.resize(weights.len(), 0.0);
        self.sgd.descend(weights, &mut self.gradient, &mut self.velocity);
    }

    /// The same of weights that a head is made of, along a gradient of their own.
    pub(super) fn descend_along(&mut self, weights: &mut [f32], gradient: &mut [f32]) {
        self.velocity.resize(weights.len(), 0.0);
        self.sgd.descend(weights, gradient, &mut self.velocity);
    }
}

pub(super) fn finite(local: &Local<'_>, weights: &[f32]) -> Result<(), MethodError> {
    local.check(&Model { parameters: weights.to_vec(), buffers: Vec::new() })
}
