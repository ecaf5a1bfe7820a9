//! One round of each method on a problem so small that a pencil suffices.
//!
//! Two classes, images of one white pixel, softmax regression: the logit of class `c` is
//! `w_c · 1 + b_c`, and weight and bias have the same gradient, `p_c − 1{y = c}`. All parameters
//! start at zero. Client 0 holds one sample of class 0, client 1 three of class 1; the learning rate
//! is ½ and a batch holds everything.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{Images, Normalisation};
use formant_methods::{
    BySamples, Central, ClassWeights, Ditto, FedAvg, FedAvgM, FedBabu, FedDyn, FedGen, FedProx,
    FedRep, FedRod, FedRodHypernetwork, Loan, Local, Mean, Method, Moment, PFedMe, PhaseSettings,
    Receive, State, Taught, Upload, Uploads, WeightedAverage, Zoo,
};
use formant_numerics::{
    Augmentation, Cpu, Engine, Model, Network, NetworkSpec, Optimiser, Patience, Rng, Shape,
    Stream, Worker,
};

/// Those of the two clients, and of one who has all.
const SAMPLES: [&[u32]; 3] = [&[0], &[1, 2, 3], &[0, 1, 2, 3]];

/// One epoch of plain SGD.
fn settings() -> PhaseSettings {
    PhaseSettings {
        epochs: 1,
        batch: 4,
        optimiser: Optimiser::sgd(0.5),
        label_smoothing: 0.0,
        class_weights: ClassWeights::Equal,
        augment: Augmentation::NONE,
    }
}

struct Pencil {
    engine: Cpu,
    images: Images,
    worker: Box<dyn Worker>,
}

impl Pencil {
    fn new() -> Self {
        let shape = Shape::new(1, 1, 1);
        let network = NetworkSpec::named("logistic").build(shape, 2).unwrap();
        let images =
            Images::new(shape, vec![255; 4], vec![0, 1, 1, 1], &[Normalisation::NONE]).unwrap();
        let engine = Cpu::new(network);
        let worker = engine.worker(4);
        Self { engine, images, worker }
    }

    fn local(&mut self, client: usize, epochs: usize) -> Local<'_> {
        self.local_in(1, client, epochs)
    }

    fn local_in(&mut self, round: usize, client: usize, epochs: usize) -> Local<'_> {
        self.local_with(round, client, PhaseSettings { epochs, ..settings() })
    }

    fn local_with(&mut self, round: usize, client: usize, settings: PhaseSettings) -> Local<'_> {
        let rng = Rng::new(1, Stream::Test, 1, client as u64);
        let (samples, train) = (&self.images, SAMPLES[client]);
        let (at, patience) = (Moment { round, rounds: 2 }, Patience::Epochs);
        let loan = Loan { samples, train, rng, settings, at, patience };
        Local::new(self.engine.network(), &mut *self.worker, loan)
    }

    fn network(&self) -> &dyn Network {
        self.engine.network()
    }
}

/// The server and a client before the first round.
fn start<M: Method>(_method: &M, init: &Model) -> (M::Server, M::Client) {
    (M::Server::start(init), M::Client::start(init))
}

/// `[w_0, w_1, b_0, b_1]` with the symmetry of the problem: `x, −x, x, −x`.
fn symmetric(x: f32) -> Model {
    Model { parameters: vec![x, -x, x, -x], buffers: vec![] }
}

fn assert_close(model: &Model, x: f64) {
    for (value, expected) in model.parameters.iter().zip([x, -x, x, -x]) {
        assert!((f64::from(*value) - expected).abs() < 1e-6, "{model:?} is not {x}");
    }
}

