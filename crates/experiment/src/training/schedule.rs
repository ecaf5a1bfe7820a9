//! The keys of the schedule of learning rates.

use super::fill;
use formant_runtime::Curve;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The key that chooses.
pub(super) const KEY: &str = "schedule";
const CONSTANT: &str = "constant";
pub(super) const EXPONENTIAL: &str = "exponential";
const STEP: &str = "step";
const COSINE: &str = "cosine";
pub(super) const WORDS: &[&str] = &[CONSTANT, EXPONENTIAL, STEP, COSINE];
pub(super) const DECAY: &str = "decay";
pub(super) const STEP_EVERY: &str = "step_every";
pub(super) const FLOOR: &str = "floor";

/// A curve as keys beside each other.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Curve", tag = "schedule", rename_all = "lowercase")]
pub(super) enum CurveKeys {
    Constant,
    Exponential { decay: f64 },
    Step { decay: f64, step_every: usize },
    Cosine { floor: f64 },
}

/// The schedules for which a key means something.
pub(super) fn owners(key: &str) -> Option<Vec<&'static str>> {
    match key {
        DECAY => Some(vec![EXPONENTIAL, STEP]),
        STEP_EVERY => Some(vec![STEP]),
        FLOOR => Some(vec![COSINE]),
        _ => None,
    }
}

/// Fills in what suits the schedule.
pub(super) fn complete(train: &mut Table) {
    match train.get(KEY).and_then(Value::as_str) {
        Some(EXPONENTIAL) => fill(train, [(DECAY, Value::Float(1.0))]),
        // The factor is PyTorch's.
        Some(STEP) => {
            fill(train, [(DECAY, Value::Float(0.1)), (STEP_EVERY, Value::Integer(10))]);
        }
        Some(COSINE) => fill(train, [(FLOOR, Value::Float(0.0))]),
        _ => {}
    }
}
