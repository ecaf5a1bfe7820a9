//! FedRoD.
//!
//! Chen, Chao: *On Bridging Generic and Personalized Federated Learning for Image Classification*,
//! ICLR 2022.
//!
//! With a body `φ`, a generic head `G` and a personal head `P_i`; `z = φ(x)`, `n_{i,c}` the client's
//! samples of class `c`:
//!
//! - shared phase: `E_G` epochs of SGD by `φ_i` and `G_i` on the balanced softmax
//!   `CE(G(z)_c + γ log n_{i,c}, y)`; both are uploaded
//! - personal phase: `E_p` epochs by `P_i` alone on `CE(G(z) + P_i(z), y)`, with `z` and `G(z)` of the
//!   client's fresh model taken as they are: neither body nor generic head gets a gradient
//! - server: `(φ, G) ← Σ n_i (φ_i, G_i) / Σ n_i`
//!
//! GM logits are `G(z)`, PM logits `G(z) + P_i(z)`; as both heads are linear, the PM is `φ` with the
//! head `G + P_i`. `γ = 0` gives the GM of FedAvg.
//!
//! Variant (`hypernetwork = true`): `P_i = H(a_i)`, linear in the client's label frequencies `a_i`. `H`
//! is trained on the same loss at the end of the shared phase, uploaded and averaged, so a client
//! that never trained gets a head from its label frequencies; there is no personal phase.
//!
//! Departures: a class without samples counts as `min_count` samples (`log 0` has no value). `P_i` and
//! `H` start at zero, so that PM and GM begin as one. The paper takes a step by `P_i` after each step
//! by `φ_i` and `G_i`; here `P_i` trains afterwards, which is what lets it train while the upload is
//! on the network.

mod hypernetwork;
mod pupil;

use crate::entry::erase;
use crate::schema::{Default, Key, Kind};
use crate::{
    Central, Entry, ErasedMethod, Hints, Local, Mean, Message, Method, MethodError, Moment, State,
    Training,
};
use formant_numerics::{Head, Loss, Model, Network, Part, floats};
pub use hypernetwork::FedRodHypernetwork;
use pupil::{Pupil, finite};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use toml::{Table, Value};

/// FedRoD's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
pub struct FedRod {
    /// `γ`: strength of the balancing.
    pub gamma: f64,
    /// What a class without samples counts as.
    pub min_count: f64,
}

const KEYS: &[Key] = &[
    Key {
        name: "gamma",
        symbol: "γ",
        kind: Kind::Number { min: 0.0, max: 10.0 },
        default: Default::Number(1.0),
        help: "strength of the balanced softmax (0: plain cross-entropy, the generic model of FedAvg)",
    },
    Key {
        name: "min_count",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(1e-8),
        help: "samples that a class counts for which has none",
    },
    Key {
        name: "hypernetwork",
        symbol: "H",
        kind: Kind::Flag,
        default: Default::Flag(false),
        help: "personal heads come from a hypernetwork over label frequencies that the server averages",
    },
];

/// FedRod in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedrod",
    title: "FedRoD",
    summary: "a generic head on a balanced loss, and a personal head on top of it",
    citation: "Chen and Chao, ICLR 2022",
    personal: true,
    keys: KEYS,
    build,
    needs_labels: true,
    ..Entry::of::<FedRod>(include_str!("fedrod.rs"))
};

/// The method, or its variant with a hypernetwork.
fn build(entry: Entry, table: Table) -> Result<Arc<dyn ErasedMethod>, String> {
    match table.get("hypernetwork") {
        Some(Value::Boolean(true)) => erase::<FedRodHypernetwork>(entry, table),
        _ => erase::<FedRod>(entry, table),
    }
}

/// The generic model, and the hypernetwork if there is one: what the server sends and clients send
/// back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Shared {
    /// `(φ, G)`.
    pub w: Model,
    /// `H`: a head for each class, one after the other; empty without, and before its first step.
    #[serde(with = "floats")]
    pub hyper: Vec<f32>,
}