#[test]
fn a_round_of_fedavg() {
    let (mut pencil, fedavg) = (Pencil::new(), FedAvg {});
    let (mut server, ()) = start(&fedavg, &symmetric(0.0));
    let got = fedavg.broadcast(&server);
    // Both classes have p = ½. Client 0 steps by −½(½ − 1) = +¼ towards class 0, client 1 by as
    // much towards class 1: a mean over three equal samples is that of one.
    let sent: Vec<Model> = (0..2)
        .map(|client| fedavg.train_shared(&mut (), &got, &mut pencil.local(client, 1)).unwrap())
        .collect();
    assert_eq!(sent, [symmetric(0.25), symmetric(-0.25)]);
    let sent = sent.into_iter().enumerate().collect();
    aggregate(&fedavg, &mut server, pencil.network(), sent, 2);
    // (1 · ¼ − 3 · ¼) / 4 = −⅛
    assert_eq!(*fedavg.global_model(&server).unwrap(), symmetric(-0.125));
}

#[test]
fn weights_and_smoothing_of_a_client_with_all_samples() {
    let mut pencil = Pencil::new();
    let mut stepped = |label_smoothing, class_weights| {
        let settings = PhaseSettings { label_smoothing, class_weights, ..settings() };
        let mut local = pencil.local_with(1, 2, settings);
        FedAvg {}.train_shared(&mut (), &symmetric(0.0), &mut local).unwrap()
    };
    // One sample of class 0 and three of class 1 at p = ½: the gradient is (½ − 1 + 3 · ½) / 4 = ¼.
    assert_close(&stepped(0.0, ClassWeights::Equal), -0.125);
    // Weights 4 / (2 · 1) and 4 / (2 · 3): both classes pull with the same force.
    assert_close(&stepped(0.0, ClassWeights::Balanced), 0.0);
    // (5(½ − 1) + 3 · ½) / (5 + 3) = −⅛.
    assert_close(&stepped(0.0, ClassWeights::Given([5.0, 1.0].into())), 0.0625);
    // Half of every label is spread evenly, which at p = ½ has no gradient: half of ¼.
    assert_close(&stepped(0.5, ClassWeights::Equal), -0.0625);
    // A client of one class: it counts 1, and what it does not have does too.
    let settings = PhaseSettings { class_weights: ClassWeights::Balanced, ..settings() };
    let mut local = pencil.local_with(1, 1, settings);
    let alone = FedAvg {}.train_shared(&mut (), &symmetric(0.0), &mut local).unwrap();
    assert_close(&alone, -0.25);
}

#[test]
fn a_round_of_ditto() {
    let (mut pencil, ditto) = (Pencil::new(), Ditto { lambda: 1.0, blend: 0.0 });
    let (_, mut client) = start(&ditto, &symmetric(0.0));
    let got = symmetric(-0.125);
    let sent = ditto.train_shared(&mut client, &got, &mut pencil.local(0, 1)).unwrap();
    // Logits ∓¼, so p_0 = 1 / (1 + e^½) = 0.377541; the step is ½(1 − p_0) = 0.311230.
    assert_close(&sent, -0.125 + 0.311_230);
    assert_eq!(client.w_p, symmetric(0.0), "the shared phase leaves w_p alone");
    ditto.train_personal(&mut client, &got, &sent, &mut pencil.local(0, 2)).unwrap();
    // First step, from θ = 0: gradient (½ − 1) + 1 · (0 − (−⅛)) = −0.375, so θ = 0.1875.
    // Second: logits ±0.375, p_0 = 1 / (1 + e^−0.75) = 0.679179; gradient
    // (0.679179 − 1) + (0.1875 + 0.125) = −0.008321, so θ = 0.1875 + 0.004161 = 0.191661.
    assert_close(&client.w_p, 0.191_661);
}

#[test]
fn the_weights_of_a_mean_are_relative() {
    let mean = |scale: f64| {
        let models = [(1.0, symmetric(1.0)), (3.0, symmetric(-1.0))];
        let mut uploads = models.into_iter().enumerate().map(|(client, (weight, message))| {
            Ok(Upload { client, samples: weight * scale, share: 1.0, staleness: 0, message })
        });
        let uploads = Uploads::new(&mut uploads);
        let pencil = Pencil::new();
        let central = central(pencil.network(), 2);
        Mean::<_, BySamples>::of(uploads, &central, |_| Ok(())).unwrap().message
    };
    assert_eq!(mean(1.0), symmetric(-0.5));
    assert_eq!(mean(8.0), mean(1.0));
}

