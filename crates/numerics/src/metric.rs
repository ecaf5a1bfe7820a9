//! What a classifier is scored by, and the arithmetic of each score: the same while it is trained and
//! afterwards.

use serde::{Deserialize, Serialize};

/// Bins of equal width over `[0, 1]` for the calibration error.
pub const CALIBRATION_BINS: usize = 15;

/// A figure from 0 to 1 for a classifier on a labelled set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of samples whose most probable class is the right one.
    #[default]
    Accuracy,
    /// Mean recall of the classes that occur.
    BalancedAccuracy,
    /// Mean F1 of the classes that occur or are predicted.
    MacroF1,
    /// Mean AUROC, one class against the rest, of the classes that have one; there is none where all
    /// samples are of one class.
    Auroc,
    /// Expected calibration error of the most probable class, over [`CALIBRATION_BINS`] bins. The only
    /// one of which less is better.
    CalibrationError,
}

impl Metric {
    /// All of them, in the order of [`Metric::WORDS`].
    pub const ALL: [Self; 5] = [
        Self::Accuracy,
        Self::BalancedAccuracy,
        Self::MacroF1,
        Self::Auroc,
        Self::CalibrationError,
    ];

    /// What files call them.
    pub const WORDS: &'static [&'static str] =
        &["accuracy", "balanced_accuracy", "macro_f1", "auroc", "calibration_error"];

    /// What files call it.
    pub const fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::BalancedAccuracy => "balanced accuracy",
            Self::MacroF1 => "macro-F1",
            Self::Auroc => "AUROC",
            Self::CalibrationError => "calibration error",
        }
    }

    /// Whether it is the one that need not be named.
    pub fn is_accuracy(&self) -> bool {
        *self == Self::Accuracy
    }

    /// Whether less of it is better.
    pub const fn less_is_better(self) -> bool {
        matches!(self, Self::CalibrationError)
    }

    /// Orders figures, the better one first.
    ///
    /// ```
    /// use formant_numerics::Metric;
    /// assert!(Metric::MacroF1.order(0.9, 0.8).is_lt());
    /// assert!(Metric::CalibrationError.order(0.9, 0.8).is_gt());
    /// ```
    pub fn order(self, a: f64, b: f64) -> core::cmp::Ordering {
        if self.less_is_better() { a.total_cmp(&b) } else { b.total_cmp(&a) }
    }

    /// Whether one figure is better than another; equal ones are not.
    pub fn is_better(self, a: f64, than: f64) -> bool {
        if self.less_is_better() { a < than } else { a > than }
    }
}

/// What models are scored by: one metric at least, none twice. The first is the figure that tables
/// show and that rankings go by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Metric>", into = "Vec<Metric>")]
pub struct Measures(Vec<Metric>);

impl Measures {
    /// None if the list is empty or has a metric twice.
    pub fn new(metrics: Vec<Metric>) -> Option<Self> {
        let twice = |(i, metric): (usize, &Metric)| metrics[..i].contains(metric);
        let ill = metrics.is_empty() || metrics.iter().enumerate().any(twice);
        (!ill).then_some(Self(metrics))
    }

    /// The figure.
    pub fn first(&self) -> Metric {
        self.0[0]
    }

    /// All of them, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = Metric> {
        self.0.iter().copied()
    }

    /// Those that have to be said beside accuracy, which always is.
    pub fn further(&self) -> impl Iterator<Item = Metric> {
        self.iter().filter(|metric| *metric != Metric::Accuracy)
    }

    /// Whether it is accuracy alone.
    pub fn is_plain(&self) -> bool {
        self.0 == [Metric::Accuracy]
    }
}

impl Default for Measures {
    fn default() -> Self {
        Self(vec![Metric::Accuracy])
    }
}

impl TryFrom<Vec<Metric>> for Measures {
    type Error = &'static str;

    fn try_from(metrics: Vec<Metric>) -> Result<Self, Self::Error> {
        Self::new(metrics).ok_or("metrics are a list of one at least, none of them twice")
    }
}

impl From<Measures> for Vec<Metric> {
    fn from(measures: Measures) -> Self {
        measures.0
    }
}

/// One class, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCount {
    /// Its samples.
    pub support: u64,
    /// Samples for which it was predicted.
    pub predicted: u64,
    /// Samples that are both.
    pub right: u64,
}

