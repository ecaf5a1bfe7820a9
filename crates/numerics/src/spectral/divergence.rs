//! The four forms of the divergence, with their exact gradients.

use super::fft::{Bins, Lanes};
use super::plan::Spectrum;
use super::pointwise::{Slope, Sums, differ, logarithms, measure, measure_and_shape, shape};
use super::transform::{Memory, Transform};
use super::truncation::{Band, Kept};
use crate::{Differentiable, NumericsError, Proximal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// `(1/2N) Σ |z(w) − z(v)|²`, phase included; at `τ = 1` exactly `½‖w − v‖²`.
    Complex,
}

impl Form {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["normalized", "raw", "generalized", "complex"];
}

/// The teacher, transformed once per phase. Per kept block, where a spectrum is needed.
enum Teacher {
    /// `log q`, and `q` summed over the kept entries.
    Magnitudes { logs: Vec<Lanes>, total: f64 },
    /// `z(v)`.
    Bins(Vec<Bins>),
    /// `v` itself: with the phase and all frequencies, Parseval spares the transform.
    Parameters(Vec<f32>),
}

/// `D(ŝ(w) ‖ ŝ(teacher))` as a term of an objective in `w`.
///
/// ```
/// use formant_numerics::{Differentiable, Form, Layout, Length, Scope, SpectralDivergence, Spectrum};
/// use std::sync::Arc;
/// let plans = Arc::new(Spectrum::new(&Layout::single(4), Scope::Flat, Length::Exact));
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
    /// Per transform.
    kept: Vec<Kept>,
    teacher: Teacher,
    memory: Memory,
}

impl core::fmt::Debug for SpectralDivergence {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "SpectralDivergence({:?}, {:?})", self.form, self.plans)
    }
}

impl SpectralDivergence {
    /// The term towards `teacher`, over the first `⌈τN⌉` entries of the spectrum.
    pub fn new(
        plans: Arc<Spectrum>,
        form: Form,
        tau: f64,
        teacher: &[f32],
    ) -> Result<Self, NumericsError> {
        Self::in_band(plans, form, tau, Band::Low, teacher)
    }

    /// The term over any band of `⌈τN⌉` entries.
    pub fn in_band(
        plans: Arc<Spectrum>,
        form: Form,
        tau: f64,
        band: Band,
        teacher: &[f32],
    ) -> Result<Self, NumericsError> {
        let kept = plans.kept(tau, band)?;
        if form == Form::Complex && tau == 1.0 {
            let own = teacher[plans.range.clone()].to_vec();
            let (teacher, memory) = (Teacher::Parameters(own), Memory::default());
            return Ok(Self { plans, form, kept, teacher, memory });
        }
        Ok(Self::transformed(plans, form, kept, teacher))
    }

    /// The term with the teacher's spectrum.
    fn transformed(plans: Arc<Spectrum>, form: Form, kept: Vec<Kept>, teacher: &[f32]) -> Self {
        let mut memory = plans.memory();
        let blocks = plans.transforms.iter().zip(&kept).map(|(t, k)| t.order.groups() * k.blocks());
        let blocks = blocks.sum();
        let mut base = 0;
        let teacher = if form == Form::Complex {
            let mut all = Vec::with_capacity(blocks);
            for (transform, kept) in plans.transforms.iter().zip(&kept) {
                transform
                    .analyse(teacher, &mut memory, kept, |_, bins, _| all.extend_from_slice(bins));
            }
            Teacher::Bins(all)
        } else {
            let (mut logs, mut total) = (vec![Lanes::default(); blocks], 0.0);
            for (transform, kept) in plans.transforms.iter().zip(&kept) {
                let mut sum = 0.0;
                transform.analyse(teacher, &mut memory, kept, |at, bins, counts| {
                    sum += logarithms(bins, counts, &mut logs[base + at..][..bins.len()]);
                });
                base += transform.order.groups() * kept.blocks();
                total += transform.share() * sum;
            }
            Teacher::Magnitudes { logs, total }
        };
        Self { plans, form, kept, teacher, memory }
    }

    /// The value alone of the normalised form; none of another one, and none of a student whose kept
    /// spectrum is zero.
    pub(super) fn normalized(&mut self, w: &[f32]) -> Option<f64> {
        let Teacher::Magnitudes { logs, total } = &self.teacher else { return None };
        let sums = measured(&self.plans, &self.kept, logs, w, &mut self.memory);
        (sums.total > 0.0).then(|| divergence(sums, *total).0)
    }
}

/// Transforms with what is kept of them and the teacher's logarithms there.
fn with_logs<'a>(
    plans: &'a Spectrum,
    kept: &'a [Kept],
    logs: &'a [Lanes],
) -> impl Iterator<Item = (&'a Transform, &'a Kept, &'a [Lanes])> {
    let mut rest = logs;
    plans.transforms.iter().zip(kept).map(move |(transform, kept)| {
        let own;
        (own, rest) = rest.split_at(transform.order.groups() * kept.blocks());
        (transform, kept, own)
    })
}

