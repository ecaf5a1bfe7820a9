//! Settings that are searched for, kept, and taken by runs and presets.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_methods::Zoo;
use formant_study::{
    Draft, Job, Observer, Reproduction, Request, Scale, Shard, Silent, TuneRequest, Tuned, Tuning,
    Winner,
};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

const TINY: &str = "
seed = 3
rounds = 2
[data]
clients = 3
samples = 90
min_samples = 12
train_fraction = 0.6
validation_fraction = 0.2
part = '2-5/5'
[network]
name = \"logistic\"
[train]
epochs = 1
[[method]]
name = \"ditto\"
[[method]]
name = \"fedavg\"
[tune]
budget = 6
[tune.set]
data.part = '1/5'
[tune.space.ditto]
lambda = { values = [0.0, 0.1], start = 0.1, times = 3.0 }
train.personal_learning_rate = { start = 0.02, times = 2.0 }
[tune.space.fedavg]
train.learning_rate = [0.01, 0.05, 0.2]
";

fn written(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn request(path: &Path) -> TuneRequest {
    TuneRequest { experiment: Some(path.display().to_string()), ..TuneRequest::default() }
}

fn tuning(path: &Path) -> Tuning {
    Tuning::new(&request(path), &Zoo::standard()).unwrap()
}

/// Counts what it is told, and stops after some runs.
#[derive(Default)]
struct Counter<'s> {
    runs: Cell<usize>,
    done: Cell<usize>,
    spared: Cell<usize>,
    winners: RefCell<Vec<String>>,
    stop_after: Option<(usize, &'s AtomicBool)>,
}

impl Observer for Counter<'_> {
    fn job_run(&self, _: &formant_runtime::RunPlan) -> Box<dyn formant_runtime::Observer> {
        self.runs.set(self.runs.get() + 1);
        if let Some((most, stop)) = self.stop_after {
            stop.store(self.runs.get() > most, std::sync::atomic::Ordering::Relaxed);
        }
        Box::new(formant_runtime::Quiet)
    }

    fn job_done(&self, _: &Job) {
        self.done.set(self.done.get() + 1);
    }

    fn jobs_spared(&self, count: usize) {
        self.spared.set(self.spared.get() + count);
    }

    fn search_done(&self, winner: &Winner) {
        self.winners.borrow_mut().push(winner.method.clone());
    }
}