impl ClassCount {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Self) {
        self.support += other.support;
        self.predicted += other.predicted;
        self.right += other.right;
    }

    /// Share of the predicted that are right; 0 if there are none.
    pub fn precision(&self) -> f64 {
        share(self.right, self.predicted)
    }

    /// Share of its samples that were found; 0 if there are none.
    pub fn recall(&self) -> f64 {
        share(self.right, self.support)
    }

    /// Harmonic mean of the two; 0 if both are.
    pub fn f1(&self) -> f64 {
        share(2 * self.right, self.support + self.predicted)
    }
}

/// Mean recall of the classes that occur.
pub fn balanced_accuracy(classes: &[ClassCount]) -> f64 {
    let occurring = classes.iter().filter(|class| class.support > 0);
    mean(occurring.map(ClassCount::recall)).unwrap_or(0.0)
}

/// Mean F1 of the classes that occur or are predicted.
pub fn macro_f1(classes: &[ClassCount]) -> f64 {
    let known = classes.iter().filter(|class| class.support + class.predicted > 0);
    mean(known.map(ClassCount::f1)).unwrap_or(0.0)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The mean; none of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u64);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// How far predictions are as right as they are sure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    bins: [Bin; CALIBRATION_BINS],
}

/// Samples whose most probable class has about the same probability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// How many.
    pub samples: u64,
    /// How many of these are right.
    pub right: u64,
    /// The sum of their probabilities.
    pub sure: f64,
}

impl Calibration {
    /// Counts a prediction by its probability. Bins are open below and closed above.
    pub fn count(&mut self, sure: f64, right: bool) {
        let bin = (sure * CALIBRATION_BINS as f64).ceil() as usize;
        let bin = &mut self.bins[bin.clamp(1, CALIBRATION_BINS) - 1];
        bin.samples += 1;
        bin.sure += sure;
        bin.right += u64::from(right);
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.samples += other.samples;
            bin.sure += other.sure;
            bin.right += other.right;
        }
    }

    /// Its bins, the least sure first.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        self.bins.into_iter()
    }

    /// The expected calibration error: `|mean accuracy - mean probability|` of the bins, weighted by
    /// their samples.
    pub fn error(&self) -> f64 {
        let gap = |bin: &Bin| (bin.right as f64 - bin.sure).abs();
        let samples: u64 = self.bins.iter().map(|bin| bin.samples).sum();
        self.bins.iter().map(gap).sum::<f64>() / samples.max(1) as f64
    }
}

/// Probability that a sample of a class gets a higher score for it than another sample, half of it for
/// equal ones: the Mann-Whitney statistic. Scores come with whether the sample is of the class, and
/// are sorted here. None if all samples are of the class or none is.
pub fn auroc(scored: &mut [(f64, bool)]) -> Option<f64> {
    let positives = scored.iter().filter(|(_, own)| *own).count();
    let negatives = scored.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut before, mut ranks) = (0, 0.0);
    for equal in scored.chunk_by(|a, b| a.0 == b.0) {
        let rank = before as f64 + (equal.len() + 1) as f64 / 2.0;
        ranks += rank * equal.iter().filter(|(_, own)| *own).count() as f64;
        before += equal.len();
    }
    let (positives, negatives) = (positives as f64, negatives as f64);
    Some((ranks - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_word() {
        for metric in Metric::ALL {
            let measures = Measures::new(vec![metric]).unwrap();
            assert_eq!((measures.first(), measures.iter().count()), (metric, 1));
            assert_eq!(Metric::WORDS[metric as usize], metric.word());
        }
        assert_eq!(Metric::WORDS.len(), Metric::ALL.len());
    }

    #[test]
    fn a_list_of_metrics_is_not_empty_and_has_none_twice() {
        assert_eq!(Measures::new(vec![]), None);
        assert_eq!(Measures::new(vec![Metric::Auroc, Metric::Accuracy, Metric::Auroc]), None);
        let all = Measures::new(Metric::ALL.to_vec()).unwrap();
        assert_eq!(all.further().collect::<Vec<_>>(), Metric::ALL[1..]);
        assert!(Measures::default().is_plain() && !all.is_plain());
    }
}
