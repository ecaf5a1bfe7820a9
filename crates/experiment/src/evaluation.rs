//! `[evaluation]`: when and on what the models are scored.

use crate::section::{Section, key, whole};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_runtime::Scored;
use serde::{Deserialize, Serialize};

pub(crate) const SECTION: Section =
    Section::new("evaluation", "When and on what the models are scored.", KEYS);

const KEYS: &[Key] = &[
    key(
        "every",
        whole(1),
        Preset::Integer(1),
        "rounds between evaluations; the last round is always scored",
    ),
    key(
        "split",
        Kind::Choice(Scored::WORDS),
        Preset::Text(Scored::Test.word()),
        "test: local test sets and the global one; validation: what hyper-parameters are chosen on",
    ),
];

/// When and on what the models are scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Rounds between evaluations; the last round is always scored.
    pub every: usize,
    /// On which samples.
    pub split: Scored,
}

impl Default for Evaluation {
    fn default() -> Self {
        SECTION.defaults()
    }
}

impl Evaluation {
    pub(crate) fn plan(&self) -> formant_runtime::Evaluation {
        formant_runtime::Evaluation { every: self.every, split: self.split }
    }
}
