//! Spectral terms by the definition of the discrete Fourier transform.

use super::wide;
use core::f64::consts::TAU;
use core::ops::Range;
use formant_numerics::{Band, Form, Layout, Length, Rng, Scope, Spectral, Spectrum, Stream};

/// No magnitude of a teacher is below this, so that no logarithm is infinite.
const FLOOR: f64 = 1e-30;

#[derive(Debug, Clone, Copy)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn magnitude(self) -> f64 {
        self.re.hypot(self.im)
    }

    fn times(self, factor: f64) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }

    fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

/// Parameters that are transformed together.
#[derive(Debug)]
struct Segment {
    range: Range<usize>,
    /// `e^{2πij/N}`, one for each entry of the spectrum.
    roots: Vec<Complex>,
    /// The `K` entries that are compared.
    kept: Vec<usize>,
    /// Whether the parameters themselves are, and there is no spectrum.
    plain: bool,
}

impl Segment {
    fn new(range: Range<usize>, spectral: &Spectral<'_>) -> Self {
        let Spectral { scope, length, tau, band, .. } = *spectral;
        let plain = scope == Scope::Plain;
        let n = match length {
            _ if plain => range.len(),
            Length::Exact => range.len(),
            // A part of the definition that no formula gives.
            Length::Fast => {
                Spectrum::new(&Layout::single(range.len()), Scope::Flat, length).entries()
            }
        };
        let angle = |j: usize| TAU * j as f64 / n as f64;
        let roots = (0..n).map(|j| Complex { re: angle(j).cos(), im: angle(j).sin() }).collect();
        // ⌈τN⌉, where 0.07 · 100 is 7 although it is 7.000000000000001 in `f64`.
        let kept = ((tau * n as f64 * (1.0 - 1e-12)).ceil() as usize).clamp(1, n);
        let heads = if plain { n } else { n / 2 + 1 };
        let mut order: Vec<usize> = (0..heads).collect();
        match band {
            Band::Low => {}
            Band::High => order.reverse(),
            Band::Random(number) => {
                Rng::new(number.into(), Stream::Band, n as u64, 0).shuffle(&mut order);
            }
        }
        // Behind them their mirror images, as far as these are entries of their own.
        let mirrors: Vec<usize> =
            order.iter().map(|k| n - k).filter(|k| (heads..n).contains(k)).collect();
        let mut kept: Vec<usize> = match band {
            Band::Low => (0..kept).collect(),
            _ => order.into_iter().chain(mirrors).take(kept).collect(),
        };
        kept.sort_unstable();
        Self { range, roots, kept, plain }
    }

    /// `N`.
    fn len(&self) -> usize {
        self.roots.len()
    }

    /// What an entry weighs: `d/N`.
    fn share(&self) -> f64 {
        self.range.len() as f64 / self.len() as f64
    }

    /// `Σ|z|² / Σw²`.
    fn gain(&self) -> f64 {
        if self.plain { 1.0 } else { self.len() as f64 }
    }

    /// The kept of `z_k = Σ_n w_n e^{−2πikn/N}`.
    fn analyse(&self, w: &[f64]) -> Vec<Complex> {
        let entry = |k: usize| {
            if self.plain {
                return Complex { re: w[self.range.clone()][k], im: 0.0 };
            }
            let mut z = Complex { re: 0.0, im: 0.0 };
            for (n, w) in w[self.range.clone()].iter().enumerate() {
                let root = self.roots[k * n % self.len()];
                z = Complex { re: z.re + w * root.re, im: z.im - w * root.im };
            }
            z
        };
        self.kept.iter().map(|k| entry(*k)).collect()
    }

    /// Writes `Re Σ_k c_k e^{+2πikn/N}` for each parameter `n`.
    fn synthesise(&self, coefficients: &[Complex], gradient: &mut [f64]) {
        if self.plain {
            let to = &mut gradient[self.range.clone()];
            self.kept.iter().zip(coefficients).for_each(|(k, c)| to[*k] = c.re);
            return;
        }
        for (n, to) in gradient[self.range.clone()].iter_mut().enumerate() {
            let part = |(k, c): (&usize, &Complex)| {
                let root = self.roots[k * n % self.len()];
                c.re * root.re - c.im * root.im
            };
            *to = self.kept.iter().zip(coefficients).map(part).sum();
        }
    }
}

