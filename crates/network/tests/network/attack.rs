//! What a server that chooses the weights can rebuild of one upload: the attack after which the rules about
//! steps were made, and what they leave of it. docs/SECURITY.md quotes the figures.
//!
//! All hidden units look at the brightness of a picture, each with a threshold of its own. A sample between
//! the thresholds of two neighbours moves one of them and not the other, so the difference of what both have
//! learnt, divided by that of their biases, is the sample (Fowl et al., *Robbing the Fed*, ICLR 2022).

use formant_experiment::OneMethod;
use formant_methods::Zoo;
use formant_network::ServerSettings;
use formant_numerics::{Model, Samples, vector};
use formant_runtime::{Hand, RunPlan};

/// Training images of the client.
const HELD: usize = 41;
const HIDDEN: usize = 1_000;

fn plan(train: &str) -> RunPlan {
    let text = format!(
        "rounds = 1\n[data]\nsource = \"mnist-small\"\nclients = 1\nsamples = 4000\n\
         [network]\nname = \"mlp\"\nhidden = [{HIDDEN}]\n[train]\n{train}\n[[method]]\nname = \"fedavg\"\n"
    );
    let (experiment, _): (OneMethod, _) =
        ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard()).unwrap();
    experiment.plan().unwrap()
}

fn pictures(samples: &dyn Samples, indices: &[u32]) -> Vec<Vec<f32>> {
    let values = samples.shape().len();
    let gather = |index: &u32| {
        let mut picture = vec![0.0; values];
        samples.gather(&[*index], &mut picture);
        picture
    };
    indices.iter().map(gather).collect()
}

/// Thresholds at the quantiles of other people's pictures, and a head so weak that steps hardly move it.
fn trap(plan: &RunPlan, public: &[Vec<f32>]) -> Model {
    let values = public[0].len();
    let mut brightness: Vec<f32> =
        public.iter().map(|picture| picture.iter().sum::<f32>() / values as f32).collect();
    brightness.sort_by(f32::total_cmp);
    let mut parameters = vec![1.0 / values as f32; HIDDEN * values];
    let quantile = |unit: usize| brightness[unit * (brightness.len() - 1) / HIDDEN];
    parameters.extend((0..HIDDEN).map(|unit| -quantile(unit)));
    for class in 0..10 {
        parameters.extend(std::iter::repeat_n(1e-2 * (class as f32 - 4.5), HIDDEN));
    }
    parameters.extend([0.0; 10]);
    assert_eq!(parameters.len(), plan.engine.network().layout().parameters());
    Model { parameters, buffers: Vec::new() }
}

/// How many of the client's pictures can be told from one upload.
fn rebuilt(train: &str) -> usize {
    let plan = plan(train);
    let mut desk = plan.desk(&plan.methods[0], 0);
    let (held, public) = desk.train.split_at(HELD);
    desk.train = held;
    let (secret, public) = (pictures(desk.samples, held), pictures(desk.samples, public));
    let model = trap(&plan, &public);
    let method = &*plan.methods[0].method;
    let got = method.broadcast(&method.start_server(&model)).unwrap();
    let mut state = method.start_client(&model);
    let mut hand = Hand::new(&*plan.engine, HELD);
    let (upload, _) = desk.shared(1, &mut state, &got, &mut hand).unwrap();
    let upload = upload.unwrap();
    let learnt = method.upload_vectors(&upload).unwrap()[0];
    let values = secret[0].len();
    let change = |at: usize| f64::from(learnt[at]) - f64::from(model.parameters[at]);
    let of = |unit: usize| {
        let weights: Vec<f64> = (0..values).map(|i| change(unit * values + i)).collect();
        (weights, change(HIDDEN * values + unit))
    };
    let mut found = Vec::new();
    for unit in 0..HIDDEN - 1 {
        let ((weights, bias), (next, beside)) = (of(unit), of(unit + 1));
        let apart = bias - beside;
        if apart != 0.0 {
            let picture = weights.iter().zip(&next).map(|(a, b)| ((a - b) / apart) as f32);
            found.push(picture.collect::<Vec<f32>>());
        }
    }
    let is_found = |picture: &&Vec<f32>| {
        let size = vector::norm_squared(picture);
        found.iter().any(|guess| vector::distance_squared(guess, picture) < 0.01 * size)
    };
    secret.iter().filter(is_found).count()
}

#[test]
fn one_step_gives_pictures_away_and_the_rules_alone_do_not_end_it() {
    // What the defaults refuse.
    let one_step = rebuilt("batch = 65536\nepochs = 1\nlearning_rate = 0.1");
    // What they let through.
    let permitted = [0.1, 0.01, 0.001]
        .map(|rate| rebuilt(&format!("batch = 10\nepochs = 2\nlearning_rate = {rate}")));
    println!("{one_step} of {HELD} by one step, {permitted:?} by ten");
    assert!(one_step >= 30, "{one_step}");
    // The smaller the steps, the more they are a gradient.
    assert!(permitted.is_sorted() && permitted[0] < one_step, "{permitted:?}");
}
