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

use crate::entry::Entry;
use crate::schema::{Default, Key, Kind};
use crate::{Central, Local, Message, Method, MethodError, State, Step, Uploads, weighted_mean};
use formant_numerics::{
    BalancedSoftmax, Head, Model, Network, Part, Sgd, cross_entropy, floats, vector,
    vector::WeightedMean,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// FedRoD's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedRod {
    /// `γ`: strength of the balancing.
    pub gamma: f64,
    /// What a class without samples counts as.
    pub min_count: f64,
    /// Whether personal heads come from a hypernetwork.
    pub hypernetwork: bool,
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
    ..Entry::of::<FedRod>(include_str!("fedrod.rs"))
};

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

impl State for Keeper {}

/// A personal head that stays with its client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PersonalHead {
    /// `P_i`; empty, which counts as zero, until the client first trains.
    #[serde(with = "floats")]
    pub head: Vec<f32>,
}

impl State for PersonalHead {}

impl Method for FedRod {
    type Server = Keeper;
    type Client = PersonalHead;
    type Broadcast = Shared;
    type Upload = Shared;

    fn start_server(&self, init: &Model) -> Keeper {
        Keeper { shared: Shared { w: init.clone(), hyper: Vec::new() } }
    }

    fn start_client(&self, _init: &Model) -> PersonalHead {
        PersonalHead { head: Vec::new() }
    }

    fn broadcast(&self, server: &Keeper) -> Shared {
        server.shared.clone()
    }

    fn train_shared(
        &self,
        _client: &mut PersonalHead,
        got: &Shared,
        local: &mut Local<'_>,
    ) -> Result<Shared, MethodError> {
        let mut sent = got.clone();
        let mut loss = BalancedSoftmax::new(self.shift(&local.label_counts()));
        local.sgd_on(&mut sent.w, (local.epochs(), Part::All), &mut loss, &mut [])?;
        if self.hypernetwork {
            let (head, frequencies) = (Head::of(local.network()), frequencies(local));
            sent.hyper.resize(head.weights() * frequencies.len(), 0.0);
            let mut pupil = Pupil::new(head, local);
            let (mut weights, mut spread) = (vec![0.0; head.weights()], Vec::new());
            let hyper = &mut sent.hyper;
            local.for_each_batch(local.epochs(), |step| {
                mix(hyper, &frequencies, &mut weights);
                let objective = pupil.gradient(step, &sent.w, &weights);
                // ∂P/∂H_c = a_c, so every class's head gets its share of the gradient.
                spread.clear();
                spread.extend(
                    frequencies.iter().flat_map(|a| pupil.gradient.iter().map(move |g| a * g)),
                );
                pupil.descend(hyper, &mut spread);
                step.made(objective)
            })?;
            finite(local, &sent.hyper)?;
        }
        Ok(sent)
    }

    fn train_personal(
        &self,
        client: &mut PersonalHead,
        _got: &Shared,
        sent: &Shared,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let head = Head::of(local.network());
        client.head.resize(head.weights(), 0.0);
        let mut pupil = Pupil::new(head, local);
        local.for_each_batch(local.epochs(), |step| {
            let objective = pupil.gradient(step, &sent.w, &client.head);
            let mut gradient = std::mem::take(&mut pupil.gradient);
            pupil.descend(&mut client.head, &mut gradient);
            pupil.gradient = gradient;
            step.made(objective)
        })?;
        finite(local, &client.head)
    }

    fn has_personal_phase(&self) -> bool {
        !self.hypernetwork
    }

    fn shared_work(&self, samples: usize, epochs: usize) -> usize {
        // The hypernetwork learns after the rest, on as many samples.
        samples * epochs * if self.hypernetwork { 2 } else { 1 }
    }

    fn upload_lengths(&self, got: &Shared, network: &dyn Network) -> Vec<usize> {
        let [parameters, buffers] = [&got.w.parameters, &got.w.buffers].map(Vec::len);
        vec![parameters, buffers, self.hyper_length(Head::of(network))]
    }