impl Message for Shared {
    const ONLY_VECTORS: bool = true;

    fn vectors(&self) -> Vec<&[f32]> {
        [self.w.vectors(), vec![&self.hyper[..]]].concat()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        let mut vectors = self.w.vectors_mut();
        vectors.push(&mut self.hyper);
        vectors
    }
}

/// What the server keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Keeper {
    shared: Shared,
}

impl State for Keeper {
    fn start(init: &Model) -> Self {
        Self { shared: Shared { w: init.clone(), hyper: Vec::new() } }
    }
}

/// A personal head that stays with its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PersonalHead {
    /// `P_i`; empty, which counts as zero, until the client first trains.
    #[serde(with = "floats")]
    pub head: Vec<f32>,
}

impl State for PersonalHead {
    fn start(_init: &Model) -> Self {
        Self { head: Vec::new() }
    }
}

impl Method for FedRod {
    type Server = Keeper;
    type Client = PersonalHead;
    type Broadcast = Shared;
    type Upload = Shared;
    type Received<'a> = Mean<Shared>;

    fn broadcast(&self, server: &Keeper) -> Shared {
        server.shared.clone()
    }

    fn train_shared(
        &self,
        _client: &mut PersonalHead,
        got: &Shared,
        local: &mut Local<'_>,
    ) -> Result<Shared, MethodError> {
        let (mut sent, shift) = (got.clone(), self.shift(&local.label_counts()));
        local.train(
            &mut sent.w,
            Training { loss: Loss::Shifted { shift: &shift }, ..local.training() },
        )?;
        Ok(sent)
    }

    fn train_personal(
        &self,
        client: &mut PersonalHead,
        _got: &Shared,
        sent: &Shared,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let mut pupil = Pupil::new(Head::of(local.network()), local);
        client.head.resize(pupil.head.weights(), 0.0);
        local.for_each_batch(local.epochs(), |step| {
            let objective = pupil.learn(step, &sent.w, &client.head);
            pupil.descend(&mut client.head);
            step.made(objective)
        })?;
        finite(local, &client.head)
    }

    fn aggregate(
        &self,
        server: &mut Keeper,
        received: Mean<Shared>,
        _central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        server.shared = received.message;
        Ok(())
    }

    fn global_model<'a>(&self, server: &'a Keeper) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.shared.w))
    }

    fn personal_model<'a>(
        &self,
        client: &'a PersonalHead,
        got: &'a Shared,
        local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(with_head(&got.w, &client.head, local.network()))
    }

    fn hints(&self, _at: Moment) -> Hints {
        Hints::with_personal_phase()
    }

    fn upload_lengths(&self, got: &Shared, _network: &dyn Network) -> Vec<usize> {
        vec![got.w.parameters.len(), got.w.buffers.len(), 0]
    }
}

impl FedRod {
    /// `γ log n_{i,c}`.
    fn shift(&self, counts: &[usize]) -> Vec<f32> {
        balanced_shift(self.gamma, self.min_count, counts)
    }
}

/// `γ log n_c`, where a class without samples counts as a few.
pub(crate) fn balanced_shift(gamma: f64, min_count: f64, counts: &[usize]) -> Vec<f32> {
    let log = |count: usize| libm::log((count as f64).max(min_count));
    counts.iter().map(|count| (gamma * log(*count)) as f32).collect()
}

/// `φ` with the head `G + P_i`; without a personal head, as it is.
fn with_head<'a>(w: &'a Model, personal: &[f32], network: &dyn Network) -> Cow<'a, Model> {
    if personal.is_empty() {
        return Cow::Borrowed(w);
    }
    let mut model = w.clone();
    let generic = &mut model.parameters[network.layout().range(Part::Head)];
    generic.iter_mut().zip(personal).for_each(|(g, p)| *g += p);
    Cow::Owned(model)
}
