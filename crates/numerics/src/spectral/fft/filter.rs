//! Numbers that lie evenly on a line, carried over to points at other distances on it.
//!
//! `y_j = Σ_i x_i φ(d_ij)`, where `d_ij` is the way from point `j` to number `i` in units of the kernel. Eight points that follow
//! each other see the same few numbers, so every number goes to all eight at once, each with its own weight. The weights
//! depend on where the first of the eight stands between two numbers: a cubic in that place gives them.

use super::kernel::Kernel;
use super::{LANES, Lanes};
use crate::gemm::vectorised;

/// Numbers under eight points at most.
const MOST: usize = 128;

/// Sums that go side by side, so that few operations wait for each other. `taps` is a multiple of it.
const SUMS: usize = 4;

/// Pieces of a cubic in one unit of the kernel.
const FINE: usize = 16;

/// Binary digits of a place between two pieces.
const DIGITS: u32 = 56;

/// From numbers on a line to points on it, both from place zero on.
pub(super) struct Filter {
    /// From one point to the next it is `from/to` numbers.
    from: i64,
    to: i64,
    /// Numbers under eight points.
    taps: usize,
    /// How many of them stand before number `at`, the last one at or before the first point.
    before: usize,
    /// Pieces in `1/to`, in units of the last digit.
    scale: u64,
    /// By piece and number.
    cubics: Vec<[Lanes; 4]>,
}

impl Filter {
    /// From one point to the next it is `from/to` numbers; `unit` numbers are one unit of the kernel.
    pub(super) fn new((from, to): (usize, usize), unit: f64, width: f64, kernel: &Kernel) -> Self {
        let step = from as f64 / to as f64;
        let reach = 0.5 * width * unit;
        let before = reach.ceil() as usize;
        // Up to the end of the last point's reach, wherever between two numbers the first one stands.
        let last = (reach + (LANES - 1) as f64 * step + 1.0).ceil() as usize;
        let taps = (before + last + 1).next_multiple_of(SUMS);
        assert!(taps <= MOST, "{from} numbers, {to} points");
        let pieces = ((FINE as f64 / unit).ceil() as usize).max(1);
        let cubic = |piece: usize, tap: usize| {
            let middle = (piece as f64 + 0.5) / pieces as f64;
            let mut found = [Lanes::default(); 4];
            for l in 0..LANES {
                let offset = (tap as f64 - before as f64 - middle - l as f64 * step) / unit;
                let all = kernel.cubic(offset, -1.0 / (pieces as f64 * unit));
                for (lanes, p) in found.iter_mut().zip(all) {
                    lanes.0[l] = p as f32;
                }
            }
            found
        };
        let every = (0..pieces).flat_map(|piece| (0..taps).map(move |tap| (piece, tap)));
        let cubics = every.map(|(piece, tap)| cubic(piece, tap)).collect();
        let scale = ((pieces as u64) << DIGITS) / to as u64;
        Self { from: from as i64, to: to as i64, taps, before, scale, cubics }
    }

    /// Gives eight points at a time to `take`, so many of them in all, from point `-points.0` on. The first of the numbers is number
    /// `-x.1`; there are zeros around them.
    pub(super) fn apply(
        &self,
        (x, ahead): (&[f32], usize),
        (start, points): (usize, usize),
        mut take: impl FnMut([f32; LANES]),
    ) {
        vectorised(
            #[inline(always)]
            || {
                let mut edge = [0.0; MOST];
                let position = -(start as i64) * self.from;
                let mut rest = position.rem_euclid(self.to);
                let mut at = position.div_euclid(self.to) + ahead as i64 - self.before as i64;
                let eight = LANES as i64 * self.from;
                let (whole, part) = (eight / self.to, eight % self.to);
                for _ in (0..points).step_by(LANES) {
                    let inner = usize::try_from(at).ok().and_then(|at| x.get(at..at + self.taps));
                    let numbers = inner.unwrap_or_else(|| self.around(x, at, &mut edge));
                    take(self.eight(numbers, rest));
                    (at, rest) = (at + whole, rest + part);
                    if rest >= self.to {
                        (at, rest) = (at + 1, rest - self.to);
                    }
                }
            },
        );
    }

    /// Numbers around an end.
    #[cold]
    fn around<'e>(&self, x: &[f32], at: i64, edge: &'e mut [f32; MOST]) -> &'e [f32] {
        let edge = &mut edge[..self.taps];
        for (i, number) in (at..).zip(edge.iter_mut()) {
            *number = usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0.0);
        }
        edge
    }

    /// Eight points, the first of which stands `rest/to` behind a number.
    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn eight(&self, numbers: &[f32], rest: i64) -> [f32; LANES] {
        let mut sums = [Lanes::default(); SUMS];
        let (numbers, _) = numbers.as_chunks::<SUMS>();
        let place = rest as u64 * self.scale;
        // 23 digits behind the point: a whole number that an `f32` holds.
        let behind = (place >> (DIGITS - 23)) as i32 & 0x7f_ffff;
        let h = behind as f32 * 2f32.powi(-23) - 0.5;
        let cubics = &self.cubics[(place >> DIGITS) as usize * self.taps..][..self.taps];
        for (numbers, cubics) in numbers.iter().zip(cubics.as_chunks::<SUMS>().0) {
            for i in 0..SUMS {
                let [p0, p1, p2, p3] = cubics[i];
                let weight = p3.fused(h, p2).fused(h, p1).fused(h, p0);
                sums[i] = weight.fused(numbers[i], sums[i]);
            }
        }
        let [a, b, c, d] = sums;
        ((a + b) + (c + d)).0
    }
}