/// The sums over a student's kept entries. Its spectra are then in the memory.
fn measured(
    plans: &Spectrum,
    kept: &[Kept],
    logs: &[Lanes],
    w: &[f32],
    memory: &mut Memory,
) -> Sums {
    let mut sums = Sums::default();
    for (transform, kept, logs) in with_logs(plans, kept, logs) {
        transform.analyse(w, memory, kept, |at, bins, counts| {
            sums.add(transform.share(), measure(bins, &logs[at..][..bins.len()], counts));
        });
    }
    sums
}

/// `Σ P log(P/Q)` of sums, and `log(Σp/Σq)`.
fn divergence(sums: Sums, teacher_total: f64) -> (f64, f64) {
    let offset = libm::log(sums.total / teacher_total);
    (sums.along / sums.total - offset, offset)
}

impl Differentiable for SpectralDivergence {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        let Self { plans, form, kept, teacher, memory } = self;
        let student = Student { weight, w, gradient, plans, kept, memory };
        match teacher {
            Teacher::Parameters(anchor) => {
                let (own, gradient) = (plans.range.clone(), student.gradient);
                Proximal { anchor }.add(weight, &w[own.clone()], &mut gradient[own])
            }
            Teacher::Bins(teacher) => student.complex(teacher),
            Teacher::Magnitudes { logs, total } => match form {
                Form::Raw | Form::Generalized => student.known_slope(*form, logs, *total),
                Form::Normalized | Form::Complex => student.normalized(logs, *total),
            },
        }
    }
}

/// The student of one evaluation, what it is transformed with, and where the gradient goes.
struct Student<'a> {
    /// Of the term in the objective.
    weight: f32,
    w: &'a [f32],
    gradient: &'a mut [f32],
    plans: &'a Spectrum,
    /// Per transform.
    kept: &'a [Kept],
    memory: &'a mut Memory,
}

impl Student<'_> {
    /// `raw`: `D = Σ p log(p/q)`, `g = log(p/q) + 1`. `generalized`: `D = Σ p log(p/q) − p + q`,
    /// `g = log(p/q)`.
    fn known_slope(self, form: Form, logs: &[Lanes], teacher_total: f64) -> f64 {
        let Self { weight, w, gradient, plans, kept, memory } = self;
        let (mut sums, mut logs) = (Sums::default(), logs);
        let shift = if form == Form::Raw { 1.0 } else { 0.0 };
        for (transform, kept) in plans.transforms.iter().zip(kept) {
            let slope = Slope { scale: f64::from(weight) * transform.share(), shift };
            let (own, rest) = logs.split_at(transform.order.groups() * kept.blocks());
            logs = rest;
            transform.pass(w, memory, kept, gradient, |at, bins, counts| {
                let part = measure_and_shape(bins, &own[at..][..bins.len()], counts, slope);
                sums.add(transform.share(), part);
            });
        }
        if form == Form::Raw { sums.along } else { sums.along - sums.total + teacher_total }
    }

    /// `D = Σ P log(P/Q)`, `g = (log(P/Q) − D)/Σp`, where `log(P/Q) = log(p/q) − log(Σp/Σq)`.
    fn normalized(self, logs: &[Lanes], teacher_total: f64) -> f64 {
        let Self { weight, w, gradient, plans, kept, memory } = self;
        let sums = measured(plans, kept, logs, w, memory);
        if sums.total <= 0.0 {
            // A student whose kept spectrum is zero has no direction to move in.
            return 0.0;
        }
        let (value, offset) = divergence(sums, teacher_total);
        for (transform, kept, logs) in with_logs(plans, kept, logs) {
            let scale = f64::from(weight) * transform.share() / sums.total;
            let slope = Slope { scale, shift: -offset - value };
            transform.synthesise(memory, kept, gradient, |at, bins, counts| {
                shape(bins, &logs[at..][..bins.len()], counts, slope);
            });
        }
        value
    }

    /// `D = (1/2N) Σ |z(w) − z(v)|²`, whose gradient is `(1/N) Re Σ (z(w) − z(v)) e^{+2πi kn/N}`.
    fn complex(self, teacher: &[Bins]) -> f64 {
        let Self { weight, w, gradient, plans, kept, memory } = self;
        let (mut value, mut teacher) = (0.0, teacher);
        for (transform, kept) in plans.transforms.iter().zip(kept) {
            let n = transform.gain();
            let scale = (f64::from(weight) / n) as f32;
            let (own, rest) = teacher.split_at(transform.order.groups() * kept.blocks());
            teacher = rest;
            let mut sum = 0.0;
            transform.pass(w, memory, kept, gradient, |at, bins, counts| {
                sum += differ(bins, &own[at..][..bins.len()], counts, scale);
            });
            value += sum / (2.0 * n);
        }
        value
    }
}

#[cfg(test)]
mod tests;
