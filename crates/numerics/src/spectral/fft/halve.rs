//! A long line of numbers, halved: a short low-pass, of which every second number is computed.
//!
//! `y_j = h_0 x_{2j} + Σ_{t ≤ m} h_t (x_{2j−t} + x_{2j+t})` has at frequency `f` of `x` what `x` has there, times the response
//! `H(f) = h_0 + 2 Σ h_t cos 2πft`, and what `x` has at `½ − f`, times `H(½ − f)`. Nobody asks for frequencies above some `b`, so
//! `H` may be anything between `b` and `½ − b`, and need not be flat below, where it is divided out. All it must be is small from `½ − b`
//! to `½`. The polynomial in `cos 2πf` that is smallest there for its degree is Chebyshev's, stretched over that stretch: a degree
//! of 3 is enough for `b = 0.02`, 7 for `b = 1/6`. Its coefficients are all positive, so nothing cancels.
//!
//! The way back is the transpose: `x_{2j}` gets the even `h`, `x_{2j+1}` the odd ones.

use super::LANES;
use crate::gemm::vectorised;
use core::f64::consts::TAU;

/// What may fold onto a frequency, in parts of what is there: hardly more than the rounding of single precision. The taps are rounded
/// too, which adds to it.
const ALIAS: f64 = 2.5e-7;

/// The first degree that no band needs.
const DEGREES: usize = 8;

/// A low-pass, and whatever is done with it.
pub(super) struct Halving {
    /// `h_0, …, h_m`.
    taps: [f32; DEGREES],
    /// `m`.
    degree: usize,
}

impl Halving {
    /// For frequencies up to `band`, in units of the longer line's.
    pub(super) fn new(band: f64) -> Self {
        assert!(band > 0.0 && band <= 1.0 / 6.0);
        let edge = libm::cos(TAU * band);
        // Chebyshev's polynomial is 1 at its end, and this large at the end of the band.
        let (mut at, mut degree) = ([1.0, (3.0 * edge + 1.0) / (1.0 - edge)], 1);
        let twice = 2.0 * at[1];
        while at[1] * ALIAS < 1.0 {
            at = [at[1], twice * at[1] - at[0]];
            degree += 1;
        }
        assert!(degree < DEGREES);
        // One factor `cos 2πf − z` after the other, as coefficients of `cos 2πft`.
        let mut wide = [0.0; DEGREES + 1];
        wide[0] = 1.0;
        for i in 0..degree {
            let node = libm::cos(TAU * (2 * i + 1) as f64 / (4 * degree) as f64);
            let zero = 0.5 * ((1.0 - edge) * node - (1.0 + edge));
            let before = wide;
            for t in 0..DEGREES {
                let near = before[if t == 0 { 1 } else { t - 1 }];
                wide[t] = 0.5 * (near + before[t + 1]) - zero * before[t];
            }
        }
        // Half of the numbers have half of the sum, which is made good here.
        let sum = 0.5 * wide[0] + wide[1..].iter().sum::<f64>();
        Self { taps: core::array::from_fn(|t| (wide[t] / sum) as f32), degree }
    }

    /// `m`.
    pub(super) fn degree(&self) -> usize {
        self.degree
    }

    /// `H(f)`, of the taps as they are rounded: what is left of frequency `f`.
    pub(super) fn response(&self, frequency: f64) -> f64 {
        let wave = |t: usize| f64::from(self.taps[t]) * libm::cos(TAU * frequency * t as f64);
        0.5 * f64::from(self.taps[0]) + (1..=self.degree).map(wave).sum::<f64>()
    }

    /// Numbers behind the first that `down` looks at, for so many results.
    pub(super) fn reach_down(&self, results: usize) -> usize {
        2 * (results + self.degree).next_multiple_of(LANES)
    }

    /// Numbers that `up` looks at for so many pairs.
    pub(super) fn reach_up(&self, pairs: usize) -> usize {
        pairs + self.degree
    }

    /// Result `j` is around number `2j + m` of a line; `even` and `odd` hold its numbers, and whole lanes are written.
    pub(super) fn down(&self, even: &[f32], odd: &[f32], results: &mut [f32]) {
        match self.degree {
            1 => self.narrow::<1>(even, odd, results),
            2 => self.narrow::<2>(even, odd, results),
            3 => self.narrow::<3>(even, odd, results),
            4 => self.narrow::<4>(even, odd, results),
            5 => self.narrow::<5>(even, odd, results),
            6 => self.narrow::<6>(even, odd, results),
            _ => self.narrow::<7>(even, odd, results),
        }
    }

