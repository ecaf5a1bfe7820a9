//! A vector of any length, resampled to one that the matrix transform takes.
//!
//! `X_k = Σ_n x_n e^{−2πi kn/d}` for `|k| ≤ d/2`, with `d` of any kind. The `d` numbers lie on a circle;
//! a kernel `φ` spreads them over `N ≥ 1.5 d` other points of it, the ordinary transform of `N` numbers
//! follows, and what the kernel did to frequency `k` is divided out (a non-uniform transform, Dutt and
//! Rokhlin 1993, between two uniform grids):
//!
//! - `y_m = Σ_n x_n φ(m·d/N − n)`, a handful of neighbours each
//! - `X_k = Y_k / (N/d · φ̂(k/d))`, where `φ̂` is the Fourier transform of `φ`
//!
//! With Kaiser and Bessel's kernel over six numbers, what `Y_k` holds of other frequencies is below the
//! rounding of single precision. A chirp (Bluestein) would need two complex transforms of `d` numbers
//! where this needs one real transform of `1.5 d`, a third of the arithmetic.
//!
//! The way back is the transposed map, step by step: the same weights, gathered instead of spread.
//!
//! Lane `l` has the `l`-th eighth of the circle. Its points stand at the same distances from the numbers around
//! them as those of lane 0, but for a constant: so eight points share a row of the table of `φ`.

use super::columns::{Dimensions, STRIP, shape};
use super::kernel::Kernel;
use super::weights::Weights;
use super::{Bins, LANES, Lanes};
use crate::gemm::{transpose, vectorised};
use core::f64::consts::PI;
use core::ops::Range;

/// Numbers under the kernel.
const WIDTH: f64 = 6.0;

/// How near the kernel's bandwidth is to the first alias.
const SLOPE: f64 = 0.98;

/// Numbers that eight points look at: a lane may be ahead of another by less than one.
const TAPS: usize = 7;

/// Numbers before the first that is not behind a point.
const BEFORE: usize = 2;

/// Pieces of the kernel between two numbers, a cubic each. A multiple of eight, so that the kernel's ends, which
/// are not smooth, lie between two pieces for every lane; and few, so that the table stays in the nearest cache.
const PIECES: usize = 16;

/// Binary digits of a place between two pieces.
const DIGITS: u32 = 44;

/// The kernel at all lanes for one tap: `p₀ + h (p₁ + h (p₂ + h p₃))`, with `h` from the middle of a piece.
type Cubic = [Lanes; 4];

/// From `d` numbers to `N` points and back.
pub(in crate::spectral) struct Resampling {
    /// `d`.
    len: usize,
    grid: Dimensions,
    /// By piece.
    kernel: Vec<[Cubic; TAPS]>,
    /// Pieces in `1/N`, in units of the last digit.
    scale: u64,
    /// `d/(N φ̂(k/d))` of every bin of the matrix transform, and 0 where there is no such frequency.
    weights: Weights,
}

/// The matrix to which a vector of length `d` is resampled, if it is long enough.
///
/// It is part of an experiment's results: this rule must not depend on the machine.
pub(in crate::spectral) fn grid(d: usize) -> Option<Dimensions> {
    shape(d + d.div_ceil(2))
}

/// A run of points, eight at a time: where they stand between the numbers.
struct Walk {
    /// The number before the point of lane 0, in its eighth.
    at: usize,
    /// How far behind it the point stands, in units of `1/N`.
    rest: usize,
}

