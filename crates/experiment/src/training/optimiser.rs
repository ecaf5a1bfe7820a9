//! The keys of the optimiser.

use super::fill;
use formant_numerics::Rule;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The key that chooses.
pub(super) const KEY: &str = "optimiser";
pub(super) const SGD: &str = "sgd";
const ADAM: &str = "adam";
const ADAMW: &str = "adamw";
pub(super) const WORDS: &[&str] = &[SGD, ADAM, ADAMW];
pub(super) const MOMENTUM: &str = "momentum";
pub(super) const NESTEROV: &str = "nesterov";
pub(super) const BETA1: &str = "beta1";
pub(super) const BETA2: &str = "beta2";
pub(super) const EPSILON: &str = "epsilon";
pub(super) const WEIGHT_DECAY: &str = "weight_decay";

/// What becomes of a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "optimiser", rename_all = "lowercase")]
pub enum Optimiser {
    /// Stochastic gradient descent.
    Sgd {
        /// `μ`: share of the velocity that is kept.
        momentum: f64,
        /// Whether the momentum is Nesterov's.
        nesterov: bool,
    },
    /// Adam, with the weight decay as a part of the gradient.
    Adam(Moments),
    /// Adam, with the weight decay apart from it.
    AdamW(Moments),
}

/// How Adam averages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// `β₁`: share of the mean gradient that is kept.
    pub beta1: f64,
    /// `β₂`: share of the mean square that is kept.
    pub beta2: f64,
    /// `ε`: what is added to the root of the mean square.
    pub epsilon: f64,
}

/// As published.
impl Default for Moments {
    fn default() -> Self {
        let formant_numerics::Moments { mean, square, epsilon } = Default::default();
        Self { beta1: mean, beta2: square, epsilon }
    }
}

impl Moments {
    fn settings(self) -> formant_numerics::Moments {
        let Self { beta1, beta2, epsilon } = self;
        formant_numerics::Moments { mean: beta1, square: beta2, epsilon }
    }
}

impl Optimiser {
    pub(super) fn rule(&self) -> Rule {
        match *self {
            Self::Sgd { momentum, nesterov } => Rule::Sgd { momentum: momentum as f32, nesterov },
            Self::Adam(moments) => Rule::Adam(moments.settings()),
            Self::AdamW(moments) => Rule::AdamW(moments.settings()),
        }
    }
}

/// The optimisers for which a key means something.
pub(super) fn owners(key: &str) -> Option<Vec<&'static str>> {
    match key {
        MOMENTUM | NESTEROV => Some(vec![SGD]),
        BETA1 | BETA2 | EPSILON => Some(vec![ADAM, ADAMW]),
        _ => None,
    }
}

/// Fills in what suits the optimiser.
pub(super) fn complete(train: &mut Table) {
    let chosen = train.get(KEY).and_then(Value::as_str);
    let is_sgd = chosen == Some(SGD);
    let (rate, decay) = match chosen {
        Some(ADAM) => (0.001, 0.0),
        // PyTorch's.
        Some(ADAMW) => (0.001, 0.01),
        _ => (0.05, 0.0),
    };
    fill(train, [("learning_rate", Value::Float(rate)), (WEIGHT_DECAY, Value::Float(decay))]);
    if is_sgd {
        fill(train, [(MOMENTUM, Value::Float(0.0)), (NESTEROV, Value::Boolean(false))]);
    } else {
        let Moments { beta1, beta2, epsilon } = Moments::default();
        let presets = [(BETA1, beta1), (BETA2, beta2), (EPSILON, epsilon)];
        fill(train, presets.map(|(key, value)| (key, Value::Float(value))));
    }
}
