//! The [`Method`] trait and the zoo, one file per paper. No clock, no threads, no I/O.

mod ditto;
mod erased;
mod error;
mod fedavg;
mod fedavgm;
mod fedbabu;
mod feddyn;
mod fedgen;
mod fedprox;
mod fedrep;
mod fedrod;
mod local;
mod local_only;
mod method;
mod pfedme;
mod scd;
pub mod schema;
mod zoo;

pub use ditto::Ditto;
pub use erased::{ErasedMethod, Parcel, Value};
pub use error::MethodError;
pub use fedavg::FedAvg;
pub use fedavgm::FedAvgM;
pub use fedbabu::FedBabu;
pub use feddyn::FedDyn;
pub use fedgen::{FedGen, Taught};
pub use fedprox::FedProx;
pub use fedrep::FedRep;
pub use fedrod::FedRod;
pub use local::{Central, Local, Meter, Patience, PhaseSettings, Step};
pub use local_only::LocalOnly;
pub use method::{Message, Method, State, Upload, Uploads, weighted_mean};
pub use pfedme::PFedMe;
pub use scd::Scd;
pub use zoo::{ALLOW_DEGENERATE, Entry, ZOO, build, degenerate, entry};
