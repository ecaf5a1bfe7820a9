//! Stochastic gradient descent: one step, given a gradient.

use crate::gemm::vectorised;
use crate::vector;

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

    /// One step of parameters of anything but a network; the gradient is clipped where it lies.
    pub fn descend(&self, w: &mut [f32], gradient: &mut [f32], velocity: &mut [f32]) {
        self.clip(gradient);
        update(self, w, gradient, velocity);
    }

    pub(crate) fn clip(&self, gradient: &mut [f32]) {
        if let Some(clip) = self.clip {
            let norm = vector::norm(gradient);
            if norm > f64::from(clip) {
                vector::scale((f64::from(clip) / norm) as f32, gradient);
            }
        }
    }
}

pub(crate) fn update(sgd: &Sgd, w: &mut [f32], gradient: &[f32], velocity: &mut [f32]) {
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
