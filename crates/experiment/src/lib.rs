//! From a TOML file, or from Rust, to an [`Experiment`] to a wired run.
//!
//! Parsed, not validated: an [`Experiment`] is complete and in range, however it was made. Each section
//! of the file is a struct of [`Settings`], with its keys in the same file of this crate. Unknown keys are
//! refused with the nearest known one, and so is a setting that would silently do nothing.

mod attack;
mod augment;
mod combination;
mod data;
mod error;
mod evaluation;
mod experiment;
mod federation;
mod fleet;
mod method;
mod network;
mod one_method;
mod origin;
mod overrides;
mod privacy;
mod room;
mod runtime;
mod section;
mod settings;
mod suggestion;
mod template;
mod training;
pub mod units;
mod wire;

pub use attack::{AttackSetting, Attackers};
pub use data::Data;
pub use error::ExperimentError;
pub use evaluation::Evaluation;
pub use experiment::Experiment;
pub use federation::{Rules, Whose};
pub use fleet::{Devices, Links};
pub use method::MethodSetting;
pub use one_method::OneMethod;
pub use origin::Origin;
pub use overrides::{Override, choose_methods};
pub use privacy::{Privacy, Sampling, Strength};
pub use runtime::Runtime;
pub use section::{SECTIONS, Section};
pub use settings::Settings;
pub use suggestion::suggestion;
pub use template::template;
pub use training::{ClassWeights, Moments, Optimiser, Training};
pub use wire::Side;

/// The experiment that `formant run` executes without arguments.
pub const QUICKSTART: &str = include_str!("quickstart.toml");

/// The experiment that `formant speedup` runs without a file: the paper's communication table at desk
/// scale.
pub const SPEEDUP: &str = include_str!("speedup.toml");
