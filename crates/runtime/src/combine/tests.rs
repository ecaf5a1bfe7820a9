//! Every rule by hand, its reductions, and what it withstands.

use super::*;
use formant_methods::{Judged, Judgements, Weighing, WeightedAverage};
use formant_numerics::{Rng, Stream};
use std::borrow::Cow;

/// Parameters and statistics of an upload, and its weight.
type Sent = (f64, Vec<f32>, Vec<f32>);

fn combined(way: &dyn Combine, reference: (&[f32], &[f32]), sent: &[Sent]) -> [Vec<f32>; 2] {
    let reference = [Cow::Borrowed(reference.0), Cow::Borrowed(reference.1)];
    let mut combining = way
        .begin(Round {
            number: 1,
            clients: sent.len(),
            reference: &reference,
            statistics: 1,
            weighing: Weighing::BySamples,
            rng: Rng::new(1, Stream::Test, 1, 0),
            judgements: None,
        })
        .unwrap();
    for (client, (weight, w, statistics)) in sent.iter().enumerate() {
        let vectors: &[&[f32]] = &[w, statistics];
        combining.add(Contribution { client, weight: *weight, share: 1.0, vectors }).unwrap();
    }
    combining.finish().unwrap().unwrap().try_into().unwrap()
}

/// A rule without a limit on anybody's weight, once in memory and once from a file.
fn by(rule: Rule, reference: (&[f32], &[f32]), sent: &[Sent]) -> [Vec<f32>; 2] {
    let [in_memory, on_disk] = [1 << 20, 0].map(|memory| {
        let way = Combination { rule, max_share: 1.0, memory };
        combined(&way, reference, sent)
    });
    assert_eq!(in_memory, on_disk, "{rule:?}");
    in_memory
}

fn plain(sent: &[(f64, &[f32])]) -> Vec<Sent> {
    sent.iter().map(|(weight, w)| (*weight, w.to_vec(), vec![])).collect()
}

const ALL: [Rule; 6] = [
    Rule::Mean,
    Rule::Clipped { clip: 1.0 },
    Rule::Median,
    Rule::TrimmedMean { trim: 0.2 },
    Rule::Krum { attackers: 1, selected: 2 },
    Rule::GeometricMedian { steps: 8 },
];

/// Uploads of a few clients with several thousand numbers each, around a broadcast.
fn crowd(clients: usize) -> (Vec<f32>, Vec<f32>, Vec<Sent>) {
    let mut rng = Rng::new(7, Stream::Test, 2, 0);
    let mut numbers = |len: usize, at: f64, by: f64| -> Vec<f32> {
        (0..len).map(|_| (at + by * rng.normal()) as f32).collect()
    };
    let (w, statistics) = (numbers(70_000, 0.0, 1.0), numbers(50, 2.0, 0.1));
    let sent = (0..clients).map(|client| {
        let moved = |from: &[f32], by: Vec<f32>| from.iter().zip(by).map(|(a, b)| a + b).collect();
        let weight = 10.0 + client as f64;
        let upload = moved(&w, numbers(w.len(), 0.05, 0.02));
        (weight, upload, moved(&statistics, numbers(statistics.len(), 0.1, 0.05)))
    });
    let sent = sent.collect();
    (w, statistics, sent)
}

#[test]
fn clipping_by_hand() {
    // Updates of lengths 5, 1 and 10 from (1, 1): the median is 5, so only the third is too long.
    let sent = plain(&[(1.0, &[4.0, 5.0]), (2.0, &[1.0, 2.0]), (1.0, &[1.0, 11.0])]);
    let from: (&[f32], &[f32]) = (&[1.0, 1.0], &[]);
    // (4 + 2·1 + 1) / 4, and (5 + 2·2 + 6) / 4: the third goes half of its way.
    let [w, _] = by(Rule::Clipped { clip: 1.0 }, from, &sent);
    assert_eq!(w, [1.75, 3.75]);
    // Half of the median is 2½: the first goes half of its way, the third a quarter.
    let [w, _] = by(Rule::Clipped { clip: 0.5 }, from, &sent);
    assert_eq!(w, [(2.5 + 2.0 + 1.0) / 4.0, (3.0 + 4.0 + 3.5) / 4.0]);
}

