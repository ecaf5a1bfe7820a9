//! `[train]`: how clients train; a `[[method]]` may override any of it but who takes part.

mod loss;
mod optimiser;
mod schedule;

use crate::section::{Decision, Section, key, symbol};
use crate::{ExperimentError, Settings};
use formant_methods::PhaseSettings;
use formant_methods::schema::{Default as Preset, Key, Kind};
use formant_numerics::Augmentation;
use formant_runtime::{Curve, PhasePlan, RateSchedule};
pub use loss::ClassWeights;
pub use optimiser::{Moments, Optimiser};
use schedule::CurveKeys;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) const SECTION: Section = Section {
    complete,
    decisions: &[
        Decision { key: optimiser::KEY, owners: optimiser::owners },
        Decision { key: schedule::KEY, owners: schedule::owners },
    ],
    ..Section::new("train", "How clients train; a [[method]] may override any of these.", KEYS)
};

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
            Preset::Unset,
            "learning rate of the shared phase; unless set, 0.05, and 0.001 with adam and adamw",
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
        schedule::KEY,
        Kind::Choice(schedule::WORDS),
        Preset::Text(schedule::EXPONENTIAL),
        "how both learning rates go over the rounds: constant; exponential: times decay from round to round; step: times decay every step_every rounds; cosine: down to floor at the end of the run",
    ),
    key(
        schedule::DECAY,
        Kind::Above { min: 0.0, max: 1.0 },
        Preset::Unset,
        "factor of the exponential schedule, 1 unless set, and of the step schedule, 0.1 unless set",
    ),
    key(
        schedule::STEP_EVERY,
        Kind::Integer { min: 1, max: 1_000_000 },
        Preset::Unset,
        "rounds from one step of the step schedule to the next, 10 unless set",
    ),
    key(
        schedule::FLOOR,
        Kind::Number { min: 0.0, max: 1.0 },
        Preset::Unset,
        "share of the learning rates that the cosine goes down to, 0 unless set",
    ),
    key(
        "warmup",
        Kind::Integer { min: 0, max: 1_000_000 },
        Preset::Integer(0),
        "rounds in which the learning rates rise in equal steps, before the schedule begins",
    ),
    key(
        optimiser::KEY,
        Kind::Choice(optimiser::WORDS),
        Preset::Text(optimiser::SGD),
        "sgd, adam, or adamw (Adam whose weight decay is apart from the gradient); every phase starts at rest",
    ),
    symbol(
        "μ",
        key(
            optimiser::MOMENTUM,
            Kind::Number { min: 0.0, max: 0.999_999 },
            Preset::Unset,
            "momentum of sgd, 0 unless set",
        ),
    ),
    key(
        optimiser::NESTEROV,
        Kind::Flag,
        Preset::Unset,
        "whether the momentum of sgd is Nesterov's, false unless set",
    ),
    symbol(
        "β₁",
        key(
            optimiser::BETA1,
            Kind::Number { min: 0.0, max: 0.999_999 },
            Preset::Unset,
            "share of the mean gradient that adam and adamw keep, 0.9 unless set",
        ),
    ),
    symbol(
        "β₂",
        key(
            optimiser::BETA2,
            Kind::Number { min: 0.0, max: 0.999_999 },
            Preset::Unset,
            "share of the mean square that adam and adamw keep, 0.999 unless set",
        ),
    ),
    symbol(
        "ε",
        key(
            optimiser::EPSILON,
            Kind::Above { min: 0.0, max: 1.0 },
            Preset::Unset,
            "what adam and adamw add to the root of the mean square, 1e-8 unless set",
        ),
    ),
    key(
        optimiser::WEIGHT_DECAY,
        Kind::Number { min: 0.0, max: 1e3 },
        Preset::Unset,
        "weight decay; unless set, 0, and 0.01 with adamw",
    ),
    key(
        "clip",
        Kind::Above { min: 0.0, max: 1e9 },
        Preset::Unset,
        "largest norm of a gradient; unset: no clipping",
    ),
    key(
        "label_smoothing",
        Kind::Number { min: 0.0, max: 0.99 },
        Preset::Number(0.0),
        "share of a label that is spread over all classes, in training alone",
    ),
    key(
        "class_weights",
        Kind::Numbers { word: loss::BALANCED },
        Preset::Unset,
        "what a sample counts for in training, by its class; balanced: each client's classes count the same; unset: all samples do",
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
    /// How both learning rates go over the rounds.
    #[serde(flatten, with = "CurveKeys")]
    pub schedule: Curve,
    /// Rounds in which they rise before.
    pub warmup: usize,
    /// What becomes of a gradient; every phase starts at rest.
    #[serde(flatten)]
    pub optimiser: Optimiser,
    /// Weight decay.
    pub weight_decay: f64,
    /// Largest norm of a gradient, if there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Share of a label that is spread over all classes.
    pub label_smoothing: f64,
    /// What a sample counts for, by its class; without, all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
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
        self.phase(self.epochs, self.learning_rate, self.cost)
    }

    /// The personal phase over all rounds.
    pub(crate) fn personal(&self) -> PhasePlan {
        let rate = self.personal_learning_rate.unwrap_or(self.learning_rate);
        self.phase(self.personal_epochs, rate, self.personal_cost)
    }

    fn phase(&self, epochs: usize, rate: f64, cost: f64) -> PhasePlan {
        let base = PhaseSettings {
            epochs,
            batch: self.batch,
            optimiser: formant_numerics::Optimiser {
                learning_rate: rate as f32,
                weight_decay: self.weight_decay as f32,
                clip: self.clip.map(|norm| norm as f32),
                rule: self.optimiser.rule(),
            },
            label_smoothing: self.label_smoothing as f32,
            class_weights: ClassWeights::settings(self.class_weights.as_ref()),
            augment: Augmentation::NONE,
        };
        let schedule = RateSchedule { warmup: self.warmup, curve: self.schedule };
        PhasePlan { base, schedule, cost }
    }

    /// Refuses what does not go together.
    fn check(&self, rounds: usize) -> Result<(), ExperimentError> {
        if matches!(self.optimiser, Optimiser::Sgd { momentum: 0.0, nesterov: true }) {
            return Err(ExperimentError::combination(
                "`train.nesterov = true` does nothing with `train.momentum = 0`",
                "set train.momentum, e.g. to 0.9, or remove train.nesterov",
            ));
        }
        if self.warmup >= rounds {
            return Err(ExperimentError::combination(
                format!(
                    "`train.warmup = {}` leaves none of `rounds = {rounds}` at the full learning rate",
                    self.warmup
                ),
                "set train.warmup below rounds",
            ));
        }
        Ok(())
    }
}

