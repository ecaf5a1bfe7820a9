//! Losses of a batch's logits, with their gradients.

use crate::{Criterion, Loss};

impl Loss<'_> {
    /// The mean loss of a batch; writes `∂/∂logits` of that mean. `scratch` is memory that is kept from
    /// batch to batch.
    pub fn evaluate(
        &self,
        criterion: &Criterion<'_>,
        logits: &[f32],
        labels: &[u32],
        d_logits: &mut [f32],
        scratch: &mut Vec<f32>,
    ) -> f64 {
        match *self {
            Self::CrossEntropy => criterion.evaluate(logits, labels, d_logits),
            Self::Shifted { shift } => {
                assert_eq!(shift.len() * labels.len(), logits.len(), "a shift for each class");
                scratch.clear();
                scratch.extend_from_slice(logits);
                for row in scratch.chunks_exact_mut(shift.len()) {
                    row.iter_mut().zip(shift).for_each(|(x, shift)| *x += shift);
                }
                criterion.evaluate(scratch, labels, d_logits)
            }
            Self::Guided { weight, targets } => {
                assert_eq!(targets.len(), logits.len(), "a target for each sample and class");
                let mut value = criterion.evaluate(logits, labels, d_logits);
                let (classes, share) = (logits.len() / labels.len(), weight / labels.len() as f32);
                let rows = logits.chunks_exact(classes).zip(targets.chunks_exact(classes));
                for ((row, target), d) in rows.zip(d_logits.chunks_exact_mut(classes)) {
                    guide(share, target, row, d, &mut value);
                }
                value
            }
        }
    }
}

impl Criterion<'_> {
    /// The cross-entropy of a batch; writes `∂/∂logits` of it.
    pub fn evaluate(&self, logits: &[f32], labels: &[u32], d_logits: &mut [f32]) -> f64 {
        if self.is_plain() {
            return cross_entropy(logits, labels, d_logits);
        }
        let classes = logits.len() / labels.len();
        assert!(self.weights.is_none_or(|v| v.len() == classes), "a weight for each class");
        let counted: f64 = labels.iter().map(|label| self.weight(*label)).sum();
        let spread = match self.weights {
            Some(weights) => weights.iter().map(|v| f64::from(*v)).sum(),
            None => classes as f64,
        };
        let spread = Spread { rate: f64::from(self.smoothing) / classes as f64, sum: spread };
        let rows = logits.chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes));
        let losses = rows
            .zip(labels)
            .map(|((row, d), label)| self.evaluate_row(row, &[(*label, 1.0)], &spread, counted, d));
        losses.sum::<f64>() / counted
    }

    /// The loss of one sample, not yet divided by what the batch counts for; writes `∂/∂logits` divided by
    /// it. A sample may be of several classes, each with its share.
    fn evaluate_row(
        &self,
        row: &[f32],
        labels: &[(u32, f64)],
        spread: &Spread,
        counted: f64,
        d: &mut [f32],
    ) -> f64 {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0f32;
        for (d, x) in d.iter_mut().zip(row) {
            *d = libm::expf(x - peak);
            sum += *d;
        }
        let log_sum = libm::logf(sum) + peak;
        // What the targets of all classes come to.
        let kept = 1.0 - f64::from(self.smoothing);
        let own: f64 = labels.iter().map(|(label, share)| share * self.weight(*label)).sum();
        let total = kept * own + spread.rate * spread.sum;
        let (scale, rate) = ((total / counted) as f32 / sum, (spread.rate / counted) as f32);
        let mut loss = 0.0;
        for (class, (d, x)) in d.iter_mut().zip(row).enumerate() {
            let weight = self.weights.map_or(1.0, |weights| weights[class]);
            *d = *d * scale - rate * weight;
            if spread.rate > 0.0 {
                loss += spread.rate * f64::from(weight) * f64::from(log_sum - x);
            }
        }
        for (label, share) in labels {
            let target = kept * share * self.weight(*label);
            let label = *label as usize;
            d[label] -= (target / counted) as f32;
            loss += target * f64::from(log_sum - row[label]);
        }
        loss
    }

    /// What a sample of a class counts for.
    fn weight(&self, label: u32) -> f64 {
        self.weights.map_or(1.0, |weights| f64::from(weights[label as usize]))
    }
}

