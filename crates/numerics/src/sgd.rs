//! Stochastic gradient descent on cross-entropy plus weighted terms.

use crate::gemm::vectorised;
use crate::spectral::{Length, Scope, Spectrum};
use crate::{
    Batch, CrossEntropy, Model, Network, NumericsError, Output, OutputGradient, OutputLoss, Part,
    Pass, Term, Workspace, vector,
};
use std::sync::Arc;

/// The optimiser's settings for one phase, in PyTorch's order of operations: clip the gradient,
/// add the weight decay, update the velocity, step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    /// `η`.
    pub learning_rate: f32,
    /// Share of the velocity that is kept.
    pub momentum: f32,
    /// Strength of the pull of all trained parameters towards zero.
    pub weight_decay: f32,
    /// Largest norm of the gradient, if any.
    pub clip: Option<f32>,
}

impl Sgd {
    /// Plain SGD.
    pub fn plain(learning_rate: f32) -> Self {
        Self { learning_rate, momentum: 0.0, weight_decay: 0.0, clip: None }
    }

    /// Whether a step needs no velocity.
    pub fn is_plain(&self) -> bool {
        self.momentum == 0.0 && self.weight_decay == 0.0
    }

    /// One step of parameters that are no network's; the gradient is clipped where it lies.
    pub fn descend(&self, w: &mut [f32], gradient: &mut [f32], velocity: &mut [f32]) {
        self.clip(gradient);
        update(self, w, gradient, velocity);
    }

    fn clip(&self, gradient: &mut [f32]) {
        if let Some(clip) = self.clip {
            let norm = vector::norm(gradient);
            if norm > f64::from(clip) {
                vector::scale((f64::from(clip) / norm) as f32, gradient);
            }
        }
    }
}

/// All memory that one training step touches, allocated once and used for every client that a
/// thread serves.
#[derive(Debug)]
pub struct Worker {
    /// For forward and backward passes.
    pub workspace: Workspace,
    /// Pixels of the current batch; callers fill it.
    pub inputs: Vec<f32>,
    /// Labels of the current batch; callers fill it.
    pub labels: Vec<u32>,
    gradient: Vec<f32>,
    velocity: Vec<f32>,
    /// Whether the velocity is an earlier phase's.
    velocity_is_stale: bool,
    d_logits: Vec<f32>,
    /// By scope and length.
    spectra: [[Option<Arc<Spectrum>>; 2]; 2],
    steps: u64,
}

impl Worker {
    /// Memory for a network and batches of up to `batch` samples.
    pub fn new(network: &dyn Network, batch: usize) -> Self {
        let d = network.layout().parameters();
        Self {
            workspace: network.workspace(batch),
            inputs: Vec::with_capacity(batch * network.input().len()),
            labels: Vec::with_capacity(batch),
            gradient: vec![0.0; d],
            velocity: vec![0.0; d],
            velocity_is_stale: false,
            d_logits: vec![0.0; batch * network.classes()],
            spectra: [[None, None], [None, None]],
            steps: 0,
        }
    }

    /// The Fourier plans for a network's parameters, made at the first call.
    pub fn spectrum(
        &mut self,
        network: &dyn Network,
        (scope, length): (Scope, Length),
    ) -> Arc<Spectrum> {
        self.spectra[scope as usize][length as usize]
            .get_or_insert_with(|| Arc::new(Spectrum::new(network.layout(), scope, length)))
            .clone()
    }

    /// Forgets the velocity: every phase starts at rest.
    pub fn begin_phase(&mut self) {
        // Plain SGD has none, so it is zeroed by the step that uses it.
        self.velocity_is_stale = true;
        self.steps = 0;
    }

    /// One step on the batch in `inputs` and `labels`; returns the objective before the step.
    pub fn step(
        &mut self,
        network: &dyn Network,
        model: &mut Model,
        settings: (&Sgd, Part),
        terms: &mut [(f32, &mut dyn Term)],
    ) -> Result<f64, NumericsError> {
        self.step_on(network, model, settings, (&mut CrossEntropy, terms))
    }

