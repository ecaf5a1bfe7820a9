//! What a run tells besides scores: who holds what, who gains, where models err and how spectra lie.

use serde::Serialize;

use crate::{Answers, Gains, RunLog, SpectralCourse, answers, gains, spectral_courses};

/// All of it, fit for JSON; what the log does not hold is absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Insight {
    /// How the samples are divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub division: Option<Divided>,
    /// Who gains, method by method.
    pub gains: Vec<Gains>,
    /// What the models of the methods that have ended answer.
    pub answers: Vec<Answers>,
    /// How personal models' spectra lie to the generic one's, method by method.
    pub spectra: Vec<SpectralCourse>,
}

/// A division in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divided {
    /// Classes.
    pub classes: usize,
    /// Samples that were divided.
    pub samples: usize,
    /// Samples that went to another client than drawn.
    pub moved: usize,
    /// That many of all.
    pub moved_share: f64,
    /// The mean over clients of `Σ_c p_c²`.
    pub concentration: f64,
    /// The same as drawn, if samples were moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn_concentration: Option<f64>,
}

/// What a run's log tells besides scores.
pub fn insight(log: &RunLog) -> Insight {
    Insight {
        division: divided(log),
        gains: gains(log),
        answers: answers(log),
        spectra: spectral_courses(log),
    }
}

pub(crate) fn divided(log: &RunLog) -> Option<Divided> {
    let division = log.started.division.as_ref()?;
    Some(Divided {
        classes: division.classes.len(),
        samples: division.divided,
        moved: division.moved,
        moved_share: division.moved as f64 / division.divided.max(1) as f64,
        concentration: division.concentration,
        drawn_concentration: division.drawn_concentration,
    })
}

impl Divided {
    /// How many classes, all even, would be as concentrated as what a client holds.
    fn effective(concentration: f64) -> Option<f64> {
        (concentration > 0.0 && concentration.is_finite()).then(|| 1.0 / concentration)
    }

    /// How different clients are and what the repair did to that, in words.
    pub(crate) fn words(&self) -> Vec<String> {
        let count = |number: usize| crate::quantity::count(number as u64);
        let mut words = Vec::new();
        if let Some(effective) = Self::effective(self.concentration) {
            words.push(format!(
                "Concentration: the mean over clients of Σp², p being the share of a class in what a client \
                 holds, is {:.3}, as if every client held {effective:.1} of the {} classes evenly. It is 1 \
                 if everybody holds a single class, and {:.3} if all classes are even everywhere.",
                self.concentration,
                count(self.classes),
                1.0 / self.classes.max(1) as f64
            ));
        }
        words.push(if self.moved == 0 {
            "No sample was moved: clients hold what was drawn.".to_owned()
        } else {
            let drawn = self.drawn_concentration.map_or_else(String::new, |drawn| {
                let change = if drawn > self.concentration { "less" } else { "more" };
                format!(
                    " As drawn, the concentration was {drawn:.3}: the repair has made clients {change} \
                     different than the law of the partition says."
                )
            });
            format!(
                "So that every client has the minimum, {} of {} divided samples ({:.1} %) went to another \
                 client than drawn.{drawn}",
                count(self.moved),
                count(self.samples),
                100.0 * self.moved_share
            )
        });
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_is_told_with_what_it_changed() {
        let mut divided = Divided {
            classes: 10,
            samples: 50_000,
            moved: 1_234,
            moved_share: 1_234.0 / 50_000.0,
            concentration: 0.5,
            drawn_concentration: Some(0.6),
        };
        let told = divided.words().join(" ");
        for part in ["2.0 of the 10", "1,234 of 50,000", "2.5 %", "0.600", "less different"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        divided.moved = 0;
        assert!(divided.words().join(" ").contains("No sample was moved"));
    }
}
