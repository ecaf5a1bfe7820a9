//! FedRep.
//!
//! Collins, Hassani, Mokhtari, Shakkottai: *Exploiting Shared Representations for Personalized
//! Federated Learning*, ICML 2021.
//!
//! With a body `φ` that is shared and a head `h_i` that is not:
//!
//! - client, from the received `φ` and its own `h_i`: `E_h` epochs of SGD on `f_i` by `h_i` with `φ`
//!   frozen, then `E_G` epochs by `φ_i` with `h_i` frozen; `φ_i` is uploaded
//! - server: `φ ← Σ n_i φ_i / Σ n_i`
//!
//! PM = `(φ, h_i)`: the shared body with the client's own head. There is no generic model: tables
//! score the average of all PMs, in parentheses. A head never leaves its client.
//!
//! Departures: the mean weighs by samples, as in FedAvg; the paper's is plain. Batch-norm statistics
//! belong to the body and follow both phases of training.

use crate::entry::Entry;
use crate::schema::{Default, Key, Kind};
use crate::{Central, Local, Method, MethodError, State, Uploads, weighted_mean};
use formant_numerics::{Model, Network, Part, floats};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// FedRep's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedRep {
    /// `E_h`: epochs of the head.
    pub head_epochs: usize,
}

const KEYS: &[Key] = &[Key {
    name: "head_epochs",
    symbol: "τ",
    kind: Kind::Integer { min: 1, max: 1000 },
    default: Default::Integer(5),
    help: "epochs of a client's head, before the body's train.epochs",
}];

/// FedRep in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedrep",
    title: "FedRep",
    summary: "a shared body and a head of each client's own, trained in turns",
    citation: "Collins et al., ICML 2021",
    generic: false,
    personal: true,
    needs_body: true,
    keys: KEYS,
    ..Entry::of::<FedRep>(include_str!("fedrep.rs"))
};

/// The shared body, or before the first round the whole initial model, from which it is taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Body {
    /// `φ` with its statistics; what lies behind it is the initial head, which nobody trains.
    pub w: Model,
}

impl State for Body {}

/// A head that stays with its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnHead {
    /// `h_i`; empty until the client first trains.
    #[serde(with = "floats")]
    pub head: Vec<f32>,
}

impl State for OwnHead {}

impl Method for FedRep {
    type Server = Body;
    type Client = OwnHead;
    type Broadcast = Model;
    type Upload = Model;

    fn start_server(&self, init: &Model) -> Body {
        Body { w: init.clone() }
    }

    fn start_client(&self, _init: &Model) -> OwnHead {
        OwnHead { head: Vec::new() }
    }

    fn broadcast(&self, server: &Body) -> Model {
        server.w.clone()
    }

    fn train_shared(
        &self,
        client: &mut OwnHead,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut model = joined(client, got, local);
        local.sgd(&mut model, self.head_epochs, Part::Head, &mut [])?;
        let layout = local.network().layout();
        client.head = model.parameters[layout.range(Part::Head)].to_vec();
        local.sgd(&mut model, local.epochs(), Part::Body, &mut [])?;
        model.parameters.truncate(layout.range(Part::Body).end);
        Ok(model)
    }

    fn shared_work(&self, samples: usize, epochs: usize) -> usize {
        samples * (self.head_epochs + epochs)
    }

    fn upload_lengths(&self, got: &Model, network: &dyn Network) -> Vec<usize> {
        vec![network.layout().range(Part::Body).end, got.buffers.len()]
    }

    fn aggregate(
        &self,
        server: &mut Body,
        uploads: Uploads<'_, Model>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        average_bodies(&mut server.w, uploads, central)
    }

    fn global_model<'a>(&self, _server: &'a Body) -> Option<Cow<'a, Model>> {
        None
    }

    fn personal_model<'a>(
        &self,
        client: &'a OwnHead,
        got: &'a Model,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Owned(joined(client, got, local)))
    }
}

/// The received body with the client's own head.
fn joined(client: &OwnHead, got: &Model, local: &Local<'_>) -> Model {
    let mut model = got.clone();
    if !client.head.is_empty() {
        model.parameters[local.network().layout().range(Part::Head)].copy_from_slice(&client.head);
    }
    model
}

/// `φ ← Σ n_i φ_i / Σ n_i` over uploads that are bodies; what lies behind `φ` stays as it is.
pub(crate) fn average_bodies(
    w: &mut Model,
    uploads: Uploads<'_, Model>,
    central: &Central<'_>,
) -> Result<(), MethodError> {
    let body = central.network.layout().range(Part::Body);
    let like =
        Model { parameters: w.parameters[body.clone()].to_vec(), buffers: w.buffers.clone() };
    let mean = weighted_mean(uploads, &like, |body| body)?;
    w.parameters[body].copy_from_slice(&mean.parameters);
    w.buffers = mean.buffers;
    Ok(())
}
