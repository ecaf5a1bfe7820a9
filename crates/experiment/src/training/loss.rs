//! What a sample counts for.

use serde::{Deserialize, Serialize};

pub(super) const BALANCED: &str = "balanced";

/// What a sample counts for in training, by its class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum ClassWeights {
    /// Each of a client's classes counts the same.
    Balanced,
    /// A number for each class.
    Given(Vec<f64>),
}

/// As it stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    /// The only one that the key's table lets through.
    Word(String),
    Numbers(Vec<f64>),
}

impl From<Written> for ClassWeights {
    fn from(written: Written) -> Self {
        match written {
            Written::Word(_) => Self::Balanced,
            Written::Numbers(numbers) => Self::Given(numbers),
        }
    }
}

impl From<ClassWeights> for Written {
    fn from(weights: ClassWeights) -> Self {
        match weights {
            ClassWeights::Balanced => Self::Word(BALANCED.into()),
            ClassWeights::Given(numbers) => Self::Numbers(numbers),
        }
    }
}

impl ClassWeights {
    /// What a phase is told.
    pub(super) fn settings(weights: Option<&Self>) -> formant_methods::ClassWeights {
        match weights {
            None => formant_methods::ClassWeights::Equal,
            Some(Self::Balanced) => formant_methods::ClassWeights::Balanced,
            Some(Self::Given(weights)) => {
                formant_methods::ClassWeights::Given(weights.iter().map(|x| *x as f32).collect())
            }
        }
    }
}
