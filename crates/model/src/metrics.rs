//! How good a classifier is, by the probabilities that it gave and the classes that were right.

use crate::predict::best;
use formant_numerics::metric::{Calibration, ClassCount, auroc, balanced_accuracy, macro_f1, mean};
use serde::Serialize;

pub use formant_numerics::metric::CALIBRATION_BINS;

/// The scores of a classifier on a labelled set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of samples.
    pub samples: usize,
    /// Share of samples whose most probable class is the right one.
    pub accuracy: f64,
    /// Mean recall of the classes that occur.
    pub balanced_accuracy: f64,
    /// Mean F1 of the classes that occur or are predicted.
    pub macro_f1: f64,
    /// Mean AUROC, one class against the rest, of the classes that have one.
    pub auroc: Option<f64>,
    /// Expected calibration error of the most probable class, over [`CALIBRATION_BINS`] bins.
    pub calibration_error: f64,
    /// Mean negative logarithm of the right class's probability, which is kept `2^-52` away from 0
    /// and 1.
    pub log_loss: f64,
    /// Each class by itself.
    pub classes: Vec<ClassMetrics>,
    /// Rows are the right classes, columns the predicted ones.
    pub confusion: Vec<Vec<u64>>,
}

/// The scores of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassMetrics {
    /// Samples of this class.
    pub support: u64,
    /// Samples for which it was predicted.
    pub predicted: u64,
    /// Share of these that are right; 0 if there are none.
    pub precision: f64,
    /// Share of its samples that were found; 0 if there are none.
    pub recall: f64,
    /// Harmonic mean of the two; 0 if both are.
    pub f1: f64,
    /// Probability that a sample of the class gets a higher probability for it than another
    /// sample, half of it for equal ones. Nothing if all samples are of the class or none is.
    pub auroc: Option<f64>,
}

/// Samples of one class for which another was predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake {
    /// Their class.
    pub right: usize,
    /// The class that was predicted.
    pub predicted: usize,
    /// How many.
    pub count: u64,
}

impl Metrics {
    /// Scores probabilities, sample after sample, against labels below `classes`.
    ///
    /// ```
    /// let probabilities = [0.9, 0.1, 0.4, 0.6, 0.7, 0.3];
    /// let metrics = formant_model::Metrics::new(&probabilities, &[0, 1, 1], 2);
    /// assert_eq!(metrics.confusion, [[1, 0], [1, 1]]);
    /// assert_eq!((metrics.balanced_accuracy, metrics.auroc), (0.75, Some(1.0)));
    /// ```
    ///
    /// Panics unless there are `classes` probabilities for each label and every label is a class.
    pub fn new(probabilities: &[f64], labels: &[u16], classes: usize) -> Self {
        assert_eq!(probabilities.len(), labels.len() * classes, "a probability for each class");
        let mut confusion = vec![vec![0_u64; classes]; classes];
        let mut calibration = Calibration::default();
        let mut log_loss = 0.0;
        for (row, label) in probabilities.chunks_exact(classes).zip(labels) {
            let (label, predicted) = (usize::from(*label), best(row));
            confusion[label][predicted] += 1;
            calibration.count(row[predicted], label == predicted);
            log_loss -= libm::log(row[label].clamp(f64::EPSILON, 1.0 - f64::EPSILON));
        }
        let samples = labels.len();
        let counts: Vec<ClassCount> =
            (0..classes).map(|class| of_class(&confusion, class)).collect();
        let rows: Vec<ClassMetrics> = counts
            .iter()
            .enumerate()
            .map(|(class, count)| ClassMetrics {
                support: count.support,
                predicted: count.predicted,
                precision: count.precision(),
                recall: count.recall(),
                f1: count.f1(),
                auroc: auroc_of(probabilities, labels, class, classes),
            })
            .collect();
        let right: u64 = counts.iter().map(|count| count.right).sum();
        let n = samples.max(1) as f64;
        Self {
            samples,
            accuracy: right as f64 / n,
            balanced_accuracy: balanced_accuracy(&counts),
            macro_f1: macro_f1(&counts),
            auroc: mean(rows.iter().filter_map(|class| class.auroc)),
            calibration_error: calibration.error(),
            log_loss: log_loss / n,
            classes: rows,
            confusion,
        }
    }

