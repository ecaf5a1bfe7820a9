//! Adam (Kingma, Ba: *Adam: A Method for Stochastic Optimization*, ICLR 2015), in the order of
//! operations of PyTorch's.

use crate::floats;
use serde::{Deserialize, Serialize};

/// First and second moments of a gradient, and how many steps they have seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    #[serde(with = "floats")]
    mean: Vec<f32>,
    #[serde(with = "floats")]
    square: Vec<f32>,
    steps: u32,
}

impl Adam {
    /// `β₁`: share of the mean that is kept.
    const MEAN: f64 = 0.9;
    /// `β₂`: share of the square that is kept.
    const SQUARE: f64 = 0.999;
    /// `ε`.
    const FLOOR: f64 = 1e-8;

    /// Before the first step.
    pub fn new(parameters: usize) -> Self {
        Self { mean: vec![0.0; parameters], square: vec![0.0; parameters], steps: 0 }
    }

    /// One step.
    pub fn descend(&mut self, learning_rate: f64, w: &mut [f32], gradient: &[f32]) {
        assert_eq!((w.len(), gradient.len()), (self.mean.len(), self.mean.len()));
        self.steps += 1;
        let exponent = f64::from(self.steps);
        let mean_share = 1.0 - libm::pow(Self::MEAN, exponent);
        let square_share = libm::sqrt(1.0 - libm::pow(Self::SQUARE, exponent));
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((w, g), (mean, square)) in w.iter_mut().zip(gradient).zip(moments) {
            let g = f64::from(*g);
            let m = Self::MEAN * f64::from(*mean) + (1.0 - Self::MEAN) * g;
            let v = Self::SQUARE * f64::from(*square) + (1.0 - Self::SQUARE) * g * g;
            (*mean, *square) = (m as f32, v as f32);
            let step = m / (libm::sqrt(v) / square_share + Self::FLOOR);
            *w -= (learning_rate / mean_share * step) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_steps_by_hand() {
        let (mut adam, mut w) = (Adam::new(2), [1.0f32, -1.0]);
        adam.descend(0.1, &mut w, &[0.5, 0.0]);
        // Both moments are corrected to the gradient itself: the step is its sign. Without a
        // gradient there is no step.
        assert!((w[0] - 0.9).abs() < 1e-6 && w[1] == -1.0);
        adam.descend(0.1, &mut w, &[-0.5, 0.0]);
        // m = 0.9 · 0.05 − 0.1 · 0.5 = −0.005, over 0.19: −0.0263158; v = 0.25 again.
        // The step is 0.1 · 0.0263158 / 0.5 = 0.0052632 upwards.
        assert!((w[0] - 0.905_263_2).abs() < 1e-6, "{}", w[0]);
    }

    #[test]
    fn it_finds_the_bottom_of_a_bowl_that_is_a_thousand_times_as_long_as_wide() {
        let (mut adam, mut w) = (Adam::new(2), [1.0f32, 1.0]);
        for _ in 0..500 {
            let gradient = [w[0], 1000.0 * w[1]];
            adam.descend(0.05, &mut w, &gradient);
        }
        assert!(w.iter().all(|x| x.abs() < 1e-2), "{w:?}");
    }
}
