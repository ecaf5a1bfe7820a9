//! The gradient against the definition: a direct DFT in `f64` and central differences.

use super::super::fft::{Dimensions, grid};
use super::super::pointwise::FLOOR;
use super::super::transform::Size;
use super::super::truncation::kept_entries;
use super::super::{Band, Form, Length, Scope, SpectralDivergence, Spectrum};
use crate::{Differentiable, Layout, Part, Rng, Stream};
use core::ops::Range;
use std::sync::Arc;

mod narrow;

const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];

/// The full, mirrored spectrum of length `n` by the definition, `(re, im)` per entry.
fn dft(w: &[f64], n: usize) -> Vec<(f64, f64)> {
    let angle = |k: usize| -core::f64::consts::TAU * k as f64 / n as f64;
    let roots: Vec<_> = (0..n).map(|k| (angle(k).cos(), angle(k).sin())).collect();
    (0..n)
        .map(|k| {
            w.iter().enumerate().fold((0.0, 0.0), |(re, im), (m, x)| {
                let root = roots[k * m % n];
                (re + x * root.0, im + x * root.1)
            })
        })
        .collect()
}

/// Parameters that are transformed together, and the length of their spectrum.
type Segments = Vec<(Range<usize>, usize)>;

/// What is compared with what.
#[derive(Debug, Clone, Copy)]
struct Case {
    form: Form,
    tau: f64,
    band: Band,
    /// Whether parameters stand in the place of the bins.
    plain: bool,
}

impl Case {
    /// Entries of a full spectrum that are kept.
    fn entries(self, n: usize) -> Vec<usize> {
        let heads = if self.plain { n } else { n / 2 + 1 };
        let first: Vec<usize> = match self.band {
            Band::Low => (0..n).collect(),
            Band::High => (0..heads).rev().chain(heads..n).collect(),
            Band::Random(_) => unreachable!("known to the truncation alone"),
        };
        first[..kept_entries(self.tau, n)].to_vec()
    }
}

/// The divergence by the definition, over segments.
fn oracle(case: Case, segments: &Segments, w: &[f64], v: &[f64]) -> f64 {
    let dft =
        |w: &[f64], n| if case.plain { w.iter().map(|x| (*x, 0.0)).collect() } else { dft(w, n) };
    // Magnitudes with the weight of each, d/N.
    let (mut entries, mut squared) = (Vec::new(), 0.0);
    for (range, n) in segments {
        let (zw, zv) = (dft(&w[range.clone()], *n), dft(&v[range.clone()], *n));
        for (a, b) in case.entries(*n).into_iter().map(|k| (zw[k], zv[k])) {
            let q = b.0.hypot(b.1).max(f64::from(FLOOR));
            entries.push((a.0.hypot(a.1), q, range.len() as f64 / *n as f64));
            squared += ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2))
                / (2.0 * if case.plain { 1.0 } else { *n as f64 });
        }
    }
    let xlog = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    let sum = |f: &dyn Fn(f64, f64) -> f64| entries.iter().map(|(p, q, c)| c * f(*p, *q)).sum();
    let (sp, sq): (f64, f64) = (sum(&|p, _| p), sum(&|_, q| q));
    match case.form {
        Form::Raw => sum(&xlog),
        Form::Generalized => sum(&|p, q| xlog(p, q) - p + q),
        Form::Normalized => sum(&|p, q| xlog(p / sp, q / sq)),
        Form::Complex => squared,
    }
}

fn draw(d: usize, client: u64) -> Vec<f32> {
    let mut rng = Rng::new(3, Stream::Test, 0, client);
    (0..d).map(|_| rng.normal() as f32).collect()
}

fn flat(d: usize) -> Arc<Spectrum> {
    Arc::new(Spectrum::new(&Layout::single(d), Scope::Flat, Length::Exact))
}

fn check(form: Form, tau: f64, plans: &Arc<Spectrum>, w: &[f32], v: &[f32]) {
    check_case(Case { form, tau, band: Band::Low, plain: false }, plans, w, v);
}

