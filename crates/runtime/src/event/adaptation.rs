//! What clients made of a method's models that joined when training was over.

use super::PersonalScore;
use serde::{Deserialize, Serialize};

/// How newcomers came to personal models in one way, epoch by epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adapted {
    /// The method's label.
    pub method: String,
    /// Rounds after which they joined.
    pub round: usize,
    /// The way.
    pub approach: Approach,
    /// What their models were worth on their own samples after 0, 1, 2, … epochs, in the order of the newcomers,
    /// whose numbers follow those of the clients.
    pub epochs: Vec<PersonalScore>,
    /// Samples that a newcomer's model is scored on, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub test: Vec<usize>,
    /// Newcomers of whom an epoch diverged. Their models stay as they were before it.
    pub failed: usize,
    /// Wall time, summed over newcomers.
    pub seconds: f64,
}

/// How a newcomer comes to a personal model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approach {
    /// The generic model, or the mean of the personal ones where there is none, and plain training.
    FineTuning,
    /// The method's own rule.
    Own,
}

impl Approach {
    /// How tables call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::FineTuning => "fine-tuning",
            Self::Own => "own rule",
        }
    }
}
