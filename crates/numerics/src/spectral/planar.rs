//! The divergence between two-dimensional spectra, with its exact gradient.
//!
//! The forms are those of one dimension ([`Form`]), with `z(k, l)` of all planes in one list. With
//! `g = ∂D/∂|z|` the gradient is `Re Σ g (z/|z|) e^{+2πi (kr/R + lc/C)}`: one transform there and one back.

use super::divergence::Form;
use super::planes::{PlaneMemory, Planes};
use super::pointwise::{FLOOR, Slope, Sums, ln};
use crate::{Differentiable, Proximal};
use realfft::num_complex::Complex32;
use std::sync::Arc;

/// The teacher, transformed once per phase.
enum Teacher {
    /// `log q` of every entry, and `q` summed over the kept ones.
    Magnitudes { logs: Vec<f32>, total: f64 },
    /// `z(v)`.
    Bins(Vec<Complex32>),
    /// `v` itself: with the phase and all frequencies, Parseval spares the transform.
    Parameters(Vec<f32>),
}

/// `D(ŝ(w) ‖ ŝ(teacher))` over planes.
pub(super) struct PlanarDivergence {
    planes: Arc<Planes<f32>>,
    form: Form,
    /// For each sheet, by place in a plane: 1 where an entry is kept, else 0.
    kept: Vec<Vec<f32>>,
    teacher: Teacher,
    /// The student's spectrum, plane by plane.
    bins: Vec<Complex32>,
    memory: PlaneMemory<f32>,
}

impl PlanarDivergence {
    /// The term towards `teacher`. `choose` says of so many entries in the order of their frequencies which are kept.
    pub(super) fn new(
        planes: Arc<Planes<f32>>,
        form: Form,
        choose: &mut dyn FnMut(usize) -> Vec<bool>,
        teacher: &[f32],
    ) -> Self {
        let mut kept = Vec::with_capacity(planes.sheets.len());
        for sheet in &planes.sheets {
            let mut places = vec![0.0; sheet.entries()];
            for (place, chosen) in sheet.order.iter().zip(choose(sheet.entries())) {
                places[*place] = f32::from(u8::from(chosen));
            }
            kept.push(places);
        }
        let memory = planes.memory();
        let is_plain = form == Form::Complex && kept.iter().flatten().all(|kept| *kept == 1.0);
        let anchor = teacher[planes.range.clone()].to_vec();
        let (found, bins) = (Teacher::Parameters(anchor), Vec::new());
        let mut term = Self { planes, form, kept, teacher: found, bins, memory };
        if !is_plain {
            term.transform_teacher(teacher);
        }
        term
    }

    fn transform_teacher(&mut self, teacher: &[f32]) {
        let sheets = self.planes.sheets.iter();
        let entries: usize = sheets.map(|sheet| sheet.planes * sheet.entries()).sum();
        self.bins = vec![Complex32::default(); entries];
        self.transform(teacher);
        self.teacher = if self.form == Form::Complex {
            Teacher::Bins(self.bins.clone())
        } else {
            let magnitude = |z: &Complex32| z.norm_sqr().sqrt().max(FLOOR);
            let logs = self.bins.iter().map(|z| ln(magnitude(z))).collect();
            let total = self.with_kept().map(|(z, kept)| f64::from(kept * magnitude(z))).sum();
            Teacher::Magnitudes { logs, total }
        };
    }

    /// Every entry with what is kept of it.
    fn with_kept(&self) -> impl Iterator<Item = (&Complex32, f32)> {
        let sheets = self.planes.sheets.iter().zip(&self.kept);
        let kept =
            sheets.flat_map(|(sheet, kept)| core::iter::repeat_n(kept, sheet.planes).flatten());
        self.bins.iter().zip(kept.copied())
    }

    /// The spectrum of some parameters into `bins`.
    fn transform(&mut self, w: &[f32]) {
        let mut rest = &mut self.bins[..];
        for sheet in &self.planes.sheets {
            for plane in 0..sheet.planes {
                let own;
                (own, rest) = rest.split_at_mut(sheet.entries());
                sheet.forward(plane, |i| w[i], &mut self.memory, own);
            }
        }
    }

