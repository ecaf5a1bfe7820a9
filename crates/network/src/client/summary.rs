//! What a client has learnt, in figures.

use super::models::{After, Owner, Parts};
use crate::error::NetworkError;
use formant_methods::Value;
use formant_numerics::{Detail, Model};
use formant_runtime::Choice;
use formant_runtime::event::{Score, Spent};
use std::path::PathBuf;

/// How a client's run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Rounds that the run has made.
    pub rounds: u64,
    /// Samples that both models are scored on: the client's own, which neither has seen.
    pub samples: usize,
    /// The personal model, or what the client serves in its place, if there is one and there are samples.
    pub personal: Option<Score>,
    /// What the client's guard has chosen to serve, if there was a choice.
    pub choice: Option<Choice>,
    /// The generic model that the server has sent last, if it sends one.
    pub generic: Option<Score>,
    /// What all uploads may have revealed of this client; absent without `[privacy]`.
    pub privacy: Option<Spent>,
    /// XXH3-128 of the client's state.
    pub fingerprint: String,
    /// The file of the model to use: the personal one, or the generic one of a method without.
    pub model: Option<PathBuf>,
}

impl Summary {
    /// Scores both models and writes them.
    pub(super) fn new(
        owner: &Owner,
        (round, state): (u64, &Value),
        broadcast: Option<&Value>,
    ) -> Result<Self, NetworkError> {
        let assignment = &owner.assignment;
        let mut summary = Self {
            rounds: round,
            samples: assignment.scored().len(),
            personal: None,
            choice: None,
            generic: None,
            privacy: None,
            fingerprint: crate::wire::fingerprint(&state.encode()?),
            model: None,
        };
        let Some(broadcast) = broadcast else { return Ok(summary) };
        let mut hand = owner.hand();
        let state = After { rounds: round, it: state };
        let parts = Parts { state, broadcast: After { rounds: round, it: broadcast } };
        let models = owner.models(&parts, &mut hand)?;
        let (samples, mine) = (&*assignment.dataset.train, assignment.scored());
        let measures = &assignment.task.evaluation.metrics;
        let mut scored = |model: Option<&Model>| {
            let detail = Detail::of(measures);
            model.and_then(|model| {
                Score::of(&hand.worker.score(model, samples, &mine, detail), measures)
            })
        };
        summary.generic = scored(models.generic.as_ref());
        summary.personal = scored(models.personal.as_ref());
        summary.model = owner.write(&models, &parts)?;
        summary.choice = models.choice;
        Ok(summary)
    }
}
