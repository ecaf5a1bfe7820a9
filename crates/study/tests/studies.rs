//! Studies as a program makes them, without a command line.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_experiment::Override;
use formant_methods::Zoo;
use formant_runtime::RunPlan;
use formant_study::{
    Draft, Effort, Grid, Job, Observer, Rank, Seeds, Series, SeriesData, Silent, Speedup, State,
    StudyError, Sweep, Targets, inventory, measure, rank, series_logs,
};
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const TINY: &str = "
seed = 3
rounds = 2
[data]
clients = 3
samples = 90
min_samples = 12
train_fraction = 0.6
validation_fraction = 0.2
[network]
name = \"logistic\"
[train]
epochs = 1
[devices]
samples_per_second = 100
[links]
up = \"20kB\"
down = \"50kB\"
[[method]]
name = \"ditto\"
";

fn draft() -> Draft {
    Draft::new(TINY.parse().unwrap(), &Zoo::standard())
}

/// Writes down what it is told.
#[derive(Default)]
struct Diary(RefCell<Vec<String>>);

impl Diary {
    fn note(&self, text: String) {
        self.0.borrow_mut().push(text);
    }
}

impl Observer for Diary {
    fn job_started(&self, job: &Job) {
        self.note(format!("{} seed {}", job.setting, job.seed));
    }

    fn job_done(&self, job: &Job) {
        self.note(format!("done {}", job.seed));
    }

    fn run_started(&self, plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        self.note(plan.header.name.clone());
        Box::new(formant_runtime::Quiet)
    }

    fn lap_started(&self, method: &str, lap: usize) {
        self.note(format!("{method} {lap}"));
    }

    fn lap_done(&self, elapsed: Duration) {
        assert!(elapsed > Duration::ZERO);
    }
}

#[test]
fn a_sweep_is_followed_interrupted_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::parse(&["method.lambda=0.1,0.5"]).unwrap();
    let one_thread = [Override::new(&["runtime", "threads"], 1)];
    let mut sweep = Sweep::new(&draft(), &grid, &[1, 2], &one_thread).unwrap();
    assert_eq!(sweep.jobs().len(), 4);
    let stopped = sweep.run(folder.path(), &Silent, &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped, None);
    let diary = Diary::default();
    let go = AtomicBool::new(false);
    let scores = sweep.run(folder.path(), &diary, &go).unwrap().unwrap();
    assert_eq!(diary.0.borrow()[..2], ["method.lambda=0.1 seed 1", "done 1"]);
    assert_eq!(diary.0.borrow().len(), 8);
    let again = sweep.run(folder.path(), &Silent, &go).unwrap().unwrap();
    assert_eq!(again, scores, "what is kept is what was found");
    let ranking = rank(&scores, Rank::Both);
    assert!(ranking.iter().all(|row| row.seeds == 2 && row.failed == 0));
    assert!(ranking[0].score >= ranking[1].score);
}

#[test]
fn without_seeds_the_drafts_own_is_used_and_a_bad_combination_is_named() {
    let grid = Grid::parse(&["method.lambda=0.1,-1"]).unwrap();
    let Err(error) = Sweep::new(&draft(), &grid, &[], &[]) else { panic!("−1 was taken") };
    assert!(matches!(error, StudyError::InCombination { .. }));
    let text = error.to_string();
    assert!(text.starts_with("in the combination method.lambda=-1: "), "{text}");
    assert!(text.contains("\nhint: "), "{text}");
    let grid = Grid::parse(&["method.lambda=0.1"]).unwrap();
    assert_eq!(Sweep::new(&draft(), &grid, &[], &[]).unwrap().jobs()[0].seed, 3);
}

#[test]
fn a_speedup_is_time_to_target_under_both_schedules() {
    let folder = tempfile::tempdir().unwrap();
    let (epochs, targets) = (vec![3], Targets::new(vec![0.01, 1.0]).unwrap());
    let speedup = Speedup { draft: draft(), epochs, targets, last: Vec::new() };
    let diary = Diary::default();
    let go = AtomicBool::new(false);
    let comparison = speedup.run(folder.path(), &diary, &go).unwrap().unwrap();
    let names = ["compute-and-wait, 3 personal epochs", "wait-free, 3 personal epochs"];
    assert_eq!(*diary.0.borrow(), names);
    let [reached, never] = &comparison.gains[..] else { panic!("one figure for each target") };
    assert!(reached.speedup.unwrap() > 1.0 && reached.speedup.unwrap() <= 2.0, "{reached:?}");
    assert_eq!((reached.paper, never.paper), (Some(1.97), Some(1.38)));
    assert_eq!((never.speedup, never.rounds), (None, None));
    assert_eq!(comparison.timelines.len(), 2);
    assert!(comparison.write(folder.path()).unwrap().is_file());
    assert!(folder.path().join("speedup.json").is_file());
}

#[test]
fn a_machine_is_measured_lap_by_lap() {
    let plan = draft().experiment(&[]).unwrap().plan().unwrap();
    let diary = Diary::default();
    let figures = measure(&plan, Effort::new(1e-6, 20.0).unwrap(), &diary).unwrap();
    let laps = ["plain SGD 1", "ditto 1", "plain SGD 2", "ditto 2", "plain SGD 3", "ditto 3"];
    assert_eq!(*diary.0.borrow(), laps);
    assert!(figures.samples_per_second > 0.0 && figures.slowdown == 20.0);
    assert!(figures.methods[0].personal_cost.unwrap() > 0.0);
    assert!(Effort::new(0.0, 1.0).is_err() && Effort::new(1.0, f64::NAN).is_err());
}

#[test]
fn a_series_goes_on_with_what_is_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut data) = (folder.path(), SeriesData::default());
    let series = Series::new(&draft(), &Seeds::Count(2), false, &[]).unwrap();
    assert_eq!((series.seeds(), series.shared().data.seed), (vec![3, 4], Some(3)));
    series.create(path).unwrap();
    assert!(series.create(path).is_err(), "a folder is claimed once");
    assert!(!series.run(path, &mut data, &Silent, &AtomicBool::new(true)).unwrap());
    assert_eq!(inventory(path).unwrap()[0].state, State::NotStarted);
    let (diary, go) = (Diary::default(), AtomicBool::new(false));
    let again = Series::open(path, &[], &Zoo::standard()).unwrap();
    assert!(again.run(path, &mut data, &diary, &go).unwrap());
    assert_eq!(diary.0.borrow().len(), 2, "two runs were begun");
    assert_eq!(again.finished(path).unwrap(), 2);
    let complete = again.run(path, &mut data, &diary, &go).unwrap_err().to_string();
    assert!(complete.contains("complete"), "{complete}");
    let (logs, planned) = series_logs(path).unwrap();
    assert_eq!((logs.len(), planned), (2, 2));
    assert_eq!(logs[0].started.clients, logs[1].started.clients, "one division");
    let listed = inventory(path).unwrap();
    assert_eq!((listed.len(), &listed[0].state), (1, &State::Finished));
    let best = listed[0].pm.as_ref().unwrap();
    let mean =
        logs.iter().map(|log| formant_report::rows(log)[0].pm_best.unwrap()).sum::<f64>() / 2.0;
    assert!((best.figure - mean).abs() < 1e-12 && best.method == "Ditto");
    let anew = Series::new(&draft(), &Seeds::List(vec![9, 3]), true, &[]).unwrap();
    assert_eq!((anew.seeds(), anew.shared().data.seed), (vec![9, 3], None));
}
