//! Evaluations as all formats write them.
//!
//! A figure that is not finite is absent; up to format 2, `null` stood for it. Which figures are not
//! there says something important: whether a model has diverged, or nobody has scored it.

use formant_runtime::event::{ClientSize, Guarded, Metric, Ready, RunStarted};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

use super::{Evaluation, Further};
use crate::attacked::attacks;

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
    #[serde(default)]
    attackers: Option<LoosePersonalScore>,
    #[serde(default)]
    guard: Option<Guarded>,
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
    #[serde(default)]
    further: BTreeMap<Metric, f64>,
}

impl LooseScore {
    fn figure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Accuracy => self.accuracy,
            other => self.further.get(&other).copied(),
        }
    }
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
    #[serde(default)]
    further: BTreeMap<Metric, LoosePersonalScore>,
}

impl LoosePersonalScore {
    fn by(&self, metric: Metric) -> Option<&Self> {
        match metric {
            Metric::Accuracy => Some(self),
            other => self.further.get(&other),
        }
    }
}

impl LooseEvaluated {
    /// The run's first line tells a client that diverged from one that has nothing to be scored on, and
    /// which metric comes first.
    pub(super) fn evaluation(self, run: &RunStarted) -> Evaluation {
        let metric = run.metrics.first();
        let Self { gm, gm_candidates, pm, attackers, guard, seconds, clock, .. } = self;
        let generic_diverged =
            gm.as_ref().is_some_and(|gm| gm.accuracy.is_none() || gm.loss.is_none());
        let personal_diverged = pm.as_ref().is_some_and(|pm| pm.has_diverged(run));
        let others = run.metrics.iter().filter(|other| *other != metric).map(|other| {
            let personal = pm.as_ref().and_then(|pm| pm.by(other));
            let figures = Further {
                gm: gm.as_ref().and_then(|gm| gm.figure(other)),
                pm: personal.and_then(|pm| pm.weighted),
                worst_decile: personal.and_then(|pm| pm.worst_decile),
            };
            (other, figures)
        });
        let further = others.collect();
        let pm = pm.as_ref().and_then(|pm| pm.by(metric));
        let candidates = gm_candidates.into_iter();
        Evaluation {
            diverged: generic_diverged || personal_diverged,
            gm: gm.as_ref().and_then(|gm| gm.figure(metric)),
            gm_loss: gm.as_ref().and_then(|gm| gm.loss),
            gm_candidates: candidates.map(|c| (c.name, c.score.figure(metric))).collect(),
            pm: pm.and_then(|pm| pm.weighted),
            pm_mean: pm.and_then(|pm| pm.mean),
            worst_decile: pm.and_then(|pm| pm.worst_decile),
            per_client: pm.map(|pm| pm.per_client.clone()).unwrap_or_default(),
            further,
            attackers: attackers.and_then(|pm| pm.by(metric)?.weighted),
            guard,
            seconds,
            clock,
        }
    }
}

impl LoosePersonalScore {
    /// Whether a figure is missing that a client's samples should have given.
    fn has_diverged(&self, run: &RunStarted) -> bool {
        let clients = &run.clients;
        let has_samples = |size: &Option<ClientSize>| size.is_some_and(|size| size.test > 0);
        // What an attacker has is told apart.
        let scored =
            |client: usize| clients.get(client).is_none_or(has_samples) && !attacks(run, client);
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
