//! What models answer: whom they take for whom, and how sure they are of it.

use formant_runtime::event::{Errors, Reliability};
use serde::Serialize;

use crate::RunLog;

/// The most frequent confusions that are listed.
const LISTED: usize = 5;

/// A method's answers, at its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answers {
    /// The method's label.
    pub label: String,
    /// The generic model (or the averaged PM) on the global test set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gm: Option<Answered>,
    /// The personal models (or the GM), each on its own client's samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pm: Option<Answered>,
}

/// Answers on a set, summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answered {
    /// Answers in all.
    pub samples: u64,
    /// Share of right ones.
    pub accuracy: f64,
    /// Mean probability that the answers were given.
    pub confidence: f64,
    /// Expected calibration error: the mean distance between confidence and accuracy, over answers that are
    /// about equally sure.
    pub calibration_error: f64,
    /// What is taken for what, most samples first.
    pub confusions: Vec<Confusion>,
}

/// A class that is taken for another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confusion {
    /// What it is.
    pub class: String,
    /// What was answered.
    pub answer: String,
    /// How many times.
    pub samples: u64,
    /// That many of the samples of its class.
    pub share: f64,
}

/// What every method's models answer, in the run's order; nothing of those that have not ended.
pub fn answers(log: &RunLog) -> Vec<Answers> {
    let classes = classes(log);
    let ended = log.methods.iter().filter_map(|method| {
        let detail = method.detail.as_ref()?;
        let sum = |errors: &Option<Errors>| errors.as_ref().and_then(|e| answered(e, classes));
        Some(Answers { label: method.info.label.clone(), gm: sum(&detail.gm), pm: sum(&detail.pm) })
    });
    ended.collect()
}

/// The classes' names, as far as the log has them.
pub(crate) fn classes(log: &RunLog) -> &[String] {
    log.started.division.as_ref().map_or(&[], |division| &division.classes)
}

/// What a class is called: its name, or its label's number.
pub(crate) fn class(classes: &[String], label: usize) -> String {
    classes.get(label).cloned().unwrap_or_else(|| label.to_string())
}

fn answered(errors: &Errors, classes: &[String]) -> Option<Answered> {
    let sum = |of: fn(&Reliability) -> f64| errors.reliability.iter().map(of).sum::<f64>();
    let samples = sum(|bin| bin.samples as f64);
    if samples <= 0.0 {
        return None;
    }
    Some(Answered {
        samples: samples as u64,
        accuracy: sum(|bin| bin.right as f64) / samples,
        confidence: sum(|bin| bin.confidence) / samples,
        calibration_error: sum(|bin| (bin.right as f64 - bin.confidence).abs()) / samples,
        confusions: confusions(errors.confusion.as_deref().unwrap_or_default(), classes),
    })
}

fn confusions(matrix: &[Vec<u64>], classes: &[String]) -> Vec<Confusion> {
    let mut wrong = Vec::new();
    for (label, row) in matrix.iter().enumerate() {
        let whole = row.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        for (answer, &samples) in row.iter().enumerate() {
            if answer != label && samples > 0 {
                wrong.push((samples, label, answer, whole));
            }
        }
    }
    wrong.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    let listed = wrong.into_iter().take(LISTED).map(|(samples, label, answer, whole)| Confusion {
        class: class(classes, label),
        answer: class(classes, answer),
        samples,
        share: samples as f64 / whole as f64,
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_and_confusions_by_hand() {
        let errors = Errors {
            confusion: Some(vec![vec![3, 1, 0], vec![0, 2, 2], vec![0, 0, 0]]),
            reliability: vec![
                Reliability { samples: 4, right: 1, confidence: 1.6 },
                Reliability::default(),
                Reliability { samples: 4, right: 4, confidence: 3.6 },
            ],
        };
        let names = ["cat".to_owned(), "dog".to_owned()];
        let found = answered(&errors, &names).unwrap();
        assert_eq!((found.samples, found.accuracy), (8, 0.625));
        assert!((found.calibration_error - (0.6 + 0.4) / 8.0).abs() < 1e-12);
        assert!((found.confidence - 0.65).abs() < 1e-12);
        let first = &found.confusions[0];
        assert_eq!((first.class.as_str(), first.answer.as_str(), first.samples), ("dog", "2", 2));
        assert_eq!((first.share, found.confusions.len()), (0.5, 2));
        assert!(answered(&Errors::default(), &names).is_none());
    }
}
