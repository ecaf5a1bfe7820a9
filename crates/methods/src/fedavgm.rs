//! FedAvgM.
//!
//! Hsu, Qi, Brown: *Measuring the Effects of Non-Identical Data Distribution for Federated Visual
//! Classification*, 2019 (arXiv:1909.06335).
//!
//! - client: FedAvg's
//! - server: `Δ = w − Σ n_i w_i / Σ n_i`, `v ← βv + Δ`, `w ← w − ηv`
//!
//! GM = `w`. There is no personal model: tables score `w` on the local test sets, in parentheses.
//! `β = 0` with `η = 1` is FedAvg.
//!
//! Departures: batch-norm statistics are averaged without momentum; a running variance that
//! overshoots could become negative.

use crate::schema::{Default, Key, Kind};
use crate::{
    Averaging, Central, Degenerate, Entry, FedAvg, Generic, Local, Mean, Method, MethodError, State,
};
use formant_numerics::{Model, floats};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// FedAvgM's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedAvgM {
    /// `β`: share of the velocity that is kept.
    pub beta: f64,
    /// `η`: the server's learning rate.
    pub eta: f64,
}

const KEYS: &[Key] = &[
    Key {
        name: "beta",
        symbol: "β",
        kind: Kind::Number { min: 0.0, max: 0.9999 },
        default: Default::Number(0.9),
        help: "share of the server's velocity that is kept from round to round",
    },
    Key {
        name: "eta",
        symbol: "η",
        kind: Kind::Above { min: 0.0, max: 100.0 },
        default: Default::Number(1.0),
        help: "the server's learning rate",
    },
];

/// FedAvgM in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedavgm",
    title: "FedAvgM",
    summary: "FedAvg with momentum on the server",
    citation: "Hsu et al., 2019",
    keys: KEYS,
    degenerate: &[Degenerate::when(&[("beta", 0.0), ("eta", 1.0)], "FedAvg")],
    ..Entry::of::<FedAvgM>(include_str!("fedavgm.rs"))
};

/// The generic model and how fast it moves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Moving {
    generic: Generic,
    /// `v`.
    #[serde(with = "floats")]
    velocity: Vec<f32>,
}

impl State for Moving {
    fn start(init: &Model) -> Self {
        Self { generic: Generic::start(init), velocity: vec![0.0; init.parameters.len()] }
    }
}

impl Method for FedAvgM {
    type Server = Moving;
    type Client = ();
    type Broadcast = Model;
    type Upload = Model;
    type Received<'a> = Mean<Model>;

    fn broadcast(&self, server: &Moving) -> Model {
        server.generic.w.clone()
    }

    fn train_shared(
        &self,
        client: &mut (),
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        Averaging::train_shared(&FedAvg {}, client, got, local)
    }

    fn aggregate(
        &self,
        server: &mut Moving,
        received: Mean<Model>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let (average, w) = (received.message, &mut server.generic.w);
        w.buffers = average.buffers;
        let moving = w.parameters.iter_mut().zip(&mut server.velocity);
        for ((w, v), average) in moving.zip(average.parameters) {
            let delta = f64::from(*w) - f64::from(average);
            let velocity = self.beta * f64::from(*v) + delta;
            // w − ηv with w = average + Δ, so that β = 0 and η = 1 give the average to the last bit.
            *w = (f64::from(average) + (delta - self.eta * velocity)) as f32;
            *v = velocity as f32;
        }
        Ok(())
    }

    fn global_model<'a>(&self, server: &'a Moving) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.generic.w))
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