/// A method with some hyper-parameters set, as a file would.
fn parsed<M: serde::de::DeserializeOwned>(name: &str, settings: &str) -> M {
    let built = Zoo::standard().build(name, &settings.parse().unwrap()).unwrap();
    built.parameters.try_into().unwrap()
}

/// What the server lends to it.
fn central(network: &dyn Network, clients: usize) -> Central<'_> {
    let rng = Rng::new(1, Stream::Test, 0, 0);
    Central { network, rng, round: 1, clients, reference: &[], combine: &WeightedAverage }
}

/// The server's half of a round.
fn aggregate<M: Method>(
    method: &M,
    server: &mut M::Server,
    network: &dyn Network,
    sent: Vec<(usize, M::Upload)>,
    clients: usize,
) {
    let mut uploads = sent.into_iter().map(|(client, message)| {
        let samples = SAMPLES[client].len() as f64;
        Ok(Upload { client, samples, share: 1.0, staleness: 0, message })
    });
    let mut central = central(network, clients);
    let received = Receive::receive(Uploads::new(&mut uploads), &central).unwrap();
    method.aggregate(server, received, &mut central).unwrap();
}

#[test]
fn two_steps_of_fedprox() {
    let (mut pencil, fedprox) = (Pencil::new(), FedProx { mu: 1.0 });
    let sent = fedprox.train_shared(&mut (), &symmetric(-0.125), &mut pencil.local(0, 2)).unwrap();
    // The first step has nothing to be pulled back from: −⅛ + ½ · 0.622459 = 0.186230.
    // Then p_0 = 1 / (1 + e^−0.744919) = 0.678070, and the gradient −0.321930 + (0.186230 + 0.125).
    assert_close(&sent, 0.191_580);
}

#[test]
fn a_round_of_feddyn_counts_all_clients_and_not_only_those_who_came() {
    let (mut pencil, feddyn) = (Pencil::new(), FedDyn { alpha: 0.5, clip: 10.0 });
    let (mut server, _) = start(&feddyn, &symmetric(0.0));
    let (_, mut client) = start(&feddyn, &symmetric(0.0));
    let got = feddyn.broadcast(&server);
    let sent = feddyn.train_shared(&mut client, &got, &mut pencil.local(0, 1)).unwrap();
    // FedAvg's step, and the slope goes against it: g = −½ · (¼ − 0).
    assert_eq!(sent, symmetric(0.25));
    assert_eq!(client.g, symmetric(-0.125).parameters);
    aggregate(&feddyn, &mut server, pencil.network(), vec![(0, sent)], 2);
    // h = 0 − (½ / 2) · ¼ for two clients of whom one came, so w = ¼ + (1/16) / ½.
    assert_eq!((server.h, server.mean), (symmetric(-0.0625).parameters, symmetric(0.25)));
    assert_eq!(server.w, symmetric(0.375));
    // The next step: p_0 = 1 / (1 + e^−1.5) = 0.817574; the gradient is −0.182426 − g = −0.057426.
    let sent = feddyn.train_shared(&mut client, &server.w, &mut pencil.local(0, 1)).unwrap();
    assert_close(&sent, 0.375 + 0.5 * 0.057_426);
}

#[test]
fn two_rounds_of_fedavgms_server() {
    let (pencil, fedavgm) = (Pencil::new(), FedAvgM { beta: 0.5, eta: 0.5 });
    let (mut server, ()) = start(&fedavgm, &symmetric(0.0));
    let mut round = |mean: f32| {
        let sent = vec![(0, symmetric(mean)), (1, symmetric(mean))];
        aggregate(&fedavgm, &mut server, pencil.network(), sent, 2);
        fedavgm.broadcast(&server)
    };
    // Δ = 0 + ⅛ = v, so w = −1/16; then Δ = −1/16 + ¼ = 3/16, v = 1/16 + 3/16 = ¼, w = −1/16 − ⅛.
    assert_eq!(round(-0.125), symmetric(-0.0625));
    assert_eq!(round(-0.25), symmetric(-0.1875));
}

