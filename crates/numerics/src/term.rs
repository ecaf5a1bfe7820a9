//! Terms over flat parameters as the CPU computes them: values and gradients.

use crate::gemm::vectorised;
use crate::vector;

/// A differentiable function of the parameters.
pub trait Differentiable {
    /// Adds `weight · ∇T(w)` to the gradient and returns `T(w)`, unweighted.
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64;
}

/// Numbers that stay in the first-level cache while they are read twice.
const BLOCK: usize = 2_048;

/// `½ ‖w − anchor‖²`, with the square and the factor ½.
#[derive(Debug, Clone, Copy)]
pub struct Proximal<'a> {
    /// Where the term pulls to.
    pub anchor: &'a [f32],
}

impl Differentiable for Proximal<'_> {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        assert_eq!(w.len(), self.anchor.len());
        let mut squares = 0.0;
        // Block by block, so that gradient and value take one pass over memory.
        let blocks = gradient.chunks_mut(BLOCK).zip(w.chunks(BLOCK)).zip(self.anchor.chunks(BLOCK));
        for ((gradient, w), anchor) in blocks {
            vectorised(
                #[inline(always)]
                || {
                    for ((g, w), a) in gradient.iter_mut().zip(w).zip(anchor) {
                        *g += weight * (w - a);
                    }
                },
            );
            squares += vector::distance_squared(w, anchor);
        }
        0.5 * squares
    }
}

/// `⟨direction, w⟩`.
#[derive(Debug, Clone, Copy)]
pub struct Linear<'a> {
    /// The constant gradient.
    pub direction: &'a [f32],
}

impl Differentiable for Linear<'_> {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        vector::axpy(weight, self.direction, gradient);
        vector::dot(self.direction, w)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, Stream};

    /// Central differences of a term that is computed in f64 from f32 points: steps are chosen as
    /// exact powers of two so that the points themselves are exact.
    fn check(term: &mut dyn Differentiable, w: &[f32]) {
        let mut gradient = vec![0.0; w.len()];
        term.add(1.0, w, &mut gradient);
        assert!(gradient.iter().any(|g| *g != 0.0));
        for i in 0..w.len() {
            let mut at = |h: f32| {
                let mut x = w.to_vec();
                x[i] += h;
                term.add(1.0, &x, &mut vec![0.0; w.len()])
            };
            let h = 1.0 / 64.0;
            let slope = (at(h) - at(-h)) / f64::from(2.0 * h);
            assert!((slope - f64::from(gradient[i])).abs() < 1e-5 * slope.abs().max(1.0));
        }
        // The weight scales the gradient and not the value.
        let mut scaled = vec![0.0; w.len()];
        term.add(0.5, w, &mut scaled);
        for (s, g) in scaled.iter().zip(&gradient) {
            assert!((s - 0.5 * g).abs() < 1e-6);
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let mut draw = || (0..37).map(|_| rng.normal() as f32).collect::<Vec<_>>();
        let (w, v) = (draw(), draw());
        check(&mut Proximal { anchor: &v }, &w);
        check(&mut Linear { direction: &v }, &w);
    }

    #[test]
    fn the_proximal_term_is_half_the_squared_distance() {
        let mut gradient = [0.0; 2];
        let value = Proximal { anchor: &[1.0, 1.0] }.add(2.0, &[4.0, 5.0], &mut gradient);
        assert_eq!(value, 12.5);
        assert_eq!(gradient, [6.0, 8.0]);
    }
}
