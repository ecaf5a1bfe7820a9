//! Whole rounds against the bare training steps that they consist of, alternating in one process.
//!
//! `cargo bench -p formant-runtime --bench round -- [key=value ..]` with the keys and defaults
//! `clients=100 images=100 test=25 network=cnn shape=3x32x32 memory=64GiB methods=fedavg,ditto
//! repetitions=5 rounds=1 threads=2 batch=10 momentum=0 folder= bare=1`. `bare=0` leaves the bare steps out. Images are noise: throughput does not
//! depend on what they show.
//!
//! "In phases" is the share of the workers' time of a round that they spend inside training phases;
//! the rest is idle or overhead. Wall time says what a user waits for; processor time (user and system, all threads) says what a
//! round computes beside its steps, and stays usable while a neighbour keeps the machine busy.

use formant_data::{ClientData, Dataset, Federation, Images, Newcomers, Normalisation};
use formant_experiment::Experiment;
use formant_numerics::{
    CpuWorker, Descent, NetworkSpec, Objective, Optimiser, Part, Rng, Rule, Shape, Stream, Tape,
    Term, Worker,
};
use formant_runtime::event::Event;
use formant_runtime::{Observer, sim};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const CLASSES: usize = 10;

/// What the command line says, over defaults.
struct Settings(HashMap<String, String>);

impl Settings {
    fn read() -> Self {
        let defaults = "clients=100 images=100 test=25 network=cnn shape=3x32x32 memory=64GiB \
                        methods=fedavg,ditto repetitions=5 rounds=1 threads=2 batch=10 momentum=0 \
                        folder= bare=1";
        let pairs = defaults.split_whitespace().map(String::from).chain(std::env::args().skip(1));
        let split = |pair: String| pair.split_once('=').map(|(k, v)| (k.into(), v.into()));
        Self(pairs.filter_map(split).collect())
    }

    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    fn number(&self, key: &str) -> usize {
        self.text(key).parse().unwrap_or_else(|_| panic!("{key} must be a whole number"))
    }
}

/// Wall and processor seconds of a stretch of work.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
}

/// Seconds of user and system time of this process, with all its threads, so far.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces; the times are the 12th and 13th field after it.
    let fields: Vec<&str> =
        stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(f64::NAN);
    (ticks(11) + ticks(12)) / 100.0
}

fn timed(work: impl FnOnce()) -> Cost {
    let (wall, cpu) = (Instant::now(), processor_seconds());
    work();
    Cost { wall: wall.elapsed().as_secs_f64(), cpu: processor_seconds() - cpu }
}

/// `steps` steps on every thread: what a round would cost if it were nothing else.
fn bare(network: &Arc<Tape>, settings: &Settings, steps: usize, anchored: bool) -> Cost {
    let batch = settings.number("batch");
    let mut workers: Vec<_> = (0..settings.number("threads"))
        .map(|i| {
            let mut rng = Rng::new(1, Stream::Test, 0, i as u64);
            let model = network.init(&mut rng);
            let mut worker = CpuWorker::new(network.clone(), batch);
            worker.inputs.extend((0..batch * network.input().len()).map(|_| rng.normal() as f32));
            worker.labels.extend((0..batch).map(|_| rng.below(CLASSES) as u32));
            (worker, model)
        })
        .collect();
    let momentum = settings.text("momentum").parse().expect("momentum is a number");
    let optimiser = Optimiser { rule: Rule::momentum(momentum), ..Optimiser::sgd(1e-4) };
    timed(|| {
        std::thread::scope(|scope| {
            for (worker, model) in &mut workers {
                scope.spawn(|| {
                    let anchor = model.parameters.clone();
                    let pull = [1.0 * Term::Proximal { anchor: &anchor }];
                    let terms = if anchored { &pull[..] } else { &[] };
                    let objective = Objective { terms, ..Objective::CROSS_ENTROPY };
                    let descent = Descent { optimiser, part: Part::All };
                    for _ in 0..steps {
                        worker.step(model, descent, &objective).expect("finite");
                    }
                });
            }
        });
    })
}

/// Clients of equal size, as the comparison with other systems has them.
fn federation(settings: &Settings, shape: Shape) -> Federation {
    let (clients, train, test) =
        (settings.number("clients"), settings.number("images"), settings.number("test"));
    let mut rng = Rng::new(1, Stream::Test, 1, 0);
    let mut images = |count: usize| {
        let pixels = (0..count * shape.len()).map(|_| rng.below(256) as u8).collect();
        let labels = (0..count).map(|i| (i % CLASSES) as u16).collect();
        let normalisation = vec![Normalisation::new(0.5, 0.25); shape.channels];
        Images::new(shape, pixels, labels, &normalisation).expect("matching parts")
    };
    let names = (0..CLASSES).map(|c| c.to_string()).collect();
    let (local, global) = (images(clients * (train + test)), images(1_000));
    let dataset = Dataset::from_parts("noise", names, local, global).expect("matching parts");
    let each = (train + test) as u32;
    let clients = (0..clients as u32).map(|client| {
        let first = client * each;
        ClientData {
            train: (first..first + train as u32).collect(),
            validation: Vec::new(),
            test: (first + train as u32..first + each).collect(),
        }
    });
    Federation {
        dataset: Arc::new(dataset),
        clients: clients.collect(),
        names: None,
        repaired: None,
        newcomers: Newcomers::default(),
    }
}

/// Processor and wall time of rounds and evaluations, from the events that frame them.
struct Stopwatch {
    mark: Mutex<(f64, Instant)>,
    rounds: Mutex<Vec<Cost>>,
    evaluations: Mutex<Vec<Cost>>,
    /// Seconds inside phases, over all rounds and workers.
    phases: Mutex<f64>,
}

