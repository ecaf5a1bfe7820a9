//! What happens to each bin between the two transforms.
//!
//! Loops run over eight lanes in plain arithmetic and without branches, so that they vectorise. Sums
//! collect [`NEAR`] blocks in `f32` and go on in `f64`.
#![expect(clippy::needless_range_loop, reason = "a loop over lanes is what vectorises")]

use super::fft::{Bins, LANES, Lanes};
use crate::gemm::vectorised;

/// Teacher magnitudes are never below this, so that no logarithm is infinite. It is far below any
/// magnitude that a trained model shows, and its logarithm (−69) is harmless.
pub(super) const FLOOR: f32 = 1e-30;

/// Blocks that are summed in `f32`: with so few terms the rounding is that of the terms themselves.
const NEAR: usize = 16;

/// Sums over the kept entries: `Σ p` and `Σ p log(p/q)`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) total: f64,
    pub(super) along: f64,
}

impl Sums {
    /// Adds sums whose entries weigh `share` each.
    pub(super) fn add(&mut self, share: f64, other: Self) {
        self.total += share * other.total;
        self.along += share * other.along;
    }
}

/// `g_k = scale · (log(p_k/q_k) + shift)`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slope {
    pub(super) scale: f64,
    pub(super) shift: f64,
}

/// `log q` of a teacher's bins; returns `Σ q` over the kept entries.
pub(super) fn logarithms(bins: &[Bins], counts: Lanes, logs: &mut [Lanes]) -> f64 {
    let mut totals = [0.0f64; LANES];
    vectorised(
        #[inline(always)]
        || {
            for (z, log) in bins.iter().zip(logs) {
                let z = *z;
                let (mut q, mut logs) = (Lanes::default(), Lanes::default());
                for l in 0..LANES {
                    let square = z.re.0[l] * z.re.0[l] + z.im.0[l] * z.im.0[l];
                    q.0[l] = square.sqrt().max(FLOOR);
                    logs.0[l] = ln(q.0[l]);
                }
                *log = logs;
                for l in 0..LANES {
                    totals[l] += f64::from(q.0[l]) * f64::from(counts.0[l]);
                }
            }
        },
    );
    totals.iter().sum()
}

/// The sums of a student's bins.
pub(super) fn measure(bins: &mut [Bins], logs: &[Lanes], counts: Lanes) -> Sums {
    walk::<true, false>(bins, logs, counts, Slope::default())
}

/// Turns each `z_k` into the coefficient `conj(g_k z_k/|z_k|)`, times the number of its entries.
pub(super) fn shape(bins: &mut [Bins], logs: &[Lanes], counts: Lanes, slope: Slope) {
    walk::<false, true>(bins, logs, counts, slope);
}

/// [`measure`] and [`shape`] at once, where the slope is known beforehand.
pub(super) fn measure_and_shape(
    bins: &mut [Bins],
    logs: &[Lanes],
    counts: Lanes,
    slope: Slope,
) -> Sums {
    walk::<true, true>(bins, logs, counts, slope)
}

fn walk<const MEASURE: bool, const SHAPE: bool>(
    bins: &mut [Bins],
    logs: &[Lanes],
    counts: Lanes,
    slope: Slope,
) -> Sums {
    let (scale, shift) = (slope.scale as f32, slope.shift as f32);
    let (mut totals, mut alongs) = ([0.0f64; LANES], [0.0f64; LANES]);
    vectorised(
        #[inline(always)]
        || {
            for (bins, logs) in bins.chunks_mut(NEAR).zip(logs.chunks(NEAR)) {
                let (mut total, mut along) = ([0.0f32; LANES], [0.0f32; LANES]);
                for (bins, log) in bins.iter_mut().zip(logs) {
                    let z = *bins;
                    let mut shaped = Bins::default();
                    for l in 0..LANES {
                        let (re, im) = (z.re.0[l], z.im.0[l]);
                        let square = re * re + im * im;
                        // A bin whose square underflows is zero: 0 log 0 = 0, and it has no phase.
                        // Everything is computed for it, and then dropped: a choice between two
                        // values vectorises, a choice between two ways does not.
                        let zero = square < f32::MIN_POSITIVE;
                        let square = square.max(f32::MIN_POSITIVE);
                        let (p, ratio) = (square.sqrt(), 0.5 * ln(square) - log.0[l]);
                        let count = if zero { 0.0 } else { counts.0[l] };
                        if MEASURE {
                            let kept = count * p;
                            total[l] += kept;
                            along[l] += kept * ratio;
                        }
                        if SHAPE {
                            let factor = count * scale * (ratio + shift) / p;
                            shaped.re.0[l] = factor * re;
                            shaped.im.0[l] = -(factor * im);
                        }
                    }
                    if SHAPE {
                        *bins = shaped;
                    }
                }
                if MEASURE {
                    for l in 0..LANES {
                        totals[l] += f64::from(total[l]);
                        alongs[l] += f64::from(along[l]);
                    }
                }
            }
        },
    );
    Sums { total: totals.iter().sum(), along: alongs.iter().sum() }
}

