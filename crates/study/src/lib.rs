//! Studies: questions that one run does not answer.
//!
//! A [`Sweep`] tries all combinations of a [`Grid`] on the validation split and [`rank`] puts them in order.
//! A [`Tuning`] searches for the settings of every method with one budget, and says whether its winners are inside.
//! A [`Speedup`] runs an experiment under both schedules and compares the time to a target accuracy
//! ([`time_to_target`]). [`measure`] says how fast this machine trains each method, for the virtual clock.
//! A [`Reproduction`] is one of the paper's tables or figures, made by a [`Preset`].
//! [`MethodModels`] are looked at for what spectra of personal and generic models have in common.
//! A [`Series`] is one experiment with several seeds; [`inventory`] lists what a folder holds of all this.
//! All of them start from a [`Draft`], keep in a folder what they have computed, and go on from it when they
//! are asked again. Nothing here prints: whoever wants to follow a study hands it an [`Observer`].

mod divided;
mod draft;
mod error;
mod grid;
mod inventory;
mod observer;
mod pace;
mod ranking;
mod reproduce;
mod results;
mod series;
mod spectra;
mod speedup;
mod sweep;
mod target;
mod tune;

pub use draft::Draft;
pub use error::StudyError;
pub use grid::{Combination, Grid};
pub use inventory::{Best, Kind, Listed, State, inventory};
pub use observer::{Observer, Silent};
pub use pace::{DeviceFigures, Effort, MethodFigures, PLAIN, measure};
pub use ranking::{Rank, Ranked, Score, rank};
pub use reproduce::{
    Ended, Estimate, PRESETS, Part, Preset, Reproduction, Request, Scale, Shard, results_of,
    write_results,
};
pub use series::{
    SERIES_FILE, Seeds, Series, SeriesData, run_folders, series_folders, series_logs,
};
pub use spectra::{Control, Figures, Looked, MethodModels, Seen, Side, SpectraEffort};
pub use speedup::{Comparison, Gain, Speedup};
pub use sweep::{Job, Sweep};
pub use target::{Reached, Targets, time_to_target};
pub use tune::{Ending, Open, Search, TuneRequest, Tuned, Tuning, Why, Winner};