#[test]
fn a_batch_of_pfedme() {
    let mut pencil = Pencil::new();
    let pfedme: PFedMe =
        parsed("pfedme", "lambda = 2\nsteps = 2\neta = 0.25\neta_p = 0.5\nbeta = 0.5");
    let (_, mut client) = start(&pfedme, &symmetric(0.0));
    let sent = pfedme.train_shared(&mut client, &symmetric(0.0), &mut pencil.local(0, 1)).unwrap();
    // θ: a step of ¼, then p_0 = 1 / (1 + e^−1) = 0.731059 and the gradient −0.268941 + 2 · ¼.
    assert_close(&client.w_p, 0.134_471);
    // w_i goes ηλ = half of the way to it.
    assert_close(&sent, 0.067_235);
    let (mut server, _) = start(&pfedme, &symmetric(0.0));
    aggregate(&pfedme, &mut server, pencil.network(), vec![(0, symmetric(0.5))], 1);
    // (1 − ½) · 0 + ½ · ½
    assert_eq!(*pfedme.global_model(&server).unwrap(), symmetric(0.25));
}

#[test]
fn both_phases_of_fedrod() {
    let mut pencil = Pencil::new();
    let fedrod: FedRod = parsed("fedrod", "min_count = 1");
    let (_, mut client) = start(&fedrod, &symmetric(0.0));
    let got = fedrod.broadcast(&start(&fedrod, &symmetric(0.0)).0);
    let sent = fedrod.train_shared(&mut client, &got, &mut pencil.local(1, 1)).unwrap();
    // Three samples of class 1, one granted to class 0: p_1 = 3 / (1 + 3), so the step is
    // ½ · ¼ where FedAvg's is ½ · ½.
    assert_close(&sent.w, -0.125);
    fedrod.train_personal(&mut client, &got, &sent, &mut pencil.local(1, 1)).unwrap();
    // G says ±¼, so p_1 = 1 / (1 + e^−½) = 0.622459, and P steps by ½ · 0.377541.
    let personal = Model { parameters: client.head.clone(), buffers: vec![] };
    assert_close(&personal, -0.188_770);
    // The personal model is the sum of both heads.
    let pm = fedrod.personal_model(&client, &sent, &mut pencil.local(1, 1)).unwrap();
    assert_close(&pm, -0.125 - 0.188_770);
}

/// `H` holds a head for each class; a client trains those of its own classes, as far as it has them.
#[test]
fn fedrods_hypernetwork_learns_by_label_frequencies() {
    let mut pencil = Pencil::new();
    let fedrod: FedRodHypernetwork = parsed("fedrod", "min_count = 1\nhypernetwork = true");
    let (_, mut client) = start(&fedrod, &symmetric(0.0));
    let got = fedrod.broadcast(&start(&fedrod, &symmetric(0.0)).0);
    let sent = fedrod.train_shared(&mut client, &got, &mut pencil.local(1, 1)).unwrap();
    // Client 1 has class 1 alone: its part gets the step that P had above, the other nothing.
    assert_values(&sent.hyper, &[0.0, 0.0, 0.0, 0.0, -0.188_770, 0.188_770, -0.188_770, 0.188_770]);
}

/// A generator whose features are 2, whatever the noise and the class.
fn twos() -> Model {
    // One hidden unit over one number of noise and two classes; all is zero but the last bias.
    Model { parameters: vec![0.0, 0.0, 0.0, 0.0, 0.0, 2.0], buffers: vec![] }
}

fn fedgen(settings: &str) -> FedGen {
    parsed("fedgen", &format!("decay = 0.5\nnoise = 1\nhidden = 1\n{settings}"))
}

