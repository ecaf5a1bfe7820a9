//! Clipping and noise by hand, sensitivity as a property, what rounds cost.

use super::*;
use crate::event::Spent;
use core::time::Duration;
use formant_federation::Draw;
use formant_methods::{Combine, Contribution, Round, Weighing};
use formant_numerics::{Rng, Stream};
use proptest::prelude::*;
use std::borrow::Cow;

const PRIVACY: Privacy = Privacy {
    place: Place::Server,
    clip: 5.0,
    noise_multiplier: 1.0,
    delta: 1e-5,
    noise: NoiseSource::Keyed,
};

/// Noise so faint that `f32` does not see it.
const SILENT: Privacy = Privacy { noise_multiplier: 1e-30, ..PRIVACY };

/// What a server makes of uploads in round 1.
fn combined(
    privacy: Privacy,
    rules: &Protocol,
    w: &[f32],
    uploads: &[(usize, Vec<f32>)],
) -> Vec<f32> {
    let combine = PrivateMean::new(privacy, rules.clone());
    let reference = [Cow::Borrowed(w)];
    let mut sum = combine
        .begin(Round {
            number: 1,
            clients: rules.clients,
            reference: &reference,
            statistics: 1,
            weighing: Weighing::BySamples,
            rng: Rng::new(1, Stream::Server, 1, 0),
            judgements: None,
        })
        .unwrap();
    for (client, vector) in uploads {
        // A hundred times as many samples count no more.
        let weight = 1.0 + 99.0 * *client as f64;
        let vectors = &[&vector[..]];
        sum.add(Contribution { client: *client, weight, share: 1.0, vectors }).unwrap();
    }
    sum.finish().unwrap().unwrap().remove(0)
}

#[test]
fn changes_are_clipped_and_divided_by_how_many_are_expected() {
    let rules = Protocol::synchronous(4, 1);
    let w = [1.0, 1.0];
    // Changes (3, 4), which has the norm 5 of the clip; (6, 8), twice that; (0, −1). Nobody else has sent.
    let uploads = [(0, vec![4.0, 5.0]), (1, vec![7.0, 9.0]), (3, vec![1.0, 0.0])];
    // w + ((3, 4) + (3, 4) + (0, −1))/4
    assert_eq!(combined(SILENT, &rules, &w, &uploads), [2.5, 2.75]);
    // Whoever sends twice counts once.
    let twice = [&uploads[..], &uploads[..1]].concat();
    assert_eq!(combined(SILENT, &rules, &w, &twice), [2.5, 2.75]);
    // What is no number counts as no change.
    let broken = [&uploads[..2], &[(3, vec![f32::INFINITY, 0.0])]].concat();
    assert_eq!(combined(SILENT, &rules, &w, &broken), [2.5, 3.0]);
}

#[test]
fn without_clip_and_noise_it_is_the_mean_of_equals() {
    let rules = Protocol::synchronous(3, 1);
    let uploads = [(0, vec![4.0, 5.0]), (1, vec![7.0, 9.0]), (2, vec![1.0, -2.0])];
    let loose = Privacy { clip: 1e9, noise_multiplier: 1e-30, ..PRIVACY };
    assert_eq!(combined(loose, &rules, &[0.5, 0.25], &uploads), [4.0, 4.0]);
}

#[test]
fn whoever_is_asked_in_another_ones_place_counts_for_nothing() {
    let rules = Protocol { participation: 0.5, seed: 9, ..Protocol::synchronous(4, 1) };
    let drawn = rules.drawn(1);
    let all: Vec<_> = (0..4).map(|client| (client, vec![client as f32 + 1.0])).collect();
    let sum: f32 = drawn.iter().map(|client| *client as f32 + 1.0).sum();
    assert_eq!(combined(SILENT, &rules, &[0.0], &all), [sum / 2.0]);
    // Tosses that have chosen nobody: one client is asked so that there is an answer, and adds nothing.
    let rules = Protocol { draw: Draw::Tosses, participation: 1e-9, ..rules };
    let [asked] = rules.participants(1)[..] else { panic!("one is asked") };
    assert_eq!(combined(SILENT, &rules, &[0.5], &[(asked, vec![9.0])]), [0.5]);
}

#[test]
fn noise_has_the_announced_deviation() {
    let rules = Protocol::synchronous(10, 1);
    let privacy = Privacy { clip: 0.5, noise_multiplier: 3.0, ..PRIVACY };
    let w = vec![2.0; 20_000];
    let noisy = combined(privacy, &rules, &w, &[(0, w.clone())]);
    let noise: Vec<f64> = noisy.iter().map(|x| f64::from(*x) - 2.0).collect();
    let mean = noise.iter().sum::<f64>() / noise.len() as f64;
    let deviation = (noise.iter().map(|x| x * x).sum::<f64>() / noise.len() as f64).sqrt();
    // zC/m = 0.15. Of n draws, a mean lies within 0.15/√n and a deviation within 0.15/√(2n), once in
    // three; here five of these.
    let error = 0.15 / (noise.len() as f64).sqrt();
    assert!(mean.abs() < 5.0 * error, "{mean}");
    assert!((deviation - 0.15).abs() < 5.0 * error / 2f64.sqrt(), "{deviation}");
}

