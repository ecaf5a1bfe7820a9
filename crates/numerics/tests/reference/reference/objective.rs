//! Losses of logits and terms over parameters: values and gradients.

use super::forward::linear;
use super::spectral::divergence;
use super::{Description, Rows, wide};
use formant_numerics::{Criterion, Loss, Spectral, Term};

/// The mean loss of a batch, and `∂/∂logits` of it.
pub(super) fn loss(
    loss: &Loss<'_>,
    criterion: &Criterion<'_>,
    logits: &Rows,
    labels: &[u32],
) -> (f64, Rows) {
    match *loss {
        Loss::CrossEntropy => cross_entropy(criterion, logits, labels),
        Loss::Shifted { shift } => {
            let shifted =
                |row: &Vec<f64>| row.iter().zip(wide(shift)).map(|(x, s)| x + s).collect();
            cross_entropy(criterion, &logits.iter().map(shifted).collect(), labels)
        }
        Loss::Guided { weight, targets } => {
            let (mut value, mut d_logits) = cross_entropy(criterion, logits, labels);
            let (classes, share) = (logits[0].len(), f64::from(weight) / labels.len() as f64);
            let rows = logits.iter().zip(targets.chunks_exact(classes));
            for ((row, target), d) in rows.zip(&mut d_logits) {
                let target = wide(target);
                if target.iter().all(|p| *p == 0.0) {
                    continue;
                }
                for ((log_q, p), d) in log_softmax(row).into_iter().zip(target).zip(d) {
                    // 0 log 0 = 0.
                    if p > 0.0 {
                        value += share * p * (p.ln() - log_q);
                    }
                    *d += share * (log_q.exp() - p);
                }
            }
            (value, d_logits)
        }
    }
}

/// `log softmax(row)`.
pub(super) fn log_softmax(row: &[f64]) -> Vec<f64> {
    // A NaN must not be lost among the others, so this is not `f64::max`.
    let peak = row.iter().fold(row[0], |a, b| if *b <= a || a.is_nan() { a } else { *b });
    let log_sum = peak + row.iter().map(|x| (x - peak).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - log_sum).collect()
}

/// `−Σ_c t_c log p_c` over the whole batch, where the targets `t` come from the labels, their weights and
/// the smoothing, divided by the labels' weights.
fn cross_entropy(criterion: &Criterion<'_>, logits: &Rows, labels: &[u32]) -> (f64, Rows) {
    let classes = logits[0].len();
    let weights = criterion.weights.map_or(vec![1.0; classes], wide);
    let counted: f64 = labels.iter().map(|label| weights[*label as usize]).sum();
    let smoothing = f64::from(criterion.smoothing);
    let (mut value, mut d_logits) = (0.0, Vec::new());
    for (row, label) in logits.iter().zip(labels) {
        let mut targets: Vec<f64> =
            weights.iter().map(|v| smoothing / classes as f64 * v).collect();
        targets[*label as usize] += (1.0 - smoothing) * weights[*label as usize];
        let total: f64 = targets.iter().sum();
        let pairs: Vec<(f64, f64)> = log_softmax(row).into_iter().zip(targets).collect();
        // 0 · ∞ = 0 for a class that is no target.
        let losses = pairs.iter().filter(|(_, t)| *t != 0.0).map(|(log_p, t)| -t * log_p / counted);
        value += losses.sum::<f64>();
        d_logits.push(pairs.iter().map(|(log_p, t)| (total * log_p.exp() - t) / counted).collect());
    }
    (value, d_logits)
}

impl Description {
    /// The value of a term in a step of a phase, counted from 0, and its gradient.
    pub(super) fn term(&self, term: &Term<'_>, w: &[f32], step: u64) -> (f64, Vec<f64>) {
        let w = wide(w);
        match *term {
            Term::Proximal { anchor } => {
                let apart: Vec<f64> = w.iter().zip(wide(anchor)).map(|(w, a)| w - a).collect();
                (0.5 * apart.iter().map(|x| x * x).sum::<f64>(), apart)
            }
            Term::Linear { direction } => {
                let direction = wide(direction);
                (direction.iter().zip(&w).map(|(d, w)| d * w).sum(), direction)
            }
            Term::Spectral(Spectral { every, .. })
                if !step.is_multiple_of(u64::from(every.get())) =>
            {
                (0.0, vec![0.0; w.len()])
            }
            Term::Spectral(spectral) => {
                let often = f64::from(spectral.every.get());
                let (value, gradient) = divergence(&spectral, self.network.layout(), &w);
                (often * value, gradient.iter().map(|g| often * g).collect())
            }
            Term::Head { features, labels } => {
                let [weight, bias] = self.head();
                let features = features.chunks_exact(self.network.features()).map(wide);
                let features: Rows = features.collect();
                let logits = |z: &Vec<f64>| linear(&w[weight.clone()], &w[bias.clone()], z);
                let logits = features.iter().map(logits).collect();
                let (value, d_logits) = cross_entropy(&Criterion::PLAIN, &logits, labels);
                let mut gradient = vec![0.0; w.len()];
                self.head_back(&features, &d_logits, &mut gradient);
                (value, gradient)
            }
        }
    }
}