    /// Mistakes by right and predicted class, the most frequent first.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (right, row) in self.confusion.iter().enumerate() {
            let wrong = row.iter().enumerate().filter(|(class, n)| *class != right && **n > 0);
            mistakes.extend(wrong.map(|(predicted, n)| Mistake { right, predicted, count: *n }));
        }
        mistakes.sort_by_key(|mistake| std::cmp::Reverse(mistake.count));
        mistakes
    }
}

fn of_class(confusion: &[Vec<u64>], class: usize) -> ClassCount {
    ClassCount {
        support: confusion[class].iter().sum(),
        predicted: confusion.iter().map(|row| row[class]).sum(),
        right: confusion[class][class],
    }
}

/// The AUROC of one class against the rest.
fn auroc_of(probabilities: &[f64], labels: &[u16], class: usize, classes: usize) -> Option<f64> {
    let scores = probabilities.iter().skip(class).step_by(classes);
    let own = labels.iter().map(|label| usize::from(*label) == class);
    let mut scored: Vec<(f64, bool)> = scores.copied().zip(own).collect();
    auroc(&mut scored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_by_hand() {
        // Six samples, three classes, of which the last never occurs but is predicted once.
        let probabilities = [
            [0.8, 0.1, 0.1],
            [0.6, 0.3, 0.1],
            [0.2, 0.7, 0.1],
            [0.3, 0.6, 0.1],
            [0.5, 0.4, 0.1],
            [0.1, 0.2, 0.7],
        ];
        let labels = [0, 0, 0, 1, 1, 1];
        let m = Metrics::new(&probabilities.concat(), &labels, 3);
        assert_eq!(m.confusion, [[2, 1, 0], [1, 1, 1], [0, 0, 0]]);
        assert_eq!((m.samples, m.accuracy), (6, 0.5));
        // Recalls 2/3 and 1/3; the third class has none.
        assert!((m.balanced_accuracy - 0.5).abs() < 1e-15);
        // F1: 2·2/(3+3), 2·1/(3+2), 0.
        assert!((m.macro_f1 - (4.0 / 6.0 + 2.0 / 5.0) / 3.0).abs() < 1e-15);
        // Class 0: positives .8 .6 .2, negatives .3 .5 .1; 7 of 9 pairs in order.
        // Class 1: positives .6 .4 .2, negatives .1 .3 .7; 5 of 9.
        let aurocs: Vec<_> = m.classes.iter().map(|c| c.auroc).collect();
        assert_eq!(aurocs, [Some(7.0 / 9.0), Some(5.0 / 9.0), None]);
        assert!((m.auroc.unwrap() - 6.0 / 9.0).abs() < 1e-15);
        // Each in a different bin, except for two of .6 and two of .7:
        // .8 right, .6 and .6 right, .7 and .7 wrong, .5 wrong.
        let expected = (0.2 + 0.8 + 1.4 + 0.5) / 6.0;
        assert!((m.calibration_error - expected).abs() < 1e-12, "{}", m.calibration_error);
        let product: f64 = 0.8 * 0.6 * 0.2 * 0.6 * 0.4 * 0.2;
        assert!((m.log_loss + product.ln() / 6.0).abs() < 1e-12);
        let mistake = |right, predicted| Mistake { right, predicted, count: 1 };
        assert_eq!(m.mistakes(), [mistake(0, 1), mistake(1, 0), mistake(1, 2)]);
        assert_eq!((m.classes[2].support, m.classes[2].predicted), (0, 1));
    }

    #[test]
    fn equal_scores_count_half() {
        let m = Metrics::new(&[0.5; 8], &[0, 1, 1, 1], 2);
        assert_eq!(m.auroc, Some(0.5));
        // The first of equal classes is the answer.
        assert_eq!(m.confusion, [[1, 0], [3, 0]]);
    }

    #[test]
    fn certainty_is_finite_and_one_class_has_no_auroc() {
        let m = Metrics::new(&[1.0, 0.0, 1.0, 0.0], &[1, 1], 2);
        assert_eq!((m.auroc, m.accuracy, m.calibration_error), (None, 0.0, 1.0));
        assert!((m.log_loss + f64::EPSILON.ln()).abs() < 1e-12);
        let perfect = Metrics::new(&[1.0, 0.0], &[0], 2);
        assert_eq!((perfect.macro_f1, perfect.calibration_error), (1.0, 0.0));
    }
}