/// Turns `z(w)` into coefficients `scale · conj(z(w) − z(v))`, times the number of entries; returns
/// `Σ |z(w) − z(v)|²` over the kept entries.
pub(super) fn differ(bins: &mut [Bins], teacher: &[Bins], counts: Lanes, scale: f32) -> f64 {
    let mut sums = [0.0f64; LANES];
    vectorised(
        #[inline(always)]
        || {
            for (bins, teacher) in bins.chunks_mut(NEAR).zip(teacher.chunks(NEAR)) {
                let mut sum = [0.0f32; LANES];
                for (bins, v) in bins.iter_mut().zip(teacher) {
                    let z = *bins;
                    let mut shaped = Bins::default();
                    for l in 0..LANES {
                        let (re, im) = (z.re.0[l] - v.re.0[l], z.im.0[l] - v.im.0[l]);
                        sum[l] += counts.0[l] * (re * re + im * im);
                        let factor = counts.0[l] * scale;
                        shaped.re.0[l] = factor * re;
                        shaped.im.0[l] = -(factor * im);
                    }
                    *bins = shaped;
                }
                for l in 0..LANES {
                    sums[l] += f64::from(sum[l]);
                }
            }
        },
    );
    sums.iter().sum()
}

/// Natural logarithm of a positive normal number, free of branches so that it vectorises: the
/// exponent apart, then the polynomial of Cephes' `logf` on `[√½, √2)`. Error below 2 ulp; pure
/// arithmetic, so the same bits everywhere.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
pub(super) fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    // Shift so that the mantissa falls into [√½, √2).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23)) - 1.0;
    let e = exponent as f32;
    // Pairs of powers, so that few operations wait for each other.
    let square = m * m;
    let fourth = square * square;
    let low =
        (-2.499_999_4e-1 * m + 3.333_333e-1) + (-1.666_805_7e-1 * m + 2.000_071_5e-1) * square;
    let high =
        (-1.242_014_1e-1 * m + 1.424_932_3e-1) + (-1.151_461e-1 * m + 1.167_699_9e-1) * square;
    let y = low + (high + 7.037_683_6e-2 * fourth) * fourth;
    let tail = y * (m * square) - 2.121_944_4e-4 * e - 0.5 * square;
    m + tail + 0.693_359_4 * e
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_accurate_over_the_whole_range() {
        let mut worst = 0.0f64;
        let mut x = f32::MIN_POSITIVE;
        while x < f32::MAX / 1.01 {
            let want = f64::from(x).ln();
            worst = worst.max((f64::from(ln(x)) - want).abs() / want.abs().max(1.0));
            x *= 1.003;
        }
        assert!(worst < 2.5e-7, "relative error {worst}");
    }

    #[test]
    fn short_sums_in_single_precision_lose_nothing() {
        let mut rng = crate::Rng::new(9, crate::Stream::Test, 0, 0);
        let mut draw = || Lanes(core::array::from_fn(|_| rng.normal() as f32));
        let mut bins: Vec<Bins> = (0..5_000).map(|_| Bins { re: draw(), im: draw() }).collect();
        let teacher: Vec<Bins> = (0..5_000).map(|_| Bins { re: draw(), im: draw() }).collect();
        let counts = Lanes([2.0; LANES]);
        let mut logs = vec![Lanes::default(); 5_000];
        let q = logarithms(&teacher, counts, &mut logs);
        let (mut want, mut size) = (Sums::default(), 0.0);
        let norm = |re: f32, im: f32| f64::from(re).hypot(f64::from(im));
        let mut want_q = 0.0;
        for (z, v) in bins.iter().zip(&teacher) {
            for l in 0..LANES {
                let (p, q) = (norm(z.re.0[l], z.im.0[l]), norm(v.re.0[l], v.im.0[l]));
                want.add(2.0, Sums { total: p, along: p * (p / q).ln() });
                size += 2.0 * (p * (p / q).ln()).abs();
                want_q += 2.0 * q;
            }
        }
        let sums = measure(&mut bins, &logs, counts);
        assert!((q - want_q).abs() < 1e-8 * want_q);
        assert!((sums.total - want.total).abs() < 1e-8 * want.total, "{sums:?} for {want:?}");
        assert!((sums.along - want.along).abs() < 1e-8 * size, "{sums:?} for {want:?}");
    }
}
