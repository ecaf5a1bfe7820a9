//! From a TOML file to a validated [`Experiment`] to a wired run.
//!
//! Parsed, not validated: whatever leaves this crate is complete and in range. Unknown keys are
//! refused with the nearest known one, and so is a setting that would silently do nothing.

mod combination;
mod error;
mod experiment;
pub mod keys;
mod overrides;
mod room;
mod rules;
mod template;
pub mod units;
mod wire;

pub use error::ExperimentError;
pub use experiment::{Experiment, MethodSetting};
pub use overrides::{Override, choose_methods};
pub use template::template;

/// The experiment that `formant run` executes without arguments.
pub const QUICKSTART: &str = include_str!("quickstart.toml");

/// The experiment that `formant speedup` runs without a file: the paper's communication table at desk
/// scale.
pub const SPEEDUP: &str = include_str!("speedup.toml");
