//! The [`Method`] trait and the zoo, one file per paper. No clock, no threads, no I/O.

mod ditto;
mod erased;
mod error;
mod fedavg;
mod local;
mod local_only;
mod method;
mod scd;
pub mod schema;
mod zoo;

pub use ditto::Ditto;
pub use erased::{ErasedMethod, Parcel, Value};
pub use error::MethodError;
pub use fedavg::FedAvg;
pub use local::{Central, Local, Meter, PhaseSettings, Step};
pub use local_only::LocalOnly;
pub use method::{Message, Method, State, Upload, Uploads, weighted_mean};
pub use scd::Scd;
pub use zoo::{Entry, ZOO, build, entry};
