//! FedBABU.
//!
//! Oh, Kim, Yun: *FedBABU: Toward Enhanced Representation for Federated Image Classification*,
//! ICLR 2022.
//!
//! With a body `φ` and a head `h` that keeps its common random initial values throughout:
//!
//! - client, from the received `φ`: `E_G` epochs of SGD on `f_i` by `φ_i` with `h` frozen; `φ_i` is
//!   uploaded
//! - server: `φ ← Σ n_i φ_i / Σ n_i`
//! - evaluation: a *copy* of `(φ, h)` is fine-tuned on the client's data for some epochs
//!
//! GM = `(φ, h)`, PM = the fine-tuned copy, which is thrown away.
//!
//! Departures: the mean weighs by samples. Fine-tuning uses the personal phase's learning rate.

use crate::schema::{Default, Key, Kind};
use crate::{
    Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Newcomer, Shared, Training,
};
use formant_numerics::{Model, Part};
use serde::Deserialize;
use std::borrow::Cow;

/// FedBABU's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedBabu {
    /// Epochs of fine-tuning.
    pub finetune_epochs: usize,
    /// What is fine-tuned.
    pub finetune: Tuned,
}

/// What fine-tuning trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tuned {
    /// Body and head.
    Full,
    /// The body.
    Body,
    /// The head.
    Head,
}

/// The keys of methods whose personal model is a fine-tuned copy.
pub(crate) const FINE_TUNING: &[Key] = &[
    Key {
        name: "finetune_epochs",
        symbol: "τ_f",
        kind: Kind::Integer { min: 0, max: 1000 },
        default: Default::Integer(5),
        help: "epochs for which a copy is fine-tuned when it is scored",
    },
    Key {
        name: "finetune",
        symbol: "",
        kind: Kind::Choice(&["full", "body", "head"]),
        default: Default::Text("full"),
        help: "what is fine-tuned (full is the published choice)",
    },
];

/// FedBabu in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedbabu",
    title: "FedBABU",
    summary: "only the body is trained and averaged; a copy is fine-tuned for each client",
    citation: "Oh et al., ICLR 2022",
    personal: true,
    needs_body: true,
    keys: FINE_TUNING,
    degenerate: &[Degenerate::when(
        &[("finetune_epochs", 0.0)],
        "a method without personal models",
    )],
    ..Entry::of::<FedBabu>(include_str!("fedbabu.rs"))
};

impl Averaging for FedBabu {
    type Client = ();

    fn train_shared(
        &self,
        _client: &mut (),
        got: &Model,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut w = got.clone();
        local.train(&mut w, Training { part: Part::Body, ..local.training() })?;
        Ok(w)
    }

    fn shared(&self) -> Shared {
        Shared::Body
    }

    fn personal_model<'a>(
        &self,
        _client: &'a (),
        got: &'a Model,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        self.finetune.tuned(got, self.finetune_epochs, local).map(Cow::Owned)
    }

    fn newcomer<'a>(&self, got: &'a Model) -> Newcomer<'a> {
        self.finetune.newcomer(got)
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints { scoring: self.finetune_epochs, ..Hints::default() }
    }
}

impl Tuned {
    fn part(self) -> Part {
        match self {
            Self::Full => Part::All,
            Self::Body => Part::Body,
            Self::Head => Part::Head,
        }
    }

    /// A copy of a model, fine-tuned for some epochs.
    pub(crate) fn tuned(
        self,
        model: &Model,
        epochs: usize,
        local: &mut Local<'_>,
    ) -> Result<Model, MethodError> {
        let mut copy = model.clone();
        local.train(&mut copy, Training { epochs, part: self.part(), ..local.training() })?;
        Ok(copy)
    }

    /// What a client does for such a model that joins when training is over.
    pub(crate) fn newcomer(self, got: &Model) -> Newcomer<'_> {
        match self.part() {
            Part::All => Newcomer::FineTuning,
            part => Newcomer::Part { of: got, part },
        }
    }
}