/// The part of all labels that is spread over the classes.
struct Spread {
    /// `ε/K`.
    rate: f64,
    /// `Σ_c v_c`.
    sum: f64,
}

/// Adds `share · KL(target ‖ softmax(row))` and its gradient; nothing where there is no target.
fn guide(share: f32, target: &[f32], row: &[f32], d: &mut [f32], value: &mut f64) {
    if target.iter().all(|p| *p == 0.0) {
        return;
    }
    let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = row.iter().map(|x| libm::expf(x - peak)).sum();
    let log_sum = libm::logf(sum) + peak;
    for ((x, p), d) in row.iter().zip(target).zip(d) {
        let log_q = x - log_sum;
        *d += share * (libm::expf(log_q) - p);
        if *p > 0.0 {
            *value += f64::from(share * p * (libm::logf(*p) - log_q));
        }
    }
}

/// Turns each row of logits into the probabilities of its classes.
pub fn softmax(logits: &mut [f32], classes: usize) {
    for row in logits.chunks_exact_mut(classes) {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        for x in row.iter_mut() {
            *x = libm::expf(*x - peak);
            sum += *x;
        }
        for x in row {
            *x /= sum;
        }
    }
}

/// Mean cross-entropy of a batch; writes `∂/∂logits` of that mean.
pub fn cross_entropy(logits: &[f32], labels: &[u32], d_logits: &mut [f32]) -> f64 {
    let n = labels.len();
    let classes = logits.len() / n;
    let share = 1.0 / n as f32;
    let mut total = 0.0;
    for ((row, d), label) in
        logits.chunks_exact(classes).zip(d_logits.chunks_exact_mut(classes)).zip(labels)
    {
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0f32;
        for (d, x) in d.iter_mut().zip(row) {
            *d = libm::expf(x - peak);
            sum += *d;
        }
        let label = *label as usize;
        total += f64::from(libm::logf(sum) + peak - row[label]);
        for d in d.iter_mut() {
            *d *= share / sum;
        }
        d[label] -= share;
    }
    total / n as f64
}

