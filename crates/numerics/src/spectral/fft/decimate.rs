//! The lowest frequencies of a long vector, by way of a short one.
//!
//! Of `X_k = Σ_n x_n e^{−2πi kn/N}` a narrow band needs only `k < K`, with `K` far below `N/2`. A kernel `φ` spreads the numbers over
//! `M ≥ 4K` points of the same circle, whose transform is that of `M` numbers, and what the kernel did to frequency `k` is
//! divided out (as in [`super::resample`], with fewer points in place of more):
//!
//! - `y_m = Σ_n x_n φ(n·M/N − m)`
//! - `X_k = Y_k / φ̂(k/M)`
//!
//! Of the frequencies that fold onto entry `k`, Kaiser and Bessel's kernel over eight points lets through 7e-7 at the band's edge
//! (`k/M = ¼`) and less than single precision rounds below `k/M = 0.2`: 8e-8 in the root mean square for spectra without a slope. The way
//! back is the transposed map: the same kernel, from points to numbers.

use super::columns::{Dimensions, STRIP, shape};
use super::filter::Filter;
use super::kernel::Kernel;
use super::weights::Weights;
use core::f64::consts::PI;

/// Points under the kernel.
const WIDTH: f64 = 8.0;

/// Points for each frequency that is kept: the first alias then lies where the kernel's spectrum has ended.
const POINTS: usize = 4;

/// `β/π`, as far as the alias at `1 − 1/POINTS` lets it go.
const BANDWIDTH: f64 = WIDTH * 0.75;

/// More numbers than so many for a point win nothing: the transform of the points is the smallest part by then.
const MOST: usize = 8;

/// Where a transform of all numbers is as quick as it can be, the filter takes what a cut into halves saves.
const LEAST: usize = 4;

/// Numbers that are read once, and what is left to transform.
pub(in crate::spectral) struct Decimation {
    spread: Filter,
    back: Filter,
    weights: Weights,
}

/// The matrix to which a circle of `n` numbers is cut if only the first `entries` frequencies are wanted; none if they are too many
/// for that to win anything. If `n` is the length of a matrix, the cut is by a power of two and nothing has to be interpolated.
///
/// It is part of an experiment's results: this rule must not depend on the machine.
pub(in crate::spectral) fn cut(n: usize, entries: usize, is_matrix: bool) -> Option<Dimensions> {
    let least = (POINTS * entries).max(n.div_ceil(MOST));
    if 2 * least > n {
        return None;
    }
    if !is_matrix {
        // Rounding up to a quick length may take it above a half, which is still right.
        return shape(least);
    }
    let factor = 1 << (n / least).ilog2();
    if factor < LEAST {
        return None;
    }
    n.is_multiple_of(factor).then(|| n / factor).and_then(exactly)
}

/// A matrix of just so many numbers.
fn exactly(n: usize) -> Option<Dimensions> {
    let Dimensions { rows, .. } = shape(n)?;
    let twos = 1 << n.trailing_zeros();
    let rows = rows.min(twos / STRIP);
    (rows >= 2).then(|| Dimensions { rows, columns: n / rows })
}

impl Decimation {
    /// Of a circle of `len` numbers; `frequencies` are those of the matrix, by position.
    pub(in crate::spectral) fn new(
        len: usize,
        grid: Dimensions,
        entries: usize,
        frequencies: &[usize],
    ) -> Self {
        assert!(grid.len() >= POINTS * entries && grid.len() < len);
        let kernel = Kernel::new(WIDTH, PI * BANDWIDTH);
        let weight = |k: usize| {
            let k = k.min(grid.len() - k);
            if k >= entries {
                return 0.0;
            }
            kernel.reciprocal(k as f64 / grid.len() as f64, 1.0) as f32
        };
        Self {
            spread: Filter::new(len, grid.len(), grid.len(), WIDTH, &kernel),
            back: Filter::new(grid.len(), len, grid.len(), WIDTH, &kernel),
            weights: Weights::new(grid, frequencies, weight),
        }
    }

    /// What divides the kernel out.
    pub(in crate::spectral) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Points from numbers; those behind the end of `x` are zero.
    pub(in crate::spectral) fn spread(&self, x: &[f32], points: &mut [f32]) {
        self.spread.apply(
            x,
            points.len(),
            #[inline(always)]
            |first, eight| points[first..].iter_mut().zip(eight).for_each(|(to, y)| *to = y),
        );
    }

    /// The transpose of [`Decimation::spread`], adding.
    pub(in crate::spectral) fn back(&self, points: &[f32], x: &mut [f32]) {
        self.back.apply(
            points,
            x.len(),
            #[inline(always)]
            |first, eight| x[first..].iter_mut().zip(eight).for_each(|(to, y)| *to += y),
        );
    }
}

#[cfg(test)]
mod tests;