impl Resampling {
    /// `frequencies` are those of the matrix, by position.
    pub(in crate::spectral) fn new(len: usize, grid: Dimensions, frequencies: &[usize]) -> Self {
        assert!(2 * grid.len() >= 3 * len && grid.rows.is_multiple_of(LANES));
        let ratio = grid.len() as f64 / len as f64;
        // The largest for which the first alias still is where the kernel's spectrum has ended.
        let kernel = Kernel::new(WIDTH, PI * WIDTH * (ratio - 0.5) * SLOPE);
        let cubic = |piece: usize, tap: usize| {
            let mut found = Cubic::default();
            for l in 0..LANES {
                let ahead = (l * len % LANES) as f64 / LANES as f64;
                let middle =
                    (piece as f64 + 0.5) / PIECES as f64 + ahead + BEFORE as f64 - tap as f64;
                for (lanes, p) in found.iter_mut().zip(kernel.cubic(middle, 1.0 / PIECES as f64)) {
                    lanes.0[l] = p as f32;
                }
            }
            found
        };
        let weight = |k: usize| {
            let k = k.min(grid.len() - k);
            if 2 * k > len { 0.0 } else { kernel.reciprocal(k as f64 / len as f64, ratio) as f32 }
        };
        Self {
            len,
            grid,
            kernel: (0..PIECES)
                .map(|piece| core::array::from_fn(|tap| cubic(piece, tap)))
                .collect(),
            scale: ((PIECES as u64) << DIGITS) / grid.len() as u64,
            weights: Weights::new(grid, frequencies, weight),
        }
    }

    /// Elements of working memory: an eighth of the numbers, and those around it.
    pub(in crate::spectral) fn eighths(&self) -> usize {
        self.len / LANES + TAPS
    }

    /// What divides the kernel out.
    pub(in crate::spectral) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Numbers as eight eighths side by side, each with a few of its neighbours' around it.
    pub(in crate::spectral) fn divide(&self, x: &[f32], eighths: &mut [Lanes]) {
        let inner = self.inner();
        let mut tile = [[0.0; LANES]; LANES];
        for first in inner.clone().step_by(LANES) {
            for (l, row) in tile.iter_mut().enumerate() {
                row.copy_from_slice(&x[self.start(l) + first - BEFORE..][..LANES]);
            }
            transpose(&mut tile);
            for (to, row) in eighths[first..].iter_mut().zip(&tile) {
                to.0 = *row;
            }
        }
        for e in (0..inner.start).chain(inner.end..self.eighths()) {
            eighths[e] = Lanes(core::array::from_fn(|l| x[self.number(l, e)]));
        }
    }

    /// The transpose of [`Resampling::divide`], adding.
    pub(in crate::spectral) fn unite(&self, eighths: &[Lanes], x: &mut [f32]) {
        let inner = self.inner();
        let mut tile = [[0.0; LANES]; LANES];
        for first in inner.clone().step_by(LANES) {
            for (row, from) in tile.iter_mut().zip(&eighths[first..]) {
                *row = from.0;
            }
            transpose(&mut tile);
            for (l, row) in tile.iter().enumerate() {
                let x = &mut x[self.start(l) + first - BEFORE..][..LANES];
                x.iter_mut().zip(row).for_each(|(x, from)| *x += from);
            }
        }
        for e in (0..inner.start).chain(inner.end..self.eighths()) {
            for l in 0..LANES {
                x[self.number(l, e)] += eighths[e].0[l];
            }
        }
    }

    /// The first number of an eighth.
    fn start(&self, lane: usize) -> usize {
        lane * self.len / LANES
    }

    /// The number in a lane of an element, around the circle.
    fn number(&self, lane: usize, element: usize) -> usize {
        (self.start(lane) + element + self.len - BEFORE) % self.len
    }

    /// Elements all of whose lanes are within the vector, in whole tiles.
    fn inner(&self) -> Range<usize> {
        let tiles = (self.len - self.start(LANES - 1)) / LANES;
        BEFORE..BEFORE + LANES * tiles
    }

    /// Points of some strips of the matrix, of all rows.
    pub(in crate::spectral) fn gather(
        &self,
        eighths: &[Lanes],
        strips: Range<usize>,
        scratch: &mut [Bins],
    ) {
        let rows = self.grid.rows;
        vectorised(
            #[inline(always)]
            || {
                for j in 0..rows / LANES {
                    let mut walk = self.walk(j, strips.start);
                    for i in 0..strips.len() {
                        let mut tiles = [[[0.0; LANES]; LANES]; 2];
                        for points in tiles.iter_mut().flatten() {
                            let (kernel, h) = self.kernel_at(&walk);
                            *points = spread(kernel, h, &eighths[walk.at..]);
                            self.next(&mut walk);
                        }
                        tiles.iter_mut().for_each(transpose);
                        for l in 0..LANES {
                            let to = &mut scratch[i * rows + l * (rows / LANES) + j];
                            (to.re.0, to.im.0) = (tiles[0][l], tiles[1][l]);
                        }
                    }
                }
            },
        );
    }