#[test]
fn clipping_does_not_follow_the_size_of_the_broadcast() {
    // The same updates from a thousand times further away come to the same.
    let sent =
        |from: f32| plain(&[(1.0, &[from + 1.0]), (1.0, &[from - 1.0]), (1.0, &[from + 64.0])]);
    let [near, _] = by(Rule::Clipped { clip: 1.0 }, (&[1.0], &[]), &sent(1.0));
    let [far, _] = by(Rule::Clipped { clip: 1.0 }, (&[1024.0], &[]), &sent(1024.0));
    assert!((near[0] - 1.0 - 1.0 / 3.0).abs() < 1e-6, "{near:?}");
    assert!((far[0] - 1024.0 - 1.0 / 3.0).abs() < 1e-3, "{far:?}");
}

#[test]
fn medians_by_hand() {
    let three = plain(&[(1.0, &[1.0, -5.0]), (9.0, &[2.0, 8.0]), (1.0, &[90.0, 0.0])]);
    assert_eq!(by(Rule::Median, (&[0.0; 2], &[]), &three)[0], [2.0, 0.0]);
    let mut four = three;
    four.push((1.0, vec![4.0, 1.0], vec![]));
    // Of an even number the mean of the middle two: 2 and 4, 0 and 1. Weights are nothing to it.
    assert_eq!(by(Rule::Median, (&[0.0; 2], &[]), &four)[0], [3.0, 0.5]);
}

#[test]
fn trimmed_means_by_hand() {
    let sent =
        plain(&[(1.0, &[1.0]), (5.0, &[1000.0]), (1.0, &[3.0]), (1.0, &[2.0]), (7.0, &[-70.0])]);
    let by = |trim| by(Rule::TrimmedMean { trim }, (&[0.0], &[]), &sent)[0][0];
    // ⌊0.2 · 5⌋ = 1 at either end: (1 + 2 + 3) / 3.
    assert_eq!(by(0.2), 2.0);
    assert_eq!(by(0.39), 2.0);
    // Two at either end leave the median.
    assert_eq!(by(0.4), 2.0);
    // ⌊0.19 · 5⌋ = 0: the mean.
    assert_eq!(by(0.19), 187.2);
}

#[test]
fn krum_by_hand() {
    // n = 5, f = 1: the two nearest others count.
    let sent =
        plain(&[(1.0, &[3.0]), (1.0, &[0.0]), (9.0, &[50.0]), (1.0, &[1.0]), (1.0, &[-2.0])]);
    let by = |selected| by(Rule::Krum { attackers: 1, selected }, (&[0.0], &[]), &sent)[0][0];
    // 0: to 1 and −2 it is 1 + 4 = 5; 1: to 0 and 3 it is 1 + 4 = 5, and the earlier client wins a tie.
    assert_eq!(by(1), 0.0);
    assert_eq!(by(2), 0.5);
    // The next are 3 (4 + 9) and −2 (4 + 9), of which 3 came first: (3 + 0 + 1) / 3.
    assert_eq!(by(3), 4.0 / 3.0);
}

#[test]
fn krum_says_what_it_needs() {
    assert_eq!(krum_fault(1, 1, 5), None);
    assert_eq!(krum_fault(1, 4, 5), None);
    let few = krum_fault(1, 1, 4).unwrap();
    assert!(few.contains("needs 5 uploads") && few.ends_with("enough for 0"), "{few}");
    assert!(krum_fault(0, 1, 2).unwrap().ends_with("too few for any"));
    assert!(krum_fault(1, 5, 5).unwrap().ends_with("4 at most"));
}

#[test]
fn a_geometric_median_by_hand() {
    // On a line it is the weighted median: 2 of 3 clients are at 1.
    let line = plain(&[(1.0, &[1.0]), (1.0, &[1.0]), (1.0, &[1000.0])]);
    let [w, _] = by(Rule::GeometricMedian { steps: 40 }, (&[0.0], &[]), &line);
    assert!((w[0] - 1.0).abs() < 1e-3, "{w:?}");
    // One step from the mean, 4, of 0, 0 and 12: distances 4, 4 and 8, so β = ¼, ¼, ⅛ and
    // v = (12/8) / (5/8).
    let first = plain(&[(1.0, &[0.0]), (1.0, &[0.0]), (1.0, &[12.0])]);
    let [w, _] = by(Rule::GeometricMedian { steps: 1 }, (&[0.0], &[]), &first);
    assert!((f64::from(w[0]) - 2.4).abs() < 1e-6, "{w:?}");
    // Twice the weight is as good as two clients, as published.
    let heavy = plain(&[(2.0, &[0.0]), (1.0, &[12.0])]);
    assert_eq!(by(Rule::GeometricMedian { steps: 1 }, (&[0.0], &[]), &heavy)[0], w);
    // The Fermat point of a triangle with three equal sides is its middle.
    let height = 3f32.sqrt() / 2.0;
    let corners = plain(&[(1.0, &[0.0, 0.0]), (1.0, &[1.0, 0.0]), (1.0, &[0.5, height])]);
    let [w, _] = by(Rule::GeometricMedian { steps: 5 }, (&[0.0; 2], &[]), &corners);
    assert!((w[0] - 0.5).abs() < 1e-6 && (w[1] - height / 3.0).abs() < 1e-6, "{w:?}");
}

