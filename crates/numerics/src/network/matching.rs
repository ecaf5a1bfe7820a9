//! Which unit of one model is which of another: the order that makes their weights agree most.
//!
//! Group by group, the order of its units that maximises `⟨v, P w⟩` while all other groups stay, until no
//! group changes any more (weight matching: Ainsworth, Hayase, Srinivasa, *Git Re-Basin*, ICLR 2023). One
//! group is an assignment problem and solved exactly; all of them together are not.

use super::units::{UnitAxis, UnitGroup, UnitOrder, Units};

/// Passes over all groups at most. Each can only raise the agreement, and a few suffice.
const PASSES: usize = 20;

impl Units {
    /// The order of `model`'s units in which they agree most with those of `reference`.
    pub fn aligned(&self, model: &[f32], reference: &[f32]) -> UnitOrder {
        let mut found = self.identity();
        for _ in 0..PASSES {
            let mut changed = false;
            for (i, group) in self.groups().iter().enumerate() {
                // With this group as it was, and all others as they are now.
                let own = core::mem::replace(&mut found.0[i], (0..group.units()).collect());
                let others = self.reordered(&found, model);
                let gains = agreements(group, reference, &others);
                let best = assignment(&gains, group.units());
                let gain = |order: &[usize]| -> f64 {
                    order.iter().enumerate().map(|(u, v)| gains[u * group.units() + v]).sum()
                };
                // A tie is no reason to move, and rounding none to go round in circles.
                let is_better = gain(&best) > gain(&own) + 1e-9 * gain(&own).abs();
                changed |= is_better;
                found.0[i] = if is_better { best } else { own };
            }
            if !changed {
                break;
            }
        }
        found
    }
}

/// `⟨v_u, w_t⟩` for all units `u` of the reference and `t` of the model.
fn agreements(group: &UnitGroup, v: &[f32], w: &[f32]) -> Vec<f64> {
    let n = group.units();
    let mut gains = vec![0.0f64; n * n];
    for UnitAxis { range, inner } in group.axes() {
        let blocks = v[range.clone()].chunks(n * inner).zip(w[range.clone()].chunks(n * inner));
        for (v, w) in blocks {
            for (v, gains) in v.chunks(*inner).zip(gains.chunks_mut(n)) {
                for (w, gain) in w.chunks(*inner).zip(gains) {
                    *gain += v.iter().zip(w).map(|(a, b)| f64::from(a * b)).sum::<f64>();
                }
            }
        }
    }
    gains
}

/// The assignment of columns to rows with the largest sum, in `O(n³)` (Kuhn's Hungarian method with potentials,
/// one shortest augmenting path for each row).
pub(crate) fn assignment(gains: &[f64], n: usize) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    // Column n stands for "not assigned yet".
    let (mut of_row, mut of_column) = (vec![0.0; n + 1], vec![0.0; n + 1]);
    let mut row_of = vec![NONE; n + 1];
    let (mut shortest, mut before) = (vec![0.0; n + 1], vec![n; n + 1]);
    let mut visited = vec![false; n + 1];
    for row in 0..n {
        shortest.fill(f64::INFINITY);
        visited.fill(false);
        row_of[n] = row;
        let mut column = n;
        while row_of[column] != NONE {
            visited[column] = true;
            let current = row_of[column];
            let (mut step, mut next) = (f64::INFINITY, n);
            for to in (0..n).filter(|c| !visited[*c]) {
                let length = -gains[current * n + to] - of_row[current] - of_column[to];
                if length < shortest[to] {
                    (shortest[to], before[to]) = (length, column);
                }
                if shortest[to] < step {
                    (step, next) = (shortest[to], to);
                }
            }
            for c in 0..=n {
                if visited[c] {
                    of_row[row_of[c]] += step;
                    of_column[c] -= step;
                } else {
                    shortest[c] -= step;
                }
            }
            column = next;
        }
        while column != n {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut found = vec![0; n];
    row_of[..n].iter().enumerate().for_each(|(column, row)| found[*row] = column);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkSpec, Rng, Shape, Stream};

    /// The best sum over all assignments of the rows from `row` on.
    fn best(gains: &[f64], n: usize, row: usize, free: &mut Vec<usize>) -> f64 {
        if row == n {
            return 0.0;
        }
        let mut found = f64::NEG_INFINITY;
        for i in 0..free.len() {
            let column = free.swap_remove(i);
            found = found.max(gains[row * n + column] + best(gains, n, row + 1, free));
            free.push(column);
            let last = free.len() - 1;
            free.swap(i, last);
        }
        found
    }

    #[test]
    fn assignments_are_the_best_of_all() {
        let mut rng = Rng::new(2, Stream::Test, 0, 0);
        for n in 1..7 {
            for _ in 0..20 {
                let gains: Vec<f64> = (0..n * n).map(|_| (4.0 * rng.normal()).round()).collect();
                let found = assignment(&gains, n);
                let sum: f64 = found.iter().enumerate().map(|(u, v)| gains[u * n + v]).sum();
                assert_eq!(sum, best(&gains, n, 0, &mut (0..n).collect()));
            }
        }
    }

    #[test]
    fn a_shuffled_model_is_put_in_order_again() {
        let resnet = NetworkSpec { width: Some(4), ..NetworkSpec::named("resnet18") };
        for spec in [NetworkSpec::named("lenet5"), NetworkSpec::named("mlp"), resnet] {
            let network = spec.build(Shape::new(1, 28, 28), 10).unwrap();
            let (units, mut rng) = (network.units(), Rng::new(3, Stream::Test, 0, 0));
            let w = network.init(&mut rng).parameters;
            let noisy: Vec<f32> = w.iter().map(|x| x * (1.0 + 0.1 * rng.normal() as f32)).collect();
            let shuffled = units.reordered(&units.shuffled(&mut rng), &noisy);
            assert_ne!(shuffled, noisy);
            let order = units.aligned(&shuffled, &w);
            assert!(order.moved() > 0.5);
            assert_eq!(units.reordered(&order, &shuffled), noisy, "{}", spec.name);
            assert_eq!(units.aligned(&noisy, &w).moved(), 0.0);
        }
    }
}