/// `D(ŝ(w) ‖ ŝ(teacher))` and its gradient, whichever step it is.
pub(super) fn divergence(spectral: &Spectral<'_>, layout: &Layout, w: &[f64]) -> (f64, Vec<f64>) {
    let Spectral { form, scope, part, teacher, .. } = *spectral;
    let own = layout.range(part);
    let tensors = layout.tensors().iter().map(|tensor| tensor.range.clone());
    let ranges = match scope {
        Scope::Flat | Scope::Plain => vec![own],
        Scope::PerLayer => tensors.filter(|range| own.contains(&range.start)).collect(),
        // Tested against their definitions where they are computed.
        other => panic!("the reference has no spectrum {other:?}"),
    };
    let segments: Vec<_> = ranges.into_iter().map(|range| Segment::new(range, spectral)).collect();
    let teacher = wide(teacher);
    let mut gradient = vec![0.0; w.len()];
    if form == Form::Complex {
        let mut value = 0.0;
        for segment in &segments {
            let n = segment.gain();
            let pairs = segment.analyse(w).into_iter().zip(segment.analyse(&teacher));
            let apart: Vec<_> = pairs.map(|(z, v)| z.minus(v)).collect();
            value += apart.iter().map(|z| z.magnitude().powi(2)).sum::<f64>() / (2.0 * n);
            let coefficients: Vec<_> = apart.iter().map(|z| z.times(1.0 / n)).collect();
            segment.synthesise(&coefficients, &mut gradient);
        }
        return (value, gradient);
    }
    let magnitudes = Magnitudes::new(&segments, w, &teacher);
    let value = magnitudes.value(form);
    for (segment, entries) in segments.iter().zip(&magnitudes.entries) {
        // g_k z_k/|z_k|; what is zero has no phase.
        let coefficient = |entry: &Entry| match entry.z.magnitude() {
            0.0 => entry.z,
            p => entry.z.times(magnitudes.slope(form, value, entry) / p),
        };
        let coefficients: Vec<_> = entries.iter().map(coefficient).collect();
        segment.synthesise(&coefficients, &mut gradient);
    }
    (value, gradient)
}

/// One entry of both spectra.
#[derive(Debug)]
struct Entry {
    /// The student's.
    z: Complex,
    /// Magnitude of the teacher's.
    q: f64,
    share: f64,
}

impl Entry {
    /// `log(p/q)`, of entries with `p > 0`.
    fn log_ratio(&self) -> f64 {
        (self.z.magnitude() / self.q).ln()
    }
}

/// The kept entries of all segments.
#[derive(Debug)]
struct Magnitudes {
    /// By segment.
    entries: Vec<Vec<Entry>>,
    /// `Σ p`.
    student: f64,
    /// `Σ q`.
    teacher: f64,
}

impl Magnitudes {
    fn new(segments: &[Segment], w: &[f64], teacher: &[f64]) -> Self {
        let entries = |segment: &Segment| {
            let pairs = segment.analyse(w).into_iter().zip(segment.analyse(teacher));
            let share = segment.share();
            pairs.map(|(z, v)| Entry { z, q: v.magnitude().max(FLOOR), share }).collect()
        };
        let entries: Vec<Vec<Entry>> = segments.iter().map(entries).collect();
        let all = || entries.iter().flatten();
        let student = all().map(|e| e.share * e.z.magnitude()).sum();
        let teacher = all().map(|e| e.share * e.q).sum();
        Self { entries, student, teacher }
    }

    /// `log(Σp/Σq)`: what lies between `log(p/q)` and `log(P/Q)`.
    fn offset(&self) -> f64 {
        (self.student / self.teacher).ln()
    }

    fn value(&self, form: Form) -> f64 {
        let shares = self.entries.iter().flatten().filter(|e| e.z.magnitude() > 0.0);
        let along: f64 = shares.map(|e| e.share * e.z.magnitude() * e.log_ratio()).sum();
        match form {
            // A student without a spectrum.
            Form::Normalized if self.student == 0.0 => 0.0,
            Form::Normalized => along / self.student - self.offset(),
            Form::Raw => along,
            Form::Generalized => along - self.student + self.teacher,
            Form::Complex => unreachable!("the complex form sees no magnitudes"),
        }
    }

    /// `g_k = ∂D/∂p_k`.
    fn slope(&self, form: Form, value: f64, entry: &Entry) -> f64 {
        let ratio = entry.log_ratio();
        entry.share
            * match form {
                Form::Normalized => (ratio - self.offset() - value) / self.student,
                Form::Raw => ratio + 1.0,
                Form::Generalized => ratio,
                Form::Complex => unreachable!("the complex form sees no magnitudes"),
            }
    }
}
