//! The gradient against the definition: a direct DFT in `f64` and central differences.

use super::super::plan::kept_entries;
use super::super::{Form, Scope, SpectralDivergence, Spectrum};
use super::{FLOOR, ln};
use crate::{Layout, Part, Rng, Stream, Term};
use std::sync::Arc;

const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];

/// The full, mirrored spectrum by the definition, `(re, im)` per entry.
fn dft(w: &[f64]) -> Vec<(f64, f64)> {
    let d = w.len();
    (0..d)
        .map(|k| {
            w.iter().enumerate().fold((0.0, 0.0), |(re, im), (n, x)| {
                let angle = -core::f64::consts::TAU * (k * n % d) as f64 / d as f64;
                (re + x * angle.cos(), im + x * angle.sin())
            })
        })
        .collect()
}

/// The divergence by the definition, over segments.
fn oracle(form: Form, tau: f64, segments: &[core::ops::Range<usize>], w: &[f64], v: &[f64]) -> f64 {
    let (mut p, mut q, mut squared) = (Vec::new(), Vec::new(), 0.0);
    for range in segments {
        let (zw, zv) = (dft(&w[range.clone()]), dft(&v[range.clone()]));
        for (a, b) in zw.iter().zip(&zv).take(kept_entries(tau, range.len())) {
            p.push(a.0.hypot(a.1));
            q.push(b.0.hypot(b.1).max(f64::from(FLOOR)));
            squared += ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)) / (2.0 * range.len() as f64);
        }
    }
    let xlog = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    let (sp, sq): (f64, f64) = (p.iter().sum(), q.iter().sum());
    match form {
        Form::Raw => p.iter().zip(&q).map(|(p, q)| xlog(*p, *q)).sum(),
        Form::Generalized => p.iter().zip(&q).map(|(p, q)| xlog(*p, *q) - p + q).sum(),
        Form::Normalized => p.iter().zip(&q).map(|(p, q)| xlog(p / sp, q / sq)).sum(),
        Form::Complex => squared,
    }
}

fn draw(d: usize, client: u64) -> Vec<f32> {
    let mut rng = Rng::new(3, Stream::Test, 0, client);
    (0..d).map(|_| rng.normal() as f32).collect()
}

fn check(form: Form, tau: f64, layout: &Layout, scope: Scope, w: &[f32], v: &[f32]) {
    let segments: Vec<_> = match scope {
        Scope::Flat => vec![layout.range(Part::All)],
        Scope::PerLayer => layout.tensors().iter().map(|t| t.range.clone()).collect(),
    };
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (w64, v64) = (wide(w), wide(v));
    let plans = Arc::new(Spectrum::new(layout, scope));
    let mut term = SpectralDivergence::new(plans, form, tau, v).unwrap();
    let mut gradient = vec![0.0; w.len()];
    let value = term.add(1.0, w, &mut gradient);
    let want = oracle(form, tau, &segments, &w64, &v64);
    let context = format!("{form:?} {scope:?} tau {tau} d {}", w.len());
    assert!(
        (value - want).abs() < 2e-5 * want.abs().max(1.0),
        "{context}: value {value} for {want}"
    );
    let numeric: Vec<f64> = (0..w.len())
        .map(|i| {
            let at = |h: f64| {
                let mut x = w64.clone();
                x[i] += h;
                oracle(form, tau, &segments, &x, &v64)
            };
            let h = 1e-6;
            (at(h) - at(-h)) / (2.0 * h)
        })
        .collect();
    let largest = numeric.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
    for (i, (got, want)) in gradient.iter().zip(&numeric).enumerate() {
        assert!(
            (f64::from(*got) - want).abs() < 2e-4 * largest,
            "{context}: gradient[{i}] = {got} for {want}"
        );
    }
}

#[test]
fn every_form_length_and_truncation_has_the_right_gradient() {
    for d in [1, 2, 3, 8, 13, 24, 31, 45] {
        let layout = Layout::single(d);
        let (w, v) = (draw(d, 1), draw(d, 2));
        for form in FORMS {
            // Below one half, one half, above one half (mirrored bins count twice), all.
            for tau in [0.01, 0.1, 0.3, 0.5, 0.6, 0.75, 0.97, 1.0] {
                check(form, tau, &layout, Scope::Flat, &w, &v);
            }
        }
    }
}

#[test]
fn per_layer_spectra_have_the_right_gradient() {
    let mut layout = Layout::default();
    for (name, shape) in [("a", vec![3, 4]), ("b", vec![7]), ("c", vec![1]), ("d", vec![2, 2, 2])] {
        layout.push(name, &shape, Part::Body);
    }
    let d = layout.parameters();
    for form in FORMS {
        for tau in [0.2, 0.5, 0.8, 1.0] {
            check(form, tau, &layout, Scope::PerLayer, &draw(d, 1), &draw(d, 2));
        }
    }
}

