//! A party of ranks on threads.

use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_ranks::{Fabric, Leader, Link, Mesh, Place, Spot, dismiss, follow};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Observer, Quiet, RunPlan, RuntimeError};
use formant_testing::{Fate, Folder, federation};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// Everything takes time, and for everybody another one.
pub(crate) const TIMED: &str = "[devices]\nsamples_per_second = 40.0\nspread = 0.7\n\
    [links]\nup = \"20kB\"\ndown = \"50kB\"\nspread = 0.4\nlatency = \"50ms\"\njitter = \"100ms\"\n";

/// The text of an experiment with some methods.
pub(crate) fn experiment(methods: &[String], network: &str, more: &str) -> String {
    let mut text = format!(
        "seed = 3\nrounds = 3\n[data]\nclients = 5\n[network]\n{network}\n\
         [train]\nbatch = 8\nepochs = 2\npersonal_epochs = 1\nlearning_rate = 0.05\n\
         [runtime]\nthreads = 2\ncheckpoint_every = 2\n{more}"
    );
    for (i, method) in methods.iter().enumerate() {
        writeln!(text, "[[method]]\nlabel = \"number {i}\"\n{method}").unwrap();
    }
    text
}

pub(crate) fn named(methods: &[&str]) -> Vec<String> {
    methods.iter().map(|name| format!("name = \"{name}\"")).collect()
}

/// The plan of an experiment over the tiny federation: every rank makes the same.
pub(crate) fn plan_of(experiment: &str) -> RunPlan {
    let experiment =
        Experiment::parse(&experiment.parse().unwrap(), &[], &Zoo::standard()).unwrap();
    let newcomers = experiment.data.new_clients.unwrap_or(0);
    experiment.plan_on(federation().clone().setting_aside(newcomers).unwrap()).unwrap()
}

/// Who takes part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Party {
    pub(crate) ranks: usize,
    /// Worker threads of each.
    pub(crate) threads: usize,
    /// Whether others than rank 0 see the run folder: all of them, none, or every second.
    pub(crate) sees: Sees,
    /// Whether clients move to another rank after every wave.
    pub(crate) is_restless: bool,
}

/// What came of a run, and whether a rank was lost.
pub(crate) struct Run {
    pub(crate) outcome: Result<Outcome, RuntimeError>,
    pub(crate) is_broken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sees {
    All,
    None,
    Some,
}

impl Party {
    /// Ranks of one thread that all see the run folder.
    pub(crate) const fn of(ranks: usize) -> Self {
        Self { ranks, threads: 1, sees: Sees::All, is_restless: false }
    }

    fn sees(self, rank: usize) -> bool {
        rank == 0 || self.sees == Sees::All || self.sees == Sees::Some && rank % 2 == 1
    }

    /// Runs an experiment, or goes on with it.
    pub(crate) fn run(
        self,
        text: &str,
        folder: &Folder,
        watched: (&dyn Observer, &AtomicBool),
    ) -> Result<Outcome, RuntimeError> {
        let run = self.run_over(|mesh| mesh, text, folder, watched);
        assert!(!run.is_broken);
        run.outcome
    }

    /// The same where rank 0 has something else than a mesh between itself and the others.
    pub(crate) fn run_over<F: Fabric>(
        self,
        make: impl FnOnce(Mesh) -> F + Send + 'static,
        text: &str,
        folder: &Folder,
        (observer, stop): (&dyn Observer, &AtomicBool),
    ) -> Run {
        let spot = |rank| Spot {
            host: format!("host {}", rank / 2),
            threads: self.threads,
            sees: self.sees(rank),
        };
        let spots = (0..self.ranks).map(spot).collect();
        let states = folder.file("states");
        std::fs::create_dir_all(&states).unwrap();
        let mut ends = Mesh::of(self.ranks).into_iter();
        let own = ends.next().unwrap();
        std::thread::scope(|scope| {
            for (rank, end) in ends.enumerate().map(|(i, end)| (i + 1, end)) {
                let place = if self.sees(rank) {
                    Place::Shared(states.clone())
                } else {
                    Place::Own(tempfile::tempdir().unwrap())
                };
                scope.spawn(move || {
                    let link = Link::start(move || Ok(end)).unwrap();
                    let mut plan = plan_of(text);
                    plan.threads = self.threads;
                    // How it ends where rank 0 is lost depends on where that is then: rank 0 tells.
                    let _ = follow(&plan, &link, &place);
                });
            }
            let link = Link::start(move || Ok(make(own))).unwrap();
            let mut plan = plan_of(text);
            plan.threads = self.threads;
            let outcome = std::thread::scope(|scope| {
                let mut leader = Leader::new(&plan, scope, &link, spots);
                if self.is_restless {
                    leader = leader.restless();
                }
                sim::extend_on(&mut leader, &plan, folder.path(), observer, stop)
            });
            let is_broken = link.is_broken();
            dismiss(&link);
            Run { outcome, is_broken }
        })
    }

    /// A whole run: its result, and its log without what is of the machine.
    pub(crate) fn result(self, text: &str) -> (Fate, Vec<Value>) {
        let folder = Folder::new();
        let outcome = self.run(text, &folder, (&Quiet, &AtomicBool::new(false))).unwrap();
        assert_eq!(outcome, Outcome::Complete);
        left_tidy(&folder);
        (folder.result(), told(&folder))
    }
}

/// The same in one process.
pub(crate) fn alone(text: &str) -> (Fate, Vec<Value>) {
    let folder = Folder::new();
    folder.run(&plan_of(text)).unwrap();
    (folder.result(), told(&folder))
}

/// Nothing is left of what was under way.
fn left_tidy(folder: &Folder) {
    for entry in std::fs::read_dir(folder.file("states")).unwrap() {
        let path = entry.unwrap().path();
        assert_ne!(
            path.extension().and_then(|end| end.to_str()),
            Some("tmp"),
            "{}",
            path.display()
        );
    }
}

/// What was logged, without wall times and without where it happened.
pub(crate) fn told(folder: &Folder) -> Vec<Value> {
    let mut told = Vec::new();
    for event in folder.events() {
        let mut event = serde_json::to_value(event).unwrap();
        event.as_object_mut().unwrap().remove("seconds");
        if event["event"] != "ranks" {
            told.push(event);
        }
    }
    told
}
