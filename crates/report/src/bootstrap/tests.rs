//! Intervals that can be computed by hand, and how often they hold.

use super::*;

fn panel(weights: &[&[f64]], one_division: bool) -> Panel {
    Panel { number: 0, weights: weights.iter().map(|run| run.to_vec()).collect(), one_division }
}

fn sample<'l>(figures: &[f64], clients: Vec<&'l [Option<f64>]>) -> Sample<'l> {
    Sample { figures: figures.to_vec(), clients }
}

fn of(panel: &Panel, samples: &[Sample<'_>], tested: Option<[Tested; 2]>) -> Option<Interval> {
    let found = deviations(panel, samples);
    let difference = mean(&samples[0].figures) - mean(&samples[1].figures);
    interval(difference, [&found[0], &found[1]], tested, 0.0)
}

fn close(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within
}

#[test]
fn a_difference_that_all_clients_share_has_no_width() {
    let weights = [10.0, 20.0, 30.0, 40.0];
    let better = [0.6, 0.7, 0.8, 0.9].map(Some);
    let worse = [0.5, 0.6, 0.7, 0.8].map(Some);
    let samples = [sample(&[0.8], vec![&better]), sample(&[0.7], vec![&worse])];
    let found = of(&panel(&[&weights], true), &samples, None).unwrap();
    assert!(close(found.low, 0.1, 1e-12) && close(found.high, 0.1, 1e-12), "{found:?}");
    assert!(found.excludes_zero());
    let both = deviations(&panel(&[&weights], true), &samples);
    let grained = interval(0.1, [&both[0], &both[1]], None, 0.01).unwrap();
    assert!(close(grained.low, 0.09, 1e-12) && close(grained.high, 0.11, 1e-12), "{grained:?}");
}

#[test]
fn without_runs_there_is_nothing_to_draw() {
    for one_division in [true, false] {
        let found = deviations(&panel(&[], one_division), &[sample(&[], vec![])]);
        assert!(found[0].drawn.iter().all(|drawn| *drawn == 0.0) && !found[0].by_clients);
    }
}

#[test]
fn two_equal_clients_are_three_cases() {
    // Differences 0 and 0.2: a draw has a mean of 0, 0.1 or 0.2 with the chances 1/4, 1/2 and 1/4, so the
    // quantiles of the deviation are −0.1 and 0.1. Two values stretch it by √2 · 12.706 / 1.96.
    let (one, other) = ([0.5, 0.7].map(Some), [0.5, 0.5].map(Some));
    let samples = [sample(&[0.6], vec![&one]), sample(&[0.5], vec![&other])];
    let found = of(&panel(&[&[5.0, 5.0]], true), &samples, None).unwrap();
    let half = 0.1 * 2f64.sqrt() * 12.706 / 1.959_964;
    assert!(close(found.low, 0.1 - half, 1e-6) && close(found.high, 0.1 + half, 1e-6), "{found:?}");
    assert!(!found.excludes_zero());
}

#[test]
fn weights_are_local_test_sizes() {
    // All that differs is a client with nothing to be tested on: it counts nowhere.
    let (one, other) = ([0.5, 0.5, 1.0].map(Some), [0.4, 0.4, 0.0].map(Some));
    let samples = [sample(&[0.5], vec![&one]), sample(&[0.4], vec![&other])];
    let found = of(&panel(&[&[8.0, 4.0, 0.0]], true), &samples, None).unwrap();
    assert!(close(found.low, 0.1, 1e-12) && close(found.high, 0.1, 1e-12), "{found:?}");
}

#[test]
fn three_runs_of_a_generic_model_are_ten_cases() {
    // Differences 0, 0.03, 0.06 and a test set without end. Least and greatest means have a chance of 1/27
    // each, which is more than 2.5 %: the deviations reach from −0.03 to 0.03.
    let samples = [sample(&[0.5, 0.53, 0.56], vec![]), sample(&[0.5, 0.5, 0.5], vec![])];
    let endless = Tested { accuracy: 0.5, samples: usize::MAX };
    let found = of(&panel(&[&[], &[], &[]], true), &samples, Some([endless; 2])).unwrap();
    let half = 0.03 * 1.5f64.sqrt() * 4.303 / 1.959_964;
    assert!(close(found.low, 0.03 - half, 1e-6) && close(found.high, 0.03 + half, 1e-6));
}

#[test]
fn a_single_run_of_a_generic_model_has_its_test_sets_noise() {
    let samples = [sample(&[0.9], vec![]), sample(&[0.8], vec![])];
    let tested = [0.9, 0.8].map(|accuracy| Tested { accuracy, samples: 98 });
    let found = of(&panel(&[&[]], true), &samples, Some(tested)).unwrap();
    // (89.2 / 100 and 79.4 / 100 with one more of each kind.)
    let deviation = ((0.892 * 0.108 + 0.794 * 0.206) / 100.0f64).sqrt();
    assert!(close(found.low, 0.1 - 1.96 * deviation, 0.006), "{found:?}");
    assert!(close(found.high, 0.1 + 1.96 * deviation, 0.006), "{found:?}");
    assert_eq!(of(&panel(&[&[]], true), &samples, None), None, "noise that nobody knows");
}

#[test]
fn a_perfect_score_is_not_free_of_noise() {
    let perfect = Tested { accuracy: 1.0, samples: 18 };
    assert!(close(perfect.variance(), 0.95 * 0.05 / 20.0, 1e-12));
}

#[test]
fn one_client_is_no_spread_over_clients() {
    let (one, other) = ([Some(0.9)], [Some(0.8)]);
    let samples = [sample(&[0.9], vec![&one]), sample(&[0.8], vec![&other])];
    let single = panel(&[&[50.0]], true);
    assert_eq!(of(&single, &samples, None), None);
    let tested = [0.9, 0.8].map(|accuracy| Tested { accuracy, samples: 50 });
    assert!(!of(&single, &samples, Some(tested)).unwrap().excludes_zero());
    // A client that holds nearly everything is as good as alone.
    let both = [Some(0.9), Some(0.1)];
    let samples = [sample(&[0.9], vec![&both]), sample(&[0.8], vec![&both])];
    assert_eq!(of(&panel(&[&[1000.0, 1.0]], true), &samples, None), None);
}

#[test]
fn a_method_without_clients_figures_spoils_nobody_elses() {
    let clients = [0.5, 0.6, 0.7].map(Some);
    let unknown = [None; 3];
    let samples = [
        sample(&[0.6], vec![&clients]),
        sample(&[0.6], vec![&clients]),
        sample(&[0.6], vec![&unknown]),
        sample(&[0.6], vec![]),
    ];
    let found = deviations(&panel(&[&[1.0; 3]], true), &samples);
    assert_eq!(found.iter().map(|d| d.by_clients).collect::<Vec<_>>(), [true, true, false, false]);
    assert!(interval(0.0, [&found[0], &found[1]], None, 0.0).is_some());
    assert_eq!(interval(0.0, [&found[0], &found[2]], None, 0.0), None);
}

#[test]
fn other_divisions_are_other_draws_and_panels_of_their_own_are_not_paired() {
    let (one, other) = ([0.2, 0.5, 0.8].map(Some), [0.2, 0.5, 0.8].map(Some));
    let runs = [sample(&[0.5, 0.5], vec![&one, &other])];
    let width = |one_division: bool| {
        let panel = panel(&[&[1.0; 3], &[1.0; 3]], one_division);
        let zero = Deviations { drawn: vec![0.0; RESAMPLES], by_clients: true };
        let found = interval(0.5, [&deviations(&panel, &runs)[0], &zero], None, 0.0).unwrap();
        found.high - found.low
    };
    assert!(width(true) > 1.3 * width(false), "the noise of one division does not average out");
    let draw = |number: u64| {
        let panel = Panel { number, ..panel(&[&[1.0; 3]], true) };
        deviations(&panel, &[sample(&[0.5], vec![&one])]).remove(0)
    };
    assert_eq!(interval(0.0, [&draw(1), &draw(1)], None, 0.0).unwrap().high, 0.0);
    assert!(interval(0.0, [&draw(1), &draw(2)], None, 0.0).unwrap().high > 0.1);
}

#[test]
fn groups_of_clients_vary_as_clients_do() {
    // 1,000 clients, one in four of which is better by 0.4: the mean's deviation is 0.4 · √(¼ · ¾ / 1,000).
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let one: Vec<_> = (0..1_000).map(|_| Some(if rng.below(4) == 0 { 0.9 } else { 0.5 })).collect();
    let (other, weights) = (vec![Some(0.5); 1_000], vec![7.0; 1_000]);
    let mean = mean(&one.iter().flatten().copied().collect::<Vec<_>>());
    let samples = [sample(&[mean], vec![&one]), sample(&[0.5], vec![&other])];
    let found = of(&panel(&[&weights], true), &samples, None).unwrap();
    let half = 1.96 * 0.4 * (0.25 * 0.75 / 1_000.0f64).sqrt();
    assert!(close((found.high - found.low) / 2.0, half, 0.1 * half), "{found:?} and {half}");
}

#[test]
fn students_quantiles() {
    for (freedom, known) in [(1, 12.706), (10, 2.228), (11, 2.201), (30, 2.042), (100, 1.984)] {
        assert!(close(student(freedom), known, 0.003), "{freedom}: {}", student(freedom));
    }
    assert!(student(1_000_000) > NORMAL);
}

/// Of so many differences whose true value is known, the share that the interval holds.
fn coverage(trials: u64, mut trial: impl FnMut(&mut Rng) -> (f64, Interval)) -> f64 {
    let mut held = 0;
    for number in 0..trials {
        let mut rng = Rng::new(5, Stream::Test, 0, number);
        let (truth, found) = trial(&mut rng);
        held += u32::from(found.low <= truth && truth <= found.high);
    }
    f64::from(held) / trials as f64
}

#[test]
fn intervals_over_clients_hold_the_truth_as_often_as_they_say() {
    let weights = vec![10.0; 20];
    let covered = coverage(200, |rng| {
        let shared: Vec<f64> = (0..20).map(|_| 0.2 * rng.normal()).collect();
        let one: Vec<_> = shared.iter().map(|x| Some(x + 0.05 + 0.03 * rng.normal())).collect();
        let other: Vec<_> = shared.iter().map(|x| Some(x + 0.03 * rng.normal())).collect();
        let figure = |x: &[Option<f64>]| mean(&x.iter().flatten().copied().collect::<Vec<_>>());
        let samples =
            [sample(&[figure(&one)], vec![&one]), sample(&[figure(&other)], vec![&other])];
        (0.05, of(&panel(&[&weights], true), &samples, None).unwrap())
    });
    assert!((0.92..=0.98).contains(&covered), "{covered}");
}

#[test]
fn intervals_over_runs_hold_the_truth_as_often_as_they_say() {
    for runs in [3, 5] {
        let weights = vec![Vec::new(); runs];
        let panel = Panel { number: 0, weights, one_division: true };
        let covered = coverage(200, |rng| {
            let figures: Vec<f64> = (0..runs).map(|_| 0.05 + 0.02 * rng.normal()).collect();
            let samples = [sample(&figures, vec![]), sample(&vec![0.0; runs], vec![])];
            let endless = Tested { accuracy: 0.0, samples: usize::MAX };
            (0.05, of(&panel, &samples, Some([endless; 2])).unwrap())
        });
        // The bootstrap of three values has ten cases only, so it is not exact.
        assert!((0.88..=1.0).contains(&covered), "{runs}: {covered}");
    }
}

#[test]
fn intervals_over_divisions_hold_the_truth_at_least_as_often_as_they_say() {
    let (runs, clients) = (5, 20);
    let weights = vec![vec![10.0; clients]; runs];
    let panel = Panel { number: 0, weights, one_division: false };
    let figure = |x: &[Option<f64>]| mean(&x.iter().flatten().copied().collect::<Vec<_>>());
    let covered = coverage(200, |rng| {
        // A division suits the first method more or less, and each of its clients does too.
        let draw = |rng: &mut Rng| {
            let division = 0.05 + 0.01 * rng.normal();
            (0..clients).map(|_| Some(division + 0.05 * rng.normal())).collect::<Vec<_>>()
        };
        let one: Vec<Vec<Option<f64>>> = (0..runs).map(|_| draw(rng)).collect();
        let other = vec![vec![Some(0.0); clients]; runs];
        let of_runs = |all: &[Vec<Option<f64>>]| all.iter().map(|x| figure(x)).collect::<Vec<_>>();
        let samples = [
            sample(&of_runs(&one), one.iter().map(|x| &x[..]).collect()),
            sample(&of_runs(&other), other.iter().map(|x| &x[..]).collect()),
        ];
        (0.05, of(&panel, &samples, None).unwrap())
    });
    assert!((0.93..=1.0).contains(&covered), "{covered}");
}
