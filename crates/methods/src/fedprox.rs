//! FedProx.
//!
//! Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: *Federated Optimization in Heterogeneous Networks*,
//! MLSys 2020.
//!
//! - client: `w_i ← w_i − η(∇f_i(w_i) + μ(w_i − w))`, `E_G` epochs from `w`, with `w` the received
//!   model
//! - server: `w ← Σ n_i w_i / Σ n_i`
//!
//! GM = `w`. There is no personal model: tables score `w` on the local test sets, in parentheses.
//! `μ = 0` is FedAvg.
//!
//! Departures: the paper lets clients differ in how much they compute; here all make `E_G` epochs.

use crate::schema::{Default, Key, Kind};
use crate::{Averaging, Degenerate, Entry, Local, MethodError};
use formant_numerics::{Model, Term};
use serde::Deserialize;

/// FedProx's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedProx {
    /// `μ`: pull of a client's copy towards the received model.
    pub mu: f32,
}

const KEYS: &[Key] = &[Key {
    name: "mu",
    symbol: "μ",
    kind: Kind::Number { min: 0.0, max: 1e9 },
    default: Default::Number(0.01),
    help: "pull of a client's copy towards the received model",
}];

/// FedProx in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedprox",
    title: "FedProx",
    summary: "FedAvg with a proximal pull of each client's copy towards the received model",
    citation: "Li et al., MLSys 2020",
    keys: KEYS,
    degenerate: &[Degenerate::when(&[("mu", 0.0)], "FedAvg")],
    ..Entry::of::<FedProx>(include_str!("fedprox.rs"))
};

impl Averaging for FedProx {
    type Client = ();

    fn train_shared(
        &self,
        _client: &mut (),
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w = got.clone();
        local.sgd(&mut w, &[self.mu * Term::Proximal { anchor: &got.parameters }])?;
        Ok(w)
    }
}
