//! pFedMe.
//!
//! Dinh, Tran, Nguyen: *Personalized Federated Learning with Moreau Envelopes*, NeurIPS 2020.
//!
//! - client, for each batch of `E_G` epochs, from `w_i = w`: `K` times
//!   `w_p ← w_p − η_p(∇f_i(w_p) + λ(w_p − w_i))` on that batch, then `w_i ← w_i − ηλ(w_i − w_p)`
//! - server: `w ← (1 − β)w + β Σ n_i w_i / Σ n_i`
//!
//! GM = `w`, PM = `w_p`, which is kept from round to round and is never the same storage as `w_i`.
//! `λ = 0` cuts all ties: `w` stays where it began, and with `K = 1` `w_p` is Local's, trained in the shared phase at the rate `η_p`.
//!
//! Departures: the learning rates are this method's own (`eta`, `eta_p`), as in the paper; those of
//! the experiment, its schedule and its momentum are not used, its weight decay and clipping are. With
//! Adam or AdamW the `K` steps are theirs, at the rate `η_p`, with moments that go on from batch to batch; the
//! default of `eta_p` is for SGD. Batch-norm statistics of `w_i`
//! are those of `w_p`, the only model of the two that sees data, and the server's are the mean's,
//! whatever `β` is. The mean weighs by samples.

use crate::schema::{Default, Key, Kind};
use crate::{Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Passes, Personal};
use formant_numerics::{Descent, Loss, Model, Optimiser, Part, Term};
use serde::Deserialize;

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
    degenerate: &[Degenerate::when(
        &[("lambda", 0.0)],
        "Local with several steps on each batch, and its generic model never moves",
    )],
    ..Entry::of::<PFedMe>(include_str!("pfedme.rs"))
};

impl Averaging for PFedMe {
    type Client = Personal;

    fn train_shared(
        &self,
        client: &mut Personal,
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let (mut w, w_p) = (got.clone(), &mut client.w_p);
        let optimiser = local.optimiser().without_momentum();
        let optimiser = Optimiser { learning_rate: self.eta_p, ..optimiser };
        let pull = self.eta * self.lambda;
        local.for_each_batch(local.epochs(), |step| {
            for _ in 0..self.steps {
                let tie = [self.lambda * Term::Proximal { anchor: &w.parameters }];
                let descent = Descent { optimiser, part: Part::All };
                step.descend(w_p, descent, Loss::CrossEntropy, &tie)?;
            }
            for (w, w_p) in w.parameters.iter_mut().zip(&w_p.parameters) {
                *w -= pull * (*w - w_p);
            }
            Ok(())
        })?;
        w.buffers.clone_from(&w_p.buffers);
        local.check(w_p)?;
        local.check(&w)?;
        Ok(w)
    }

    fn update(&self, w: &mut Model, mean: Model) {
        w.buffers = mean.buffers;
        for (w, mean) in w.parameters.iter_mut().zip(mean.parameters) {
            // The mean itself where β = 1, to the last bit.
            let rest = (1.0 - self.beta) * (f64::from(*w) - f64::from(mean));
            *w = (f64::from(mean) + rest) as f32;
        }
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints { shared: Passes { an_epoch: self.steps, besides: 0 }, ..Hints::default() }
    }
}