#[test]
fn the_system_never_draws_the_same_twice() {
    let rules = Protocol::synchronous(2, 1);
    let keyed = || combined(PRIVACY, &rules, &[0.0; 4], &[(0, vec![0.0; 4])]);
    assert_eq!(keyed(), keyed());
    let system = Privacy { noise: NoiseSource::System, ..PRIVACY };
    let fresh = || combined(system, &rules, &[0.0; 4], &[(0, vec![0.0; 4])]);
    let (one, other) = (fresh(), fresh());
    assert!(one != other && one != keyed() && one.iter().all(|x| x.is_finite()));
}

proptest! {
    /// Whatever the others have sent and whatever one client sends: with it or without, sums differ by no
    /// more than the clip.
    #[test]
    fn one_client_moves_the_sum_by_no_more_than_the_clip(
        w in prop::collection::vec(-1e3f32..1e3, 5),
        others in prop::collection::vec(prop::collection::vec(-1e6f32..1e6, 5), 0..4),
        own in prop::collection::vec(prop_oneof![-1e6f32..1e6, Just(f32::MAX), Just(f32::NAN)], 5),
        clip in 1e-3..1e3,
    ) {
        let rules = Protocol::synchronous(5, 1);
        let privacy = Privacy { clip, noise_multiplier: 1e-30, ..PRIVACY };
        let mut uploads: Vec<_> = others.into_iter().enumerate().collect();
        let without = combined(privacy, &rules, &w, &uploads);
        uploads.push((4, own));
        let with = combined(privacy, &rules, &w, &uploads);
        let moved = with.iter().zip(&without).map(|(with, without)| {
            // Sums are five times means.
            5.0 * (f64::from(*with) - f64::from(*without))
        });
        let moved = moved.map(|x| x * x).sum::<f64>().sqrt();
        // The means were rounded to f32, at magnitudes of up to 2e3, each by half of 2^-13.
        let rounding = 5.0 * 5f64.sqrt() * 2f64.powi(-13);
        prop_assert!(moved <= clip + rounding, "{moved} with a clip of {clip}");
    }
}

fn spent(privacy: Privacy, rules: &Protocol) -> Vec<f64> {
    let mut ledger = Ledger::new(privacy, rules.clone());
    let rounds = 1..=rules.rounds;
    rounds
        .map(|round| {
            let Spent { epsilon, .. } = ledger.spent(round);
            epsilon
        })
        .collect()
}

#[test]
fn rounds_add_up_and_a_ledger_that_begins_late_says_the_same() {
    for draw in [Draw::Number, Draw::Tosses] {
        for participation in [0.3, 1.0] {
            let rules = Protocol { draw, participation, ..Protocol::synchronous(6, 9) };
            let course = spent(PRIVACY, &rules);
            assert!(course.is_sorted() && course[0] > 0.0);
            for round in [1, 5, 9] {
                let resumed = Ledger::new(PRIVACY, rules.clone()).spent(round);
                assert_eq!(resumed.epsilon, course[round as usize - 1]);
            }
        }
    }
}

#[test]
fn what_is_counted_is_what_one_client_may_have_been_in() {
    let rules = Protocol { participation: 0.5, ..Protocol::synchronous(6, 12) };
    let at = |multiplier: f64, n: u64| {
        formant_privacy::Accountant::new(multiplier, 1.0).epsilon(n, 1e-5)
    };
    let times = |client: usize| (1..=12).filter(|t| rules.drawn(*t).contains(&client)).count();
    let most = (0..6).map(times).max().unwrap() as u64;
    assert!(most < 12);
    assert_eq!(spent(PRIVACY, &rules).last(), Some(&at(1.0, most)));
    // Whom nobody knows to have been drawn may have been, with a probability.
    let tossed = Protocol { draw: Draw::Tosses, ..rules.clone() };
    let sampled = formant_privacy::Accountant::new(1.0, 0.5).epsilon(12, 1e-5);
    assert_eq!(spent(PRIVACY, &tossed).last(), Some(&sampled));
    // A client's own noise hides one change among others twice as far apart, and who is asked in another
    // one's place sends too.
    let local = Privacy { place: Place::Client, ..PRIVACY };
    assert_eq!(spent(local, &rules).last(), Some(&at(0.5, 12)));
    // Time changes nothing.
    let hurried = Protocol { deadline: Some(Duration::from_secs(1)), ..rules.clone() };
    assert_eq!(spent(PRIVACY, &hurried), spent(PRIVACY, &rules));
}

#[test]
fn the_noise_that_is_found_costs_what_was_asked() {
    for place in [Place::Server, Place::Client] {
        for (draw, participation) in [(Draw::Number, 0.4), (Draw::Tosses, 0.4), (Draw::Number, 1.0)]
        {
            let rules = Protocol { draw, participation, ..Protocol::synchronous(10, 7) };
            let z = Privacy::multiplier_for(3.0, 1e-5, place, &rules).unwrap();
            let privacy = Privacy { place, noise_multiplier: z, ..PRIVACY };
            let all = *spent(privacy, &rules).last().unwrap();
            assert!(all <= 3.0 && all > 2.999, "{place:?}, {draw:?}: {all}");
        }
    }
}