    /// [`Worker::step`] with another loss than cross-entropy.
    pub fn step_on(
        &mut self,
        network: &dyn Network,
        model: &mut Model,
        (sgd, part): (&Sgd, Part),
        objective: (&mut dyn OutputLoss, &mut [(f32, &mut dyn Term)]),
    ) -> Result<f64, NumericsError> {
        self.steps += 1;
        let objective = self.gradient_on(network, model, part, objective);
        if !objective.is_finite() {
            return Err(NumericsError::Diverged { step: self.steps, what: "the objective" });
        }
        let range = network.layout().range(part);
        let gradient = &mut self.gradient[range.clone()];
        sgd.clip(gradient);
        if self.velocity_is_stale && !sgd.is_plain() {
            self.velocity.fill(0.0);
            self.velocity_is_stale = false;
        }
        update(sgd, &mut model.parameters[range.clone()], gradient, &mut self.velocity[range]);
        Ok(objective)
    }

    /// The objective on the current batch; its gradient is then in [`Worker::last_gradient`].
    pub fn gradient(
        &mut self,
        network: &dyn Network,
        model: &mut Model,
        part: Part,
        terms: &mut [(f32, &mut dyn Term)],
    ) -> f64 {
        self.gradient_on(network, model, part, (&mut CrossEntropy, terms))
    }

    /// [`Worker::gradient`] with another loss than cross-entropy.
    pub fn gradient_on(
        &mut self,
        network: &dyn Network,
        model: &mut Model,
        part: Part,
        (loss, terms): (&mut dyn OutputLoss, &mut [(f32, &mut dyn Term)]),
    ) -> f64 {
        let batch = Batch { inputs: &self.inputs, labels: &self.labels };
        let output = network.forward(Pass::Train(model), &batch, &mut self.workspace);
        let d_logits = &mut self.d_logits[..output.logits.len()];
        let mut objective = loss.loss(output.logits, &self.labels, d_logits);
        let seed = OutputGradient { logits: d_logits, features: None };
        network.backward(model, seed, part, &mut self.workspace, &mut self.gradient);
        for (weight, term) in terms {
            objective +=
                f64::from(*weight) * term.add(*weight, &model.parameters, &mut self.gradient);
        }
        objective
    }

    /// Features and logits of the current batch, and its labels; the model learns nothing.
    pub fn look<'w>(&'w mut self, network: &dyn Network, model: &Model) -> (Output<'w>, &'w [u32]) {
        let batch = Batch { inputs: &self.inputs, labels: &self.labels };
        let output = network.forward(Pass::Eval(model), &batch, &mut self.workspace);
        (output, &self.labels)
    }

    /// The gradient of the last step or [`Worker::gradient`] call.
    pub fn last_gradient(&self) -> &[f32] {
        &self.gradient
    }
}

fn update(sgd: &Sgd, w: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
    let Sgd { learning_rate, momentum, weight_decay, .. } = *sgd;
    vectorised(
        #[inline(always)]
        || {
            if sgd.is_plain() {
                for (w, g) in w.iter_mut().zip(gradient) {
                    *w -= learning_rate * g;
                }
                return;
            }
            for ((w, g), v) in w.iter_mut().zip(gradient).zip(velocity) {
                *v = momentum * *v + (g + weight_decay * *w);
                *w -= learning_rate * *v;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn momentum_and_decay_follow_pytorch() {
        let sgd = Sgd { learning_rate: 0.1, momentum: 0.5, weight_decay: 0.1, clip: None };
        let (mut w, mut v) = (vec![1.0f32], vec![0.0f32]);
        update(&sgd, &mut w, &[1.0], &mut v);
        // g + wd w = 1.1; v = 1.1; w = 1 - 0.11
        assert!((w[0] - 0.89).abs() < 1e-6);
        update(&sgd, &mut w, &[1.0], &mut v);
        // g + wd w = 1.089; v = 0.55 + 1.089 = 1.639; w = 0.89 - 0.1639
        assert!((w[0] - 0.7261).abs() < 1e-6);
    }

    #[test]
    fn plain_sgd_is_the_special_case() {
        let (mut a, mut b) = (vec![0.3f32, -0.7], vec![0.3f32, -0.7]);
        let g = [0.123f32, 4.5];
        update(&Sgd::plain(0.01), &mut a, &g, &mut [0.0, 0.0]);
        let general = Sgd { learning_rate: 0.01, momentum: 0.9, weight_decay: 0.0, clip: None };
        update(&general, &mut b, &g, &mut [0.0, 0.0]);
        assert_eq!(a, b);
    }
}
