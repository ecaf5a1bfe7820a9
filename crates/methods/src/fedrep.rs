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
//! A newcomer trains a head of its own on the body that it gets, which stays as it is.
//!
//! Departures: the mean weighs by samples, as in FedAvg; the paper's is plain. Batch-norm statistics
//! belong to the body and follow both phases of training.

use crate::schema::{Default, Key, Kind};
use crate::{
    Averaging, Entry, Hints, Local, MethodError, Moment, Newcomer, Passes, Shared, State, Training,
};
use formant_numerics::{Model, Part, floats};
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

/// A head that stays with its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OwnHead {
    /// `h_i`; empty until the client first trains.
    #[serde(with = "floats")]
    pub head: Vec<f32>,
}

impl State for OwnHead {
    fn start(_init: &Model) -> Self {
        Self { head: Vec::new() }
    }
}

impl Averaging for FedRep {
    type Client = OwnHead;

    fn train_shared(
        &self,
        client: &mut OwnHead,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut model = joined(client, got, local);
        let head = Training { epochs: self.head_epochs, part: Part::Head, ..local.training() };
        local.train(&mut model, head)?;
        client.head = model.parameters[local.network().layout().range(Part::Head)].to_vec();
        local.train(&mut model, Training { part: Part::Body, ..local.training() })?;
        Ok(model)
    }

    fn shared(&self) -> Shared {
        Shared::Body
    }

    fn personal_model<'a>(
        &self,
        client: &'a OwnHead,
        got: &'a Model,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Owned(joined(client, got, local)))
    }

    fn newcomer<'a>(&self, got: &'a Model) -> Newcomer<'a> {
        // The body is the others': a head of its own is all that a newcomer has to learn.
        Newcomer::Part { of: got, part: Part::Head }
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints { shared: Passes { besides: self.head_epochs, ..Passes::EPOCHS }, ..Hints::default() }
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
