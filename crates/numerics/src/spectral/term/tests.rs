//! Gradients against central differences of the definitions, in `f64`; and the reductions.

use super::*;
use crate::{NetworkSpec, Rng, Shape, Stream, vector};

const SCOPES: [Scope; 3] = [Scope::TwoD, Scope::Kernel, Scope::Singular];
const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];

/// Convolution, bias, matrices with the longer side first and last: all that a layout has.
fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.push("conv.weight", &[3, 2, 2, 3], Part::Body);
    layout.push("conv.bias", &[3], Part::Body);
    layout.push("point.weight", &[2, 3, 1, 1], Part::Body);
    layout.push("fc.weight", &[5, 4], Part::Head);
    layout
}

fn draw(d: usize, client: u64) -> Vec<f32> {
    let mut rng = Rng::new(6, Stream::Test, 0, client);
    (0..d).map(|_| rng.normal() as f32).collect()
}

fn term(layout: &Layout, scope: Scope, form: Form, tau: f64, v: &[f32]) -> SpectralTerm {
    SpectralPlans::new(layout, Part::All, scope, Length::Exact)
        .term(form, tau, Band::Low, v)
        .unwrap()
}

/// The planes of the layout above, as lists of places: by hand.
fn planes(scope: Scope) -> Vec<(usize, usize, Vec<usize>)> {
    let mut found = Vec::new();
    if scope == Scope::TwoD {
        for position in 0..6 {
            let places = (0..3).flat_map(|o| (0..2).map(move |i| (o * 2 + i) * 6 + position));
            found.push((3, 2, places.collect()));
        }
    } else {
        found.extend((0..6).map(|kernel| (2, 3, (kernel * 6..kernel * 6 + 6).collect())));
    }
    found.push((1, 3, (36..39).collect()));
    found.push((2, 3, (39..45).collect()));
    found.push((5, 4, (45..65).collect()));
    found
}

/// Magnitudes and complex entries that are kept, by the definition; with the entries of their plane.
fn kept(scope: Scope, tau: f64, w: &[f64]) -> Vec<(f64, f64, f64)> {
    let mut found = Vec::new();
    for (rows, columns, places) in planes(scope) {
        let mut entries = Vec::new();
        for l in 0..columns {
            for k in 0..rows {
                let near = |k: usize, n: usize| (k.min(n - k) as f64 / n as f64).powi(2);
                let (mut re, mut im) = (0.0, 0.0);
                for (at, place) in places.iter().enumerate() {
                    let (r, c) = (at / columns, at % columns);
                    let turns = (k * r) as f64 / rows as f64 + (l * c) as f64 / columns as f64;
                    let angle = -core::f64::consts::TAU * turns;
                    re += w[*place] * angle.cos();
                    im += w[*place] * angle.sin();
                }
                entries.push((near(k, rows) + near(l, columns), re, im));
            }
        }
        entries.sort_by(|a, b| a.0.total_cmp(&b.0));
        let n = entries.len();
        let low = entries.into_iter().take(kept_entries(tau, n));
        found.extend(low.map(|(_, re, im)| (re, im, n as f64)));
    }
    found
}

fn divergence(form: Form, entries: &[(f64, f64)]) -> f64 {
    let xlog = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    let (sp, sq) = entries.iter().fold((0.0, 0.0), |(a, b), (p, q)| (a + p, b + q));
    let sum = |f: &dyn Fn(f64, f64) -> f64| entries.iter().map(|(p, q)| f(*p, *q)).sum();
    match form {
        Form::Raw => sum(&xlog),
        Form::Generalized => sum(&|p, q| xlog(p, q) - p + q),
        _ => sum(&|p, q| xlog(p / sp, q / sq)),
    }
}

fn oracle(scope: Scope, form: Form, tau: f64, w: &[f64], v: &[f64]) -> f64 {
    if scope == Scope::Singular {
        let values = |w: &[f64]| -> Vec<f64> {
            let w: Vec<f64> = w.to_vec();
            let matrices = Matrix::all(&layout(), Part::All);
            let mut all = Vec::new();
            for Matrix { range, rows, columns } in matrices {
                let (w, n) = (&w[range], rows.min(columns));
                let mut svd = super::super::svd::Svd::new(n, rows.max(columns));
                svd.decompose(|a, b| {
                    if rows <= columns { w[a * columns + b] } else { w[b * columns + a] }
                });
                all.extend_from_slice(&svd.values[..kept_entries(tau, n)]);
            }
            all
        };
        return divergence(form, &values(w).into_iter().zip(values(v)).collect::<Vec<_>>());
    }
    let (a, b) = (kept(scope, tau, w), kept(scope, tau, v));
    if form == Form::Complex {
        let apart =
            a.iter().zip(&b).map(|(a, b)| ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)) / a.2);
        return apart.sum::<f64>() / 2.0;
    }
    let both = a.iter().zip(&b).map(|(a, b)| (a.0.hypot(a.1), b.0.hypot(b.1)));
    divergence(form, &both.collect::<Vec<_>>())
}