#[test]
fn a_search_is_interrupted_gone_on_with_and_collected() {
    let (folder, path) = written(TINY);
    let mut tuning = tuning(&path);
    assert!(tuning.remarks().is_empty(), "{:?}", tuning.remarks());
    let all = [0, 1];
    let (whole, halves) = (folder.path().join("whole"), folder.path().join("halves"));
    let (go, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let counter = Counter::default();
    let ending = tuning.run(&whole, &all, &counter, &go).unwrap();
    assert_eq!((ending.unfinished, ending.elsewhere), (0, 0));
    assert_eq!(*counter.winners.borrow(), ["ditto", "fedavg"]);
    assert_eq!(counter.done.get() + counter.spared.get(), 12, "the budget, used or not");
    assert_eq!(counter.runs.get(), counter.done.get(), "every setting was run once");
    let [ditto, fedavg] = &ending.tuned.winners[..] else { panic!("two winners") };
    assert!(ditto.settings <= 6 && (2..=3).contains(&fedavg.settings));
    assert_eq!(counter.done.get(), ditto.settings + fedavg.settings);
    assert!(ditto.gm.is_some() && ditto.pm.is_some() && fedavg.pm.is_none());
    let mean = 0.5 * (ditto.gm.unwrap() + ditto.pm.unwrap());
    assert_eq!((ditto.score, fedavg.score), (Some(mean), fedavg.gm));

    let stopper = Counter { stop_after: Some((2, &stop)), ..Counter::default() };
    let part = tuning.run(&halves, &all, &stopper, &stop).unwrap();
    assert_eq!((part.unfinished, part.tuned.winners.len()), (2, 0));
    assert_eq!(tuning.collect(&halves, &all).unwrap().unfinished, 2);
    let rest = Counter::default();
    let again = tuning.run(&halves, &all, &rest, &go).unwrap();
    assert_eq!(again, ending, "in two halves as at once");
    assert_eq!(rest.runs.get() + 2, counter.runs.get(), "what is kept is not run again");
    assert_eq!(tuning.collect(&halves, &all).unwrap(), ending);
    let shards = ["1/2", "2/2"].map(|text| tuning.shard(Shard::parse(text).unwrap()));
    assert_eq!(shards.concat().len(), 2);
}

#[test]
fn no_test_image_is_seen_and_none_that_is_scored() {
    let (folder, path) = written(TINY);
    let mut tuning = tuning(&path);
    tuning.run(folder.path(), &[1], &Silent, &AtomicBool::new(false)).unwrap();
    let mut own = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let own = own.find(|path| path.is_dir()).unwrap();
    assert!(own.file_name().unwrap().to_string_lossy().starts_with("fedavg-"), "{own:?}");
    let log = std::fs::read_to_string(own.join("run/events.jsonl")).unwrap();
    assert!(log.contains("\"split\":\"validation\""));
    let results = std::fs::read_to_string(own.join("results.jsonl")).unwrap();
    assert!(results.contains("part = \\\"1/5\\\""), "{results}");
    // The same experiment without parts would choose on what it scores, unless all share one division.
    let remarks = |change: &str| {
        let text = TINY.replace("part = '2-5/5'", change).replace("data.part = '1/5'", "");
        let (_folder, path) = written(&text);
        Tuning::new(&request(&path), &Zoo::standard()).unwrap().remarks().len()
    };
    assert_eq!((remarks(""), remarks("seed = 1")), (1, 0));
}

#[test]
fn cells_are_searched_one_by_one_and_their_winners_found_again() {
    let (folder, path) = written(TINY);
    let given = TuneRequest {
        cells: vec!["data.alpha=1,0.1".into()],
        methods: vec!["FedAvg".into()],
        budget: Some(2),
        ..request(&path)
    };
    let mut tuning = Tuning::new(&given, &Zoo::standard()).unwrap();
    let names: Vec<String> = tuning.searches().iter().map(formant_study::Search::name).collect();
    assert_eq!(names, ["data.alpha=1 fedavg", "data.alpha=0.1 fedavg"]);
    let ending =
        tuning.run(&folder.path().join("out"), &[0, 1], &Silent, &AtomicBool::new(false)).unwrap();
    let file = folder.path().join("tuned.toml");
    let mut tuned = ending.tuned.clone();
    tuned.winners[0].set["train"]["learning_rate"] = 0.4.into();
    tuned.winners[1].set["train"]["learning_rate"] = 0.7.into();
    tuned.write(&file, "formant tune").unwrap();
    // Figures are rounded in the file; the rest is as it was.
    let read = Tuned::read(&file).unwrap();
    let bare = |winner: &Winner| Winner { score: None, gm: None, pm: None, ..winner.clone() };
    let pairs = read.winners.iter().zip(&tuned.winners);
    assert!(
        pairs.clone().count() == 2 && pairs.clone().all(|(a, b)| bare(a) == bare(b)),
        "{read:?}"
    );
    assert!(pairs.clone().all(|(a, b)| (a.score.unwrap() - b.score.unwrap()).abs() < 1e-5));
    // Another search goes beside them, the same one in their place.
    let newer = Tuned { winners: vec![Winner { budget: 9, ..tuned.winners[1].clone() }] };
    let all = newer.write(&file, "formant tune").unwrap();
    assert_eq!(all.winners.iter().map(|winner| winner.budget).collect::<Vec<_>>(), [2, 9]);

    let rate = |alpha: &str, change: Option<&str>| {
        let mut draft = Draft::read(&path, &Zoo::standard()).unwrap();
        let parse = |text: &str| formant_experiment::Override::parse(text).unwrap();
        draft.change(parse(&format!("data.alpha={alpha}")));
        if let Some(change) = change {
            draft.change(parse(change));
        }
        draft.take(&read).unwrap();
        let experiment = draft.experiment(&[]).unwrap();
        let fedavg = experiment.methods.iter().find(|method| method.label == "fedavg").unwrap();
        fedavg.training_beside(&experiment.training).learning_rate
    };
    assert_eq!((rate("1.0", None), rate("0.1", None)), (0.4, 0.7));
    assert_eq!(rate("0.5", None), 0.05, "a cell where nothing was chosen");
    assert_eq!(rate("1", Some("method.fedavg.train.learning_rate=0.9")), 0.9, "--set goes before");
}

#[test]
fn a_preset_takes_winners_in_their_cells() {
    let winner = |alpha: f64, rate: f64, scale: Scale| {
        let text = format!(
            "[[winner]]\nmethod='ditto'\ncell={{'data.alpha'={alpha},'data.source'='cifar10'}}\nset={{lambda=7.5,train={{learning_rate={rate}}}}}\nby='both'\nbudget=15\nsettings=15\nseeds=[1]\nscale='{scale}'\n"
        );
        toml::from_str::<Tuned>(&text).unwrap().winners.remove(0)
    };
    let tuned =
        Tuned { winners: vec![winner(1.0, 0.123, Scale::Desk), winner(0.5, 0.456, Scale::Paper)] };
    let (set, seeds, last) = (Vec::new(), vec![1], Vec::new());
    let only = vec!["ditto".to_owned(), "data.source=cifar10".to_owned()];
    let (name, scale, tuned) = ("duel".to_owned(), Scale::Desk, Some(tuned));
    let request = Request { name, scale, data_dir: None, set, only, seeds, tuned, last };
    let study = Reproduction::new(request, &Zoo::standard()).unwrap();
    let rate = |place: usize| {
        let experiment = &study.parts()[place].experiment;
        let method = &experiment.methods[0];
        let lambda = method.method.parameters["lambda"].as_float().unwrap();
        (method.training_beside(&experiment.training).learning_rate, lambda)
    };
    assert_eq!(study.parts().len(), 3);
    assert_eq!(rate(0), (0.123, 7.5));
    assert_eq!(rate(1).0, 0.03, "the winner of the other size");
}

#[test]
fn the_duel_can_be_tuned_in_all_its_cells_with_one_budget() {
    let request = TuneRequest { experiment: Some("duel".into()), ..TuneRequest::default() };
    let tuning = Tuning::new(&request, &Zoo::standard()).unwrap();
    assert!(tuning.searches().len() >= 6 * 9 && tuning.remarks().is_empty());
    assert_eq!((tuning.budget(), tuning.seeds()), (12, &[1][..]));
    let cells = vec!["data.alpha=0.5".to_owned(), "data.source=cifar10".to_owned()];
    let one = TuneRequest { methods: vec!["ditto".into()], cells, ..request.clone() };
    let one = Tuning::new(&one, &Zoo::standard()).unwrap();
    assert_eq!(one.searches()[0].name(), "data.alpha=0.5 data.source=cifar10 ditto");
    assert_eq!(one.searches().len(), 1);
    for (cells, methods, expected) in [
        (vec!["data.alpha"], vec![], "`--cell data.alpha` is no cell"),
        (vec!["data.alpha=0.7"], vec![], "0.7 is no value of it, which are 1, 0.5, 0.1"),
        (vec![], vec!["dito"], "unknown method `dito`"),
    ] {
        let own = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect();
        let given = TuneRequest { cells: own(cells), methods: own(methods), ..request.clone() };
        let Err(error) = Tuning::new(&given, &Zoo::standard()) else { panic!("{expected}") };
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_space_is_said_before_anything_runs() {
    for (from, to, expected) in [
        ("lambda = {", "lamda = {", "no method of this experiment has"),
        ("[0.01, 0.05, 0.2]", "[-1.0, 0.05]", "in the combination fedavg train.learning_rate=-1"),
        ("[tune.space.fedavg]", "[tune.space.other]", "[tune.space] has nothing for fedavg"),
        ("budget = 6", "budgets = 6", "unknown field `budgets`"),
        ("times = 3.0", "times = 0.5", "ditto.lambda: `times` must be a factor above 1"),
    ] {
        let (_folder, path) = written(&TINY.replace(from, to));
        let Err(error) = Tuning::new(&request(&path), &Zoo::standard()) else { panic!("{to}") };
        let error = error.to_string();
        let is_said = error.contains(expected) || error.contains("unknown key");
        assert!(is_said && error.contains("\nhint: "), "{error}");
    }
}
