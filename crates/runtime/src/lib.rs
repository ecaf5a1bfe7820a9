//! Drivers of federated training: the parallel simulator, client stores, checkpoints, recorder.

mod checkpoint;
mod error;
pub mod event;
pub mod files;
mod keep;
mod pace;
mod plan;
mod profile;
mod recorder;
mod resumption;
pub mod sim;
mod store;
mod sync;
mod work;

pub use checkpoint::{CHECKPOINT_FILE, Checkpoint};
pub use error::RuntimeError;
pub use keep::{Keep, Kept};
pub use pace::{Pace, Pacer, median_client};
pub use plan::{Evaluation, MethodPlan, PhasePlan, RunPlan};
pub use profile::{Equipment, Profile, Way};
pub use recorder::{EVENTS_FILE, Observer, Quiet};
pub use resumption::first_difference;
pub use work::{Desk, EVALUATION_BATCH, Hand, PhaseRecord, score};
