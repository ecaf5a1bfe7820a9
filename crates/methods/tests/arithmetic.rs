//! One round of FedAvg and of Ditto on a problem so small that a pencil suffices.
//!
//! Two classes, images of one white pixel, softmax regression: the logit of class `c` is
//! `w_c · 1 + b_c`, and weight and bias have the same gradient, `p_c − 1{y = c}`. All parameters
//! start at zero. Client 0 holds one sample of class 0, client 1 three of class 1; the learning rate
//! is ½ and a batch holds everything.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{Images, Normalisation};
use formant_methods::{
    Central, Ditto, FedAvg, Local, Method, PhaseSettings, Upload, Uploads, weighted_mean,
};
use formant_numerics::{Model, Network, NetworkSpec, Rng, Sgd, Shape, Stream, Worker};

const SAMPLES: [&[u32]; 2] = [&[0], &[1, 2, 3]];

struct Pencil {
    network: Box<dyn Network>,
    images: Images,
    worker: Worker,
}

impl Pencil {
    fn new() -> Self {
        let shape = Shape::new(1, 1, 1);
        let network = NetworkSpec::named("logistic").build(shape, 2).unwrap();
        let images =
            Images::new(shape, vec![255; 4], vec![0, 1, 1, 1], &[Normalisation::NONE]).unwrap();
        let worker = Worker::new(&*network, 3);
        Self { network, images, worker }
    }

    fn local(&mut self, client: usize, epochs: usize) -> Local<'_> {
        let settings = PhaseSettings { epochs, batch: 3, sgd: Sgd::plain(0.5) };
        let rng = Rng::new(1, Stream::Test, 1, client as u64);
        let samples = (&self.images, SAMPLES[client]);
        Local::new(&*self.network, samples, &mut self.worker, (rng, settings), (1, 1))
    }
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
    let mut server = fedavg.start_server(&symmetric(0.0));
    let got = fedavg.broadcast(&server);
    // Both classes have p = ½. Client 0 steps by −½(½ − 1) = +¼ towards class 0, client 1 by as
    // much towards class 1: a mean over three equal samples is that of one.
    let sent: Vec<Model> = (0..2)
        .map(|client| fedavg.train_shared(&mut (), &got, &mut pencil.local(client, 1)).unwrap())
        .collect();
    assert_eq!(sent, [symmetric(0.25), symmetric(-0.25)]);
    let mut uploads = sent.into_iter().zip(SAMPLES).enumerate().map(|(client, (message, held))| {
        Ok(Upload { client, weight: held.len() as f64, staleness: 0, message })
    });
    let rng = Rng::new(1, Stream::Test, 0, 0);
    let mut central = Central { network: &*pencil.network, rng, round: 1 };
    fedavg.aggregate(&mut server, Uploads::new(&mut uploads), &mut central).unwrap();
    // (1 · ¼ − 3 · ¼) / 4 = −⅛
    assert_eq!(*fedavg.global_model(&server).unwrap(), symmetric(-0.125));
}

#[test]
fn a_round_of_ditto() {
    let (mut pencil, ditto) = (Pencil::new(), Ditto { lambda: 1.0 });
    let mut client = ditto.start_client(&symmetric(0.0));
    let got = symmetric(-0.125);
    let sent = ditto.train_shared(&mut client, &got, &mut pencil.local(0, 1)).unwrap();
    // Logits ∓¼, so p_0 = 1 / (1 + e^½) = 0.377541; the step is ½(1 − p_0) = 0.311230.
    assert_close(&sent, -0.125 + 0.311_230);
    assert_eq!(client.theta, symmetric(0.0), "the shared phase leaves θ alone");
    ditto.train_personal(&mut client, &got, &sent, &mut pencil.local(0, 2)).unwrap();
    // First step, from θ = 0: gradient (½ − 1) + 1 · (0 − (−⅛)) = −0.375, so θ = 0.1875.
    // Second: logits ±0.375, p_0 = 1 / (1 + e^−0.75) = 0.679179; gradient
    // (0.679179 − 1) + (0.1875 + 0.125) = −0.008321, so θ = 0.1875 + 0.004161 = 0.191661.
    assert_close(&client.theta, 0.191_661);
}

#[test]
fn the_weights_of_a_mean_are_relative() {
    let mean = |scale: f64| {
        let models = [(1.0, symmetric(1.0)), (3.0, symmetric(-1.0))];
        let mut uploads = models.into_iter().enumerate().map(|(client, (weight, message))| {
            Ok(Upload { client, weight: weight * scale, staleness: 0, message })
        });
        weighted_mean(Uploads::new(&mut uploads), |w| w).unwrap()
    };
    assert_eq!(mean(1.0), symmetric(-0.5));
    assert_eq!(mean(8.0), mean(1.0));
}
