//! `[train]`: how clients train; a `[[method]]` may override any of it but who takes part.

use crate::section::{Section, key, symbol};
use formant_methods::PhaseSettings;
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::{Augmentation, Sgd};
use formant_runtime::PhasePlan;
use serde::{Deserialize, Serialize};

pub(crate) const SECTION: Section =
    Section::new("train", "How clients train; a [[method]] may override any of these.", KEYS);

const KEYS: &[Key] = &[
    symbol(
        "|S_t|/N",
        key(
            PARTICIPATION,
            Kind::Above { min: 0.0, max: 1.0 },
            Preset::Number(1.0),
            "share of the clients that take part in a round",
        ),
    ),
    key(
        "batch",
        Kind::Integer { min: 1, max: 65_536 },
        Preset::Integer(10),
        "samples in a training step",
    ),
    symbol(
        "E_G",
        key(
            "epochs",
            Kind::Integer { min: 1, max: 10_000 },
            Preset::Integer(2),
            "epochs of the shared phase",
        ),
    ),
    symbol(
        "E_p",
        key(
            "personal_epochs",
            Kind::Integer { min: 1, max: 10_000 },
            Preset::Integer(2),
            "epochs of the personal phase",
        ),
    ),
    symbol(
        "η_G",
        key(
            "learning_rate",
            Kind::Above { min: 0.0, max: 1e3 },
            Preset::Number(0.05),
            "learning rate of the shared phase",
        ),
    ),
    symbol(
        "η_p",
        key(
            "personal_learning_rate",
            Kind::Above { min: 0.0, max: 1e3 },
            Preset::Unset,
            "learning rate of the personal phase; unset: learning_rate",
        ),
    ),
    key(
        "decay",
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Number(1.0),
        "factor on both learning rates from round to round",
    ),
    key(
        "momentum",
        Kind::Number { min: 0.0, max: 0.999_999 },
        Preset::Number(0.0),
        "momentum of SGD; every phase starts at rest",
    ),
    key(
        "weight_decay",
        Kind::Number { min: 0.0, max: 1e3 },
        Preset::Number(0.0),
        "weight decay of SGD",
    ),
    key(
        "clip",
        Kind::Above { min: 0.0, max: 1e9 },
        Preset::Unset,
        "largest norm of a gradient; unset: no clipping",
    ),
    key(
        "cost",
        Kind::Number { min: 0.001, max: 1e6 },
        Preset::Number(1.0),
        "device time of a sample in the shared phase, in units of plain training; `formant devices` measures it",
    ),
    key(
        "personal_cost",
        Kind::Number { min: 0.001, max: 1e6 },
        Preset::Number(1.0),
        "the same of the personal phase",
    ),
];

/// The one key of the section that all methods share.
pub(crate) const PARTICIPATION: &str = "participation";

/// The section: who trains, and how.
#[derive(Serialize, Deserialize)]
pub(crate) struct Train {
    pub(crate) participation: f64,
    #[serde(flatten)]
    pub(crate) training: Training,
}

/// How clients train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Samples in a training step.
    pub batch: usize,
    /// `E_G`: epochs of the shared phase.
    pub epochs: usize,
    /// `E_p`: epochs of the personal phase.
    pub personal_epochs: usize,
    /// `η_G`: learning rate of the shared phase.
    pub learning_rate: f64,
    /// `η_p`: learning rate of the personal phase; without it, that of the shared phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personal_learning_rate: Option<f64>,
    /// Factor on both learning rates from round to round.
    pub decay: f64,
    /// Momentum of SGD; every phase starts at rest.
    pub momentum: f64,
    /// Weight decay of SGD.
    pub weight_decay: f64,
    /// Largest norm of a gradient, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Device time of a sample in the shared phase, in units of plain training.
    pub cost: f64,
    /// The same of the personal phase.
    pub personal_cost: f64,
}

impl Default for Training {
    fn default() -> Self {
        SECTION.defaults::<Train>().training
    }
}

impl Training {
    /// The shared phase over all rounds.
    pub(crate) fn shared(&self) -> PhasePlan {
        let first = self.phase(self.epochs, self.learning_rate);
        PhasePlan { first, decay: self.decay, cost: self.cost }
    }

    /// The personal phase over all rounds.
    pub(crate) fn personal(&self) -> PhasePlan {
        let rate = self.personal_learning_rate.unwrap_or(self.learning_rate);
        let first = self.phase(self.personal_epochs, rate);
        PhasePlan { first, decay: self.decay, cost: self.personal_cost }
    }

    fn phase(&self, epochs: usize, rate: f64) -> PhaseSettings {
        PhaseSettings {
            epochs,
            batch: self.batch,
            sgd: Sgd {
                learning_rate: rate as f32,
                momentum: self.momentum as f32,
                weight_decay: self.weight_decay as f32,
                clip: self.clip.map(|norm| norm as f32),
            },
            augment: Augmentation::NONE,
        }
    }
}
