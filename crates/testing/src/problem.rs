//! A tiny real problem: five clients with digits of different classes.

use formant_data::{
    Dataset, Federation, Images, Newcomers, Normalisation, Partition, PartitionPlan, Repair,
    Samples,
};
use formant_experiment::Experiment;
use formant_federation::Schedule;
use formant_methods::Zoo;
use formant_numerics::Shape;
use formant_runtime::{Profile, RunPlan};
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

/// Two dense layers: no buffers.
pub const DENSE: &str = "name = \"mlp\"\nhidden = [6]";

/// Batch normalisation in all shapes, as narrow as it gets.
pub const WITH_BUFFERS: &str = "name = \"resnet18\"\nwidth = 1";

/// Two dense layers, and samples to which all happens that can happen to a grey image.
pub const AUGMENTED: &str = "name = \"mlp\"\nhidden = [6]\n[data.augment]\ncrop = 2\nflip = 0.5\n\
    rotation = 10\nbrightness = 0.2\ncontrast = 0.2\ncutout = 4\nmixup = 0.5";

/// Embedded digits, every second pixel of every second row: a quarter of the work.
static DIGITS: LazyLock<Arc<Dataset>> = LazyLock::new(|| {
    let digits = Dataset::load("mnist-small", None).unwrap();
    let halved = |images: &dyn Samples, count: usize| {
        let mut pixels = Vec::new();
        for i in 0..count {
            let bytes = images.bytes(i).unwrap();
            let rows = bytes.chunks_exact(28).step_by(2);
            pixels.extend(rows.flat_map(|row| row.iter().step_by(2)));
        }
        let labels = images.labels()[..count].to_vec();
        let normalisation = [Normalisation::new(0.13, 0.31)];
        Images::new(Shape::new(1, 14, 14), pixels, labels, &normalisation).unwrap()
    };
    let (train, test) = (halved(&*digits.train, 400), halved(&*digits.test, 60));
    Arc::new(Dataset::from_parts("digits-14", digits.class_names, train, test).unwrap())
});

static FEDERATION: LazyLock<Federation> = LazyLock::new(|| {
    let plan = PartitionPlan {
        clients: Some(5),
        partition: Partition::Dirichlet { alpha: 0.5 },
        part: None,
        samples: Some(150),
        min_samples: 12,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    };
    Federation::new(DIGITS.clone(), &plan).unwrap()
});

/// Five clients of unequal sizes with different labels.
pub fn federation() -> &'static Federation {
    &FEDERATION
}

/// The experiment of some methods of a zoo that share a network, over three rounds. Methods and network are
/// given as lines of an experiment file, and sections may follow that of the network; the methods after the first are labelled `number-1`, `number-2` and so on.
///
/// # Panics
///
/// If there is something wrong with them.
pub fn experiment(zoo: &Zoo, methods: &[&str], network: &str) -> Experiment {
    let mut text = format!(
        "seed = 3\nrounds = 3\n[data]\nclients = 5\n[network]\n{network}\n\
         [train]\nbatch = 8\nepochs = 2\npersonal_epochs = 1\nlearning_rate = 0.05\n\
         [runtime]\nthreads = 2\ncheckpoint_every = 2\n"
    );
    for (i, method) in methods.iter().enumerate() {
        let label = if i == 0 { String::new() } else { format!("label = \"number-{i}\"\n") };
        writeln!(text, "[[method]]\n{label}{method}").unwrap();
    }
    parse(zoo, &text)
}

/// An experiment whose methods come from a zoo.
pub(crate) fn parse(zoo: &Zoo, text: &str) -> Experiment {
    let table = text.parse().unwrap_or_else(|error| panic!("{error} in\n{text}"));
    Experiment::parse(&table, &[], zoo).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// A plan for several methods on one network, over the tiny federation.
///
/// # Panics
///
/// As [`experiment`].
pub fn plan(zoo: &Zoo, methods: &[&str], network: &str) -> RunPlan {
    experiment(zoo, methods, network).plan_on(federation().clone()).unwrap()
}

/// The client that diverges in [`plan_with_a_client_that_diverges`].
pub const DIVERGES: usize = 2;

/// One method on a linear classifier over the tiny federation with one more client, [`DIVERGES`], whose pixels are so
/// bright that its training leaves the finite numbers, unless the method clips its gradients.
///
/// # Panics
///
/// As [`experiment`].
pub fn plan_with_a_client_that_diverges(zoo: &Zoo, method: &str) -> RunPlan {
    let clean = &federation().dataset;
    let bright_count = 12;
    let shape = Shape::new(2, 14, 14);
    // Two channels: the digit, and one that is lit only on the bright client's images. Its
    // normalisation turns a lit pixel into an enormous number.
    let lifted = |images: &dyn Samples, lit: std::ops::Range<usize>| {
        let mut pixels = Vec::new();
        for i in 0..images.len() {
            pixels.extend_from_slice(&images.bytes(i).unwrap());
            pixels.extend([if lit.contains(&i) { 255 } else { 0 }; 196]);
        }
        let normalisation = [Normalisation::NONE, Normalisation::new(0.0, 1e-20)];
        Images::new(shape, pixels, images.labels(), &normalisation).unwrap()
    };
    let total = clean.train.len();
    let train = lifted(&*clean.train, total - bright_count..total);
    let test = lifted(&*clean.test, 0..0);
    let dataset = Dataset::from_parts("bright", clean.class_names.clone(), train, test).unwrap();
    let bright = |i: &u32| (*i as usize) >= total - bright_count;
    let mut clients = federation().clients.clone();
    for client in &mut clients {
        client.train.retain(|i| !bright(i));
        client.validation.retain(|i| !bright(i));
        client.test.retain(|i| !bright(i));
    }
    let mut odd = clients[0].clone();
    odd.train = (total - bright_count..total).map(|i| i as u32).collect();
    clients.insert(DIVERGES, odd);
    let federation = Federation {
        dataset: Arc::new(dataset),
        clients,
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    };
    experiment(zoo, &[method], "name = \"logistic\"").plan_on(federation).unwrap()
}

/// Devices and links on which everything takes time, and for everybody another one.
const TIMED: Profile = Profile {
    samples_per_second: 40.0,
    device_spread: 0.7,
    up: 20_000.0,
    down: 50_000.0,
    link_spread: 0.4,
    latency: 0.05,
    jitter: 0.1,
    loss: 0.02,
};

/// Gives a plan a schedule, and a virtual clock on which everything takes time.
pub fn timed(plan: &mut RunPlan, schedule: Schedule) {
    plan.profile = TIMED;
    plan.protocol.schedule = schedule;
}
