//! Evaluations of diverged models.
//!
//! JSON has no NaN: the recorder's `null` stands for it. The event vocabulary asks for numbers, so
//! such a line would count as malformed, although it says something true and important.

use formant_runtime::event::{ClientSize, Ready};
use serde::{Deserialize, Deserializer};

use super::Evaluation;

/// An `evaluated` event in which every figure may be `null`, though none may be missing.
#[derive(Deserialize)]
pub(super) struct LooseEvaluated {
    pub(super) method: String,
    pub(super) round: usize,
    gm: LooseScore,
    #[serde(default)]
    gm_candidates: Vec<LooseCandidate>,
    pm: LoosePersonalScore,
    seconds: f64,
    #[serde(default)]
    clock: Option<Ready>,
}

#[derive(Deserialize)]
struct LooseCandidate {
    name: String,
    score: LooseScore,
}

#[derive(Deserialize)]
struct LooseScore {
    #[serde(deserialize_with = "figure")]
    accuracy: Option<f64>,
    #[serde(deserialize_with = "figure")]
    loss: Option<f64>,
}

#[derive(Deserialize)]
struct LoosePersonalScore {
    #[serde(deserialize_with = "figure")]
    weighted: Option<f64>,
    #[serde(deserialize_with = "figure")]
    mean: Option<f64>,
    #[serde(deserialize_with = "figure")]
    worst_decile: Option<f64>,
    per_client: Vec<Option<f64>>,
}

impl LooseEvaluated {
    /// `clients` tells a client that diverged from one that has nothing to be scored on.
    pub(super) fn evaluation(self, clients: &[ClientSize]) -> Evaluation {
        let Self { gm, gm_candidates, pm, seconds, clock, .. } = self;
        let scored = |client: usize| clients.get(client).is_none_or(|size| size.test > 0);
        let client_diverged =
            pm.per_client.iter().enumerate().any(|(id, score)| score.is_none() && scored(id));
        let nobody_scored = !clients.is_empty() && clients.iter().all(|size| size.test == 0);
        let personal_diverged =
            !nobody_scored && [pm.weighted, pm.mean, pm.worst_decile].iter().any(Option::is_none);
        Evaluation {
            diverged: gm.accuracy.is_none()
                || gm.loss.is_none()
                || personal_diverged
                || client_diverged,
            gm: gm.accuracy,
            gm_loss: gm.loss,
            gm_candidates: gm_candidates.into_iter().map(|c| (c.name, c.score.accuracy)).collect(),
            pm: pm.weighted,
            pm_mean: pm.mean,
            worst_decile: pm.worst_decile,
            per_client: pm.per_client,
            seconds,
            clock,
        }
    }
}

/// Going through `deserialize_with` makes a missing field an error, which a bare `Option` is not.
fn figure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(deserializer)
}