impl Stopwatch {
    fn new() -> Self {
        let mark = Mutex::new((processor_seconds(), Instant::now()));
        Self {
            mark,
            rounds: Mutex::default(),
            evaluations: Mutex::default(),
            phases: Mutex::default(),
        }
    }
}

impl Observer for Stopwatch {
    fn event(&self, event: &Event) {
        let mut mark = self.mark.lock().expect("no panic before");
        let cost = Cost { wall: mark.1.elapsed().as_secs_f64(), cpu: processor_seconds() - mark.0 };
        let list = match event {
            Event::RoundFinished { .. } => Some(&self.rounds),
            Event::Evaluated(_) => Some(&self.evaluations),
            // The log of a round's phases is written at its end.
            Event::PhaseDone { seconds, .. } => {
                *self.phases.lock().expect("no panic before") += seconds;
                return;
            }
            Event::Uploaded { .. } => return,
            _ => None,
        };
        if let Some(list) = list {
            list.lock().expect("no panic before").push(cost);
        }
        *mark = (processor_seconds(), Instant::now());
    }
}

fn experiment(method: &str, settings: &Settings) -> Experiment {
    let text = format!(
        "seed = 1\nrounds = {}\n[data]\nclients = {}\n[network]\nname = \"{}\"\n\
         [train]\nbatch = {}\nepochs = 1\npersonal_epochs = 1\nlearning_rate = 1e-4\nmomentum = {}\n\
         [runtime]\nthreads = {}\nmemory = \"{}\"\ncheckpoint_every = 1000\n\
         [[method]]\nname = \"{method}\"\n",
        settings.number("rounds"),
        settings.number("clients"),
        settings.text("network"),
        settings.number("batch"),
        settings.text("momentum"),
        settings.number("threads"),
        settings.text("memory"),
    );
    Experiment::parse(&text.parse().expect("TOML"), &[], &formant_methods::Zoo::standard())
        .expect("a valid experiment")
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn resident_peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}

fn main() {
    let settings = Settings::read();
    let sides: Vec<usize> =
        settings.text("shape").split('x').map(|s| s.parse().expect("a shape")).collect();
    let shape = Shape::new(sides[0], sides[1], sides[2]);
    let network =
        NetworkSpec::named(settings.text("network")).build(shape, CLASSES).expect("a network");
    let federation = federation(&settings, shape);
    let per_phase = settings.number("clients") * settings.number("images");
    let steps = per_phase / settings.number("batch") / settings.number("threads");
    let steps = steps * settings.number("bare");
    let methods: Vec<&str> = settings.text("methods").split(',').collect();
    let folder = match settings.text("folder") {
        "" => std::env::temp_dir(),
        given => given.into(),
    };
    let mut ratios: HashMap<&str, Vec<[f64; 5]>> = HashMap::new();
    for repetition in 0..settings.number("repetitions") {
        for method in &methods {
            // Before and after, so that drift cancels.
            let bare_once = || {
                let plain = bare(&network, &settings, steps / 2, false);
                let anchored = if *method == "ditto" {
                    bare(&network, &settings, steps / 2, true)
                } else {
                    plain
                };
                [plain, anchored]
            };
            let before = bare_once();
            let plan = experiment(method, &settings)
                .plan_on(federation.clone())
                .expect("a plan over this federation");
            let folder = folder.join(format!("formant-round-{}", std::process::id()));
            let watch = Stopwatch::new();
            sim::run(&plan, &folder, &watch, &AtomicBool::new(false)).expect("a run");
            std::fs::remove_dir_all(&folder).expect("the run's folder");
            let after = bare_once();
            let phases = if *method == "ditto" { 2.0 } else { 1.0 };
            let images = per_phase as f64 * phases;
            let of = |i: usize, cost: fn(&Cost) -> f64| cost(&before[i]) + cost(&after[i]);
            let rounds = watch.rounds.into_inner().expect("no panic before");
            let evaluations = watch.evaluations.into_inner().expect("no panic before");
            let workers =
                rounds.iter().map(|c| c.wall).sum::<f64>() * settings.number("threads") as f64;
            let busy = watch.phases.into_inner().expect("no panic before") / workers;
            let wall = median(rounds.iter().map(|c| c.wall));
            let cpu = median(rounds.iter().map(|c| c.cpu));
            // The bare steps above make one phase's images of each kind.
            let plain_wall = of(0, |c| c.wall) * phases;
            let same_wall =
                if phases == 2.0 { of(0, |c| c.wall) + of(1, |c| c.wall) } else { plain_wall };
            let same_cpu =
                if phases == 2.0 { of(0, |c| c.cpu) + of(1, |c| c.cpu) } else { of(0, |c| c.cpu) };
            println!(
                "{repetition} {method:7} bare {:6.0} images/s, round {:6.0} ({:.3} of bare, {:.3} of the same \
                 steps; processor {:.3}; in phases {busy:.3}), evaluation {:.2} s ({:.2} s processor)",
                images / plain_wall,
                images / wall,
                plain_wall / wall,
                same_wall / wall,
                same_cpu / cpu,
                median(evaluations.iter().map(|c| c.wall)),
                median(evaluations.iter().map(|c| c.cpu)),
            );
            let row = [images / wall, plain_wall / wall, same_wall / wall, same_cpu / cpu, busy];
            ratios.entry(method).or_default().push(row);
        }
    }
    for method in &methods {
        let column = |i: usize| median(ratios[method].iter().map(|row| row[i]));
        println!(
            "median {method:7} round {:6.0} images/s, {:.3} of bare, {:.3} of the same steps, processor {:.3}, in phases {:.3}",
            column(0),
            column(1),
            column(2),
            column(3),
            column(4),
        );
    }
    println!("peak resident memory {}", resident_peak());
}
