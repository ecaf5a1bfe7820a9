//! FedGen.
//!
//! Zhu, Hong, Zhou: *Data-Free Knowledge Distillation for Heterogeneous Federated Learning*,
//! ICML 2021.
//!
//! A generator `G(ε, y) → z` on the server makes features of a class; `ε ~ N(0, I)`, `h_k` is the
//! *uploaded* head of client `k`, `a_k^y` its share of all samples of class `y`:
//!
//! - server: `w ← Σ n_k w_k / Σ n_k`, and `generator_steps` steps of Adam by `G` on
//!   `mean_y Σ_k a_k^y CE(h_k(z), y) + η_div exp(−mean(‖Δε‖ ‖Δz‖))`, the last mean over all pairs of
//!   a batch: different noise shall give different features
//! - client, from the second round on, with `h` the head that it trains: SGD on
//!   `f_i + a_t CE(h(z_ỹ), ỹ) + b_t KL(softmax h(z_y) ‖ softmax of the local logits)`, with `ỹ` drawn
//!   from the classes that `G` has learnt and `y` the labels of its batch, as far as `G` has learnt
//!   them; `a_t = b_t = 10 · 0.98^(t−1)`
//!
//! GM = `w`. There is no personal model: tables score `w` on the local test sets, in parentheses.
//! `a = b = 0` is FedAvg. Clients reveal how many samples of each class they hold.
//!
//! Departures: the generator has one hidden layer and no batch normalisation, whose statistics would
//! drift on clients. Norms in the diversity are root mean squares; divided by nothing, the exponential
//! is zero from the start (the published code divides by the dimensions too). Classes are
//! drawn evenly among those that some participant holds. The targets of the divergence are constants.

mod generator;

use crate::schema::{Default, Key, Kind};
use crate::{
    Central, Degenerate, Entry, Generic, Hints, Local, Mean, Message, Method, MethodError, Moment,
    State, Uploads,
};
use formant_numerics::{Adam, Descent, Head, Loss, Model, Network, Part, Term};
use generator::{Generator, Teacher};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// FedGen's hyper-parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FedGen {
    /// `a`: strength of the generated samples for the head.
    pub a: f32,
    /// `b`: strength of the guidance of the logits.
    pub b: f32,
    /// What is left of both after a round.
    pub decay: f64,
    /// `η_div`: strength of the diversity.
    pub diversity: f64,
    /// Steps of the generator a round.
    pub generator_steps: usize,
    /// Learning rate of the generator.
    pub generator_rate: f64,
    /// Samples in a step of the generator, and of generated samples beside a client's batch.
    pub generator_batch: usize,
    /// Numbers of noise.
    pub noise: usize,
    /// Width of the generator's hidden layer.
    pub hidden: usize,
}

const KEYS: &[Key] = &[
    Key {
        name: "a",
        symbol: "α",
        kind: Kind::Number { min: 0.0, max: 1e6 },
        default: Default::Number(10.0),
        help: "strength of generated features in the training of a client's head",
    },
    Key {
        name: "b",
        symbol: "β",
        kind: Kind::Number { min: 0.0, max: 1e6 },
        default: Default::Number(10.0),
        help: "strength of the pull of a client's logits towards those of generated features",
    },
    Key {
        name: "decay",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(0.98),
        help: "what is left of a and b after each round",
    },
    Key {
        name: "diversity",
        symbol: "η_div",
        kind: Kind::Number { min: 0.0, max: 1e6 },
        default: Default::Number(1.0),
        help: "strength of the generator's diversity",
    },
    Key {
        name: "generator_steps",
        symbol: "",
        kind: Kind::Integer { min: 1, max: 100_000 },
        default: Default::Integer(50),
        help: "steps of the generator in each round",
    },
    Key {
        name: "generator_rate",
        symbol: "",
        kind: Kind::Above { min: 0.0, max: 1.0 },
        default: Default::Number(3e-4),
        help: "the generator's learning rate (Adam)",
    },
    Key {
        name: "generator_batch",
        symbol: "",
        kind: Kind::Integer { min: 2, max: 4096 },
        default: Default::Integer(32),
        help: "generated samples in a step",
    },
    Key {
        name: "noise",
        symbol: "",
        kind: Kind::Integer { min: 1, max: 4096 },
        default: Default::Integer(32),
        help: "dimensions of the generator's noise",
    },
    Key {
        name: "hidden",
        symbol: "",
        kind: Kind::Integer { min: 1, max: 65_536 },
        default: Default::Integer(256),
        help: "width of the generator's hidden layer",
    },
];

