//! The [`Method`] trait and the zoo, one file per paper. No clock, no threads, no I/O.

mod averaging;
mod choice;
mod combine;
mod ditto;
mod entry;
mod erased;
mod error;
mod fedavg;
mod fedavg_ft;
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

pub use averaging::{Averaging, Generic, Personal, Shared};
pub use combine::{
    BySamples, Combine, Combining, Contribution, Equally, Judged, Judgement, Judgements, Mean,
    Needs, Receive, Round, Treatment, Uploads, Weigh, Weighing, WeightedAverage,
};
pub use ditto::Ditto;
pub use entry::{ALLOW_DEGENERATE, Build, Built, Degenerate, Entry, erase, erased};
pub use erased::{ErasedMethod, Parcel, Value};
pub use error::MethodError;
pub use fedavg::FedAvg;
pub use fedavg_ft::FedAvgFt;
pub use fedavgm::FedAvgM;
pub use fedbabu::FedBabu;
pub use feddyn::FedDyn;
pub use fedgen::{FedGen, Taught};
pub use fedprox::FedProx;
pub use fedrep::FedRep;
pub use fedrod::{FedRod, FedRodHypernetwork};
pub use local::{Central, ClassWeights, Loan, Local, PhaseSettings, Step, Training};
pub use local_only::LocalOnly;
pub use method::{Hints, Message, Method, Moment, Newcomer, Passes, State, Upload};
pub use pfedme::PFedMe;
pub use scd::Scd;
/// Hyper-parameters are tables of this version of `toml`.
pub use toml;
pub use zoo::Zoo;