    fn aggregate(
        &self,
        server: &mut Keeper,
        uploads: Uploads<'_, Shared>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let head = Head::of(central.network);
        let size = self.hyper_length(head);
        let mut mean = WeightedMean::new(size);
        let mut source = uploads.map(|upload| {
            let upload = upload?;
            let sent = &upload.message.hyper;
            if sent.len() != size || sent.iter().any(|x| !x.is_finite()) {
                let sent = format!("a hypernetwork of {} values", sent.len());
                let expected = format!("one of {size} numbers");
                return Err(MethodError::ForeignUpload { client: upload.client, sent, expected });
            }
            mean.add(upload.weight, sent);
            Ok(upload)
        });
        let w = weighted_mean(Uploads::new(&mut source), &server.shared.w, |sent| &sent.w)?;
        drop(source);
        server.shared = Shared { w, hyper: mean.finish().unwrap_or_default() };
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
        let personal = if self.hypernetwork {
            let mut head = vec![0.0; got.hyper.len() / local.network().classes()];
            if !head.is_empty() {
                mix(&got.hyper, &frequencies(local), &mut head);
            }
            Cow::Owned(head)
        } else {
            Cow::Borrowed(&client.head)
        };
        if personal.is_empty() {
            return Ok(Cow::Borrowed(&got.w));
        }
        let mut model = got.w.clone();
        let generic = &mut model.parameters[local.network().layout().range(Part::Head)];
        generic.iter_mut().zip(personal.iter()).for_each(|(g, p)| *g += p);
        Ok(Cow::Owned(model))
    }
}

impl FedRod {
    /// Values of a hypernetwork, if there is one: a head for each class.
    fn hyper_length(&self, head: Head) -> usize {
        if self.hypernetwork { head.weights() * head.classes } else { 0 }
    }

    /// `γ log n_{i,c}`.
    fn shift(&self, counts: &[usize]) -> Vec<f32> {
        let log = |count: usize| libm::log((count as f64).max(self.min_count));
        counts.iter().map(|count| (self.gamma * log(*count)) as f32).collect()
    }
}

/// `a_i`: shares of the classes among the client's training samples.
fn frequencies(local: &Local<'_>) -> Vec<f32> {
    let total = local.samples().max(1) as f32;
    local.label_counts().iter().map(|count| *count as f32 / total).collect()
}

/// `H(a) = Σ_c a_c H_c`.
fn mix(hyper: &[f32], frequencies: &[f32], head: &mut [f32]) {
    head.fill(0.0);
    for (part, a) in hyper.chunks_exact(head.len()).zip(frequencies) {
        vector::axpy(*a, part, head);
    }
}

fn finite(local: &Local<'_>, weights: &[f32]) -> Result<(), MethodError> {
    local.check(&Model { parameters: weights.to_vec(), buffers: Vec::new() })
}

/// What learning a personal head needs: memory and the optimiser.
struct Pupil {
    head: Head,
    sgd: Sgd,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    gradient: Vec<f32>,
    velocity: Vec<f32>,
}

impl Pupil {
    fn new(head: Head, local: &Local<'_>) -> Self {
        Self {
            head,
            sgd: local.optimiser(),
            logits: Vec::new(),
            d_logits: Vec::new(),
            gradient: vec![0.0; head.weights()],
            velocity: Vec::new(),
        }
    }

    /// `CE(G(z) + P(z), y)` on a batch, with its gradient by `P` alone.
    fn gradient(&mut self, step: &mut Step<'_>, generic: &Model, personal: &[f32]) -> f64 {
        let (output, labels) = step.look(generic);
        self.logits.clear();
        self.logits.extend_from_slice(output.logits);
        self.head.add_logits(personal, output.features, &mut self.logits);
        self.d_logits.resize(self.logits.len(), 0.0);
        let objective = cross_entropy(&self.logits, labels, &mut self.d_logits);
        self.gradient.fill(0.0);
        self.head.add_gradient(1.0, output.features, &self.d_logits, &mut self.gradient);
        objective
    }

    fn descend(&mut self, weights: &mut [f32], gradient: &mut [f32]) {
        self.velocity.resize(weights.len(), 0.0);
        self.sgd.descend(weights, gradient, &mut self.velocity);
    }
}
