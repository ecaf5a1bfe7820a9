//! APFL.
//!
//! Deng, Kamani, Mahdavi: *Adaptive Personalized Federated Learning*, 2020 (arXiv:2003.13461).
//!
//! With a personal part `v_i` that never leaves its client, and the mixture
//! `v̄_i = α v_i + (1 − α) w_i`:
//!
//! - shared phase: `w_i ← E_G epochs of SGD on f_i from w`
//! - personal phase: `v_i ← v_i − η α ∇f_i(v̄_i)`, with `w_i` the client's own fresh model
//! - server: `w ← Σ n_i w_i / Σ n_i`
//!
//! GM = `w`, PM = `α v_i + (1 − α) w`. `α = 0` is FedAvg; with `α = 1` every `v_i` is trained alone.
//!
//! Departures: `α` is the same for all clients and does not adapt. The paper takes a step by `v_i` after
//! each step by `w_i`; here `v_i` trains afterwards, while the upload is on the network. The personal
//! phase has no momentum. Batch-norm statistics of `v_i` are those of the mixture that was trained, and the
//! PM mixes them as it does parameters.

use formant_methods::schema::{Default, Key, Kind};
use formant_methods::{Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, State};
use formant_numerics::{Descent, Loss, Model, Part};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// APFL's hyper-parameters. The struct is the method.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apfl {
    /// `α`: share of the personal part in the mixture.
    pub alpha: f32,
}

const KEYS: &[Key] = &[Key {
    name: "alpha",
    symbol: "α",
    kind: Kind::Number { min: 0.0, max: 1.0 },
    default: Default::Number(0.5),
    help: "share of the personal part in a client's mixture (0 is FedAvg)",
}];

/// APFL in a zoo: help, errors, `formant init` and the contract suite follow from this.
pub const ENTRY: Entry = Entry {
    name: "apfl",
    title: "APFL",
    summary: "each client mixes the generic model with a part of its own",
    citation: "Deng et al., 2020",
    personal: true,
    keys: KEYS,
    degenerate: &[
        Degenerate::when(&[("alpha", 0.0)], "FedAvg"),
        Degenerate::when(&[("alpha", 1.0)], "FedAvg with Local beside it"),
    ],
    ..Entry::of::<Apfl>(include_str!("apfl.rs"))
};

/// What a client keeps. It is a `State` and no `Message`: it cannot be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Own {
    /// `v_i`.
    pub v: Model,
}

impl State for Own {
    fn start(init: &Model) -> Self {
        Self { v: init.clone() }
    }
}

// The server keeps `w`, sends it and averages what comes back, and the shared phase is FedAvg's: all
// that is inherited.
impl Averaging for Apfl {
    type Client = Own;

    fn train_personal(
        &self,
        client: &mut Own,
        _got: &Model,
        sent: &Model,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let optimiser = local.optimiser().without_momentum();
        let descent = Descent { optimiser, part: Part::All };
        let v = &mut client.v;
        let (mut before, mut mixed) = (v.clone(), v.clone());
        local.for_each_batch(local.epochs(), |step| {
            self.mix(&v.parameters, &sent.parameters, &mut before.parameters);
            mixed.parameters.clone_from(&before.parameters);
            step.descend(&mut mixed, descent, Loss::CrossEntropy, &[])?;
            // The mixture has moved by −η∇f(v̄), of which v feels α.
            let moved = mixed.parameters.iter().zip(&before.parameters);
            for (v, (after, before)) in v.parameters.iter_mut().zip(moved) {
                *v += self.alpha * (after - before);
            }
            Ok(())
        })?;
        v.buffers = mixed.buffers;
        local.check(v)
    }

    fn personal_model<'a>(
        &self,
        client: &'a Own,
        got: &'a Model,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        let mut mixed = got.clone();
        self.mix(&client.v.parameters, &got.parameters, &mut mixed.parameters);
        self.mix(&client.v.buffers, &got.buffers, &mut mixed.buffers);
        Ok(Cow::Owned(mixed))
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints::with_personal_phase()
    }
}

impl Apfl {
    /// `α v + (1 − α) w`.
    fn mix(&self, v: &[f32], w: &[f32], mixed: &mut [f32]) {
        for (mixed, (v, w)) in mixed.iter_mut().zip(v.iter().zip(w)) {
            *mixed = self.alpha * v + (1.0 - self.alpha) * w;
        }
    }
}
