//! Published figures. All references are those of dp-accounting 0.6.0 (`pip install dp-accounting`), with
//! `import dp_accounting as dp; from dp_accounting import pld, rdp`.

use super::*;

/// To three digits, which is what the figures are quoted with.
fn agrees(ours: f64, theirs: f64) {
    assert!((ours / theirs - 1.0).abs() < 5e-4, "{ours} where {theirs} is published");
}

/// `a = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4);
/// a.compose(dp.GaussianDpEvent(z), n); a.get_epsilon(delta)`: its discretisation rounds up.
#[test]
fn without_sampling_it_is_the_privacy_loss_distribution() {
    for (z, n, delta, theirs) in [
        (1.0, 1, 1e-5, 4.377_178),
        (1.0, 100, 1e-5, 91.817_290),
        (4.0, 100, 1e-5, 13.206_712),
        (10.0, 40, 1e-6, 2.921_601),
        (0.5, 3, 1e-3, 15.994_592),
    ] {
        agrees(Accountant::new(z, 1.0).epsilon(n, delta), theirs);
    }
}

/// `a = rdp.RdpAccountant(); a.compose(dp.GaussianDpEvent(z), n); a.get_epsilon(delta)`, and never below the
/// exact value.
#[test]
fn renyi_divergences_of_the_gaussian_mechanism_agree() {
    for (z, n, delta, theirs) in [
        (1.0, 1.0, 1e-5, 4.728_507_067_217_623),
        (1.0, 100.0, 1e-5, 96.116_308_425_056_02),
        (4.0, 100.0, 1e-5, 14.132_226_163_159_334),
        (10.0, 40.0, 1e-6, 3.131_089_774_915_035),
        (0.5, 3.0, 1e-3, 17.521_460_917_862_246),
    ] {
        let at = |order: f64| (order, n * renyi::sampled_gaussian(1.0, z, order));
        let ours = renyi::epsilon(ORDERS.into_iter().map(at), delta);
        agrees(ours, theirs);
        assert!(ours > Accountant::new(z, 1.0).epsilon(n as u64, delta));
    }
}

/// `a = rdp.RdpAccountant(); a.compose(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z)), n);
/// a.get_epsilon(delta)`. The first is MNIST as in TensorFlow Privacy's tutorial: batches of 256, 60 epochs.
#[test]
fn renyi_divergences_of_the_sampled_gaussian_mechanism_agree() {
    for (z, q, n, delta, theirs) in [
        (1.1, 256.0 / 60_000.0, 14_062, 1e-5, 2.596_555_869_794_303_6),
        (1.3, 0.01, 1_000, 1e-5, 1.262_807_267_273_404),
        (1.0, 0.1, 100, 1e-5, 7.903_850_223_578_231),
        (0.7, 0.05, 40, 1e-3, 4.364_344_326_957_011),
        (2.0, 0.3, 40, 1e-5, 5.287_837_932_302_319),
        (4.0, 0.02, 10_000, 1e-6, 2.475_637_878_501_694_4),
        (0.5, 0.2, 20, 1e-4, 24.519_351_305_811_61),
    ] {
        agrees(Accountant::new(z, q).epsilon(n, delta), theirs);
    }
}

/// `rdp.rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(q, z, [order])`.
#[test]
fn divergences_agree_at_whole_and_fractional_orders() {
    for (q, z, order, theirs) in [
        (0.01, 1.3, 1.5, 6.172_851_281_281_993e-5),
        (0.01, 1.3, 2.0, 8.070_541_066_373_328e-5),
        (0.01, 1.3, 2.7, 1.097_399_663_870_671_7e-4),
        (0.01, 1.3, 8.0, 3.443_822_548_008_155_5e-4),
        (0.01, 1.3, 10.9, 4.862_666_224_448_763e-4),
        (0.01, 1.3, 32.0, 4.713_732_662_629_803),
        (0.01, 1.3, 256.0, 71.116_415_293_500_67),
        (0.2, 0.8, 2.0, 0.140_482_836_623_843_3),
        (0.2, 0.8, 2.7, 0.290_508_319_270_686_04),
        (0.2, 0.8, 10.9, 6.743_618_444_533_255),
        (0.2, 0.8, 256.0, 198.384_250_566_340_65),
    ] {
        let ours = renyi::sampled_gaussian(q, z, order);
        assert!((ours / theirs - 1.0).abs() < 1e-8, "{ours} where {theirs} is published");
    }
}

/// `A(2) = 1 + q²(e^(1/z²) − 1)`, by hand from the definition.
#[test]
fn the_second_moment_is_known_by_hand() {
    let (q, z) = (0.3_f64, 1.5_f64);
    let by_hand = (q * q * libm::expm1(1.0 / (z * z))).ln_1p();
    assert!((renyi::sampled_gaussian(q, z, 2.0) - by_hand).abs() < 1e-14);
}

#[test]
fn more_releases_cost_more_and_more_noise_less() {
    for rate in [0.05, 0.4, 1.0] {
        let epsilons =
            |z: f64| [0, 1, 2, 10, 100].map(|n| Accountant::new(z, rate).epsilon(n, 1e-5));
        let (little, much) = (epsilons(1.0), epsilons(2.0));
        assert_eq!((little[0], much[0]), (0.0, 0.0));
        assert!(little.is_sorted() && little[1..].windows(2).all(|pair| pair[0] < pair[1]));
        assert!(little.iter().zip(&much).skip(1).all(|(little, much)| much < little));
    }
}

#[test]
fn sampling_costs_no_more_than_taking_part_always() {
    for rate in [0.01, 0.5, 0.9, 0.999] {
        for z in [0.3, 1.0, 5.0] {
            for n in [1, 30] {
                let [sampled, always] = [rate, 1.0].map(|q| Accountant::new(z, q).epsilon(n, 1e-5));
                assert!(sampled <= always && sampled.is_finite(), "{rate}, {z}, {n}: {sampled}");
            }
        }
    }
}

#[test]
fn the_noise_for_an_epsilon_is_the_inverse() {
    for rate in [0.1, 1.0] {
        for (epsilon, releases, delta) in [(0.5, 40, 1e-5), (2.0, 1, 1e-3), (8.0, 200, 1e-6)] {
            let z = noise_multiplier_for(epsilon, releases, rate, delta).unwrap();
            let of = |z| Accountant::new(z, rate).epsilon(releases, delta);
            let spent = of(z);
            assert!(spent <= epsilon && spent > epsilon * (1.0 - 1e-4), "{spent} of {epsilon}");
            // A little less noise is too little.
            assert!(of(z * (1.0 - 1e-5)) > epsilon);
        }
    }
    assert_eq!(noise_multiplier_for(1e-9, 1_000_000, 1.0, 1e-12), None);
}

#[test]
fn tails_are_right_where_the_direct_formula_fails() {
    // ln erfc: at 10, where the series begins, both forms agree; far out, erfc itself is 0.
    let direct = libm::log(libm::erfc(10.0));
    assert!((logarithm::erfc(10.0) - direct).abs() < 1e-8);
    assert!(libm::erfc(40.0) == 0.0 && (logarithm::erfc(40.0) + 1_604.261_5).abs() < 1e-3);
}