/// How many of a batch are classified right, and the sum of their cross-entropies.
///
/// A row with a NaN counts as wrong for any label.
pub fn accuracy_and_loss(logits: &[f32], labels: &[u32]) -> (usize, f64) {
    let classes = logits.len() / labels.len();
    let (mut right, mut total) = (0, 0.0);
    for (row, label) in logits.chunks_exact(classes).zip(labels) {
        let label = *label as usize;
        let mut best = 0;
        for (i, x) in row.iter().enumerate() {
            if *x > row[best] {
                best = i;
            }
        }
        right += usize::from(best == label && row.iter().all(|x| !x.is_nan()));
        let peak = row[best];
        let sum: f32 = row.iter().map(|x| libm::expf(x - peak)).sum();
        total += f64::from(libm::logf(sum) + peak - row[label]);
    }
    (right, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRITERIA: [Criterion<'static>; 4] = [
        Criterion::PLAIN,
        Criterion { smoothing: 0.1, weights: None },
        Criterion { smoothing: 0.0, weights: Some(&[0.5, 2.0, 3.0]) },
        Criterion { smoothing: 0.3, weights: Some(&[0.5, 2.0, 3.0]) },
    ];

    #[test]
    fn gradients_of_all_losses_agree_with_finite_differences() {
        let (logits, labels) = ([0.3f32, -1.2, 2.0, 0.1, 0.0, -0.4], [2, 0]);
        let mut targets = [1.0f32, 0.0, -1.0, 0.5, 0.2, 0.2];
        softmax(&mut targets, 3);
        // A target may be certain of a class.
        targets[..3].copy_from_slice(&[0.0, 1.0, 0.0]);
        let losses = [
            Loss::CrossEntropy,
            Loss::Shifted { shift: &[2.0, -18.0, 0.5] },
            Loss::Guided { weight: 3.0, targets: &targets },
        ];
        for (nth, loss) in losses.into_iter().enumerate() {
            for criterion in CRITERIA {
                let (mut d, mut scratch) = ([0.0; 6], Vec::new());
                loss.evaluate(&criterion, &logits, &labels, &mut d, &mut scratch);
                for i in 0..6 {
                    let mut at = |h: f32| {
                        let mut x = logits;
                        x[i] += h;
                        loss.evaluate(&criterion, &x, &labels, &mut [0.0; 6], &mut scratch)
                    };
                    let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
                    let apart = (slope - f64::from(d[i])).abs();
                    assert!(apart < 3e-4, "{nth}, {criterion:?}, {i}: {slope}, {}", d[i]);
                }
            }
        }
    }

    #[test]
    fn smoothing_and_weights_by_hand() {
        // Two classes, p = (3/4, 1/4): the logits are log 3 apart.
        let (logits, labels) = ([libm::logf(3.0), 0.0, 0.0, libm::logf(3.0)], [0, 0]);
        let (likely, rare) = (-libm::log(0.75), -libm::log(0.25));
        let value = |smoothing, weights| {
            Criterion { smoothing, weights }.evaluate(&logits, &labels, &mut [0.0; 4])
        };
        let close = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
        };
        close(value(0.0, None), f64::midpoint(likely, rare));
        // Both samples have the same weight, which cancels.
        close(value(0.0, Some(&[5.0, 2.0])), f64::midpoint(likely, rare));
        let smooth = 0.8 * f64::midpoint(likely, rare) + 0.1 * (likely + rare);
        close(value(0.2, None), smooth);
        let weights: &[f32] = &[4.0, 1.0];
        // (0.8 · 4 · (l + r) + 0.1 · (4 + 1)(l + r)) / 8
        close(value(0.2, Some(weights)), (3.2 + 0.5) * (likely + rare) / 8.0);
        let unlike = Criterion { smoothing: 0.0, weights: Some(&[4.0, 1.0]) };
        let found = unlike.evaluate(&logits, &[0, 1], &mut [0.0; 4]);
        close(found, likely);
    }

    #[test]
    fn a_criterion_that_changes_nothing_gives_cross_entropy() {
        let (logits, labels) = ([0.3f32, -1.2, 2.0, 0.1, 0.0, -0.4], [2, 0]);
        let mut plain = [0.0; 6];
        let value = cross_entropy(&logits, &labels, &mut plain);
        let equal = Criterion { smoothing: 0.0, weights: Some(&[3.0; 3]) };
        let mut d = [0.0; 6];
        assert!((equal.evaluate(&logits, &labels, &mut d) - value).abs() < 1e-6);
        assert!(plain.iter().zip(&d).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn no_shift_and_no_guide_are_cross_entropy_bit_for_bit() {
        let (logits, labels) = ([0.3f32, -1.2, 2.0, 0.1, 0.0, -0.4], [2, 0]);
        let mut plain = [0.0; 6];
        let (value, mut scratch) = (cross_entropy(&logits, &labels, &mut plain), Vec::new());
        let mut balanced = [0.0; 6];
        let loss = Loss::Shifted { shift: &[0.0; 3] };
        let shifted =
            loss.evaluate(&Criterion::PLAIN, &logits, &labels, &mut balanced, &mut scratch);
        assert_eq!((value, plain), (shifted, balanced));
        // A guide that says what the model says anyway adds nothing.
        let mut own = logits;
        softmax(&mut own, 3);
        let mut guided = [0.0; 6];
        let loss = Loss::Guided { weight: 5.0, targets: &own };
        let same = loss.evaluate(&Criterion::PLAIN, &logits, &labels, &mut guided, &mut scratch);
        assert!((same - value).abs() < 1e-6);
        assert!(plain.iter().zip(&guided).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn gradient_agrees_with_finite_differences() {
        let logits = [0.3f32, -1.2, 2.0, 0.1, 0.0, -0.4];
        let labels = [2, 0];
        let mut d = [0.0; 6];
        let value = cross_entropy(&logits, &labels, &mut d);
        let (right, sum) = accuracy_and_loss(&logits, &labels);
        assert_eq!(right, 2);
        assert!((sum / 2.0 - value).abs() < 1e-6);
        for i in 0..6 {
            let at = |h: f32| {
                let mut x = logits;
                x[i] += h;
                cross_entropy(&x, &labels, &mut [0.0; 6])
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slope - f64::from(d[i])).abs() < 1e-4, "{i}: {slope} for {}", d[i]);
        }
    }

    #[test]
    fn huge_logits_stay_finite_and_nan_is_wrong() {
        let mut d = [0.0; 2];
        assert!(cross_entropy(&[1e30, -1e30], &[0], &mut d).is_finite());
        assert_eq!(accuracy_and_loss(&[f32::NAN, 1.0], &[1]).0, 0);
    }
}
