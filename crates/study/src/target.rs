//! Time to a target accuracy, or to a target by whatever metric comes first.

use crate::StudyError;
use formant_numerics::Metric;
use formant_report::MethodLog;

/// Accuracies to reach, each above 0 and at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets(Vec<f64>);

impl Targets {
    /// Checks them; there must be one at least.
    pub fn new(targets: Vec<f64>) -> Result<Self, StudyError> {
        let possible = |target: &f64| *target > 0.0 && *target <= 1.0;
        if targets.is_empty() || !targets.iter().all(possible) {
            return Err(StudyError::Targets);
        }
        Ok(Self(targets))
    }

    /// In the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.0.iter().copied()
    }
}

/// When a target was reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// The first round whose personal models reach it.
    pub round: usize,
    /// Virtual seconds until then.
    pub seconds: f64,
}

/// When the clients' personal models first reach a target by the first metric of the run; none if they
/// never do, or if nothing takes time.
pub fn time_to_target(log: &MethodLog, metric: Metric, target: f64) -> Option<Reached> {
    log.evaluations.iter().find_map(|(round, scores)| {
        let is_there = !metric.is_better(target, scores.pm?);
        is_there.then_some(Reached { round: *round, seconds: scores.clock?.pm })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accuracies_are_targets() {
        for wrong in [vec![], vec![0.0], vec![0.5, 80.0], vec![f64::NAN]] {
            assert!(Targets::new(wrong).unwrap_err().to_string().contains("\nhint: "));
        }
        assert_eq!(Targets::new(vec![0.8, 1.0]).unwrap().iter().collect::<Vec<_>>(), [0.8, 1.0]);
    }
}