    /// The transpose: pair `j` is the one around number `j + ⌊m/2⌋` of the short line.
    pub(super) fn up(&self, short: &[f32], pairs: &mut [f32]) {
        match self.degree {
            1 => self.widen::<1>(short, pairs),
            2 => self.widen::<2>(short, pairs),
            3 => self.widen::<3>(short, pairs),
            4 => self.widen::<4>(short, pairs),
            5 => self.widen::<5>(short, pairs),
            6 => self.widen::<6>(short, pairs),
            _ => self.widen::<7>(short, pairs),
        }
    }

    fn narrow<const M: usize>(&self, even: &[f32], odd: &[f32], results: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || narrowed::<M>(&self.taps, even, odd, results),
        );
    }

    fn widen<const M: usize>(&self, short: &[f32], pairs: &mut [f32]) {
        vectorised(
            #[inline(always)]
            || widened::<M>(&self.taps, short, pairs),
        );
    }
}

/// Functions and not closures, so that the compiler knows that results are nowhere among the numbers, and one flat loop: it
/// then vectorises as a whole.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn narrowed<const M: usize>(taps: &[f32; DEGREES], even: &[f32], odd: &[f32], results: &mut [f32]) {
    let taps = *taps;
    let count = results.len();
    let line = |at: usize| &if at.is_multiple_of(2) { even } else { odd }[at / 2..][..count];
    let middle = line(M);
    // From the outside in: what is small is added first.
    let sides: [(&[f32], &[f32]); M] = core::array::from_fn(
        #[inline(always)]
        |i| (line(i), line(2 * M - i)),
    );
    for i in 0..count {
        let mut sum = 0.0;
        for t in 0..M {
            sum = taps[M - t].mul_add(sides[t].0[i] + sides[t].1[i], sum);
        }
        results[i] = taps[0].mul_add(middle[i], sum);
    }
}

/// The transpose.
#[expect(clippy::needless_range_loop, reason = "the index is that of the tap, too")]
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn widened<const M: usize>(taps: &[f32; DEGREES], short: &[f32], pairs: &mut [f32]) {
    let taps = *taps;
    let (pairs, _) = pairs.as_chunks_mut::<2>();
    let count = pairs.len();
    let line = |at: usize| &short[at..][..count];
    let middle = line(M / 2);
    let sides: [(&[f32], &[f32]); M] = core::array::from_fn(
        #[inline(always)]
        |i| (line(M / 2 - (M - i) / 2), line(M / 2 + (M - i).div_ceil(2))),
    );
    for i in 0..count {
        // `h_t` belongs to the even number of a pair if `t` is even, and to the odd one otherwise.
        let mut sums = [0.0; 2];
        for at in 0..M {
            let t = M - at;
            sums[t % 2] = taps[t].mul_add(sides[at].0[i] + sides[at].1[i], sums[t % 2]);
        }
        pairs[i] = [taps[0].mul_add(middle[i], sums[0]), sums[1]];
    }
}

/// Every second number of a line, and the others.
pub(super) fn part(line: &[f32], even: &mut [f32], odd: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || parted(line.as_chunks().0, even, odd),
    );
}

#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn parted(pairs: &[[f32; 2]], even: &mut [f32], odd: &mut [f32]) {
    let (even, odd) = (&mut even[..pairs.len()], &mut odd[..pairs.len()]);
    for i in 0..pairs.len() {
        even[i] = pairs[i][0];
        odd[i] = pairs[i][1];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_folds_onto_the_band_is_below_single_precision() {
        let mut degrees = Vec::new();
        for band in [1e-6, 1e-4, 0.01, 0.02, 0.04, 0.08, 0.1, 0.125, 0.16, 1.0 / 6.0] {
            let halving = Halving::new(band);
            let mut taps = halving.taps[..=halving.degree].iter();
            assert!(taps.all(|tap| *tap > 0.0) && (halving.response(0.0) - 1.0).abs() < 1e-6);
            for step in 0..=200 {
                let f = band * f64::from(step) / 200.0;
                let share = halving.response(0.5 - f).abs() / halving.response(f);
                // The taps are rounded, too.
                assert!(share < 3.5e-7, "{band} {f}: {share}");
            }
            degrees.push(halving.degree);
        }
        // They are part of results and never change.
        assert_eq!(degrees, [1, 1, 2, 3, 3, 4, 5, 6, 7, 7]);
    }
}