    /// The transpose of [`Resampling::gather`], adding.
    pub(in crate::spectral) fn scatter(
        &self,
        scratch: &[Bins],
        strips: Range<usize>,
        eighths: &mut [Lanes],
    ) {
        let rows = self.grid.rows;
        vectorised(
            #[inline(always)]
            || {
                for j in 0..rows / LANES {
                    let mut walk = self.walk(j, strips.start);
                    for i in 0..strips.len() {
                        let mut tiles = [[[0.0; LANES]; LANES]; 2];
                        for l in 0..LANES {
                            let from = &scratch[i * rows + l * (rows / LANES) + j];
                            (tiles[0][l], tiles[1][l]) = (from.re.0, from.im.0);
                        }
                        tiles.iter_mut().for_each(transpose);
                        for points in tiles.iter().flatten() {
                            let (kernel, h) = self.kernel_at(&walk);
                            collect(kernel, h, points, &mut eighths[walk.at..]);
                            self.next(&mut walk);
                        }
                    }
                }
            },
        );
    }

    /// From the first point of a strip in row `j` of every lane's rows.
    fn walk(&self, j: usize, strip: usize) -> Walk {
        let position = (j * self.grid.columns + STRIP * strip) as u64 * self.len as u64;
        let n = self.grid.len() as u64;
        Walk { at: (position / n) as usize, rest: (position % n) as usize }
    }

    /// One point further: by `d/N`, which is less than one.
    #[expect(clippy::inline_always, reason = "it belongs into the loop around it")]
    #[inline(always)]
    fn next(&self, walk: &mut Walk) {
        walk.rest += self.len;
        if walk.rest >= self.grid.len() {
            walk.rest -= self.grid.len();
            walk.at += 1;
        }
    }

    #[expect(clippy::inline_always, reason = "it belongs into the loop around it")]
    #[inline(always)]
    fn kernel_at(&self, walk: &Walk) -> (&[Cubic; TAPS], f32) {
        let place = walk.rest as u64 * self.scale;
        // 23 digits behind the point: a whole number that an `f32` holds.
        let behind = (place >> (DIGITS - 23)) as i32 & 0x7f_ffff;
        (&self.kernel[(place >> DIGITS) as usize % PIECES], behind as f32 * 2f32.powi(-23) - 0.5)
    }
}

/// The kernel in one lane.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn at([p0, p1, p2, p3]: &Cubic, h: f32, l: usize) -> f32 {
    h.mul_add(h.mul_add(h.mul_add(p3.0[l], p2.0[l]), p1.0[l]), p0.0[l])
}

/// Eight points from the numbers around them.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn spread(kernel: &[Cubic; TAPS], h: f32, numbers: &[Lanes]) -> [f32; LANES] {
    let mut points = [0.0; LANES];
    let Some(numbers) = numbers.first_chunk::<TAPS>() else { return points };
    for (l, point) in points.iter_mut().enumerate() {
        for tap in 0..TAPS {
            *point = at(&kernel[tap], h, l).mul_add(numbers[tap].0[l], *point);
        }
    }
    points
}

/// Adds eight points to the numbers around them.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn collect(kernel: &[Cubic; TAPS], h: f32, points: &[f32; LANES], numbers: &mut [Lanes]) {
    let Some(numbers) = numbers.first_chunk_mut::<TAPS>() else { return };
    for tap in 0..TAPS {
        for (l, point) in points.iter().enumerate() {
            numbers[tap].0[l] = at(&kernel[tap], h, l).mul_add(*point, numbers[tap].0[l]);
        }
    }
}

#[cfg(test)]
mod tests;
