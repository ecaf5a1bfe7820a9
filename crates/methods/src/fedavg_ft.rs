//! FedAvg-FT: FedAvg with fine-tuning.
//!
//! Wang, Mathews, Kiddon, Eichner, Beaufays, Ramage: *Federated Evaluation of On-device Personalization*, 2019.
//! McMahan et al. (FedAvg), AISTATS 2017.
//!
//! - client: `w_i ← E_G epochs of SGD on f_i from w`
//! - server: `w ← Σ n_i w_i / Σ n_i`
//! - evaluation: a *copy* of `w` is fine-tuned on the client's data for some epochs
//!
//! GM = `w`, that of FedAvg; PM = the fine-tuned copy, which is thrown away.
//!
//! Departures: none. Fine-tuning uses the personal phase's learning rate.

use crate::fedbabu::{FINE_TUNING, Tuned};
use crate::{Averaging, Degenerate, Entry, Hints, Local, MethodError, Moment, Newcomer};
use formant_numerics::Model;
use serde::Deserialize;
use std::borrow::Cow;

/// The hyper-parameters of FedAvg with fine-tuning.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedAvgFt {
    /// Epochs of fine-tuning.
    pub finetune_epochs: usize,
    /// What is fine-tuned.
    pub finetune: Tuned,
}

/// FedAvgFt in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedavg-ft",
    title: "FedAvg-FT",
    summary: "FedAvg, and a copy of its model fine-tuned for each client",
    citation: "Wang et al., 2019",
    personal: true,
    keys: FINE_TUNING,
    degenerate: &[Degenerate::when(&[("finetune_epochs", 0.0)], "FedAvg")],
    ..Entry::of::<FedAvgFt>(include_str!("fedavg_ft.rs"))
};

impl Averaging for FedAvgFt {
    type Client = ();

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
