//! What is counted while a set is scored, and the figures that come of it.

use crate::metric::{Calibration, ClassCount, Measures, Metric, auroc, mean};
use crate::metric::{balanced_accuracy, macro_f1};
use crate::{Confusion, Samples, accuracy_and_loss};
use serde::{Deserialize, Serialize};

/// What a [`Tally`] counts besides right answers and the loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing to count")]
pub struct Detail {
    /// Each class by itself.
    pub classes: bool,
    /// How sure the answers are.
    pub calibration: bool,
    /// The logits of all samples, in single precision.
    pub logits: bool,
    /// Who is taken for whom, and how sure that is.
    pub confusion: bool,
}

impl Detail {
    /// Nothing besides.
    pub const PLAIN: Self =
        Self { classes: false, calibration: false, logits: false, confusion: false };

    /// What some metrics need.
    pub fn of(measures: &Measures) -> Self {
        let any = |wanted: &[Metric]| measures.iter().any(|metric| wanted.contains(&metric));
        Self {
            classes: any(&[Metric::BalancedAccuracy, Metric::MacroF1]),
            calibration: any(&[Metric::CalibrationError]),
            logits: any(&[Metric::Auroc]),
            confusion: false,
        }
    }

    /// The same, with or without who is taken for whom.
    #[must_use]
    pub fn with_confusion(self, confusion: bool) -> Self {
        Self { confusion, ..self }
    }

    /// Bytes that a tally over so many samples keeps of each.
    pub fn bytes(self, samples: usize, classes: usize) -> u64 {
        if self.logits { 4 * (samples as u64).saturating_mul(classes as u64 + 1) } else { 0 }
    }
}

/// How a model does on some samples. Tallies over parts of a set add up to that of the whole, in the
/// last bit too if they are added in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Samples.
    pub samples: usize,
    /// Samples that are classified right.
    pub right: usize,
    /// Sum of the cross-entropies.
    pub loss: f64,
    /// Empty unless they are counted.
    classes: Vec<ClassCount>,
    calibration: Option<Calibration>,
    /// Empty unless they are kept: labels, and the logits of one sample after the other.
    labels: Vec<u32>,
    logits: Vec<f32>,
    confusion: Option<Confusion>,
}

impl Tally {
    /// Counts a batch by its logits.
    ///
    /// A row with a NaN counts as wrong for any label, and as wrong as can be: as sure of another class,
    /// and below all others in the ranking of its own.
    pub fn count(&mut self, logits: &[f32], labels: &[u32], detail: Detail) {
        let (right, loss) = accuracy_and_loss(logits, labels);
        self.count_batch(right, loss, logits, labels, detail);
    }

    /// The same for an engine that has counted right answers and the loss itself.
    pub fn count_batch(
        &mut self,
        right: usize,
        loss: f64,
        logits: &[f32],
        labels: &[u32],
        detail: Detail,
    ) {
        self.samples += labels.len();
        self.right += right;
        self.loss += loss;
        if detail == Detail::PLAIN {
            return;
        }
        let classes = logits.len() / labels.len().max(1);
        if detail.classes {
            self.classes.resize(classes.max(self.classes.len()), ClassCount::default());
        }
        let mut confusion = detail.confusion.then(|| self.confusion.get_or_insert_default());
        if let Some(confusion) = &mut confusion {
            confusion.fit(classes);
        }
        for (row, label) in logits.chunks_exact(classes.max(1)).zip(labels) {
            let label = *label as usize;
            let (sure, predicted) = answer(row);
            if detail.classes {
                self.classes[label].support += 1;
                if let Some(predicted) = predicted {
                    self.classes[predicted].predicted += 1;
                    self.classes[label].right += u64::from(predicted == label);
                }
            }
            if detail.calibration {
                let calibration = self.calibration.get_or_insert_default();
                calibration.count(sure, predicted == Some(label));
            }
            if let Some(confusion) = &mut confusion {
                confusion.count(label, predicted, sure);
            }
        }
        if detail.logits {
            self.labels.extend_from_slice(labels);
            self.logits.extend_from_slice(logits);
        }
    }

    /// The tally of a model that is lost: one that diverged and cannot be asked. It is wrong as can be.
    pub fn lost(samples: &dyn Samples, indices: &[u32], classes: usize, detail: Detail) -> Self {
        let (mut tally, mut labels) = (Self::default(), Vec::new());
        for batch in indices.chunks(crate::EVALUATION_BATCH) {
            samples.gather_labels(batch, &mut labels);
            let logits = vec![f32::NAN; batch.len() * classes];
            tally.count(&logits, &labels, detail);
        }
        tally
    }

    /// Adds what was found on other samples.
    pub fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.right += other.right;
        self.loss += other.loss;
        let classes = self.classes.len().max(other.classes.len());
        self.classes.resize(classes, ClassCount::default());
        for (class, other) in self.classes.iter_mut().zip(other.classes) {
            class.add(other);
        }
        if let Some(other) = &other.calibration {
            self.calibration.get_or_insert_default().add(other);
        }
        if let Some(other) = &other.confusion {
            self.confusion.get_or_insert_default().add(other);
        }
        self.labels.extend(other.labels);
        self.logits.extend(other.logits);
    }

    /// Who is taken for whom, if that was counted.
    pub fn confusion(&self) -> Option<&Confusion> {
        self.confusion.as_ref()
    }

    /// A figure; none without samples, where the metric has none, or if what it needs was not counted.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        if self.samples == 0 {
            return None;
        }
        match metric {
            Metric::Accuracy => Some(self.right as f64 / self.samples as f64),
            Metric::BalancedAccuracy | Metric::MacroF1 if self.classes.is_empty() => None,
            Metric::BalancedAccuracy => Some(balanced_accuracy(&self.classes)),
            Metric::MacroF1 => Some(macro_f1(&self.classes)),
            Metric::Auroc => self.auroc(),
            Metric::CalibrationError => self.calibration.map(|calibration| calibration.error()),
        }
    }

    fn auroc(&self) -> Option<f64> {
        let classes = self.logits.len().checked_div(self.labels.len())?;
        let rows: Vec<Option<Odds>> = self.logits.chunks_exact(classes).map(Odds::of).collect();
        let mut scored = Vec::with_capacity(rows.len());
        let each = (0..classes).filter_map(|class| {
            scored.clear();
            let column = self.logits.iter().skip(class).step_by(classes);
            for ((x, odds), label) in column.zip(&rows).zip(&self.labels) {
                let own = *label as usize == class;
                let score = match odds {
                    Some(odds) => odds.probability(*x),
                    None if own => f64::NEG_INFINITY,
                    None => f64::INFINITY,
                };
                scored.push((score, own));
            }
            auroc(&mut scored)
        });
        mean(each)
    }
}