#[test]
fn settings_without_effect_give_the_mean_bit_for_bit() {
    let (w, statistics, sent) = crowd(5);
    let from = (&*w, &*statistics);
    let mean = combined(&WeightedAverage, from, &sent);
    assert_eq!(by(Rule::Mean, from, &sent), mean);
    assert_eq!(by(Rule::Clipped { clip: 1e6 }, from, &sent), mean);
    let spooled = Combination { rule: Rule::Mean, max_share: 0.45, memory: 1 << 20 };
    assert_eq!(combined(&spooled, from, &sent), mean, "nobody has 45 % of the weight");
    // Without weights it is the mean of equals.
    let equal: Vec<Sent> = sent.iter().map(|(_, w, s)| (1.0, w.clone(), s.clone())).collect();
    let equally = combined(&WeightedAverage, from, &equal);
    assert_ne!(equally, mean);
    assert_eq!(by(Rule::TrimmedMean { trim: 0.0 }, from, &sent), equally);
    let [trained, _] = by(Rule::Krum { attackers: 0, selected: 5 }, from, &sent);
    assert_eq!(trained, equally[0]);
    let [trained, _] = by(Rule::GeometricMedian { steps: 0 }, from, &sent);
    assert_eq!(trained, mean[0]);
}

#[test]
fn one_client_alone_is_itself() {
    let (w, statistics, sent) = crowd(1);
    for rule in ALL {
        let alone = by(rule, (&w, &statistics), &sent);
        assert_eq!(alone, [sent[0].1.clone(), sent[0].2.clone()], "{rule:?}");
    }
}

#[test]
fn two_clients_are_combined_by_every_rule() {
    let (w, statistics, sent) = crowd(2);
    for rule in ALL {
        let both = by(rule, (&w, &statistics), &sent);
        assert!(both.iter().flatten().all(|x| x.is_finite()), "{rule:?}");
    }
}

#[test]
fn one_poisoner_of_five_moves_the_mean_and_nothing_else_far() {
    let (w, statistics, mut sent) = crowd(5);
    let from = (&*w, &*statistics);
    let distance = |a: &[f32], b: &[f32]| formant_numerics::vector::distance_squared(a, b).sqrt();
    let honest = by(Rule::Mean, from, &sent[..4]);
    let step = distance(&honest[0], &w);
    for x in sent[4].1.iter_mut().zip(&w) {
        // A thousandfold step the wrong way, and statistics that no data have.
        *x.0 = x.1 - 1000.0 * (*x.0 - x.1);
    }
    sent[4].2.fill(1e9);
    for rule in ALL {
        let [trained, seen] = by(rule, from, &sent);
        let off = distance(&trained, &honest[0]) / step;
        assert!(seen.iter().all(|x| *x > 0.0), "{rule:?}: a variance stays one");
        let seen = seen.iter().copied().fold(0.0, f32::max);
        if rule == Rule::Mean {
            assert!(off > 100.0 && seen > 1e8, "{off} {seen}");
        } else {
            assert!(off < 1.0 && seen < 5.0, "{rule:?}: {off} {seen}");
        }
    }
}

#[test]
fn who_claims_ten_million_samples_counts_as_much_as_all_others() {
    let sent = plain(&[(100.0, &[1.0]), (1e7, &[0.0]), (300.0, &[2.0])]);
    for memory in [0, 1 << 20] {
        // Held beside the sum, and with all in memory: (100 + 600) / 800.
        let held = Combination { rule: Rule::Mean, max_share: 0.5, memory };
        assert_eq!(combined(&held, (&[9.0], &[]), &sent)[0], [0.875]);
        // A third for everybody.
        let kept = Combination { rule: Rule::Mean, max_share: 0.3, memory };
        assert!((combined(&kept, (&[9.0], &[]), &sent)[0][0] - 1.0).abs() < 1e-6);
    }
    let free = Combination { rule: Rule::Mean, max_share: 1.0, memory: 0 };
    assert!(combined(&free, (&[9.0], &[]), &sent)[0][0] < 1e-4);
}

