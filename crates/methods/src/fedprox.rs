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

use crate::entry::{Degenerate, Entry};
use crate::fedavg::Generic;
use crate::schema::{Default, Key, Kind};
use crate::{Central, FedAvg, Local, Method, MethodError, Uploads};
use formant_numerics::{Model, Part, Proximal};
use serde::Deserialize;
use std::borrow::Cow;

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
    degenerate: &[Degenerate { values: &[("mu", 0.0)], becomes: "FedAvg" }],
    ..Entry::of::<FedProx>(include_str!("fedprox.rs"))
};

impl Method for FedProx {
    type Server = Generic;
    type Client = ();
    type Broadcast = Model;
    type Upload = Model;

    fn start_server(&self, init: &Model) -> Generic {
        FedAvg {}.start_server(init)
    }

    fn start_client(&self, _init: &Model) {}

    fn broadcast(&self, server: &Generic) -> Model {
        server.w.clone()
    }

    fn train_shared(
        &self,
        _client: &mut (),
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        if self.mu == 0.0 {
            return FedAvg {}.train_shared(&mut (), got, local);
        }
        let (mut w, mut pull) = (got.clone(), Proximal { anchor: &got.parameters });
        local.sgd(&mut w, local.epochs(), Part::All, &mut [(self.mu, &mut pull)])?;
        Ok(w)
    }

    fn aggregate(
        &self,
        server: &mut Generic,
        uploads: Uploads<'_, Model>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        FedAvg {}.aggregate(server, uploads, central)
    }

    fn global_model<'a>(&self, server: &'a Generic) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.w))
    }

    fn personal_model<'a>(
        &self,
        _client: &'a (),
        got: &'a Model,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(got))
    }
}