/// FedGen in the zoo.
pub(crate) const ENTRY: Entry = Entry {
    name: "fedgen",
    title: "FedGen",
    summary: "FedAvg beside a generator of features that the clients' heads teach",
    citation: "Zhu et al., ICML 2021",
    keys: KEYS,
    degenerate: &[Degenerate::when(&[("a", 0.0), ("b", 0.0)], "FedAvg")],
    needs_labels: true,
    ..Entry::of::<FedGen>(include_str!("fedgen.rs"))
};

/// The generic model and its generator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Generating {
    generic: Generic,
    /// Parameters of `G` and their moments; none before the first round.
    generator: Option<(Model, Adam)>,
    /// Classes that `G` has learnt.
    known: BTreeSet<u32>,
}

impl State for Generating {
    fn start(init: &Model) -> Self {
        Self { generic: Generic::start(init), generator: None, known: BTreeSet::new() }
    }
}

/// What clients receive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Taught {
    /// `w`.
    pub w: Model,
    /// `G`; none in the first round.
    pub generator: Option<Model>,
    /// Classes that it has learnt.
    pub known: BTreeSet<u32>,
}

// The generator is the server's alone: no client changes it, so it is none of the vectors.
impl Message for Taught {
    fn vectors(&self) -> Vec<&[f32]> {
        self.w.vectors()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        self.w.vectors_mut()
    }
}

/// What clients send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Labelled {
    /// `w_k`, whose head teaches the generator.
    pub w: Model,
    /// Samples of each class.
    pub counts: Vec<u32>,
}

impl Message for Labelled {
    fn vectors(&self) -> Vec<&[f32]> {
        self.w.vectors()
    }

    fn vectors_mut(&mut self) -> Vec<&mut Vec<f32>> {
        self.w.vectors_mut()
    }
}

impl Method for FedGen {
    type Server = Generating;
    type Client = ();
    type Broadcast = Taught;
    type Upload = Labelled;
    // The generator is taught by every client's own head.
    type Received<'a> = Uploads<'a, Labelled>;

    fn broadcast(&self, server: &Generating) -> Taught {
        let generator = server.generator.as_ref().map(|(generator, _)| generator.clone());
        Taught { w: server.generic.w.clone(), generator, known: server.known.clone() }
    }

    fn train_shared(
        &self,
        _client: &mut (),
        got: &Taught,
        local: &mut Local<'_>,
    ) -> Result<Labelled, MethodError> {
        let mut w = got.w.clone();
        let faded = libm::pow(self.decay, local.at().round.saturating_sub(1) as f64) as f32;
        let (a, b) = (self.a * faded, self.b * faded);
        match &got.generator {
            Some(parameters) if a > 0.0 || b > 0.0 => {
                let beside = Beside { parameters, known: &got.known, a, b };
                self.train_beside(&mut w, &beside, local)?;
            }
            _ => local.sgd(&mut w, &[])?,
        }
        let counts = local.label_counts();
        let counts = counts.into_iter().map(|n| u32::try_from(n).unwrap_or(u32::MAX)).collect();
        Ok(Labelled { w, counts })
    }

    // `w` is a mean like any other; what heads teach the generator is no matter of how it is taken.
    fn combines(&self) -> bool {
        true
    }

    fn hints(&self, at: Moment) -> Hints {
        // In the first round there is no generator yet.
        Hints { is_plain: at.round <= 1, ..Hints::default() }
    }

    fn broadcast_grows(&self, network: &dyn Network) -> usize {
        let head = Head::of(network);
        // The generator, and the classes that it has learnt.
        let (inputs, outputs) = (self.noise + head.classes, head.features);
        (inputs + 1) * self.hidden + (self.hidden + 1) * outputs + 2 * head.classes
    }