#[test]
fn zero_bins_on_either_side_stay_finite() {
    // A constant has one non-zero bin; an alternating vector only the bin d/2.
    let constant = [1.0f32; 8];
    let alternating: Vec<f32> = (0..8).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let dense = draw(8, 1);
    let zero = [0.0f32; 8];
    let layout = Layout::single(8);
    for form in FORMS {
        for tau in [0.3, 0.8, 1.0] {
            for w in [&constant[..], &alternating, &dense, &zero] {
                for v in [&constant[..], &alternating, &dense, &zero] {
                    let plans = Arc::new(Spectrum::new(&layout, Scope::Flat));
                    let mut term = SpectralDivergence::new(plans, form, tau, v).unwrap();
                    let mut gradient = [0.0; 8];
                    let value = term.add(1.0, w, &mut gradient);
                    assert!(value.is_finite(), "{form:?} {tau}: {value}");
                    assert!(gradient.iter().all(|g| g.is_finite()), "{form:?} {tau}: {gradient:?}");
                }
            }
        }
    }
    // Where the student's bin is zero the gradient of the smooth bins is still right: the teacher
    // is constant, the student too, so only bin 0 speaks.
    let plans = Arc::new(Spectrum::new(&layout, Scope::Flat));
    let mut term = SpectralDivergence::new(plans, Form::Generalized, 1.0, &constant).unwrap();
    let mut gradient = [0.0; 8];
    term.add(1.0, &[2.0; 8], &mut gradient);
    // D = 16 log 2 − 16 + 8 on bin 0; ∂D/∂w_n = log 2.
    assert!(gradient.iter().all(|g| (g - core::f32::consts::LN_2).abs() < 1e-6), "{gradient:?}");
}

#[test]
fn the_term_moves_the_student() {
    // The published code passes its spectrum through detached arrays, so its term has no gradient.
    // This test fails if ours were zero: descending the term alone must reduce the divergence.
    let d = 257;
    let layout = Layout::single(d);
    let (start, v) = (draw(d, 1), draw(d, 2));
    for form in FORMS {
        let plans = Arc::new(Spectrum::new(&layout, Scope::Flat));
        let mut term = SpectralDivergence::new(plans, form, 1.0, &v).unwrap();
        let rate = match form {
            Form::Normalized => 50.0,
            Form::Raw | Form::Generalized => 2e-3,
            Form::Complex => 0.2,
        };
        let mut w = start.clone();
        let mut values = Vec::new();
        for _ in 0..30 {
            let mut gradient = vec![0.0; d];
            values.push(term.add(1.0, &w, &mut gradient));
            assert!(gradient.iter().any(|g| g.abs() > 1e-8), "{form:?}: the gradient is zero");
            for (w, g) in w.iter_mut().zip(&gradient) {
                *w -= rate * g;
            }
        }
        let (first, last) = (values[0], values[29]);
        assert!(last < first - 0.2 * first.abs(), "{form:?}: {first} to {last}");
    }
}

#[test]
fn minima_are_where_the_form_says() {
    let d = 64;
    let layout = Layout::single(d);
    let v = draw(d, 2);
    let slope_at = |form: Form, factor: f32| {
        let plans = Arc::new(Spectrum::new(&layout, Scope::Flat));
        let mut term = SpectralDivergence::new(plans, form, 1.0, &v).unwrap();
        let w: Vec<f32> = v.iter().map(|x| x * factor).collect();
        let mut gradient = vec![0.0; d];
        let value = term.add(1.0, &w, &mut gradient);
        (value, crate::vector::norm(&gradient))
    };
    for form in [Form::Normalized, Form::Generalized, Form::Complex] {
        let (value, slope) = slope_at(form, 1.0);
        assert!(value.abs() < 1e-3 && slope < 1e-2, "{form:?}: {value} {slope}");
    }
    // The normalised form ignores scale; the printed one has its minimum at p = q/e.
    assert!(slope_at(Form::Normalized, 7.0).1 < 1e-5);
    assert!(slope_at(Form::Raw, 1.0).1 > 1.0);
    assert!(slope_at(Form::Raw, 1.0 / core::f32::consts::E).1 < 1e-2);
}

#[test]
fn the_complex_form_is_parseval_at_full_bandwidth() {
    for d in [1, 2, 7, 64, 1001] {
        let layout = Layout::single(d);
        let (w, v) = (draw(d, 1), draw(d, 2));
        let plans = Arc::new(Spectrum::new(&layout, Scope::Flat));
        let mut term = SpectralDivergence::new(plans, Form::Complex, 1.0, &v).unwrap();
        let (mut spectral, mut proximal) = (vec![0.0; d], vec![0.0; d]);
        let a = term.add(0.7, &w, &mut spectral);
        let b = crate::Proximal { anchor: &v }.add(0.7, &w, &mut proximal);
        assert!((a - b).abs() < 1e-5 * b);
        for (s, p) in spectral.iter().zip(&proximal) {
            assert!((s - p).abs() < 1e-5);
        }
    }
}

#[test]
fn the_logarithm_is_accurate_over_the_whole_range() {
    let mut worst = 0.0f64;
    let mut x = f32::MIN_POSITIVE;
    while x < f32::MAX / 1.01 {
        let error = (f64::from(ln(x)) - f64::from(x).ln()).abs() / f64::from(x).ln().abs().max(1.0);
        worst = worst.max(error);
        x *= 1.003;
    }
    assert!(worst < 2.5e-7, "relative error {worst}");
}
