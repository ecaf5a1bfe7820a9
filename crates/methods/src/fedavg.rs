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

use crate::entry::Entry;
use crate::{Central, Local, Method, MethodError, State, Uploads, weighted_mean};
use formant_numerics::{Model, Part};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

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

/// The generic model between rounds; what Ditto and SCD keep on the server too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Generic {
    /// `w`.
    pub w: Model,
}

impl State for Generic {}

impl Method for FedAvg {
    type Server = Generic;
    type Client = ();
    type Broadcast = Model;
    type Upload = Model;

    fn start_server(&self, init: &Model) -> Generic {
        Generic { w: init.clone() }
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
        let mut w = got.clone();
        local.sgd(&mut w, local.epochs(), Part::All, &mut [])?;
        Ok(w)
    }

    fn aggregate(
        &self,
        server: &mut Generic,
        uploads: Uploads<'_, Model>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        server.w = weighted_mean(uploads, &server.w, |w| w)?;
        Ok(())
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
