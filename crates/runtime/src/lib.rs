//! Drivers of federated training: the parallel simulator, client stores, checkpoints, recorder.

mod checkpoint;
mod error;
pub mod event;
pub mod files;
mod plan;
mod recorder;
mod resumption;
pub mod sim;
mod store;
mod sync;

pub use checkpoint::{CHECKPOINT_FILE, Checkpoint};
pub use error::RuntimeError;
pub use plan::{Evaluation, MethodPlan, PhasePlan, RunPlan};
pub use recorder::{EVENTS_FILE, Observer, Quiet};
pub use resumption::first_difference;
