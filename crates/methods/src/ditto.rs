//! Ditto.
//!
//! Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated Learning Through Personalization*,
//! ICML 2021.
//!
//! - shared phase: `w_i ← E_G epochs of SGD on f_i from w`
//! - personal phase: `θ_i ← θ_i − η(∇f_i(θ_i) + λ(θ_i − w))`, with `w` the *received* model
//! - server: `w ← Σ n_i w_i / Σ n_i`
//!
//! GM = `w`, PM = `θ_i`. `λ = 0` is Local; `λ → ∞` is `w`.
//!
//! Departures: none.

use crate::entry::{Degenerate, Entry};
use crate::fedavg::Generic;
use crate::local_only::Personal;
use crate::schema::{Default, Key, Kind};
use crate::{Central, FedAvg, Local, Method, MethodError, Uploads};
use formant_numerics::{Model, Part, Proximal};
use serde::Deserialize;
use std::borrow::Cow;

/// Ditto's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ditto {
    /// `λ`: pull of the personal model towards the received one.
    pub lambda: f32,
}

const KEYS: &[Key] = &[Key {
    name: "lambda",
    symbol: "λ",
    kind: Kind::Number { min: 0.0, max: 1e9 },
    default: Default::Number(1.0),
    help: "pull of the personal model towards the received one (0 is purely local)",
}];

/// Ditto in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "ditto",
    title: "Ditto",
    summary: "FedAvg, and a personal model with a proximal pull towards the received one",
    citation: "Li et al., ICML 2021",
    personal: true,
    keys: KEYS,
    degenerate: &[Degenerate {
        values: &[("lambda", 0.0)],
        becomes: "FedAvg with Local beside it",
    }],
    ..Entry::of::<Ditto>(include_str!("ditto.rs"))
};

impl Method for Ditto {
    type Server = Generic;
    type Client = Personal;
    type Broadcast = Model;
    type Upload = Model;

    fn start_server(&self, init: &Model) -> Generic {
        FedAvg {}.start_server(init)
    }

    fn start_client(&self, init: &Model) -> Personal {
        Personal { theta: init.clone() }
    }

    fn broadcast(&self, server: &Generic) -> Model {
        server.w.clone()
    }

    fn train_shared(
        &self,
        _client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        FedAvg {}.train_shared(&mut (), got, local)
    }

    fn has_personal_phase(&self) -> bool {
        true
    }

    fn train_personal(
        &self,
        client: &mut Personal,
        got: &Model,
        _sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let mut pull = Proximal { anchor: &got.parameters };
        let terms: &mut [(f32, &mut dyn formant_numerics::Term)] =
            if self.lambda > 0.0 { &mut [(self.lambda, &mut pull)] } else { &mut [] };
        local.sgd(&mut client.theta, local.epochs(), Part::All, terms)
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
        client: &'a Personal,
        _got: &'a Model,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(&client.theta))
    }
}
