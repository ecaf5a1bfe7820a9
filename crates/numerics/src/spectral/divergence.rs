//! The four forms of the divergence, with their exact gradients.

use super::plan::{Buffers, Spectrum, multiplicity};
use crate::gemm::vectorised;
use crate::{NumericsError, Term};
use realfft::num_complex::Complex32;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Teacher magnitudes are never below this, so that no logarithm is infinite. It is far below any
/// magnitude that a trained model shows, and its logarithm (−69) is harmless.
const FLOOR: f32 = 1e-30;

/// How two spectra are compared. `p` is the student's magnitude, `q` the teacher's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `Σ P log(P/Q)` with `P = p/Σp`, `Q = q/Σq`: the KL divergence the paper argues from.
    #[default]
    Normalized,
    /// `Σ p log p − p log q`: the formula as printed. Its minimum is at `p = q/e`.
    Raw,
    /// `Σ p log(p/q) − p + q`: the same units, minimum at `p = q`.
    Generalized,
    /// `(1/2d) Σ |z(w) − z(v)|²`, phase included; at `τ = 1` exactly `½‖w − v‖²`.
    Complex,
}

/// The teacher, transformed once per phase.
enum Teacher {
    /// `log q` and `q` summed over the kept entries.
    Magnitudes { logs: Vec<f32>, total: f64 },
    /// `z(v)`.
    Bins(Vec<Complex32>),
}

/// `D(ŝ(w) ‖ ŝ(teacher))` as a term of an objective in `w`.
///
/// ```
/// use formant_numerics::{Form, Layout, Scope, SpectralDivergence, Spectrum, Term};
/// use std::sync::Arc;
/// let plans = Arc::new(Spectrum::new(&Layout::single(4), Scope::Flat));
/// let teacher = [1.0, 2.0, 0.5, -1.0];
/// let mut term = SpectralDivergence::new(plans, Form::Complex, 1.0, &teacher)?;
/// // With all frequencies and the phase, it is half the squared distance (Parseval).
/// let value = term.add(1.0, &[1.0, 2.0, 0.5, 1.0], &mut [0.0; 4]);
/// assert!((value - 2.0).abs() < 1e-6);
/// # Ok::<(), formant_numerics::NumericsError>(())
/// ```
pub struct SpectralDivergence {
    plans: Arc<Spectrum>,
    form: Form,
    counts: Vec<u8>,
    teacher: Teacher,
    buffers: Buffers,
    /// `log(p/q)` per bin, between the two passes.
    ratios: Vec<f32>,
}

impl core::fmt::Debug for SpectralDivergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SpectralDivergence({:?}, {:?})", self.form, self.plans)
    }
}

impl SpectralDivergence {
    /// The term towards `teacher`, over the first `⌈τd⌉` entries of the spectrum.
    pub fn new(
        plans: Arc<Spectrum>,
        form: Form,
        tau: f64,
        teacher: &[f32],
    ) -> Result<Self, NumericsError> {
        let counts = plans.counts(tau)?;
        let mut buffers = plans.buffers();
        plans.transform(teacher, &mut buffers);
        let teacher = if form == Form::Complex {
            Teacher::Bins(buffers.bins.clone())
        } else {
            let magnitudes = buffers.bins.iter().map(|z| magnitude(*z).max(FLOOR));
            let total =
                magnitudes.clone().zip(&counts).map(|(q, c)| f64::from(q) * f64::from(*c)).sum();
            Teacher::Magnitudes { logs: magnitudes.map(ln).collect(), total }
        };
        let ratios = vec![0.0; if form == Form::Complex { 0 } else { plans.bins() }];
        Ok(Self { plans, form, counts, teacher, buffers, ratios })
    }
}

impl Term for SpectralDivergence {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        self.plans.transform(w, &mut self.buffers);
        let value = match &self.teacher {
            Teacher::Bins(teacher) => {
                complex(weight, &self.plans, &self.counts, teacher, &mut self.buffers.bins)
            }
            Teacher::Magnitudes { logs, total } => {
                let sums = measure(&self.buffers.bins, &self.counts, logs, &mut self.ratios);
                let (value, slope) = evaluate(self.form, sums, *total);
                if let Some(slope) = slope {
                    shape_bins(
                        weight,
                        &self.plans,
                        &self.counts,
                        &self.ratios,
                        slope,
                        &mut self.buffers.bins,
                    );
                } else {
                    return value;
                }
                value
            }
        };
        self.plans.add_inverse(&mut self.buffers, gradient);
        value
    }
}

/// Sums over the kept entries: `Σ p` and `Σ p log(p/q)`.
#[derive(Clone, Copy)]
struct Sums {
    total: f64,
    along: f64,
}

/// `g_k = scale · (log(p_k/q_k) + shift)`.
#[derive(Clone, Copy)]
struct Slope {
    scale: f64,
    shift: f64,
}

/// The value of a form and the slope of its `g_k`; no slope where nothing can be differentiated.
fn evaluate(form: Form, sums: Sums, teacher_total: f64) -> (f64, Option<Slope>) {
    match form {
        Form::Raw => (sums.along, Some(Slope { scale: 1.0, shift: 1.0 })),
        Form::Generalized => {
            (sums.along - sums.total + teacher_total, Some(Slope { scale: 1.0, shift: 0.0 }))
        }
        // A student whose kept spectrum is zero has no direction to move in.
        Form::Normalized | Form::Complex if sums.total <= 0.0 => (0.0, None),
        Form::Normalized | Form::Complex => {
            // log(P/Q) = log(p/q) − log(Σp/Σq); g = (log(P/Q) − D)/Σp.
            let offset = libm::log(sums.total / teacher_total);
            let value = sums.along / sums.total - offset;
            (value, Some(Slope { scale: 1.0 / sums.total, shift: -offset - value }))
        }
    }
}

