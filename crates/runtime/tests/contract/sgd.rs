//! One client, one round: a loop of plain SGD written out with nothing but the network.

use crate::standard::experiment;
use formant_data::{Federation, Newcomers};
use formant_numerics::{
    Batch, Model, NetworkSpec, OutputGradient, Part, Pass, Rng, Stream, cross_entropy,
};
use formant_runtime::RunPlan;
use formant_testing::{ByHand, DENSE, Folder, WITH_BUFFERS, federation};

/// A plan with the first client of the tiny federation alone.
fn lonely(method: &str, network: &str) -> RunPlan {
    let clients = vec![federation().clients[0].clone()];
    let federation = Federation {
        dataset: federation().dataset.clone(),
        clients,
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    };
    let mut plan = experiment(&[method], network).plan_on(federation).unwrap();
    plan.rounds = 1;
    plan
}

/// `epochs` of plain SGD from the initial model over batches that a stream shuffles.
fn written_out(plan: &RunPlan, network: &str, stream: Stream, epochs: usize) -> Model {
    let spec: NetworkSpec = toml::from_str(network).unwrap();
    let network = spec.build(plan.federation.dataset.shape, 10).unwrap();
    let images = &plan.federation.dataset.train;
    let mut model = network.init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
    let mut order = plan.federation.clients[0].train.clone();
    let mut rng = Rng::new(plan.seed, stream, 1, 0);
    let mut work = network.workspace(64);
    let (mut gradient, mut labels) = (vec![0.0; model.parameters.len()], Vec::new());
    for _ in 0..epochs {
        rng.shuffle(&mut order);
        for chunk in order.chunks(8) {
            let mut inputs = vec![0.0; chunk.len() * network.input().len()];
            images.gather(chunk, &mut inputs);
            images.gather_labels(chunk, &mut labels);
            let batch = Batch { inputs: &inputs, labels: &labels };
            let output = network.forward(Pass::Train(&mut model), &batch, &mut work);
            let mut d_logits = vec![0.0; output.logits.len()];
            cross_entropy(output.logits, &labels, &mut d_logits);
            let seed = OutputGradient { logits: &d_logits, features: None };
            network.backward(&model, seed, Part::All, &mut work, &mut gradient);
            for (w, g) in model.parameters.iter_mut().zip(&gradient) {
                *w -= 0.05 * g;
            }
        }
    }
    model
}

/// The batches of the shared phase, and its epochs.
const GENERIC: (Stream, usize) = (Stream::SharedPhase, 2);
/// The same of the personal phase.
const PERSONAL: (Stream, usize) = (Stream::PersonalPhase, 1);

#[test]
fn one_client_and_one_round_is_plain_sgd() {
    for network in [DENSE, WITH_BUFFERS] {
        // Without a second client or a term there is nothing but SGD: the generic model with the
        // shared phase's batches, the personal one with the personal phase's.
        let pfedme = "name = \"pfedme\"\nlambda = 0\nsteps = 1\neta_p = 0.05";
        for (method, generic, personal) in [
            ("name = \"fedavg\"", Some(GENERIC), None),
            ("name = \"fedprox\"\nmu = 0", Some(GENERIC), None),
            ("name = \"fedavgm\"\nbeta = 0", Some(GENERIC), None),
            // One client's first round: Δ is the whole way, and there is no velocity yet.
            ("name = \"fedavgm\"", Some(GENERIC), None),
            // Before there is a generator.
            ("name = \"fedgen\"", Some(GENERIC), None),
            ("name = \"fedrod\"\ngamma = 0", Some(GENERIC), None),
            ("name = \"local\"", None, Some(PERSONAL)),
            ("name = \"ditto\"\nlambda = 0", Some(GENERIC), Some(PERSONAL)),
            ("name = \"scd\"\nlambda_g = 0\nlambda_p = 0", Some(GENERIC), Some(PERSONAL)),
            // Its personal model trains where the copy of the generic one does.
            (pfedme, None, Some(GENERIC)),
        ] {
            let admitted = format!("{method}\nallow_degenerate = true");
            let degenerate = method.contains("= 0") && !method.contains("gamma");
            let plan = lonely(if degenerate { &admitted } else { method }, network);
            let mut by_hand = ByHand::new(&plan);
            by_hand.round();
            if let Some((stream, epochs)) = generic {
                assert_eq!(by_hand.gm(), written_out(&plan, network, stream, epochs), "{method}");
            }
            if let Some((stream, epochs)) = personal {
                assert_eq!(by_hand.pm(0), written_out(&plan, network, stream, epochs), "{method}");
            }
            let folder = Folder::new();
            folder.run(&plan).unwrap();
            assert_eq!(folder.result().fingerprints, [by_hand.fingerprint()], "{method}");
        }
    }
}

/// With no slope yet and one client, FedDyn's first round is FedProx's with `μ = α`.
#[test]
fn feddyns_first_round_is_fedproxs() {
    for network in [DENSE, WITH_BUFFERS] {
        let gm = |method: &str| {
            let plan = lonely(method, network);
            let mut by_hand = ByHand::new(&plan);
            by_hand.round();
            by_hand.gm()
        };
        let feddyn = gm("name = \"feddyn\"\nalpha = 0.5\nclip = 1e9");
        assert_eq!(feddyn, gm("name = \"fedprox\"\nmu = 0.5"));
        assert_ne!(feddyn, gm("name = \"feddyn\"\nalpha = 0.5\nclip = 0.01"), "it is clipped");
    }
}

/// The average of one is itself: with one client the server keeps what was sent.
#[test]
fn with_one_client_the_generic_model_is_its_upload() {
    for name in ["fedavg", "fedprox", "feddyn", "fedavgm", "pfedme", "ditto", "scd"] {
        let plan = lonely(&format!("name = \"{name}\""), WITH_BUFFERS);
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        assert_eq!(by_hand.gm(), by_hand.sent_model(0), "{name}");
    }
}
