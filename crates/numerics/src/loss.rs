//! Cross-entropy on logits.

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
/// A row with a NaN is wrong, whatever its label.
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
