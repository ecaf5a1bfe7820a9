//! What models were worth.

use super::Ready;
use formant_numerics::Tally;
use serde::{Deserialize, Deserializer, Serialize};

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
    /// Wall time of the evaluation.
    pub seconds: f64,
    /// When the models were ready, by the virtual clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Ready>,
}

/// A model that could be called the generic one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What the method calls it.
    pub name: String,
    /// Its score on the global test set.
    pub score: Score,
}

/// Accuracy and mean cross-entropy on one set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Fraction right, 0 to 1.
    pub accuracy: f64,
    /// Mean cross-entropy; absent if it is not finite, as that of a model that has diverged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

impl Score {
    /// What a model has on so many samples; none if there are none.
    pub fn of(tally: Tally, samples: usize) -> Option<Self> {
        let count = samples as f64;
        (samples > 0).then(|| Self {
            accuracy: tally.right as f64 / count,
            loss: finite(tally.loss / count),
        })
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
    }
    let means: Option<Means> = Option::deserialize(deserializer)?;
    Ok(means.and_then(|Means { weighted, mean, worst_decile, per_client }| {
        let (weighted, mean, worst_decile) = (weighted?, mean?, worst_decile?);
        Some(PersonalScore { weighted, mean, worst_decile, per_client })
    }))
}
