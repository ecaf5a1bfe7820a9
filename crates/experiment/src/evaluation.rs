//! `[evaluation]`: when and on what the models are scored.

use crate::section::{Section, key, whole};
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::{Measures, Metric};
use formant_runtime::{Guard, Scored};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) const SECTION: Section = Section {
    complete,
    ..Section::new("evaluation", "When and on what the models are scored.", KEYS)
};

/// What everybody has need not be written, so that logs and keys of results stay what they were.
fn complete(table: &mut Table) {
    let plain = Value::Array(vec![Metric::Accuracy.word().into()]);
    let spectra = Value::Integer(SPECTRA);
    let off = Value::from(Guard::Off.word());
    table.retain(|key, value| match key {
        "metrics" => *value != plain,
        "spectra" => *value != spectra,
        "guard" => *value != off,
        _ => true,
    });
}

/// Clients whose spectra are shown unless somebody says otherwise.
const SPECTRA: i64 = 3;

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
    key(
        "metrics",
        Kind::Choices(Metric::WORDS),
        Preset::Texts(&[Metric::Accuracy.word()]),
        "what models are scored by; the first decides which round is best, and rankings go by it",
    ),
    key(
        "guard",
        Kind::Choice(Guard::WORDS),
        Preset::Text(Guard::Off.word()),
        "what a client serves as its PM, by its own validation samples: off: what it trained; best: that or the GM; \
         blend: these or 1/4, 1/2, 3/4 between them; bands: so for each of three bands of frequencies and the head",
    ),
    key(
        "patience",
        whole(1),
        Preset::Unset,
        "end a method after so many evaluations in a row that were no better, and keep the models of \
         the best: by the weighted PM of a method with personal models, else by the GM; unset: never",
    ),
    key(
        "spectra",
        Kind::Integer { min: 0, max: 1_000 },
        Preset::Integer(SPECTRA),
        "of how many clients, the first by id, a simulation's log shows how the spectra of PM and GM lie to \
         each other at every evaluation; 0: of none",
    ),
    key(
        "adapt_epochs",
        Kind::Integer { min: 1, max: 1_000 },
        Preset::Unset,
        "epochs that data.new_clients train for when they join, scored after each; 5 unless set",
    ),
    key(
        "adapt_learning_rate",
        Kind::Above { min: 0.0, max: 1e3 },
        Preset::Unset,
        "learning rate at which data.new_clients fine-tune, the same for all methods; unset: each method's \
         personal_learning_rate",
    ),
];

/// When and on what the models are scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Rounds between evaluations; the last round is always scored.
    pub every: usize,
    /// On which samples.
    pub split: Scored,
    /// By what; the first is the figure that decides.
    #[serde(default, skip_serializing_if = "Measures::is_plain")]
    pub metrics: Measures,
    /// Between which models clients choose the one that they serve.
    #[serde(default = "no_guard", skip_serializing_if = "Guard::is_off")]
    pub guard: Guard,
    /// After how many evaluations in a row without improvement a method ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<usize>,
    /// Of how many clients, the first by id, the log of a simulation shows the spectra of personal models.
    #[serde(default = "usual_spectra", skip_serializing_if = "is_usual")]
    pub spectra: usize,
    /// Epochs that new clients train for when they join; without it, [`Evaluation::ADAPT_EPOCHS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt_epochs: Option<usize>,
    /// Learning rate at which new clients fine-tune; without it, that of each method's personal phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt_learning_rate: Option<f64>,
}

fn no_guard() -> Guard {
    Guard::Off
}

fn usual_spectra() -> usize {
    SPECTRA as usize
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
fn is_usual(spectra: &usize) -> bool {
    *spectra == usual_spectra()
}

impl Default for Evaluation {
    fn default() -> Self {
        SECTION.defaults()
    }
}

impl Evaluation {
    /// Epochs that new clients train for unless told.
    pub const ADAPT_EPOCHS: usize = 5;

    pub(crate) fn plan(&self) -> formant_runtime::Evaluation {
        let (metrics, patience) = (self.metrics.clone(), self.patience);
        let (every, split, spectra) = (self.every, self.split, self.spectra);
        let adapt_epochs = self.adapt_epochs.unwrap_or(Self::ADAPT_EPOCHS);
        let adapt_learning_rate = self.adapt_learning_rate.map(|rate| rate as f32);
        formant_runtime::Evaluation {
            every,
            split,
            metrics,
            guard: self.guard,
            patience,
            spectra,
            adapt_epochs,
            adapt_learning_rate,
        }
    }
}