    fn upload_fault(&self, upload: &Labelled, network: &dyn Network) -> Option<String> {
        let (sent, classes) = (upload.counts.len(), network.classes());
        (sent != classes).then(|| format!("counts of {sent} classes where there are {classes}"))
    }

    fn aggregate(
        &self,
        server: &mut Generating,
        uploads: Uploads<'_, Labelled>,
        central: &mut Central<'_>,
    ) -> Result<(), MethodError> {
        let range = central.network.layout().range(Part::Head);
        let mut teachers = Vec::new();
        let mean: Mean<Labelled> = Mean::of(uploads, central, |upload| {
            let Labelled { w, counts } = &upload.message;
            let shares = counts.iter().map(|n| f64::from(*n)).collect();
            teachers.push(Teacher { head: w.parameters[range.clone()].to_vec(), shares });
            Ok(())
        })?;
        server.generic.w = mean.message.w;
        let mut generator = Generator::new(self, central.network)?;
        let (parameters, adam) = server.generator.get_or_insert_with(|| {
            let parameters = generator.network.init(&mut central.rng);
            let adam = Adam::new(parameters.parameters.len());
            (parameters, adam)
        });
        generator::divide_by_class(&mut teachers);
        let learnt = generator.learn(self, &teachers, parameters, adam, &mut central.rng)?;
        server.known.extend(learnt);
        Ok(())
    }

    fn global_model<'a>(&self, server: &'a Generating) -> Option<Cow<'a, Model>> {
        Some(Cow::Borrowed(&server.generic.w))
    }

    fn personal_model<'a>(
        &self,
        _client: &'a (),
        got: &'a Taught,
        _local: &mut Local<'_>,
    ) -> Result<Cow<'a, Model>, MethodError> {
        Ok(Cow::Borrowed(&got.w))
    }
}

/// A generator that teaches a client, and how strongly.
struct Beside<'a> {
    /// Of `G`.
    parameters: &'a Model,
    /// Classes that it has learnt.
    known: &'a BTreeSet<u32>,
    /// `a_t`.
    a: f32,
    /// `b_t`.
    b: f32,
}

impl FedGen {
    /// The shared phase beside a generator.
    fn train_beside(
        &self,
        w: &mut Model,
        &Beside { parameters, known, a, b }: &Beside<'_>,
        local: &mut Local<'_>,
    ) -> Result<(), MethodError> {
        let network = local.network();
        let (head, range) = (Head::of(network), network.layout().range(Part::Head));
        let mut generator = Generator::new(self, network)?;
        generator.expect(parameters)?;
        // A generator of random numbers of its own: drawing noise must not change the batches.
        let mut rng = local.rng().beside();
        let (mut features, mut targets) = (Vec::new(), Vec::new());
        let classes: Vec<u32> =
            known.iter().copied().filter(|class| (*class as usize) < head.classes).collect();
        if classes.is_empty() {
            return local.sgd(w, &[]);
        }
        let descent = Descent { optimiser: local.optimiser(), part: Part::All };
        local.for_each_batch(local.epochs(), |step| {
            let own = &w.parameters[range.clone()];
            generator.draw(&mut rng, step.labels());
            targets.clear();
            targets.resize(step.labels().len() * head.classes, 0.0);
            head.add_logits(own, generator.features(parameters), &mut targets);
            formant_numerics::softmax(&mut targets, head.classes);
            // What the generator has not learnt it cannot teach.
            for (target, label) in targets.chunks_exact_mut(head.classes).zip(step.labels()) {
                if !known.contains(label) {
                    target.fill(0.0);
                }
            }
            let guided = Loss::Guided { weight: b, targets: &targets };
            let loss = if b > 0.0 { guided } else { Loss::CrossEntropy };
            generator.draw_from(&mut rng, &classes, self.generator_batch);
            features.clear();
            features.extend_from_slice(generator.features(parameters));
            let made = [a * Term::Head { features: &features, labels: generator.labels() }];
            step.descend(w, descent, loss, &made)
        })?;
        local.check(w)
    }
}
