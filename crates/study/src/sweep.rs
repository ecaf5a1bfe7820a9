//! All combinations of a grid, scored on the validation split.

use crate::divided::SharedData;
use crate::results::Results;
use crate::{Draft, Grid, Observer, Score, StudyError};
use formant_experiment::{Data, Experiment, MethodSetting, Override, Settings};
use formant_numerics::NetworkSpec;
use formant_report::{Evaluation, MethodLog, Row, RunLog};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Parts, RuntimeError};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Evaluations at the end of a run over which a score is averaged: less noise than the last one,
/// and no reward for a lucky round as the best one would give.
const TAIL: usize = 5;

/// Every combination of a grid with every seed, checked and ready to run.
pub struct Sweep {
    jobs: Vec<Job>,
    data: SharedData,
}

/// One combination with one seed.
#[derive(Debug, Clone)]
pub struct Job {
    /// The combination as `KEY=VALUE`s.
    pub setting: String,
    /// The seed.
    pub seed: i64,
    /// What is run.
    pub experiment: Experiment,
}

impl Sweep {
    /// Builds every run of the sweep, so that whatever is wrong is refused before anything runs. Without
    /// seeds, the draft's own is used. `last` is laid over every combination, for instance the number of
    /// threads.
    pub fn new(
        draft: &Draft,
        grid: &Grid,
        seeds: &[i64],
        last: &[Override],
    ) -> Result<Self, StudyError> {
        let own;
        let seeds = if seeds.is_empty() {
            own = [draft.experiment(&[])?.seed as i64];
            &own
        } else {
            seeds
        };
        let mut sweep = Self { jobs: Vec::new(), data: SharedData::default() };
        // Only these can still fail when a run is wired up, and most sweeps vary neither.
        let mut wired: Vec<Wiring> = Vec::new();
        for combination in grid.combinations() {
            let changes = combination.changes()?;
            for seed in seeds {
                let setting = combination.to_string();
                let in_combination = |source| {
                    let setting = combination.to_string();
                    StudyError::InCombination { setting, source: Box::new(source) }
                };
                let changes = on_validation(&changes, *seed, last);
                let experiment = draft.experiment(&changes).map_err(in_combination)?;
                let wiring = Wiring::of(&experiment);
                if !wired.contains(&wiring) {
                    sweep.data.wire(&experiment).map_err(in_combination)?;
                    wired.push(wiring);
                }
                sweep.jobs.push(Job { setting, seed: *seed, experiment });
            }
        }
        Ok(sweep)
    }

    /// What will be run, in order.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How much of the work each job is, before any of them was measured: its methods' rounds.
    pub fn parts(&self) -> Parts {
        let rounds = |job: &Job| job.experiment.rounds * job.experiment.methods.len();
        Parts::new(self.jobs.iter().map(|job| rounds(job) as f64))
    }

    /// Runs what a folder does not hold yet and gives the scores of all jobs; none if it was interrupted.
    /// The same sweep in the same folder goes on where it stopped.
    pub fn run(
        &mut self,
        folder: &Path,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Score>>, StudyError> {
        let mut results = Results::open(folder)?;
        let mut scores = Vec::new();
        for job in &self.jobs {
            observer.job_started(job);
            let of_job = if let Some(finished) = results.all(&job.keys()?) {
                finished
            } else {
                let fresh = job.run(folder, &mut self.data, observer, stop)?;
                let Some(fresh) = fresh else { return Ok(None) };
                results.keep(&fresh)?;
                fresh
            };
            scores.extend(of_job);
            observer.job_done(job);
        }
        Ok(Some(scores))
    }
}

/// The changes of one job: no test image is seen, and no model is kept. (A sweep is after a setting; whoever
/// wants the models runs that.)
pub(crate) fn on_validation(
    combination: &[Override],
    seed: i64,
    last: &[Override],
) -> Vec<Override> {
    let mut changes = combination.to_vec();
    changes.push(Override::new(&["evaluation", "split"], "validation"));
    changes.push(Override::new(&["seed"], seed));
    changes.push(Override::new(&["runtime", "keep"], "none"));
    changes.extend_from_slice(last);
    changes
}

/// What decides whether a run can be wired up: its data, how they are divided, and its network.
#[derive(PartialEq)]
struct Wiring {
    data: Data,
    seed: u64,
    network: NetworkSpec,
}

impl Wiring {
    fn of(experiment: &Experiment) -> Self {
        let Settings { data, seed, network, .. } = experiment.settings().clone();
        Self { data, seed, network }
    }
}

impl Job {
    /// What identifies a result, for each method. Threads do not change it, so they are no part.
    pub(crate) fn keys(&self) -> Result<Vec<String>, StudyError> {
        let mut identity = self.experiment.to_table();
        identity.remove("runtime");
        identity.remove("method");
        let key = |setting: &MethodSetting| {
            let train = self.experiment.train_of(setting)?;
            Ok(format!("{identity}|{}|{}|{train}", setting.name(), setting.method.parameters))
        };
        self.experiment.methods.iter().map(key).collect()
    }

    /// Runs it; none if it was interrupted.
    pub(crate) fn run(
        &self,
        out: &Path,
        data: &mut SharedData,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Score>>, StudyError> {
        let plan = self.experiment.plan_on(data.federation(&self.experiment)?)?;
        let folder = out.join("run");
        clear(&folder)?;
        if sim::run(&plan, &folder, &*observer.job_run(&plan), stop)? == Outcome::Interrupted {
            return Ok(None);
        }
        let log = RunLog::read(&folder.join(EVENTS_FILE))?;
        let rows = formant_report::rows(&log);
        let methods = log.methods.iter().zip(&rows).zip(self.keys()?);
        Ok(Some(methods.map(|((method, row), key)| self.score(method, row, key)).collect()))
    }

    fn score(&self, method: &MethodLog, row: &Row, key: String) -> Score {
        // What is kept counts: the models of the best round, or else those of the last ones.
        let tail: Vec<_> = match row.kept_round {
            Some(round) => method.evaluations.get(&round).into_iter().collect(),
            None => method.evaluations.values().rev().take(TAIL).collect(),
        };
        let mean = |of: fn(&Evaluation) -> Option<f64>| {
            let values: Option<Vec<f64>> = tail.iter().map(|e| of(e)).collect();
            values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
        };
        Score {
            key,
            method: method.info.label.clone(),
            setting: self.setting.clone(),
            seed: self.seed,
            gm: mean(|e| e.gm).filter(|_| method.info.generic),
            pm: mean(|e| e.pm).filter(|_| method.info.personal),
            failed: row.failed_phases > 0 || row.gave_up(),
            metric: row.metric,
        }
    }
}

/// Removes the run before this one, and nothing that is no run.
fn clear(folder: &Path) -> Result<(), StudyError> {
    if !folder.exists() {
        return Ok(());
    }
    // Every run begins by locking its folder.
    if !folder.join("lock").is_file() {
        return Err(StudyError::InTheWay { path: folder.into() });
    }
    std::fs::remove_dir_all(folder)
        .map_err(|error| RuntimeError::file("clear", folder, error).into())
}
