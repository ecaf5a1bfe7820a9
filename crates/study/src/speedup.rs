//! What the wait-free schedule saves, in time to a target PM accuracy.

use crate::{Draft, Observer, Reached, StudyError, Targets, time_to_target};
use formant_experiment::Override;
use formant_numerics::Metric;
use formant_report::results::turn_seconds;
use formant_report::{Activity, MethodLog, RunLog, Timeline, timeline_svg};
use formant_runtime::files::{self, Synced};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, RunPlan, RuntimeError, first_difference};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Every method runs twice for each number of personal epochs, once under each schedule; both train the
/// same models, and the virtual clock says how long each takes.
#[derive(Debug, Clone)]
pub struct Speedup {
    /// What is run.
    pub draft: Draft,
    /// Numbers of personal epochs.
    pub epochs: Vec<usize>,
    /// PM accuracies to reach.
    pub targets: Targets,
    /// Changes that are laid over everything else, for instance the number of threads.
    pub last: Vec<Override>,
}

/// What a comparison found.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// For every number of epochs, method and target.
    pub gains: Vec<Gain>,
    /// One round of one method under each schedule.
    pub timelines: Vec<Timeline>,
}

/// One figure of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// The method's title.
    pub method: String,
    /// Personal epochs of a round.
    pub personal_epochs: usize,
    /// What is to be reached.
    pub target: f64,
    /// By which metric.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
    /// Rounds until the target was reached.
    pub rounds: Option<usize>,
    /// Virtual seconds until then, compute-and-wait.
    pub compute_and_wait: Option<f64>,
    /// Virtual seconds until then, wait-free.
    pub wait_free: Option<f64>,
    /// The first through the second.
    pub speedup: Option<f64>,
    /// What the paper has at this place, for its own targets on CIFAR-10.
    pub paper: Option<f64>,
    /// Mean seconds a round of a client's shared phase.
    pub shared_seconds: f64,
    /// Mean seconds a round of a client's personal phase.
    pub personal_seconds: f64,
    /// Mean seconds a round of a client's transfers.
    pub communication_seconds: f64,
}

/// The paper's Table 4: speedups for 3 and 5 personal epochs, each for a low and a high target.
const PAPER: [(&str, [[f64; 2]; 2]); 3] = [
    ("scd", [[1.82, 1.56], [2.21, 1.85]]),
    ("ditto", [[1.97, 1.38], [2.87, 1.93]]),
    ("fedrod", [[1.75, 1.54], [2.42, 2.19]]),
];

const SCHEDULES: [&str; 2] = ["compute-and-wait", "wait-free"];

impl Speedup {
    /// How many runs are compared.
    pub fn runs(&self) -> usize {
        SCHEDULES.len() * self.epochs.len()
    }

