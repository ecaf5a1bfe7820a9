//! Narrow bands, by way of a shorter transform.

use super::*;

#[test]
fn a_narrow_band_by_a_shorter_transform_is_the_same_term() {
    let d = 300_007;
    let (layout, w, v) = (Layout::single(d), draw(d, 1), draw(d, 2));
    let exact = [1e-4, 0.02, 0.08, 0.12, 0.125].map(|tau| (Length::Exact, tau));
    let fast = [1e-4, 0.02, 0.05, 0.08, 0.125].map(|tau| (Length::Fast, tau));
    for (length, tau) in exact.into_iter().chain(fast) {
        let narrow = Spectrum::lowest(&layout, Part::All, Scope::Flat, length, tau);
        let whole = Spectrum::new(&layout, Scope::Flat, length);
        let blocks = |spectrum: &Spectrum| {
            spectrum.transforms[0].order.positions() * spectrum.transforms[0].order.groups()
        };
        assert!(3 * blocks(&narrow) < 2 * blocks(&whole), "nothing to compare");
        let [narrow, whole] = [narrow, whole].map(Arc::new);
        for form in FORMS {
            let [(a, ga), (b, gb)] = [&narrow, &whole].map(|plans| {
                let mut term = SpectralDivergence::new(plans.clone(), form, tau, &v).unwrap();
                let mut gradient = vec![0.0; d];
                (term.add(1.0, &w, &mut gradient), gradient)
            });
            let context = format!("{length:?} {form:?} {tau}");
            assert!((a - b).abs() < 1e-6 * a.abs(), "{context}: {a} and {b}");
            let distance = crate::vector::distance_squared(&ga, &gb).sqrt();
            let norm = crate::vector::norm(&gb);
            // Bins of either are off by 4e-7; the gradient divides by magnitudes, which makes ten times of it.
            assert!(distance < 1e-5 * norm, "{context}: {distance} of {norm}");
        }
    }
}

#[test]
fn narrow_bands_of_tensors_and_parts_are_the_same_terms() {
    let mut layout = Layout::default();
    layout.push("body", &[600, 501], Part::Body);
    layout.push("bias", &[501], Part::Body);
    layout.push("head", &[270_001], Part::Head);
    let d = layout.parameters();
    let (w, v, tau) = (draw(d, 1), draw(d, 2), 0.03);
    for (scope, length) in [Scope::Flat, Scope::PerLayer]
        .into_iter()
        .flat_map(|scope| [Length::Exact, Length::Fast].map(|length| (scope, length)))
    {
        for part in [Part::All, Part::Body, Part::Head] {
            let narrow = Spectrum::lowest(&layout, part, scope, length, tau);
            let whole = Spectrum::of_part(&layout, part, scope, length);
            let [(a, ga), (b, gb)] = [narrow, whole].map(Arc::new).map(|plans| {
                let mut term = SpectralDivergence::new(plans, Form::Normalized, tau, &v).unwrap();
                let mut gradient = vec![0.0; d];
                (term.add(1.0, &w, &mut gradient), gradient)
            });
            let context = format!("{scope:?} {length:?} {part:?}");
            assert!((a - b).abs() < 1e-6 * a.abs(), "{context}: {a} and {b}");
            let distance = crate::vector::distance_squared(&ga, &gb).sqrt();
            let norm = crate::vector::norm(&gb);
            assert!(distance < 1e-5 * norm, "{context}: {distance} of {norm}");
        }
    }
}

#[test]
fn cut_transforms_have_the_right_gradient() {
    // By halves alone, with and without zeros behind the parameters, and by a kernel after none, one and two of them: of even, odd
    // and prime lengths.
    let whole = [(128, 128, 64), (250, 256, 64), (251, 256, 128), (120, 256, 64), (300, 512, 32)];
    let others = [(150, 150, 64), (127, 127, 64), (211, 211, 64), (307, 307, 64), (331, 331, 64)];
    for (d, len, points) in whole.into_iter().chain(others) {
        let grid = Dimensions { rows: points / 16, columns: 16 };
        for entries in [1, points / 6, points / 3] {
            let plans = Arc::new(Spectrum::single(d, Size::Decimated { len, grid, entries }));
            for form in if d < 200 { &FORMS[..] } else { &[Form::Normalized, Form::Complex] } {
                let tau = entries as f64 / len as f64;
                check(*form, tau, &plans, &draw(d, 1), &draw(d, 2));
            }
        }
    }
}
