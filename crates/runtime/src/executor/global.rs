//! The set on which generic models are scored, in parts that may be scored anywhere.

use crate::event::Score;
use crate::{EVALUATION_BATCH, Hand, RunPlan, score};
use formant_data::{Images, Split};
use formant_numerics::{Model, Network};
use serde::{Deserialize, Serialize};

/// Samples in one part.
pub(super) const PART: usize = 4 * EVALUATION_BATCH;

/// The set on which generic models are scored. Parts and the order in which they are added up decide
/// the last bits of a score, so they are the same for every executor.
pub struct GlobalSet<'p> {
    network: &'p dyn Network,
    images: &'p Images,
    indices: Vec<u32>,
}

/// What a model reaches on a part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartScore {
    /// Samples that it gets right.
    pub right: usize,
    /// The sum of its cross-entropies.
    pub loss: f64,
}

impl<'p> GlobalSet<'p> {
    /// The set that a plan scores generic models on.
    pub fn of(plan: &'p RunPlan) -> Self {
        let data = &plan.federation;
        let (images, indices) = match plan.evaluation.split {
            Split::Validation => {
                let union = data.clients.iter().flat_map(|c| &c.validation).copied().collect();
                (&data.dataset.train, union)
            }
            _ => (&data.dataset.test, (0..data.dataset.test.len() as u32).collect()),
        };
        Self { network: &*plan.network, images, indices }
    }

    /// How many parts it has.
    pub fn parts(&self) -> usize {
        self.indices.len().div_ceil(PART)
    }

    /// Scores a model on one part.
    pub fn score_part(&self, part: usize, model: &Model, hand: &mut Hand) -> PartScore {
        let end = ((part + 1) * PART).min(self.indices.len());
        let indices = &self.indices[part * PART..end];
        let (right, loss) = score(self.network, model, self.images, indices, &mut hand.worker);
        PartScore { right, loss }
    }

    /// The score on the whole set, from those on all parts in order.
    pub fn total(&self, parts: &[PartScore]) -> Score {
        let count = self.indices.len().max(1) as f64;
        let right: usize = parts.iter().map(|part| part.right).sum();
        let loss: f64 = parts.iter().map(|part| part.loss).sum();
        Score { accuracy: right as f64 / count, loss: loss / count }
    }
}