/// Refuses training that cannot be meant.
pub(crate) fn check(settings: &Settings) -> Result<(), ExperimentError> {
    let own = settings.methods.iter().filter_map(|method| method.training.as_ref());
    let mut all = core::iter::once(&settings.training).chain(own);
    all.try_for_each(|training| training.check(settings.rounds))
}

/// Refuses weights that are not one for each of so many classes.
pub(crate) fn check_classes(settings: &Settings, classes: usize) -> Result<(), ExperimentError> {
    let own = settings.methods.iter().filter_map(|method| method.training.as_ref());
    for training in core::iter::once(&settings.training).chain(own) {
        if let Some(ClassWeights::Given(weights)) = &training.class_weights
            && weights.len() != classes
        {
            return Err(ExperimentError::combination(
                format!(
                    "`train.class_weights` has {} numbers, and the dataset {classes} classes",
                    weights.len()
                ),
                "give one number for each class, in the order of the labels, or \"balanced\"",
            ));
        }
    }
    Ok(())
}

/// Fills in what suits the optimiser and the schedule, so that the resolved experiment says it.
fn complete(train: &mut Table) {
    optimiser::complete(train);
    schedule::complete(train);
}

/// Fills in the keys that are not set.
fn fill<const N: usize>(train: &mut Table, presets: [(&str, Value); N]) {
    for (key, value) in presets {
        train.entry(key).or_insert(value);
    }
}
