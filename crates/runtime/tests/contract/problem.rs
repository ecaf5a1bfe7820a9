//! A tiny real problem, and runs of it.

use formant_data::{Dataset, Federation, Images, Normalisation, Partition, PartitionPlan, Samples};
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_numerics::Shape;
use formant_runtime::event::{Evaluated, Event};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Observer, Quiet, RunPlan, RuntimeError};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use xxhash_rust::xxh3::xxh3_64;

/// One method with its hyper-parameters on one network.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// `name` and hyper-parameters, as in a file.
    pub(crate) method: String,
    /// The section `[network]`.
    pub(crate) network: &'static str,
}

/// Two dense layers: no buffers.
pub(crate) const DENSE: &str = "name = \"mlp\"\nhidden = [6]";
/// Batch normalisation in all shapes, as narrow as it gets.
pub(crate) const WITH_BUFFERS: &str = "name = \"resnet18\"\nwidth = 1";

/// Strengths at which each form of SCD is felt and yet trains.
pub(crate) const FORMS: [(&str, f64); 4] =
    [("normalized", 10.0), ("raw", 1e-5), ("generalized", 1e-4), ("complex", 0.1)];
pub(crate) const SCOPES: [&str; 2] = ["flat", "per-layer"];

/// Every method with its defaults on both networks, SCD in all its forms and scopes and with a
/// warm-up that ends in the middle, and FedRoD with its hypernetwork.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for entry in Zoo::standard().entries() {
        for network in [DENSE, WITH_BUFFERS] {
            cases.push(Case { method: format!("name = \"{}\"", entry.name), network });
        }
    }
    for (form, lambda) in FORMS {
        for scope in SCOPES {
            let strengths = format!("lambda_p = {lambda}\nlambda_g = {lambda}");
            let method =
                format!("name = \"scd\"\nform = \"{form}\"\nscope = \"{scope}\"\n{strengths}");
            cases.push(Case { method, network: DENSE });
        }
    }
    let method = "name = \"scd\"\nwarm_up = 0.34".into();
    cases.push(Case { method, network: WITH_BUFFERS });
    let method = "name = \"fedrod\"\nhypernetwork = true".into();
    cases.push(Case { method, network: WITH_BUFFERS });
    cases
}

/// Embedded digits, every second pixel of every second row: a quarter of the work.
static DIGITS: LazyLock<Arc<Dataset>> = LazyLock::new(|| {
    let digits = Dataset::load("mnist-small", None).unwrap();
    let halved = |images: &dyn Samples, count: usize| {
        let mut pixels = Vec::new();
        for i in 0..count {
            let rows = images.bytes(i).unwrap().chunks_exact(28).step_by(2);
            pixels.extend(rows.flat_map(|row| row.iter().step_by(2)));
        }
        let labels = images.labels()[..count].to_vec();
        let normalisation = [Normalisation::new(0.13, 0.31)];
        Images::new(Shape::new(1, 14, 14), pixels, labels, &normalisation).unwrap()
    };
    let (train, test) = (halved(&*digits.train, 400), halved(&*digits.test, 60));
    Arc::new(Dataset::from_parts("digits-14", digits.class_names, train, test).unwrap())
});

/// Five clients of unequal sizes with different labels.
pub(crate) static FEDERATION: LazyLock<Federation> = LazyLock::new(|| {
    let plan = PartitionPlan {
        clients: 5,
        partition: Partition::Dirichlet { alpha: 0.5 },
        samples: Some(150),
        min_samples: 12,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    };
    Federation::new(DIGITS.clone(), &plan).unwrap()
});

/// The experiment of some cases that share a network, over three rounds.
pub(crate) fn experiment(methods: &[&str], network: &str) -> Experiment {
    let mut text = format!(
        "seed = 3\nrounds = 3\n[data]\nclients = 5\n[network]\n{network}\n\
         [train]\nbatch = 8\nepochs = 2\npersonal_epochs = 1\nlearning_rate = 0.05\n\
         [runtime]\nthreads = 2\ncheckpoint_every = 2\n"
    );
    for (i, method) in methods.iter().enumerate() {
        let label = if i == 0 { String::new() } else { format!("label = \"number-{i}\"\n") };
        writeln!(text, "[[method]]\n{label}{method}").unwrap();
    }
    Experiment::parse(&text.parse().unwrap(), &[], &Zoo::standard()).unwrap()
}

/// A plan for several methods on one network, over the tiny federation.
pub(crate) fn plan_of(methods: &[&str], network: &str) -> RunPlan {
    experiment(methods, network).plan_on(FEDERATION.clone()).unwrap()
}

impl Case {
    pub(crate) fn plan(&self) -> RunPlan {
        plan_of(&[&self.method], self.network)
    }

    /// The plan with something changed.
    pub(crate) fn plan_with(&self, change: impl FnOnce(&mut RunPlan)) -> RunPlan {
        let mut plan = self.plan();
        change(&mut plan);
        plan
    }
}

/// A run folder that outlives its run.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Runs a plan to its end in this folder, or goes on with it.
    pub(crate) fn run(&self, plan: &RunPlan) -> Result<(), RuntimeError> {
        assert_eq!(
            sim::run(plan, self.path(), &Quiet, &AtomicBool::new(false))?,
            Outcome::Complete
        );
        Ok(())
    }

    /// Runs a plan until some round of some method is finished.
    pub(crate) fn run_until(&self, plan: &RunPlan, method: usize, round: usize) -> Outcome {
        let stop = AtomicBool::new(false);
        let label = plan.methods[method].label.clone();
        let observer = StopAfter { label, round, stop: &stop };
        sim::run(plan, self.path(), &observer, &stop).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.file(EVENTS_FILE)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What must not depend on how a run was executed.
    pub(crate) fn result(&self) -> Fate {
        Fate { models: self.models(), ..fate(&self.events()) }
    }

    /// Every model file with a hash of its bytes.
    fn models(&self) -> Vec<(PathBuf, u64)> {
        let files = formant_model::folder::all(self.path(), None).unwrap_or_default();
        let hashed = files.into_iter().map(|file| {
            let hash = xxh3_64(&std::fs::read(&file).unwrap());
            (file.strip_prefix(self.path()).unwrap().to_owned(), hash)
        });
        hashed.collect()
    }
}

pub(crate) struct StopAfter<'a> {
    pub(crate) label: String,
    pub(crate) round: usize,
    pub(crate) stop: &'a AtomicBool,
}

impl Observer for StopAfter<'_> {
    fn event(&self, event: &Event) {
        if let Event::RoundFinished { method, round, .. } = event
            && (method, *round) == (&self.label, self.round)
        {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Fingerprints, evaluations and models of a run, without times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fate {
    pub(crate) fingerprints: Vec<String>,
    pub(crate) evaluations: Vec<Evaluated>,
    pub(crate) models: Vec<(PathBuf, u64)>,
}

pub(crate) fn fate(events: &[Event]) -> Fate {
    let mut fate = Fate { fingerprints: Vec::new(), evaluations: Vec::new(), models: Vec::new() };
    for event in events {
        match event {
            Event::MethodFinished { fingerprint, .. } => {
                fate.fingerprints.extend(fingerprint.clone());
            }
            Event::Evaluated(evaluated) => {
                fate.evaluations.push(Evaluated { seconds: 0.0, ..evaluated.clone() });
            }
            _ => {}
        }
    }
    fate
}

/// Runs a plan in a folder of its own.
pub(crate) fn run(plan: &RunPlan) -> Fate {
    let folder = Folder::new();
    folder.run(plan).unwrap();
    folder.result()
}
