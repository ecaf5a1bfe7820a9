//! Bands by hand, Parseval, and what the controls must do.

use super::*;
use crate::{Layout, NetworkSpec, Part, Rng, Shape, Stream, vector};

fn models() -> (std::sync::Arc<crate::Tape>, Vec<f32>, Vec<f32>) {
    let network = NetworkSpec::named("lenet5").build(Shape::new(1, 28, 28), 10).unwrap();
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let w = network.init(&mut rng).parameters;
    let v = w.iter().map(|x| x + 0.05 * rng.normal() as f32).collect();
    (network, w, v)
}

#[test]
fn over_all_bands_it_is_the_cosine_of_the_vectors() {
    let (network, w, v) = models();
    let cosine = vector::dot(&w, &v) / (vector::norm(&w) * vector::norm(&v));
    let distance = vector::distance_squared(&w, &v) / vector::norm_squared(&v);
    for kind in SpectrumKind::ALL {
        let lens = AgreementLens::new(network.layout(), kind);
        let pair = lens.pair(&w, &v);
        let (bands, all) = pair.by(&lens.bands());
        assert_eq!(bands.len(), BANDS.len() - 1);
        assert!((all.cosine - cosine).abs() < 1e-6, "{kind:?}: {} for {cosine}", all.cosine);
        assert!((all.distance - distance).abs() < 1e-6, "{kind:?}: {}", all.distance);
        assert!((all.energy - 1.0).abs() < 1e-9);
        // The same model agrees with itself in every band, by every measure.
        let (same, _) = lens.pair(&v, &v).by(&lens.bands());
        for band in same.iter().filter(|band| band.energy.is_finite()) {
            assert!((band.cosine - 1.0).abs() < 1e-9 && band.distance.abs() < 1e-9, "{band:?}");
            assert!((band.magnitudes - 1.0).abs() < 1e-6 && band.divergence < 1e-9, "{band:?}");
        }
    }
}

#[test]
fn what_is_shared_in_low_frequencies_is_found_there() {
    let mut layout = Layout::default();
    layout.push("w", &[20, 50], Part::Body);
    let mut rng = Rng::new(2, Stream::Test, 0, 0);
    let mut noise = || (0..1000).map(|_| 0.1 * rng.normal() as f32).collect::<Vec<_>>();
    let (mut a, mut b) = (noise(), noise());
    for i in 0..1000 {
        let wave = (core::f32::consts::TAU * 3.0 * i as f32 / 1000.0).sin();
        a[i] += wave;
        b[i] += 2.0 * wave;
    }
    let lens = AgreementLens::new(&layout, SpectrumKind::Flat);
    let (bands, _) = lens.pair(&a, &b).by(&lens.bands());
    assert!(bands[0].cosine > 0.99 && bands[0].energy > 10.0, "{:?}", bands[0]);
    assert!(bands[1..].iter().all(|band| band.cosine.abs() < 0.4 && band.energy < 1.0));
    // Random bands share the wave among them: it is in one of a thousand places.
    let mut low = 0;
    for _ in 0..20 {
        let (random, _) = lens.pair(&a, &b).by(&lens.random_bands(&mut rng));
        low += usize::from(random[0].cosine > 0.9);
    }
    assert!(low < 5, "{low}");
}

#[test]
fn rank_one_matrices_agree_in_the_first_band_alone() {
    let mut layout = Layout::default();
    layout.push("w", &[30, 40], Part::Body);
    let outer = |rng: &mut Rng, u: &[f32], v: &[f32]| -> Vec<f32> {
        let cells = (0..30).flat_map(|r| (0..40).map(move |c| (r, c)));
        cells.map(|(r, c)| u[r] * v[c] + 0.01 * rng.normal() as f32).collect()
    };
    let mut rng = Rng::new(3, Stream::Test, 0, 0);
    let mut draw = |n| (0..n).map(|_| rng.normal() as f32).collect::<Vec<_>>();
    let (u, v) = (draw(30), draw(40));
    let (a, b) = (outer(&mut rng, &u, &v), outer(&mut rng, &u, &v));
    let lens = AgreementLens::new(&layout, SpectrumKind::Singular);
    let (bands, _) = lens.pair(&a, &b).by(&lens.bands());
    assert!(bands[0].cosine > 0.999 && bands[4].cosine.abs() < 0.3, "{bands:?}");
}

#[test]
fn an_order_of_units_changes_fourier_bands_and_no_singular_value() {
    let (network, w, v) = models();
    let units = network.units();
    let order = units.shuffled(&mut Rng::new(4, Stream::Test, 0, 0));
    let (pw, pv) = (units.reordered(&order, &w), units.reordered(&order, &v));
    for kind in SpectrumKind::ALL {
        let lens = AgreementLens::new(network.layout(), kind);
        let (before, all) = lens.pair(&w, &v).by(&lens.bands());
        let (after, all_after) = lens.pair(&pw, &pv).by(&lens.bands());
        assert!((all.cosine - all_after.cosine).abs() < 1e-6);
        let change = before[1].cosine - after[1].cosine;
        // Vectors are matrices of one column, whose only value is their length.
        assert_eq!(change.abs() < 1e-7, kind == SpectrumKind::Singular, "{kind:?}: {change}");
        // One of them alone destroys the agreement.
        let (one, _) = lens.pair(&pw, &v).by(&lens.bands());
        assert!(one[4].cosine < 0.5 * before[4].cosine, "{kind:?}");
    }
}
