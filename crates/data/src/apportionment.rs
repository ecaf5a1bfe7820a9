//! Whole numbers in given proportions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Divides `total` in proportion to `weights`, which sum to one, by the method of the largest
/// remainder: every share is rounded down, and what is left goes, one each, to the shares that lost
/// most. The counts sum to `total` exactly.
pub(crate) fn largest_remainder(weights: &[f64], total: usize) -> Vec<usize> {
    let ideal: Vec<f64> = weights.iter().map(|weight| weight * total as f64).collect();
    let mut counts: Vec<usize> = ideal.iter().map(|share| share.floor() as usize).collect();
    let given: usize = counts.iter().sum();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // The sort is stable: equal remainders are served in order.
    order.sort_by(|&a, &b| ideal[b].fract().total_cmp(&ideal[a].fract()));
    // Cycling covers the case that rounding errors leave more over than there are shares.
    for i in order.into_iter().cycle().take(total.saturating_sub(given)) {
        counts[i] += 1;
    }
    counts
}

/// Divides `total` into `parts` shares that differ by one at most, larger ones first.
pub(crate) fn evenly(total: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| total / parts + usize::from(i < total % parts))
}

/// Lifts every count to a minimum: those below it take, one at a time, from the largest. The counts sum
/// to `counts.len() * min` at least, or are lifted as far as they reach.
pub(crate) fn lifted(counts: &mut [usize], min: usize) {
    let mut givers: BinaryHeap<(usize, Reverse<usize>)> =
        (0..counts.len()).filter(|&i| counts[i] > min).map(|i| (counts[i], Reverse(i))).collect();
    for taker in 0..counts.len() {
        while counts[taker] < min {
            let Some((count, Reverse(giver))) = givers.pop() else { return };
            counts[giver] -= 1;
            counts[taker] += 1;
            if count - 1 > min {
                givers.push((count - 1, Reverse(giver)));
            }
        }
    }
}

/// Takes `total` from stocks as evenly as they allow: a stock that is too small gives all it has,
/// the others share the rest within one. `total` must not exceed the sum of the stocks.
pub(crate) fn balanced(stocks: &[usize], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..stocks.len()).collect();
    order.sort_by_key(|&i| stocks[i]);
    let mut counts = vec![0; stocks.len()];
    let mut left = total;
    for (served, &i) in order.iter().enumerate() {
        counts[i] = stocks[i].min(left / (stocks.len() - served));
        left -= counts[i];
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_apportionments() {
        assert_eq!(largest_remainder(&[0.5, 0.25, 0.25], 4), [2, 1, 1]);
        assert_eq!(
            largest_remainder(&[0.47, 0.16, 0.158, 0.12, 0.061, 0.031], 10),
            [5, 2, 1, 1, 1, 0]
        );
        assert_eq!(largest_remainder(&[0.5, 0.5], 1), [1, 0]);
        assert_eq!(evenly(7, 3).collect::<Vec<_>>(), [3, 2, 2]);
        assert_eq!(balanced(&[10, 1, 10], 12), [5, 1, 6]);
        assert_eq!(balanced(&[5, 5], 0), [0, 0]);
        let lift = |mut counts: [usize; 4], min| {
            lifted(&mut counts, min);
            counts
        };
        assert_eq!(lift([0, 9, 7, 4], 3), [3, 6, 7, 4]);
        assert_eq!(lift([5, 5, 5, 5], 5), [5; 4]);
        assert_eq!(lift([0, 0, 2, 0], 1), [1, 0, 1, 0]);
    }

    proptest! {
        #[test]
        fn counts_are_exact_and_within_one(
            raw in prop::collection::vec(0.0f64..1.0, 1..50),
            total in 0usize..100_000,
        ) {
            let sum: f64 = raw.iter().sum::<f64>() + 1e-9;
            let weights: Vec<f64> = raw.iter().map(|w| (w + 1e-9 / raw.len() as f64) / sum).collect();
            let counts = largest_remainder(&weights, total);
            prop_assert_eq!(counts.iter().sum::<usize>(), total);
            for (count, weight) in counts.iter().zip(&weights) {
                prop_assert!((*count as f64 - weight * total as f64).abs() < 1.0 + 1e-6);
            }
        }

        #[test]
        fn balanced_takes_are_exact(
            stocks in prop::collection::vec(0usize..100, 1..20),
            share in 0.0f64..=1.0,
        ) {
            let total = (stocks.iter().sum::<usize>() as f64 * share) as usize;
            let counts = balanced(&stocks, total);
            prop_assert_eq!(counts.iter().sum::<usize>(), total);
            let most = counts.iter().max().copied().unwrap_or(0);
            for (count, stock) in counts.iter().zip(&stocks) {
                prop_assert!(count <= stock && (count == stock || count + 1 >= most));
            }
        }
    }
}
