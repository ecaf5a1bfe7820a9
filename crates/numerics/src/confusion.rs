//! Who is taken for whom, and how sure that is: counts in parts that add up.

use crate::metric::Calibration;
use serde::{Deserialize, Serialize};

/// The answers of a model, or of several, on some samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Confusion {
    classes: usize,
    /// By true class, and in it by the class that was answered; empty with more than
    /// [`Confusion::CLASSES`] classes.
    counts: Vec<u64>,
    /// By how sure the answers are.
    pub calibration: Calibration,
}

impl Confusion {
    /// The most classes of which it is counted who is taken for whom.
    pub const CLASSES: usize = 100;

    /// Makes room for so many classes.
    pub(crate) fn fit(&mut self, classes: usize) {
        if classes <= self.classes {
            return;
        }
        if classes > Self::CLASSES {
            (self.classes, self.counts) = (classes, Vec::new());
            return;
        }
        let mut counts = vec![0; classes * classes];
        let rows = self.counts.chunks_exact(self.classes.max(1));
        for (to, from) in counts.chunks_exact_mut(classes).zip(rows) {
            to[..from.len()].copy_from_slice(from);
        }
        (self.classes, self.counts) = (classes, counts);
    }

    /// Counts an answer; none was given where a logit is not a number, and then only its certainty counts.
    pub(crate) fn count(&mut self, label: usize, answered: Option<usize>, sure: f64) {
        self.calibration.count(sure, answered == Some(label));
        if let Some(answered) = answered
            && let Some(count) = self.counts.get_mut(label * self.classes + answered)
        {
            *count += 1;
        }
    }

    /// Adds what was found on other samples.
    pub fn add(&mut self, other: &Self) {
        self.fit(other.classes);
        // Rows of the other may be shorter.
        let rows = self.counts.chunks_exact_mut(self.classes.max(1));
        for (row, other) in rows.zip(other.counts.chunks_exact(other.classes.max(1))) {
            row.iter_mut().zip(other).for_each(|(count, other)| *count += other);
        }
        self.calibration.add(&other.calibration);
    }

    /// Samples by true class, and in it by the class that was answered; none if that was not counted.
    pub fn rows(&self) -> Option<impl Iterator<Item = &[u64]>> {
        (!self.counts.is_empty()).then(|| self.counts.chunks_exact(self.classes.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(confusion: &Confusion) -> Vec<Vec<u64>> {
        confusion.rows().unwrap().map(<[u64]>::to_vec).collect()
    }

    #[test]
    fn parts_of_different_width_add_up() {
        let (mut narrow, mut wide) = (Confusion::default(), Confusion::default());
        narrow.fit(2);
        narrow.count(1, Some(0), 0.75);
        narrow.count(0, None, 1.0);
        wide.fit(3);
        wide.count(2, Some(2), 0.5);
        wide.count(1, Some(0), 0.5);
        let mut sum = narrow.clone();
        sum.add(&wide);
        assert_eq!(rows(&sum), [[0, 0, 0], [2, 0, 0], [0, 0, 1]]);
        wide.add(&narrow);
        assert_eq!(wide, sum);
        assert_eq!(sum.calibration.bins().map(|bin| bin.samples).sum::<u64>(), 4);
    }

    #[test]
    fn of_many_classes_only_certainty_is_counted() {
        let mut many = Confusion::default();
        many.fit(Confusion::CLASSES + 1);
        many.count(3, Some(100), 0.25);
        assert!(many.rows().is_none());
        assert_eq!(many.calibration.bins().map(|bin| (bin.samples, bin.right)).max(), Some((1, 0)));
    }
}
