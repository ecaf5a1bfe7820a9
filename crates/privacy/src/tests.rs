//! Published figures. All references are those of dp-accounting 0.6.0 (`pip install dp-accounting`), with
//! `import dp_accounting as dp; from dp_accounting import pld, rdp`.

use super::*;

/// To three digits, which is what such figures are quoted with.
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

/// `a = rdp.RdpAccountant(orders=O); a.compose(dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(z)), n);
/// a.get_epsilon(delta)`, first with `O = list(range(2, 64)) + [128, 256, 512, 1024]`, then with the orders that it
/// has by default. At fractional ones it adds up the absolute values of an alternating series, so ours are a
/// little lower; a privacy loss distribution, `a = pld.PLDAccountant(…)` as above, is lower still.
/// The first is MNIST as in TensorFlow Privacy's tutorial: batches of 256, 60 epochs.
#[test]
fn renyi_divergences_of_the_sampled_gaussian_mechanism_agree() {
    for (z, q, n, delta, whole, all, exact) in [
        (1.1, 256.0 / 60_000.0, 14_062, 1e-5, 2.596_981_178, 2.596_555_870, 2.381_686),
        (1.3, 0.01, 1_000, 1e-5, 1.262_807_267, 1.262_807_267, 1.138_832),
        (1.0, 0.1, 100, 1e-5, 7.972_921_510, 7.903_850_224, 7.046_603),
        (0.7, 0.05, 40, 1e-3, 4.488_551_815, 4.364_344_327, 3.334_220),
        (2.0, 0.3, 40, 1e-5, 5.337_402_077, 5.287_837_932, 4.807_707),
        (4.0, 0.02, 10_000, 1e-6, 2.477_220_296, 2.475_637_879, 2.305_427),
        (0.5, 0.2, 20, 1e-4, 30.733_492_767, 24.519_351_306, 20.943_457),
    ] {
        let at = |order: f64| (order, n as f64 * renyi::sampled_gaussian(q, z, order));
        let orders = ORDERS.into_iter().filter(|order| order.fract() == 0.0);
        agrees(renyi::epsilon(orders.map(at), delta), whole);
        let ours = Accountant::new(z, q).epsilon(n, delta);
        assert!(
            ours < all + 1e-8 && ours > exact && ours > 0.997 * all,
            "{ours} where {all} is published"
        );
    }
}

/// `rdp.rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(q, z, [order])`.
#[test]
fn divergences_agree_at_whole_orders() {
    for (q, z, order, theirs) in [
        (0.01, 1.3, 2.0, 8.070_541_066_373_328e-5),
        (0.01, 1.3, 8.0, 3.443_822_548_008_155_5e-4),
        (0.01, 1.3, 32.0, 4.713_732_662_629_803),
        (0.01, 1.3, 256.0, 71.116_415_293_500_67),
        (0.2, 0.8, 2.0, 0.140_482_836_623_843_3),
        (0.2, 0.8, 8.0, 4.410_723_734_274_335_5),
        (0.2, 0.8, 256.0, 198.384_250_566_340_65),
    ] {
        let ours = renyi::sampled_gaussian(q, z, order);
        assert!((ours / theirs - 1.0).abs() < 1e-8, "{ours} where {theirs} is published");
    }
}

/// The definition, integrated numerically: with mpmath at 30 digits,
/// `log(quad(lambda x: npdf(x, 0, z) * ((1 - q) + q * e**((2*x - 1)/(2*z*z)))**a, [-20*z, -5*z, 0, 1, 5*z, 20*z, 60*z])) / (a - 1)`.
#[test]
fn divergences_are_the_integral_at_fractional_orders() {
    for (q, z, order, integral) in [
        (0.01, 1.3, 1.5, 6.022_903_455_467_8e-5),
        (0.01, 1.3, 2.7, 1.097_232_683_088_8e-4),
        (0.01, 1.3, 10.9, 4.862_666_221_168_2e-4),
        (0.2, 0.8, 2.7, 0.289_664_872_146_28),
        (0.2, 0.8, 10.9, 6.743_618_444_533_3),
    ] {
        let ours = renyi::sampled_gaussian(q, z, order);
        assert!((ours / integral - 1.0).abs() < 1e-8, "{ours} where the integral is {integral}");
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