#[test]
fn whoever_is_heaviest_is_found_in_any_order() {
    let mut clients = [(7.0, 3.0f32), (2.0, -1.0), (40.0, 8.0), (1.0, 0.5), (5.0, -2.0)];
    for turn in 0..clients.len() {
        clients.rotate_left(1);
        let sent: Vec<Sent> = clients.map(|(weight, x)| (weight, vec![x], vec![])).to_vec();
        // 40 of 55 counts as much as the other 15: (21 − 2 + 120 + 0.5 − 10) / 30.
        let held = Combination { rule: Rule::Mean, max_share: 0.5, memory: 0 };
        let [w, _] = combined(&held, (&[0.0], &[]), &sent);
        assert!((f64::from(w[0]) - 129.5 / 30.0).abs() < 1e-6, "turn {turn}: {w:?}");
    }
    // And where nobody is too heavy it is the mean, bit for bit, whoever came first.
    let (w, statistics, mut sent) = crowd(4);
    for (upload, weight) in sent.iter_mut().zip([1.0, 3.0, 6.0, 9.0]) {
        upload.0 = weight;
    }
    for _ in 0..4 {
        sent.rotate_left(1);
        let held = Combination { rule: Rule::Mean, max_share: 0.5, memory: 0 };
        let from = (&*w, &*statistics);
        assert_eq!(combined(&held, from, &sent), combined(&WeightedAverage, from, &sent));
    }
}

/// What a rule tells of uploads that do not count as they were sent: whose, what, and how much of it counts.
fn told(way: Combination, sent: &[(f64, &[f32])]) -> Vec<(usize, &'static str, f64)> {
    let (sent, reference): (_, (&[f32], &[f32])) = (plain(sent), (&[0.0], &[]));
    let judgements = Judgements::default();
    let judged = Judged { combine: &way, judgements: &judgements };
    // Nobody counts differently because somebody asks.
    assert_eq!(combined(&judged, reference, &sent), combined(&way, reference, &sent));
    let all = judgements.into_vec().into_iter();
    all.map(|told| (told.client, told.treatment.word(), told.share)).collect()
}

#[test]
fn whoever_does_not_count_in_full_is_named() {
    let sent: [(f64, &[f32]); 5] =
        [(1.0, &[1.0]), (1.0, &[2.0]), (1.0, &[3.0]), (1.0, &[-100.0]), (9.0, &[2.5])];
    let by = |rule, max_share| told(Combination { rule, max_share, memory: 0 }, &sent);
    // 9 beside 4 others is more than a half, and then counts as 4; with 0.4 as 0.4 (c + 4).
    assert_eq!(by(Rule::Mean, 1.0), []);
    assert_eq!(by(Rule::Mean, 0.5), [(4, "capped", 4.0 / 9.0)]);
    let [(4, "capped", share)] = by(Rule::Mean, 0.4)[..] else { panic!() };
    assert!((share - 8.0 / 3.0 / 9.0).abs() < 1e-12);
    // The median norm is 2.5.
    let clipped = [(2, "clipped", 2.5 / 3.0), (3, "clipped", 2.5 / 100.0)];
    assert_eq!(by(Rule::Clipped { clip: 1.0 }, 1.0), clipped);
    // 2.5 is nearest to its two nearest others.
    let krum = Rule::Krum { attackers: 1, selected: 1 };
    assert_eq!(by(krum, 0.5), [0, 1, 2, 3].map(|client| (client, "left-out", 0.0)));
    let trimmed = by(Rule::TrimmedMean { trim: 0.2 }, 0.5);
    assert_eq!(trimmed, [(2, "trimmed", 0.0), (3, "trimmed", 0.0)]);
    assert_eq!(by(Rule::Median, 0.5), []);
    let far = by(Rule::GeometricMedian { steps: 8 }, 1.0);
    let of = |client| far.iter().find(|told| told.0 == client).map(|told| told.2);
    assert!(of(3).is_some_and(|share| share < 0.02) && of(4).is_none(), "{far:?}");
}