/// The probability of the most probable class, and which it is: the first of several, and none of a row
/// with a NaN, which is taken for sure.
fn answer(row: &[f32]) -> (f64, Option<usize>) {
    let Some(odds) = Odds::of(row) else { return (1.0, None) };
    let predicted = row.iter().position(|x| *x == odds.peak);
    (odds.probability(odds.peak), predicted)
}

/// What makes probabilities of a row of logits, in double precision: two logits that differ have
/// probabilities that differ, so the best class is that of the logits.
#[derive(Debug, Clone, Copy)]
struct Odds {
    peak: f32,
    sum: f64,
}

impl Odds {
    /// None of a row with a NaN.
    fn of(row: &[f32]) -> Option<Self> {
        if row.iter().any(|x| x.is_nan()) {
            return None;
        }
        let peak = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut odds = Self { peak, sum: 0.0 };
        odds.sum = row.iter().map(|x| odds.weight(*x)).sum();
        Some(odds)
    }

    fn weight(&self, x: f32) -> f64 {
        // Also of values beyond all bounds, which share what there is.
        if x == self.peak { 1.0 } else { libm::exp(f64::from(x) - f64::from(self.peak)) }
    }

    fn probability(&self, x: f32) -> f64 {
        self.weight(x) / self.sum
    }
}

/// The probabilities of a sample's classes by its logits, in double precision. Not numbers if one of
/// the logits is none.
pub fn probabilities(logits: &[f32], out: &mut [f64]) {
    match Odds::of(logits) {
        Some(odds) => {
            out.iter_mut().zip(logits).for_each(|(to, x)| *to = odds.probability(*x));
        }
        None => out.fill(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Detail = Detail { classes: true, calibration: true, logits: true, confusion: true };

    fn figures(tally: &Tally) -> [Option<f64>; 5] {
        Metric::ALL.map(|metric| tally.figure(metric))
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let logits: Vec<f32> = (0..300).map(|i| ((i * i) as f32 * 0.7).sin() * 3.0).collect();
        let labels: Vec<u32> = (0..100).map(|i| i * i % 3).collect();
        let mut parts = Vec::new();
        for (logits, labels) in logits.chunks(48).zip(labels.chunks(16)) {
            let mut tally = Tally::default();
            tally.count(logits, labels, ALL);
            parts.push(tally);
        }
        let mut sum = Tally::default();
        for part in parts {
            sum.add(part);
        }
        let mut whole = Tally::default();
        whole.count(&logits, &labels, ALL);
        assert_eq!((sum.samples, sum.labels.len(), &sum.logits), (100, 100, &whole.logits));
        let counts = |tally: &Tally| {
            let rows = tally.confusion().unwrap().rows().unwrap();
            rows.map(<[u64]>::to_vec).collect::<Vec<_>>()
        };
        assert_eq!(counts(&sum), counts(&whole));
        let right: u64 = counts(&sum).iter().enumerate().map(|(class, row)| row[class]).sum();
        let bins = sum.confusion().unwrap().calibration.bins();
        let (samples, sure) = bins.fold((0, 0), |(n, r), bin| (n + bin.samples, r + bin.right));
        assert_eq!((samples, sure, right), (100, sum.right as u64, sum.right as u64));
        for (a, b) in figures(&sum).into_iter().zip(figures(&whole)) {
            assert!((a.unwrap() - b.unwrap()).abs() < 1e-12);
        }
    }

    #[test]
    fn nothing_is_counted_that_nobody_asked_for() {
        let mut tally = Tally::default();
        tally.count(&[1.0, 0.0, 0.0, 1.0], &[0, 0], Detail::PLAIN);
        assert_eq!(figures(&tally), [Some(0.5), None, None, None, None]);
        assert_eq!(figures(&Tally::default()), [None; 5]);
    }

    #[test]
    fn a_model_that_is_lost_is_as_wrong_as_can_be() {
        let mut tally = Tally::default();
        tally.count(&[f32::NAN; 6], &[0, 1, 2].map(|label| label % 2), ALL);
        let worst = [Some(0.0), Some(0.0), Some(0.0), Some(0.0), Some(1.0)];
        assert_eq!(figures(&tally), worst);
    }

    #[test]
    fn one_class_alone_has_no_auroc_and_infinite_logits_share() {
        let mut tally = Tally::default();
        tally.count(&[f32::INFINITY, f32::INFINITY, 0.0, 3.0, 2.0, 1.0], &[0, 0], ALL);
        assert_eq!((tally.figure(Metric::Auroc), tally.right), (None, 2));
        let mut row = [0.0; 3];
        probabilities(&[f32::INFINITY, f32::INFINITY, 0.0], &mut row);
        assert_eq!(row, [0.5, 0.5, 0.0]);
    }
}