#[test]
fn generated_features_train_fedgens_head() {
    let mut pencil = Pencil::new();
    let known = [0].into();
    let got = Taught { w: symmetric(0.0), generator: Some(twos()), known };
    let method = fedgen("a = 2\nb = 0");
    let sent = method.train_shared(&mut (), &got, &mut pencil.local_in(2, 1, 1)).unwrap();
    // Its own class 1: ±½ for weights and biases. Beside it, with a = 2 · ½ in the second round, class 0
    // at z = 2: ∓½ for the biases and ∓1 for the weights.
    assert_values(&sent.w.parameters, &[0.25, -0.25, 0.0, 0.0]);
    assert_eq!(sent.counts, [0, 3]);
}

#[test]
fn generated_features_guide_fedgens_logits() {
    let mut pencil = Pencil::new();
    let guided = |known: &[u32], pencil: &mut Pencil| {
        let known = known.iter().copied().collect();
        let got = Taught { w: symmetric(0.0), generator: Some(twos()), known };
        let method = fedgen("a = 0\nb = 4");
        method.train_shared(&mut (), &got, &mut pencil.local_in(2, 1, 2)).unwrap().w
    };
    // The first step is plain: both heads say nothing yet. Then the model says ∓½ and, at z = 2, its
    // head ∓¾: q_0 = 0.268941, p_0 = 0.182426. With b = 4 · ½ the gradient of the first logit is
    // 0.268941 + 2 · (0.268941 − 0.182426) = 0.441973.
    assert_close(&guided(&[0, 1], &mut pencil), -0.25 - 0.5 * 0.441_973);
    // A class that the generator has not learnt is not guided.
    assert_close(&guided(&[0], &mut pencil), -0.25 - 0.5 * 0.268_941);
}

/// One hidden unit: `a = relu(u + c)`, logits `±(v a + b)`.
fn with_a_body() -> (Pencil, Model) {
    let (mut pencil, shape) = (Pencil::new(), Shape::new(1, 1, 1));
    let spec = NetworkSpec { hidden: Some(vec![1]), ..NetworkSpec::named("mlp") };
    pencil.engine = Cpu::new(spec.build(shape, 2).unwrap());
    pencil.worker = pencil.engine.worker(3);
    // u = 1, c = 0; v = ±1, b = 0.
    (pencil, Model { parameters: vec![1.0, 0.0, 1.0, -1.0, 0.0, 0.0], buffers: vec![] })
}

fn assert_values(values: &[f32], expected: &[f64]) {
    assert_eq!(values.len(), expected.len());
    for (value, expected) in values.iter().zip(expected) {
        assert!((f64::from(*value) - expected).abs() < 1e-6, "{values:?} is not {expected:?}");
    }
}

#[test]
fn a_step_of_fedbabu() {
    let (mut pencil, init) = with_a_body();
    let fedbabu: FedBabu = parsed("fedbabu", "finetune_epochs = 1\nfinetune = \"head\"");
    let sent = fedbabu.train_shared(&mut (), &init, &mut pencil.local(0, 1)).unwrap();
    // Logits ±1: p_0 = 0.880797, ∂/∂logits = ∓0.119203, ∂/∂a = −0.238406 and so for u and c.
    assert_values(&sent.parameters, &[1.119_203, 0.119_203]);
    // Fine-tuning the head of a copy: v and b move by ½ · 0.119203 each.
    let pm = fedbabu.personal_model(&(), &init, &mut pencil.local(0, 1)).unwrap();
    let expected = [1.0, 0.0, 1.059_601, -1.059_601, 0.059_601, -0.059_601];
    assert_values(&pm.parameters, &expected);
}

#[test]
fn a_step_of_fedreps_head_and_one_of_its_body() {
    let (mut pencil, init) = with_a_body();
    let fedrep: FedRep = parsed("fedrep", "head_epochs = 1");
    let (_, mut client) = start(&fedrep, &init);
    let sent = fedrep.train_shared(&mut client, &init, &mut pencil.local(0, 1)).unwrap();
    // The head first, as above.
    assert_values(&client.head, &[1.059_601, -1.059_601, 0.059_601, -0.059_601]);
    // Then logits ±1.119203: p_0 = 0.903646, ∂/∂a = −2 · 1.059601 · 0.096354 = −0.204194.
    assert_values(&sent.parameters, &[1.102_097, 0.102_097]);
}
