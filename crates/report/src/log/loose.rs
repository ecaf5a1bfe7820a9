//! Evaluations as all formats write them.
//!
//! A figure that is not finite is absent; up to format 2, `null` stood for it. Which figures are not
//! there says something important: whether a model has diverged, or nobody has scored it.

use formant_runtime::event::{ClientSize, Ready};
use serde::{Deserialize, Deserializer};

use super::Evaluation;

/// An `evaluated` event in which every figure may be `null`. Those of a model may be
/// missing together, but not one by one.
#[derive(Deserialize)]
pub(super) struct LooseEvaluated {
    pub(super) method: String,
    pub(super) round: usize,
    #[serde(default)]
    gm: Option<LooseScore>,
    #[serde(default)]
    gm_candidates: Vec<LooseCandidate>,
    #[serde(default)]
    pm: Option<LoosePersonalScore>,
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
    #[serde(default)]
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
    pub(super) fn evaluation(self, clients: &[Option<ClientSize>]) -> Evaluation {
        let Self { gm, gm_candidates, pm, seconds, clock, .. } = self;
        let generic_diverged =
            gm.as_ref().is_some_and(|gm| gm.accuracy.is_none() || gm.loss.is_none());
        let personal_diverged = pm.as_ref().is_some_and(|pm| pm.has_diverged(clients));
        let (weighted, mean, worst_decile, per_client) = pm.map_or_else(Default::default, |pm| {
            (pm.weighted, pm.mean, pm.worst_decile, pm.per_client)
        });
        Evaluation {
            diverged: generic_diverged || personal_diverged,
            gm: gm.as_ref().and_then(|gm| gm.accuracy),
            gm_loss: gm.and_then(|gm| gm.loss),
            gm_candidates: gm_candidates.into_iter().map(|c| (c.name, c.score.accuracy)).collect(),
            pm: weighted,
            pm_mean: mean,
            worst_decile,
            per_client,
            seconds,
            clock,
        }
    }
}

impl LoosePersonalScore {
    /// Whether a figure is missing that a client's samples should have given.
    fn has_diverged(&self, clients: &[Option<ClientSize>]) -> bool {
        let has_samples = |size: &Option<ClientSize>| size.is_some_and(|size| size.test > 0);
        let scored = |client: usize| clients.get(client).is_none_or(has_samples);
        let mut scores = self.per_client.iter().enumerate();
        let nobody_scored = !clients.is_empty() && !clients.iter().any(has_samples);
        let means = [self.weighted, self.mean, self.worst_decile];
        scores.any(|(client, score)| score.is_none() && scored(client))
            || !nobody_scored && means.iter().any(Option::is_none)
    }
}

/// Going through `deserialize_with` makes a missing field an error, which a bare `Option` is not.
fn figure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(deserializer)
}