#[test]
fn every_scope_and_form_has_the_right_gradient() {
    let layout = layout();
    let (w, v) = (draw(65, 1), draw(65, 2));
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (w64, v64) = (wide(&w), wide(&v));
    for scope in SCOPES {
        for form in FORMS.into_iter().filter(|f| (scope, *f) != (Scope::Singular, Form::Complex)) {
            for tau in [0.01, 0.2, 0.5, 0.9, 1.0] {
                let context = format!("{scope:?} {form:?} {tau}");
                let mut gradient = vec![0.5; 65];
                let value = term(&layout, scope, form, tau, &v).add(2.0, &w, &mut gradient);
                let want = oracle(scope, form, tau, &w64, &v64);
                assert!(
                    (value - want).abs() < 2e-5 * want.abs().max(1.0),
                    "{context}: {value}, {want}"
                );
                let slope = |i: usize| {
                    let at = |h: f64| {
                        let mut x = w64.clone();
                        x[i] += h;
                        oracle(scope, form, tau, &x, &v64)
                    };
                    (at(1e-6) - at(-1e-6)) / 2e-6
                };
                let numeric: Vec<f64> = (0..65).map(slope).collect();
                let largest = numeric.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
                for (i, (got, want)) in gradient.iter().zip(&numeric).enumerate() {
                    let got = (f64::from(*got) - 0.5) / 2.0;
                    assert!((got - want).abs() < 5e-4 * largest, "{context} [{i}]: {got}, {want}");
                }
            }
        }
    }
}

#[test]
fn with_phase_and_all_frequencies_it_is_half_the_squared_distance() {
    let layout = layout();
    let (w, v) = (draw(65, 3), draw(65, 4));
    let half = 0.5 * vector::distance_squared(&w, &v);
    for scope in [Scope::TwoD, Scope::Kernel] {
        let mut gradient = vec![0.0; 65];
        let value = term(&layout, scope, Form::Complex, 1.0, &v).add(1.0, &w, &mut gradient);
        assert!((value - half).abs() < 1e-6 * half);
        assert!(
            gradient.iter().zip(w.iter().zip(&v)).all(|(g, (w, v))| (g - (w - v)).abs() < 1e-6)
        );
        // By way of the spectrum it is the same.
        let by_bins = oracle(scope, Form::Complex, 1.0, &wide(&w), &wide(&v));
        assert!((by_bins - half).abs() < 1e-5 * half, "{by_bins} {half}");
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

#[test]
fn singular_values_do_not_see_an_order_of_units() {
    let network = NetworkSpec::named("mlp").build(Shape::new(1, 6, 6), 10).unwrap();
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let w = network.init(&mut rng).parameters;
    let v = network.init(&mut rng).parameters;
    let units = network.units();
    let turned = units.reordered(&units.shuffled(&mut rng), &v);
    let value = |scope, v: &[f32], w: &[f32]| {
        term(network.layout(), scope, Form::Normalized, 0.3, v).add(1.0, w, &mut vec![0.0; w.len()])
    };
    let plain = value(Scope::Singular, &v, &w);
    assert!((plain - value(Scope::Singular, &turned, &w)).abs() < 1e-9 * plain);
    assert!(value(Scope::Singular, &turned, &v).abs() < 1e-9);
    assert!(value(Scope::TwoD, &turned, &v) > 1e-3);
}

#[test]
fn singular_values_have_no_phase_and_shares_have_bounds() {
    let (layout, v) = (layout(), draw(65, 1));
    let plans = SpectralPlans::new(&layout, Part::All, Scope::Singular, Length::Exact);
    let said = plans.term(Form::Complex, 1.0, Band::Low, &v).unwrap_err().to_string();
    assert!(said.contains("scope") && said.contains("form"), "{said}");
    for scope in SCOPES {
        let plans = SpectralPlans::new(&layout, Part::All, scope, Length::Exact);
        assert!(plans.term(Form::Normalized, 0.0, Band::Low, &v).is_err());
    }
}

#[test]
fn bands_have_one_size_and_parts_leave_the_rest_alone() {
    assert_eq!(chosen(4, 0.5, Band::Low), [true, true, false, false]);
    assert_eq!(chosen(4, 0.5, Band::High), [false, false, true, true]);
    let random = chosen(100, 0.3, Band::Random(1));
    assert_eq!(random.iter().filter(|kept| **kept).count(), 30);
    assert_eq!(random, chosen(100, 0.3, Band::Random(1)));
    assert_ne!(random, chosen(100, 0.3, Band::Random(2)));
    let (layout, w, v) = (layout(), draw(65, 5), draw(65, 6));
    for scope in SCOPES {
        let body = SpectralPlans::new(&layout, Part::Body, scope, Length::Exact);
        for form in FORMS.into_iter().filter(|f| (scope, *f) != (Scope::Singular, Form::Complex)) {
            for tau in [0.4, 1.0] {
                let mut gradient = vec![0.0; 65];
                body.term(form, tau, Band::High, &v).unwrap().add(1.0, &w, &mut gradient);
                let (body, head) = gradient.split_at(45);
                assert!(body.iter().any(|g| *g != 0.0) && head.iter().all(|g| *g == 0.0));
            }
        }
    }
}
