//! FedAvg.
//!
//! McMahan, Moore, Ramage, Hampson, Agüera y Arcas: *Communication-Efficient Learning of Deep
//! Networks from Decentralized Data*, AISTATS 2017.
//!
//! - client: `w_i ← E_G epochs of SGD on f_i from w`
//! - server: `w ← Σ n_i w_i / Σ n_i`
//!
//! GM = `w`. There is no personal model: tables score `w` on the local test sets, in parentheses.
//!
//! Departures: none. Batch-norm statistics are averaged like parameters.

use crate::{Averaging, Entry};
use serde::Deserialize;

/// FedAvg has no hyper-parameter of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedAvg {}

/// FedAvg in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedavg",
    title: "FedAvg",
    summary: "local SGD from the global model, averaged by sample counts",
    citation: "McMahan et al., AISTATS 2017",
    ..Entry::of::<FedAvg>(include_str!("fedavg.rs"))
};

// Both phases are what `Averaging` does unless told otherwise.
impl Averaging for FedAvg {
    type Client = ();
}
