//! Numbers that lie evenly on a circle, carried over to another number of points on the same circle.
//!
//! `y_j = Σ_i x_i φ(d_ij)`, where `d_ij` is the way from point `j` to number `i` in units of the kernel. Eight points that follow
//! each other see the same few numbers, so every number goes to all eight at once, each with its own weight. The weights
//! depend on where the first of the eight stands between two numbers; where the numbers are a multiple of the points it is always the
//! same place, otherwise a cubic in that place gives them.

use super::kernel::Kernel;
use super::{LANES, Lanes};
use crate::gemm::vectorised;

/// Numbers under eight points at most.
const MOST: usize = 128;

/// Sums that go side by side, so that few operations wait for each other. `taps` is a multiple of it.
const SUMS: usize = 4;

/// Pieces of a cubic in one unit of the kernel.
const FINE: usize = 16;

/// From `from` numbers on a circle to `to` points on it.
pub(super) struct Filter {
    from: usize,
    to: usize,
    /// Numbers under eight points.
    taps: usize,
    /// How many of them stand before number `at`, the last one at or before the first point.
    before: usize,
    /// By piece and number: cubics, or one constant each.
    weights: Weights,
}

enum Weights {
    Constant(Vec<Lanes>),
    Cubic { pieces: usize, table: Vec<[Lanes; 4]> },
}

impl Filter {
    /// A kernel whose unit is the `units`-th part of the circle.
    pub(super) fn new(from: usize, to: usize, units: usize, width: f64, kernel: &Kernel) -> Self {
        let (unit, step) = (from as f64 / units as f64, from as f64 / to as f64);
        let reach = 0.5 * width * unit;
        let before = reach.ceil() as usize;
        // Up to the end of the last point's reach, wherever between two numbers the first one stands.
        let last = (reach + (LANES - 1) as f64 * step + 1.0).ceil() as usize;
        let taps = (before + last + 1).next_multiple_of(SUMS);
        assert!(taps <= MOST && taps <= from, "{from} numbers, {to} points");
        let offset = |tap: usize, lane: usize, place: f64| {
            (tap as f64 - before as f64 - place - lane as f64 * step) / unit
        };
        let weights = if (LANES * from).is_multiple_of(to) {
            let lanes =
                |tap| Lanes(core::array::from_fn(|l| kernel.at(offset(tap, l, 0.0)) as f32));
            Weights::Constant((0..taps).map(lanes).collect())
        } else {
            let pieces = ((FINE as f64 / unit).ceil() as usize).max(1);
            let cubic = |piece: usize, tap: usize| {
                let middle = (piece as f64 + 0.5) / pieces as f64;
                let mut found = [Lanes::default(); 4];
                for l in 0..LANES {
                    let all = kernel.cubic(offset(tap, l, middle), -1.0 / (pieces as f64 * unit));
                    for (lanes, p) in found.iter_mut().zip(all) {
                        lanes.0[l] = p as f32;
                    }
                }
                found
            };
            let table = (0..pieces).flat_map(|piece| (0..taps).map(move |tap| (piece, tap)));
            Weights::Cubic { pieces, table: table.map(|(piece, tap)| cubic(piece, tap)).collect() }
        };
        Self { from, to, taps, before, weights }
    }

    /// Gives eight points at a time to `take`, with the place of the first. Numbers behind the end of `x` are zero.
    pub(super) fn apply(
        &self,
        x: &[f32],
        points: usize,
        mut take: impl FnMut(usize, [f32; LANES]),
    ) {
        vectorised(
            #[inline(always)]
            || {
                let mut edge = [0.0; MOST];
                for first in (0..points).step_by(LANES) {
                    let position = first as u64 * self.from as u64;
                    let (at, rest) =
                        ((position / self.to as u64) as usize, position % self.to as u64);
                    let inner =
                        at.checked_sub(self.before).and_then(|at| x.get(at..at + self.taps));
                    let numbers = inner.unwrap_or_else(|| self.around(x, at, &mut edge));
                    take(first, self.eight(numbers, rest));
                }
            },
        );
    }

    /// Numbers around the circle's start.
    #[cold]
    fn around<'e>(&self, x: &[f32], at: usize, edge: &'e mut [f32; MOST]) -> &'e [f32] {
        let edge = &mut edge[..self.taps];
        for (tap, number) in edge.iter_mut().enumerate() {
            let i = (at + self.from + tap - self.before) % self.from;
            *number = x.get(i).copied().unwrap_or(0.0);
        }
        edge
    }

    /// Eight points, the first of which stands `rest/to` behind a number.
    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn eight(&self, numbers: &[f32], rest: u64) -> [f32; LANES] {
        let mut sums = [Lanes::default(); SUMS];
        let (numbers, _) = numbers.as_chunks::<SUMS>();
        match &self.weights {
            Weights::Constant(weights) => {
                for (numbers, weights) in numbers.iter().zip(weights.as_chunks::<SUMS>().0) {
                    for i in 0..SUMS {
                        sums[i] = weights[i].fused(numbers[i], sums[i]);
                    }
                }
            }
            Weights::Cubic { pieces, table } => {
                let place = rest * *pieces as u64;
                let (piece, within) = (place / self.to as u64, place % self.to as u64);
                let h = (within as f64 / self.to as f64 - 0.5) as f32;
                let table = &table[piece as usize * self.taps..][..self.taps];
                for (numbers, cubics) in numbers.iter().zip(table.as_chunks::<SUMS>().0) {
                    for i in 0..SUMS {
                        let [p0, p1, p2, p3] = cubics[i];
                        let weight = p3.fused(h, p2).fused(h, p1).fused(h, p0);
                        sums[i] = weight.fused(numbers[i], sums[i]);
                    }
                }
            }
        }
        let [a, b, c, d] = sums;
        ((a + b) + (c + d)).0
    }
}
