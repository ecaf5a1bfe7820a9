//! Drivers of federated training: the parallel simulator, client stores, checkpoints, recorder.

mod aggregator;
mod checkpoint;
mod error;
pub mod event;
mod event_log;
pub mod executor;
pub mod files;
mod keep;
mod memory;
mod pace;
mod plan;
mod profile;
pub mod quantity;
mod rate;
mod recorder;
mod resumption;
pub mod seal;
pub mod sim;
mod store;
mod sync;
mod work;

pub use aggregator::{Aggregator, Arrival, OlderBroadcasts};
pub use checkpoint::{CHECKPOINT_FILE, Checkpoint};
pub use error::RuntimeError;
pub use event_log::{EVENTS_FILE, LogMark, Tail};
pub use keep::{Keep, Kept};
pub use memory::{Footprint, Load, available};
pub use pace::{Pace, Pacer, median_client};
pub use plan::{Evaluation, MethodPlan, PhasePlan, RunPlan, Scored, Task};
pub use profile::{Equipment, Profile, Way};
pub use rate::{Curve, RateSchedule};
pub use recorder::{Observer, Quiet, Recorder};
pub use resumption::first_difference;
pub use store::{Room, Stored};
pub use work::{Desk, Hand, Lasting, PhaseRecord};