fn check_case(case: Case, plans: &Arc<Spectrum>, w: &[f32], v: &[f32]) {
    let Case { form, tau, band, .. } = case;
    let segments: Segments = plans.transforms.iter().map(|t| (t.range.clone(), t.len())).collect();
    let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let (w64, v64) = (wide(w), wide(v));
    // By way of the spectrum even where there is a shorter one.
    let kept = plans.kept(tau, band).unwrap();
    let mut term = SpectralDivergence::transformed(plans.clone(), form, kept, v);
    let mut gradient = vec![0.0; w.len()];
    let value = term.add(1.0, w, &mut gradient);
    let want = oracle(case, &segments, &w64, &v64);
    let context = format!("{case:?} d {}, {plans:?}", w.len());
    assert!(
        (value - want).abs() < 2e-5 * want.abs().max(1.0),
        "{context}: value {value} for {want}"
    );
    let numeric: Vec<f64> = (0..w.len())
        .map(|i| {
            let at = |h: f64| {
                let mut x = w64.clone();
                x[i] += h;
                oracle(case, &segments, &x, &v64)
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
        let (w, v) = (draw(d, 1), draw(d, 2));
        for form in FORMS {
            // Below one half, one half, above one half (mirrored bins count twice), all.
            for tau in TAUS {
                check(form, tau, &flat(d), &w, &v);
            }
        }
    }
}

const TAUS: [f64; 8] = [0.01, 0.1, 0.3, 0.5, 0.6, 0.75, 0.97, 1.0];

#[test]
fn high_bands_and_what_has_no_spectrum_have_the_right_gradient() {
    let matrix = Spectrum::single(150, Size::Matrix(Dimensions { rows: 4, columns: 48 }));
    let library = [13, 24].map(|d| Spectrum::single(d, Size::Library(d)));
    let plain = [1, 13, 24].map(|d| Spectrum::single(d, Size::Plain(d)));
    let spectra = library.into_iter().chain([matrix]).map(|spectrum| (spectrum, false));
    for (plans, plain) in spectra.chain(plain.map(|spectrum| (spectrum, true))) {
        let d = plans.range.len();
        let plans = Arc::new(plans);
        for (form, tau) in
            FORMS.into_iter().flat_map(|form| [0.1, 0.4, 0.8, 1.0].map(|tau| (form, tau)))
        {
            for band in [Band::Low, Band::High] {
                check_case(Case { form, tau, band, plain }, &plans, &draw(d, 1), &draw(d, 2));
            }
        }
    }
}

#[test]
fn a_random_band_has_the_right_gradient_by_its_own_values() {
    for plans in [flat(31), Arc::new(Spectrum::single(31, Size::Plain(31)))] {
        for form in [Form::Generalized, Form::Complex] {
            let (w, v) = (draw(31, 1), draw(31, 2));
            let mut term =
                SpectralDivergence::in_band(plans.clone(), form, 0.3, Band::Random(7), &v).unwrap();
            let mut gradient = vec![0.0; 31];
            term.add(1.0, &w, &mut gradient);
            for i in 0..31 {
                let mut at = |h: f32| {
                    let mut x = w.clone();
                    x[i] += h;
                    term.add(1.0, &x, &mut [0.0; 31])
                };
                let slope = (at(1.0 / 256.0) - at(-1.0 / 256.0)) * 128.0;
                let off = (slope - f64::from(gradient[i])).abs();
                assert!(off < 2e-2 * slope.abs().max(1.0), "{form:?} {i}: {slope} {}", gradient[i]);
            }
        }
    }
}

#[test]
fn a_part_is_a_term_of_its_own_parameters() {
    let mut layout = Layout::default();
    layout.push("body", &[3, 4], Part::Body);
    layout.push("bias", &[5], Part::Body);
    layout.push("head", &[2, 3], Part::Head);
    let (w, v) = (draw(23, 1), draw(23, 2));
    for (scope, tau) in [Scope::Flat, Scope::PerLayer, Scope::Plain]
        .into_iter()
        .flat_map(|scope| [0.4, 1.0].map(|tau| (scope, tau)))
    {
        for (part, own) in [(Part::Body, 0..17), (Part::Head, 17..23)] {
            let plans = Spectrum::of_part(&layout, part, scope, Length::Exact);
            let mut alone = Layout::default();
            for tensor in layout.tensors().iter().filter(|tensor| tensor.part == part) {
                alone.push(tensor.name.clone(), &tensor.shape, Part::Body);
            }
            let twin = Spectrum::new(&alone, scope, Length::Exact);
            let (plans, twin) = (Arc::new(plans), Arc::new(twin));
            for form in FORMS {
                let of = |plans: &Arc<Spectrum>, w: &[f32], v: &[f32]| {
                    let mut term = SpectralDivergence::new(plans.clone(), form, tau, v).unwrap();
                    let mut gradient = vec![0.0; w.len()];
                    (term.add(0.5, w, &mut gradient), gradient)
                };
                let (value, gradient) = of(&plans, &w, &v);
                let (want, wanted) = of(&twin, &w[own.clone()], &v[own.clone()]);
                assert_eq!(value, want, "{scope:?} {part:?} {form:?}");
                assert_eq!(gradient[own.clone()], wanted);
                let mut rest = gradient;
                rest.drain(own.clone());
                assert!(rest.iter().all(|g| *g == 0.0), "nothing else is pulled");
            }
        }
    }
}

#[test]
fn padded_spectra_have_the_right_gradient() {
    for d in [7, 13, 31] {
        let plans = Arc::new(Spectrum::new(&Layout::single(d), Scope::Flat, Length::Fast));
        assert!(plans.entries() > d);
        for form in FORMS {
            for tau in TAUS {
                check(form, tau, &plans, &draw(d, 1), &draw(d, 2));
            }
        }
    }
}

#[test]
fn matrix_transforms_have_the_right_gradient() {
    // Two rows, four rows, more rows than lanes, an exact fit, and lines behind the vector's end.
    for (d, rows, columns) in [(29, 2, 16), (64, 4, 16), (150, 4, 48), (300, 16, 32)] {
        let plans = Arc::new(Spectrum::single(d, Size::Matrix(Dimensions { rows, columns })));
        let taus: &[f64] = if d < 200 { &TAUS } else { &[0.1, 0.8] };
        for form in FORMS {
            for tau in taus {
                check(form, *tau, &plans, &draw(d, 1), &draw(d, 2));
            }
        }
    }
}

#[test]
fn resampled_transforms_have_the_right_gradient() {
    // Even, odd and prime, every remainder of eight among them; one row of lanes and more, and a middle entry in a row
    // of its own and elsewhere.
    for (d, rows, columns) in
        [(29, 8, 16), (32, 8, 16), (64, 8, 16), (85, 8, 16), (43, 16, 16), (142, 16, 16)]
    {
        let plans = Arc::new(Spectrum::single(d, Size::Resampled(Dimensions { rows, columns })));
        assert_eq!(plans.entries(), d);
        let taus: &[f64] = if d < 80 { &TAUS } else { &[0.1, 0.8] };
        for form in FORMS {
            for tau in taus {
                check(form, *tau, &plans, &draw(d, 1), &draw(d, 2));
            }
        }
    }
}

/// As a long vector is transformed, whose direct transform would take too long in a test.
fn long(d: usize, length: Length) -> Arc<Spectrum> {
    Arc::new(match length {
        Length::Exact => Spectrum::single(d, Size::Resampled(grid(d).unwrap())),
        Length::Fast => Spectrum::new(&Layout::single(d), Scope::Flat, length),
    })
}

#[test]
fn both_transforms_give_the_same_term() {
    let d = 44_426;
    let (w, v) = (draw(d, 1), draw(d, 2));
    for length in [Length::Exact, Length::Fast] {
        let own = long(d, length);
        let library = Arc::new(Spectrum::single(d, Size::Library(own.entries())));
        for (form, tau) in FORMS.into_iter().flat_map(|form| [0.1, 0.7, 1.0].map(|t| (form, t))) {
            let [(a, ga), (b, gb)] = [&own, &library].map(|plans| {
                let kept = plans.kept(tau, Band::Low).unwrap();
                let mut term = SpectralDivergence::transformed(plans.clone(), form, kept, &v);
                let mut gradient = vec![0.0; d];
                (term.add(1.0, &w, &mut gradient), gradient)
            });
            let context = format!("{length:?} {form:?} {tau}");
            assert!((a - b).abs() < 1e-6 * a.abs(), "{context}: {a} and {b}");
            let distance = crate::vector::distance_squared(&ga, &gb).sqrt();
            let norm = crate::vector::norm(&ga);
            // Resampled bins of the highest frequencies are rounded more coarsely than the library's.
            let most = if length == Length::Exact { 1e-5 } else { 3e-6 };
            assert!(distance < most * norm, "{context}: {distance} of {norm}");
        }
    }
}

#[test]
fn long_terms_have_the_same_bits_without_vector_instructions() {
    let d = 40_000;
    let (w, v) = (draw(d, 1), draw(d, 2));
    for length in [Length::Exact, Length::Fast] {
        let plans = long(d, length);
        for form in [Form::Normalized, Form::Raw, Form::Complex] {
            let run = || {
                let mut term = SpectralDivergence::new(plans.clone(), form, 0.6, &v).unwrap();
                let mut gradient = vec![0.0; d];
                (term.add(0.7, &w, &mut gradient).to_bits(), gradient)
            };
            assert!(run() == crate::gemm::with_portable(run), "{length:?} {form:?}");
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
    for length in [Length::Exact, Length::Fast] {
        let plans = Arc::new(Spectrum::new(&layout, Scope::PerLayer, length));
        for form in FORMS {
            for tau in [0.2, 0.5, 0.8, 1.0] {
                check(form, tau, &plans, &draw(d, 1), &draw(d, 2));
            }
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
    for form in FORMS {
        for tau in [0.3, 0.8, 1.0] {
            for w in [&constant[..], &alternating, &dense, &zero] {
                for v in [&constant[..], &alternating, &dense, &zero] {
                    let mut term = SpectralDivergence::new(flat(8), form, tau, v).unwrap();
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
    let mut term = SpectralDivergence::new(flat(8), Form::Generalized, 1.0, &constant).unwrap();
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
    let (start, v) = (draw(d, 1), draw(d, 2));
    for form in FORMS {
        let mut term = SpectralDivergence::new(flat(d), form, 1.0, &v).unwrap();
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
    let v = draw(d, 2);
    let slope_at = |form: Form, factor: f32| {
        let mut term = SpectralDivergence::new(flat(d), form, 1.0, &v).unwrap();
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
        for length in [Length::Exact, Length::Fast] {
            let plans = Arc::new(Spectrum::new(&Layout::single(d), Scope::Flat, length));
            let (w, v) = (draw(d, 1), draw(d, 2));
            // The shortcut is the proximal term, bit for bit; the spectrum says the same.
            let mut proximal = vec![0.0; d];
            let value = crate::Proximal { anchor: &v }.add(0.7, &w, &mut proximal);
            let mut shortcut = vec![0.0; d];
            let mut term = SpectralDivergence::new(plans.clone(), Form::Complex, 1.0, &v).unwrap();
            assert_eq!(term.add(0.7, &w, &mut shortcut), value);
            assert_eq!(shortcut, proximal);
            let kept = plans.kept(1.0, Band::Low).unwrap();
            let mut term = SpectralDivergence::transformed(plans, Form::Complex, kept, &v);
            let mut spectral = vec![0.0; d];
            assert!((term.add(0.7, &w, &mut spectral) - value).abs() < 1e-5 * value);
            for (s, p) in spectral.iter().zip(&proximal) {
                assert!((s - p).abs() < 1e-5);
            }
        }
    }
}