/// Interleaved `f64` sums: a fixed order that vectorises.
const LANES: usize = 8;

fn measure(bins: &[Complex32], counts: &[u8], teacher_logs: &[f32], ratios: &mut [f32]) -> Sums {
    let (mut total, mut along) = ([0.0f64; LANES], [0.0f64; LANES]);
    vectorised(
        #[inline(always)]
        || {
            let blocks = bins
                .chunks(LANES)
                .zip(counts.chunks(LANES))
                .zip(teacher_logs.chunks(LANES))
                .zip(ratios.chunks_mut(LANES));
            for (((bins, counts), logs), ratios) in blocks {
                for l in 0..bins.len() {
                    let p = magnitude(bins[l]);
                    // 0 log 0 = 0, and a zero bin has no phase: its ratio is never used.
                    let ratio = if p > 0.0 { ln(p.max(f32::MIN_POSITIVE)) - logs[l] } else { 0.0 };
                    ratios[l] = ratio;
                    let kept = f64::from(p) * f64::from(counts[l]);
                    total[l] += kept;
                    along[l] += kept * f64::from(ratio);
                }
            }
        },
    );
    Sums { total: total.iter().sum(), along: along.iter().sum() }
}

/// Turns `z_k` into the bin whose inverse transform is the gradient: `weight · g_k · z_k/|z_k|`,
/// times the share of the bin's entries that are kept, because the inverse transform counts all.
fn shape_bins(
    weight: f32,
    plans: &Spectrum,
    counts: &[u8],
    ratios: &[f32],
    slope: Slope,
    bins: &mut [Complex32],
) {
    let scale = (f64::from(weight) * slope.scale) as f32;
    let shift = slope.shift as f32;
    for segment in &plans.segments {
        let d = segment.range.len();
        let range = segment.bins.clone();
        let bins = &mut bins[range.clone()];
        let (counts, ratios) = (&counts[range.clone()], &ratios[range]);
        vectorised(
            #[inline(always)]
            || {
                for ((z, count), ratio) in bins.iter_mut().zip(counts).zip(ratios) {
                    let p = magnitude(*z);
                    // Almost all bins stand for two entries; the exceptions are mended below.
                    let factor = scale * (ratio + shift) * (0.5 * f32::from(*count));
                    let phase = if p > 0.0 { factor / p } else { 0.0 };
                    *z = Complex32::new(z.re * phase, z.im * phase);
                }
            },
        );
        double_single_bins(bins, d);
    }
}

/// Bins 0 and `d/2` stand for one entry each, so their kept share is the count and not half of it.
fn double_single_bins(bins: &mut [Complex32], d: usize) {
    bins[0] *= 2.0;
    if d > 1 && multiplicity(d / 2, d) == 1 {
        bins[d / 2] *= 2.0;
    }
}

/// The phase-aware form: value and bins in one pass.
fn complex(
    weight: f32,
    plans: &Spectrum,
    counts: &[u8],
    teacher: &[Complex32],
    bins: &mut [Complex32],
) -> f64 {
    let mut value = 0.0;
    for segment in &plans.segments {
        let d = segment.range.len();
        let range = segment.bins.clone();
        let scale = weight / d as f32;
        let bins = &mut bins[range.clone()];
        let (teacher, counts) = (&teacher[range.clone()], &counts[range]);
        let mut lanes = [0.0f64; LANES];
        vectorised(
            #[inline(always)]
            || {
                let blocks =
                    bins.chunks_mut(LANES).zip(teacher.chunks(LANES)).zip(counts.chunks(LANES));
                for ((bins, teacher), counts) in blocks {
                    for l in 0..bins.len() {
                        let difference = bins[l] - teacher[l];
                        let count = f32::from(counts[l]);
                        lanes[l] += f64::from(difference.norm_sqr()) * f64::from(count);
                        bins[l] = difference * (scale * 0.5 * count);
                    }
                }
            },
        );
        double_single_bins(bins, d);
        value += lanes.iter().sum::<f64>() / (2.0 * d as f64);
    }
    value
}

#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn magnitude(z: Complex32) -> f32 {
    (z.re * z.re + z.im * z.im).sqrt()
}

/// Natural logarithm of a positive normal number, free of branches so that it vectorises: the
/// exponent apart, then the polynomial of Cephes' `logf` on `[√½, √2)`. Error below 2 ulp; pure
/// arithmetic, so the same bits everywhere.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    // Shift so that the mantissa falls into [√½, √2).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((exponent as u32) << 23)) - 1.0;
    let e = exponent as f32;
    let mut y = 7.037_683_6e-2_f32;
    for c in [
        -1.151_461e-1_f32,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        y = y * m + c;
    }
    let square = m * m;
    let tail = y * m * square - 2.121_944_4e-4 * e - 0.5 * square;
    m + tail + 0.693_359_4 * e
}

#[cfg(test)]
mod tests;
