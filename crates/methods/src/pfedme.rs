//! pFedMe.
//!
//! Dinh, Tran, Nguyen: *Personalized Federated Learning with Moreau Envelopes*, NeurIPS 2020.
//!
//! - client, for each batch of `E_G` epochs, from `w_i = w`: `K` times
//!   `θ_i ← θ_i − η_p(∇f_i(θ_i) + λ(θ_i − w_i))` on that batch, then `w_i ← w_i − ηλ(w_i − θ_i)`
//! - server: `w ← (1 − β)w + β Σ n_i w_i / Σ n_i`
//!
//! GM = `w`, PM = `θ_i`, which is kept from round to round and is never the same storage as `w_i`.
//! `λ = 0` cuts all ties: `w` stays where it began, and with `K = 1` `θ_i` is Local's, trained in the shared phase at the rate `η_p`.
//!
//! Departures: the learning rates are this method's own (`eta`, `eta_p`), as in the paper; those of
//! the experiment and its momentum are not used, its weight decay and clipping are. Batch-norm statistics of `w_i`
//! are those of `θ_i`, the only model of the two that sees data, and the server's are the mean's,
//! whatever `β` is. The mean weighs by samples.

use crate::entry::{Degenerate, Entry};
use crate::fedavg::Generic;
use crate::local_only::Personal;
use crate::schema::{Default, Key, Kind};
use crate::{Central, FedAvg, Local, Method, MethodError, Uploads, weighted_mean};
use formant_numerics::{CrossEntropy, Model, Part, Proximal, Sgd, Term};
use serde::Deserialize;
use std::borrow::Cow;

/// pFedMe's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PFedMe {
    /// `λ`: tie between the personal model and the client's copy.
    pub lambda: f32,
    /// `K`: personal steps a batch.
    pub steps: usize,
    /// `η`: learning rate of the client's copy.
    pub eta: f32,
    /// `η_p`: learning rate of the personal model.
    pub eta_p: f32,
    /// `β`: how far the server goes towards the mean.
    pub beta: f64,
}

const KEYS: &[Key] = &[
    Key {
        name: "lambda",
        symbol: "λ",
        kind: Kind::Number { min: 0.0, max: 1e9 },
        default: Default::Number(15.0),
        help: "tie between the personal model and the client's copy of the generic one",
    },
    Key {
        name: "steps",
        symbol: "K",
        kind: Kind::Integer { min: 1, max: 1000 },
        default: Default::Integer(5),
        help: "steps of the personal model on each batch",
    },
    Key {
        name: "eta",
        symbol: "η",
        kind: Kind::Above { min: 0.0, max: 100.0 },
        default: Default::Number(0.005),
        help: "learning rate of the client's copy, in place of train.learning_rate",
    },
    Key {
        name: "eta_p",
        symbol: "η_p",
        kind: Kind::Above { min: 0.0, max: 100.0 },
        default: Default::Number(0.09),
        help: "learning rate of the personal model, in place of train.learning_rate",
    },
    Key {
        name: "beta",
        symbol: "β",
        kind: Kind::Above { min: 0.0, max: 10.0 },
        default: Default::Number(1.0),
        help: "how far the server goes towards the mean of the copies",
    },
];

/// PFedMe in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "pfedme",
    title: "pFedMe",
    summary: "personal models at the bottom of Moreau envelopes around the generic one",
    citation: "Dinh et al., NeurIPS 2020",
    personal: true,
    keys: KEYS,
    degenerate: &[Degenerate {
        values: &[("lambda", 0.0)],
        becomes: "Local with several steps on each batch, and its generic model never moves",
    }],
    ..Entry::of::<PFedMe>(include_str!("pfedme.rs"))
};

impl Method for PFedMe {
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
        client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let theta = &mut client.theta;
        let mut w = got.clone();
        let sgd = Sgd { learning_rate: self.eta_p, momentum: 0.0, ..local.optimiser() };
        let pull = self.eta * self.lambda;
        local.for_each_batch(local.epochs(), |step| {
            for _ in 0..self.steps {
                let mut tie = Proximal { anchor: &w.parameters };
                let terms: &mut [(f32, &mut dyn Term)] = &mut [(self.lambda, &mut tie)];
                step.descend_on(theta, (&sgd, Part::All), &mut CrossEntropy, terms)?;
            }
            for (w, theta) in w.parameters.iter_mut().zip(&theta.parameters) {
                *w -= pull * (*w - theta);
            }
            Ok(())
        })?;
        w.buffers.clone_from(&theta.buffers);
        local.check(theta)?;
        local.check(&w)?;
        Ok(w)
    }

    fn shared_work(&self, samples: usize, epochs: usize) -> usize {
        samples * epochs * self.steps
    }

    fn aggregate(
        &self,
        server: &mut Generic,
        uploads: Uploads<'_, Model>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let mean = weighted_mean(uploads, &server.w, |w| w)?;
        server.w.buffers = mean.buffers;
        for (w, mean) in server.w.parameters.iter_mut().zip(mean.parameters) {
            // The mean itself where β = 1, to the last bit.
            let rest = (1.0 - self.beta) * (f64::from(*w) - f64::from(mean));
            *w = (f64::from(mean) + rest) as f32;
        }
        Ok(())
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
