//! The set on which generic models are scored, in parts that may be scored anywhere.

use crate::{Hand, RunPlan, RuntimeError, Scored};
use formant_numerics::{Detail, EVALUATION_BATCH, Measures, Model, Pulse, Samples, Tally};

/// Samples in one part.
pub(super) const PART: usize = 4 * EVALUATION_BATCH;

/// The set on which generic models are scored. Parts and the order in which they are added up decide
/// the last bits of a score, so they are the same for every executor.
pub struct GlobalSet<'p> {
    samples: &'p dyn Samples,
    indices: Vec<u32>,
    measures: &'p Measures,
}

impl<'p> GlobalSet<'p> {
    /// The set that a plan scores generic models on.
    pub fn of(plan: &'p RunPlan) -> Self {
        let data = &plan.federation;
        let (samples, indices): (&dyn Samples, Vec<u32>) = match plan.evaluation.split {
            Scored::Validation => {
                let union = data.clients.iter().flat_map(|c| &c.validation).copied().collect();
                (&*data.dataset.train, union)
            }
            Scored::Test => (&*data.dataset.test, (0..data.dataset.test.len() as u32).collect()),
        };
        Self { samples, indices, measures: &plan.evaluation.metrics }
    }

    /// How many parts it has.
    pub fn parts(&self) -> usize {
        self.indices.len().div_ceil(PART)
    }

    /// Scores a model on one part, with its answers if that is wanted.
    pub fn score_part(
        &self,
        part: usize,
        model: &Model,
        answers: bool,
        hand: &mut Hand,
        pulse: Pulse<'_>,
    ) -> Result<Tally, RuntimeError> {
        let end = ((part + 1) * PART).min(self.indices.len());
        let indices = &self.indices[part * PART..end];
        let detail = Detail::of(self.measures).with_confusion(answers);
        Ok(hand.score(model, self.samples, indices, detail, pulse)?)
    }

    /// The tally of the whole set, from those of all parts in order.
    pub fn total(parts: impl IntoIterator<Item = Tally>) -> Tally {
        let mut all = Tally::default();
        for part in parts {
            all.add(part);
        }
        all
    }
}