    /// Runs what a folder does not hold yet and compares; none if it was interrupted. The same comparison in
    /// the same folder goes on where it stopped.
    pub fn run(
        &self,
        folder: &Path,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Option<Comparison>, StudyError> {
        files::create_folder(folder)?;
        let mut comparison = Comparison { gains: Vec::new(), timelines: Vec::new() };
        for epochs in &self.epochs {
            let log = |schedule: &str| {
                let run_dir = folder.join(format!("{schedule}-{epochs}"));
                self.log(&run_dir, &self.changes(schedule, *epochs), observer, stop)
            };
            let [wait, go] = SCHEDULES;
            let Some(waiting) = log(wait)? else { return Ok(None) };
            let Some(free) = log(go)? else { return Ok(None) };
            let metric = waiting.started.metrics.first();
            for (waiting, free) in waiting.methods.iter().zip(&free.methods) {
                let pair = Pair { waiting, free, epochs: *epochs, metric };
                pair.check_same_models()?;
                let targets = self.targets.iter().enumerate();
                comparison.gains.extend(targets.map(|(place, target)| pair.gain(target, place)));
                if comparison.timelines.is_empty() {
                    comparison.timelines = pair.timelines();
                }
            }
        }
        Ok(Some(comparison))
    }

    /// What makes the draft one of the runs.
    fn changes(&self, schedule: &str, epochs: usize) -> Vec<Override> {
        let mut changes = vec![
            Override::new(&["federation", "schedule"], schedule),
            Override::new(&["train", "personal_epochs"], epochs as i64),
            Override::new(&["name"], format!("{schedule}, {epochs} personal epochs")),
            Override::new(&["runtime", "keep"], "none"),
        ];
        changes.extend_from_slice(&self.last);
        changes
    }

    /// Runs all methods under one schedule, or reads what an earlier comparison has left.
    fn log(
        &self,
        run_dir: &Path,
        changes: &[Override],
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Option<RunLog>, StudyError> {
        let plan = self.draft.experiment(changes)?.plan()?;
        check_something_to_save(&plan)?;
        match sim::run(&plan, run_dir, &*observer.run_started(&plan), stop) {
            Ok(Outcome::Interrupted) => return Ok(None),
            Ok(Outcome::Complete) => {}
            Err(RuntimeError::Complete { .. }) => observer.run_found(),
            Err(error) => return Err(error.into()),
        }
        let log = RunLog::read(&run_dir.join(EVENTS_FILE))?;
        match first_difference(&log.started.config, &plan.header.config) {
            Some((key, before, now)) if !key.starts_with("runtime") => {
                Err(StudyError::OtherRun { path: run_dir.into(), key, before, now })
            }
            _ => Ok(Some(log)),
        }
    }
}

/// Refuses an experiment that no schedule can make faster.
fn check_something_to_save(plan: &RunPlan) -> Result<(), StudyError> {
    if plan.profile.is_instant() {
        return Err(StudyError::Instant);
    }
    match plan.methods.iter().find(|m| !plan.rules(m).personal.exists) {
        Some(method) => Err(StudyError::NoPersonalPhase { method: method.label.clone() }),
        None => Ok(()),
    }
}

impl Comparison {
    /// Writes `speedup.json` and `timeline.svg` into a folder and says where the latter lies.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, StudyError> {
        let svg = folder.join("timeline.svg");
        files::write(&svg, timeline_svg(&self.timelines).as_bytes(), Synced::Content)?;
        let gains = serde_json::to_string_pretty(&self.gains)?;
        files::write(&folder.join("speedup.json"), gains.as_bytes(), Synced::Content)?;
        Ok(svg)
    }
}

/// One method under both schedules.
struct Pair<'l> {
    waiting: &'l MethodLog,
    free: &'l MethodLog,
    epochs: usize,
    metric: Metric,
}

impl Pair<'_> {
    /// The whole comparison rests on this.
    fn check_same_models(&self) -> Result<(), StudyError> {
        let print = |log: &MethodLog| log.finish.as_ref().map(|finish| finish.fingerprint.clone());
        if print(self.waiting) == print(self.free) {
            return Ok(());
        }
        Err(StudyError::DifferentModels { method: self.waiting.info.title.clone() })
    }

    /// What is gained until a target; its place among the targets chooses the paper's figure.
    fn gain(&self, target: f64, place: usize) -> Gain {
        let slow = time_to_target(self.waiting, self.metric, target);
        let fast = time_to_target(self.free, self.metric, target);
        let seconds = |reached: Option<Reached>| reached.map(|reached| reached.seconds);
        let (compute_and_wait, wait_free) = (seconds(slow), seconds(fast));
        Gain {
            method: self.waiting.info.title.clone(),
            personal_epochs: self.epochs,
            target,
            metric: self.metric,
            rounds: slow.map(|reached| reached.round),
            compute_and_wait,
            wait_free,
            speedup: compute_and_wait.zip(wait_free).map(|(slow, fast)| slow / fast),
            paper: self.in_the_paper(place),
            shared_seconds: turn_seconds(self.waiting, &[Activity::Shared]),
            personal_seconds: turn_seconds(self.waiting, &[Activity::Personal]),
            communication_seconds: turn_seconds(
                self.waiting,
                &[Activity::Download, Activity::Upload],
            ),
        }
    }

    fn in_the_paper(&self, place: usize) -> Option<f64> {
        let (_, figures) = PAPER.iter().find(|(name, _)| *name == self.waiting.info.name)?;
        let column = [3, 5].iter().position(|known| *known == self.epochs)?;
        figures[column].get(place).copied()
    }

    /// A round in which everything is under way, of the fastest, a middle and the slowest client.
    fn timelines(&self) -> Vec<Timeline> {
        let round = self.waiting.rounds.len().min(3);
        let (method, epochs) = (&self.waiting.info.title, self.epochs);
        let title = |schedule: &str| {
            format!("{method}, {schedule}, {epochs} personal epochs, round {round}")
        };
        let all = SCHEDULES.into_iter().zip([self.waiting, self.free]);
        all.filter_map(|(schedule, log)| Timeline::new(title(schedule), log, round, 3)).collect()
    }
}
