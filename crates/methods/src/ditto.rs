//! Ditto.
//!
//! Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated Learning Through Personalization*, ICML 2021.
//!
//! - shared phase: `w_i ← E_G epochs of SGD on f_i from w`
//! - personal phase: `w_p ← w_p − η(∇f_i(w_p) + λ(w_p − w))`, with `w` the *received* model
//! - server: `w ← Σ n_i w_i / Σ n_i`
//!
//! GM = `w`, PM = `w_p`. `λ = 0` is Local; `λ → ∞` is `w`.
//!
//! Departures: none. Beyond the paper, with `blend = β` the personal model goes `w_p ← w_p + β (w − w_p)` before each
//! personal phase, as SCD's may; 0, the default, is Ditto.

use crate::schema::{Default, Key, Kind};
use crate::{Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Personal};
use formant_numerics::{Model, Part, Term};
use serde::Deserialize;

/// Ditto's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ditto {
    /// `λ`: pull of the personal model towards the received one.
    pub lambda: f32,
    /// `β`: how far the personal model goes towards the received one before it trains.
    pub blend: f32,
}

const KEYS: &[Key] = &[
    Key {
        name: "lambda",
        symbol: "λ",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: Default::Number(1.0),
        help: "pull of the personal model towards the received one (0 is purely local)",
    },
    Key {
        name: "blend",
        symbol: "β",
        kind: Kind::Number { min: 0.0, max: 1.0 },
        default: Default::Number(0.0),
        help: "before each personal phase, how far the personal model goes towards the received one (0 is the paper's)",
    },
];

pub(crate) const ENTRY: Entry = Entry {
    name: "ditto",
    title: "Ditto",
    summary: "FedAvg, and a personal model with a proximal pull towards the received one",
    citation: "Li et al., ICML 2021",
    personal: true,
    keys: KEYS,
    degenerate: &[
        Degenerate::when(&[("lambda", 0.0), ("blend", 0.0)], "FedAvg with Local beside it"),
        Degenerate::when(&[("lambda", 0.0), ("blend", 1.0)], "FedAvg with fine-tuning"),
    ],
    ..Entry::of::<Ditto>(include_str!("ditto.rs"))
};

impl Averaging for Ditto {
    type Client = Personal;

    fn train_personal(
        &self,
        client: &mut Personal,
        got: &Model,
        _sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        local.blend(&mut client.w_p, got, self.blend, Part::All);
        let pull = self.lambda * Term::Proximal { anchor: &got.parameters };
        local.sgd(&mut client.w_p, &[pull])
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints::with_personal_phase()
    }
}
