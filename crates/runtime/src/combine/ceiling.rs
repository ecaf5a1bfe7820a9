//! The greatest weight that counts in full.

/// Rounding alone makes nobody too heavy.
const SLACK: f64 = 1e-12;

/// The greatest weight that counts in full if nobody may have more than a share of the whole: what is heavier
/// counts as much as this, and then has exactly that share. Infinite if nobody is too heavy. Of fewer uploads
/// than would make up the whole, all count as much as the lightest.
pub(super) fn ceiling(weights: &[f64], share: f64) -> f64 {
    let mut sorted = weights.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let share = share.max(1.0 / sorted.len().max(1) as f64);
    // Sums of all but the heaviest ones.
    let mut rest = vec![0.0; sorted.len()];
    let mut sum = 0.0;
    for (rest, weight) in rest.iter_mut().zip(&sorted).rev() {
        sum += weight;
        *rest = sum;
    }
    for (heavier, (weight, rest)) in sorted.iter().zip(&rest).enumerate() {
        let left = 1.0 - heavier as f64 * share;
        if left <= SLACK {
            break;
        }
        // If so many are too heavy, they and this have `c = share (heavier c + rest)`.
        let most = share * rest / left;
        if *weight <= most * (1.0 + SLACK) {
            return if heavier == 0 { f64::INFINITY } else { most };
        }
    }
    sorted.last().copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::ceiling;

    #[test]
    fn nobody_is_heavier_than_a_share_of_the_whole() {
        // 8 of 12 is more than half: it counts as much as all others.
        assert_eq!(ceiling(&[1.0, 8.0, 3.0], 0.5), 4.0);
        assert_eq!(ceiling(&[1.0, 4.0, 3.0], 0.5), f64::INFINITY);
        // Two of 40 % each: c = 0.4 (2c + 1), so c = 2.
        assert!((ceiling(&[50.0, 70.0, 1.0], 0.4) - 2.0).abs() < 1e-12);
        // Whoever is alone is the whole, and of two nobody can have less than half.
        assert_eq!(ceiling(&[7.0], 0.1), f64::INFINITY);
        assert_eq!(ceiling(&[7.0, 2.0], 0.1), 2.0);
        assert_eq!(ceiling(&[7.0, 2.0], 1.0), f64::INFINITY);
        for n in 1..40 {
            let equal = vec![0.3; n];
            assert_eq!(ceiling(&equal, 1.0 / 3.0), f64::INFINITY, "{n}");
        }
        assert_eq!(ceiling(&[], 0.5), f64::INFINITY);
    }

    #[test]
    fn a_claim_of_ten_million_samples_counts_as_much_as_all_others() {
        assert_eq!(ceiling(&[100.0, 100.0, 100.0, 1e7], 0.5), 300.0);
    }
}
