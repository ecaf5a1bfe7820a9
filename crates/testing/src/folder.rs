//! Runs in folders of their own, and what comes of them.

use formant_runtime::event::{Evaluated, Event};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Observer, Quiet, RunPlan, RuntimeError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// A run folder that outlives its run, and goes with this value if it is its own.
pub struct Folder {
    path: PathBuf,
    _own: Option<tempfile::TempDir>,
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let own = tempfile::tempdir().unwrap();
        Self { path: own.path().into(), _own: Some(own) }
    }

    /// One that is somebody else's.
    pub fn at(path: &Path) -> Self {
        Self { path: path.into(), _own: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Runs a plan to its end in this folder, or goes on with it.
    pub fn run(&self, plan: &RunPlan) -> Result<(), RuntimeError> {
        let outcome = sim::run(plan, self.path(), &Quiet, &AtomicBool::new(false))?;
        assert_eq!(outcome, Outcome::Complete);
        Ok(())
    }

    /// Runs a plan until some round of some method is finished.
    pub fn run_until(&self, plan: &RunPlan, method: usize, round: usize) -> Outcome {
        let stop = AtomicBool::new(false);
        let label = plan.methods[method].label.clone();
        let observer = StopAfter { label, round, stop: &stop };
        sim::run(plan, self.path(), &observer, &stop).unwrap()
    }

    /// Everything that was logged.
    pub fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.file(EVENTS_FILE)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What must not depend on how a run was executed.
    pub fn result(&self) -> Fate {
        let mut fate = Fate { models: self.models(), ..Fate::default() };
        for event in self.events() {
            match event {
                Event::MethodFinished { fingerprint, .. } => fate.fingerprints.extend(fingerprint),
                Event::Evaluated(evaluated) => {
                    fate.evaluations.push(Evaluated { seconds: 0.0, ..evaluated });
                }
                Event::Spectra(_) | Event::Detailed(_) => fate.insights.push(event),
                _ => {}
            }
        }
        fate
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

/// Asks a run to stop when a round of a method is finished.
pub struct StopAfter<'a> {
    /// The method's label.
    pub label: String,
    /// The round, counted from 1.
    pub round: usize,
    /// What the run looks at.
    pub stop: &'a AtomicBool,
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

/// Fingerprints, evaluations and models of a run, without times: what must be equal when two runs are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fate {
    /// Of the last state of each method.
    pub fingerprints: Vec<String>,
    /// All scores; wall times are 0.
    pub evaluations: Vec<Evaluated>,
    /// What else was found out about models: spectra, and where they err.
    pub insights: Vec<Event>,
    /// Model files in the run folder, with hashes of their bytes.
    pub models: Vec<(PathBuf, u64)>,
}

/// Runs a plan in a folder of its own.
pub fn run(plan: &RunPlan) -> Fate {
    let folder = Folder::new();
    folder.run(plan).unwrap();
    folder.result()
}