    /// Hands the entries of each plane to `shape`, and adds what comes back from the transform of the result.
    fn synthesise(
        &mut self,
        gradient: &mut [f32],
        mut shape: impl FnMut(&mut [Complex32], &[f32], usize),
    ) {
        let (mut rest, mut at) = (&mut self.bins[..], 0);
        for (sheet, kept) in self.planes.sheets.iter().zip(&self.kept) {
            for plane in 0..sheet.planes {
                let own;
                (own, rest) = rest.split_at_mut(sheet.entries());
                shape(own, kept, at);
                at += sheet.entries();
                sheet.inverse(plane, own, &mut self.memory, |i, x| gradient[i] += x);
            }
        }
    }

    /// `Σ p` and `Σ p log(p/q)` over the kept entries of the student.
    fn measured(&self, logs: &[f32]) -> Sums {
        let mut sums = Sums::default();
        for ((z, kept), log) in self.with_kept().zip(logs) {
            if let Some((p, ratio)) = compared(*z, *log) {
                let p = f64::from(kept * p);
                sums.total += p;
                sums.along += p * f64::from(ratio);
            }
        }
        sums
    }

    fn by_magnitudes(
        &mut self,
        weight: f32,
        logs: &[f32],
        total: f64,
        gradient: &mut [f32],
    ) -> f64 {
        let sums = self.measured(logs);
        let Some((value, slope)) = self.form.slope(f64::from(weight), sums, total) else {
            return 0.0;
        };
        let (scale, shift) = (slope.scale as f32, slope.shift as f32);
        self.synthesise(gradient, |bins, kept, at| {
            for ((z, kept), log) in bins.iter_mut().zip(kept).zip(&logs[at..]) {
                let factor =
                    compared(*z, *log).map_or(0.0, |(p, ratio)| kept * scale * (ratio + shift) / p);
                *z *= factor;
            }
        });
        value
    }

    fn by_bins(&mut self, weight: f32, teacher: &[Complex32], gradient: &mut [f32]) -> f64 {
        let mut value = 0.0;
        self.synthesise(gradient, |bins, kept, at| {
            let n = bins.len() as f32;
            let mut sum = 0.0;
            for ((z, kept), v) in bins.iter_mut().zip(kept).zip(&teacher[at..]) {
                let apart = *z - *v;
                sum += f64::from(kept * apart.norm_sqr());
                *z = apart * (kept * weight / n);
            }
            value += sum / (2.0 * f64::from(n));
        });
        value
    }
}

/// `|z|` and `log(|z|/q)`; nothing where `z` is zero: `0 log 0 = 0`, and it has no phase.
fn compared(z: Complex32, log: f32) -> Option<(f32, f32)> {
    let square = z.norm_sqr();
    (square >= f32::MIN_POSITIVE).then(|| (square.sqrt(), 0.5 * ln(square) - log))
}

impl Form {
    /// The divergence by its sums, and the slope that gives its gradient, for forms that see magnitudes; nothing for a
    /// student whose kept spectrum is zero, which has no direction to move in.
    pub(super) fn slope(self, weight: f64, sums: Sums, total: f64) -> Option<(f64, Slope)> {
        if self == Self::Raw {
            return Some((sums.along, Slope { scale: weight, shift: 1.0 }));
        }
        if self == Self::Generalized {
            return Some((sums.along - sums.total + total, Slope { scale: weight, shift: 0.0 }));
        }
        if sums.total <= 0.0 {
            return None;
        }
        let offset = libm::log(sums.total / total);
        let value = sums.along / sums.total - offset;
        Some((value, Slope { scale: weight / sums.total, shift: -offset - value }))
    }
}

impl Differentiable for PlanarDivergence {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        // Lent while the rest of the term works; put back below.
        let none = Teacher::Parameters(Vec::new());
        let teacher = core::mem::replace(&mut self.teacher, none);
        let value = match &teacher {
            Teacher::Parameters(anchor) => {
                let own = self.planes.range.clone();
                let (w, gradient) = (&w[own.clone()], &mut gradient[own]);
                Proximal { anchor }.add(weight, w, gradient)
            }
            Teacher::Magnitudes { logs, total } => {
                self.transform(w);
                self.by_magnitudes(weight, logs, *total, gradient)
            }
            Teacher::Bins(bins) => {
                self.transform(w);
                self.by_bins(weight, bins, gradient)
            }
        };
        self.teacher = teacher;
        value
    }
}
