//! What models were worth.

use super::Ready;
use crate::Choice;
use formant_numerics::{Measures, Metric, Tally};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// Scores of both models after a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    /// The method's label.
    pub method: String,
    /// Rounds completed; 0 is before training.
    pub round: usize,
    /// The generic model (or the averaged PM) on the global test set; absent without such a set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gm: Option<Score>,
    /// Further models that could be called the generic one, on the same set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gm_candidates: Vec<Candidate>,
    /// The personal models (or the GM) on the local test sets; absent if nobody has scored them, or no
    /// client has samples for it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "scored")]
    pub pm: Option<PersonalScore>,
    /// Those of a simulation's attackers, who are not counted in `pm`; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attackers: Option<PersonalScore>,
    /// What clients serve as their personal models, which is what `pm` is of; absent if nobody had a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// Wall time of the evaluation.
    pub seconds: f64,
    /// When the models were ready, by the virtual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Ready>,
}

/// What clients serve as their personal models, by `evaluation.guard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    /// Clients that had a choice.
    pub clients: usize,
    /// How many of them serve the personal model as it was trained.
    pub personal: usize,
    /// How many the generic one.
    pub generic: usize,
    /// Mean share of the personal model, `β`: one for everything, or one for each band of frequencies from the lowest
    /// to the highest and one for the head.
    pub shares: Vec<f64>,
}

impl Guarded {
    /// Sums up what clients have chosen; nothing if none had a choice.
    pub fn of(choices: &[Option<Choice>]) -> Option<Self> {
        let chosen: Vec<&Choice> = choices.iter().flatten().collect();
        let clients = chosen.len();
        let mut shares = vec![0.0; chosen.first()?.shares.len()];
        for choice in &chosen {
            for (sum, share) in shares.iter_mut().zip(&choice.shares) {
                *sum += f64::from(*share);
            }
        }
        for sum in &mut shares {
            *sum /= clients as f64;
        }
        let count = |is: fn(&Choice) -> bool| chosen.iter().filter(|choice| is(choice)).count();
        let (personal, generic) = (count(Choice::is_personal), count(Choice::is_generic));
        Some(Self { clients, personal, generic, shares })
    }
}

/// A model that could be called the generic one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What the method calls it.
    pub name: String,
    /// Its score on the global test set.
    pub score: Score,
}

/// Accuracy and mean cross-entropy on one set, and whatever else was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Fraction right, 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy; absent if it is not finite, as that of a model that has diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The other metrics of `evaluation.metrics`. One that has no figure on the set is absent, such as
    /// the AUROC where all samples are of one class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub further: BTreeMap<Metric, f64>,
}

impl Score {
    /// What a model has on the samples of a tally; none if there are none.
    pub fn of(tally: &Tally, measures: &Measures) -> Option<Self> {
        let figure = |metric| Some((metric, tally.figure(metric)?));
        Some(Self {
            accuracy: tally.figure(Metric::Accuracy)?,
            loss: finite(tally.loss / tally.samples as f64),
            further: measures.further().filter_map(figure).collect(),
        })
    }

    /// What it is worth by a metric.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Accuracy => Some(self.accuracy),
            other => self.further.get(&other).copied(),
        }
    }
}

/// Accuracy of all clients' personal models. A client without samples to score on counts nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonalScore {
    /// Mean weighted by local test sizes: the paper's figure.
    pub weighted: f64,
    /// Plain mean over clients.
    pub mean: f64,
    /// Mean of the worst tenth of the clients, at least one.
    pub worst_decile: f64,
    /// Every client, in id order; `None` for a client without samples to score on.
    pub per_client: Vec<Option<f64>>,
    /// The same by the other metrics of `evaluation.metrics`. A client that has no figure by one of
    /// them counts nowhere in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub further: BTreeMap<Metric, PersonalScore>,
}

impl PersonalScore {
    /// What they are worth by a metric.
    pub fn by(&self, metric: Metric) -> Option<&Self> {
        match metric {
            Metric::Accuracy => Some(self),
            other => self.further.get(&other),
        }
    }
}

/// A figure that can be written down.
pub fn finite(figure: f64) -> Option<f64> {
    figure.is_finite().then_some(figure)
}

/// Up to format 2, `null` stood for means over nobody.
fn scored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PersonalScore>, D::Error> {
    #[derive(Deserialize)]
    struct Means {
        weighted: Option<f64>,
        mean: Option<f64>,
        worst_decile: Option<f64>,
        per_client: Vec<Option<f64>>,
        #[serde(default)]
        further: BTreeMap<Metric, PersonalScore>,
    }
    let means: Option<Means> = Option::deserialize(deserializer)?;
    Ok(means.and_then(|Means { weighted, mean, worst_decile, per_client, further }| {
        let (weighted, mean, worst_decile) = (weighted?, mean?, worst_decile?);
        Some(PersonalScore { weighted, mean, worst_decile, per_client, further })
    }))
}
