//! What runs a folder holds: how far they are and what they came to.

use crate::StudyError;
use crate::series::{SERIES_FILE, seeds_of};
use formant_report::{ReportError, Row, RunLog, Which, unranked};
use formant_runtime::event::Metric;
use formant_runtime::{EVENTS_FILE, files};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The experiment's name in a run folder.
const EXPERIMENT_FILE: &str = "experiment.toml";

/// What a sweep keeps its results in.
const RESULTS_FILE: &str = "results.jsonl";

/// Folders of folders that are looked into: studies lie in a folder of their own.
const DEPTH: usize = 5;

/// One run, or several that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// Where it lies.
    pub folder: PathBuf,
    /// The same, seen from the folder that was listed.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// How far it is.
    #[serde(flatten)]
    pub state: State,
    /// When its log was last written to.
    #[serde(skip)]
    pub modified: Option<SystemTime>,
    /// The experiment's name.
    pub experiment: Option<String>,
    /// The dataset's name.
    pub dataset: Option<String>,
    /// The methods' titles.
    pub methods: Vec<String>,
    /// The seeds that have begun.
    pub seeds: Vec<u64>,
    /// What figures are by.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
    /// The best GM of those that compete; over several seeds, the best mean of those that are finished.
    pub gm: Option<Best>,
    /// The best PM, likewise.
    pub pm: Option<Best>,
}

/// The best figure of a run and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// The method's title.
    pub method: String,
    /// From 0 to 1.
    pub figure: f64,
}

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One run.
    Run,
    /// One experiment with several seeds.
    Series,
    /// The results of a sweep, whose runs are not kept.
    Sweep,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// All methods, all rounds; of a series, all seeds.
    Finished,
    /// A process is at it.
    Running {
        /// Where it is.
        at: String,
    },
    /// Nobody is at it, and it can be resumed.
    Interrupted {
        /// Where it was.
        at: String,
    },
    /// There is an experiment and no log yet.
    NotStarted,
    /// It cannot be read.
    Damaged {
        /// Why not.
        why: String,
    },
}

/// Lists the runs in a folder and in those below it, the newest first. A folder that is a run itself is listed alone.
pub fn inventory(folder: &Path) -> Result<Vec<Listed>, StudyError> {
    if !folder.is_dir() {
        return Err(StudyError::NoFolder { path: folder.into() });
    }
    let mut found = Vec::new();
    walk(folder, folder, 0, &mut found);
    // Of equal times, by name: the order of a folder's entries is anybody's guess.
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

fn walk(top: &Path, folder: &Path, depth: usize, found: &mut Vec<Listed>) {
    let holds = |name: &str| folder.join(name).is_file();
    if holds(SERIES_FILE) {
        found.push(series(top, folder));
    } else if holds(EVENTS_FILE) || depth > 0 && holds(EXPERIMENT_FILE) {
        found.push(run(top, folder));
    } else if holds(RESULTS_FILE) {
        found.push(sweep(top, folder));
    } else if depth < DEPTH {
        let Ok(entries) = fs::read_dir(folder) else {
            let why = "the folder cannot be read".to_owned();
            found.push(Listed {
                state: State::Damaged { why },
                ..Listed::new(top, folder, Kind::Run)
            });
            return;
        };
        let folders = entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in folders {
            walk(top, &entry.path(), depth + 1, found);
        }
    }
}

impl Listed {
    fn new(top: &Path, folder: &Path, kind: Kind) -> Self {
        let within = folder.strip_prefix(top).ok().filter(|path| !path.as_os_str().is_empty());
        Self {
            name: within.unwrap_or(folder).display().to_string(),
            folder: folder.into(),
            kind,
            state: State::NotStarted,
            modified: None,
            experiment: None,
            dataset: None,
            methods: Vec::new(),
            seeds: Vec::new(),
            metric: Metric::Accuracy,
            gm: None,
            pm: None,
        }
    }

    fn describe(&mut self, logs: &[RunLog]) {
        let Some(first) = logs.first() else { return };
        self.experiment = Some(first.started.name.clone());
        self.dataset = Some(first.started.dataset.clone());
        self.methods = first.methods.iter().map(|method| method.info.title.clone()).collect();
        self.seeds = logs.iter().map(|log| log.started.seed).collect();
        self.metric = first.started.metrics.first();
        // Unfinished seeds would pull a mean down.
        let whole: Vec<&RunLog> = logs.iter().filter(|log| log.seconds.is_some()).collect();
        let counted = if whole.is_empty() { vec![first] } else { whole };
        let runs: Vec<Vec<Row>> = counted.into_iter().map(unranked).collect();
        self.gm = best(&runs, self.metric, Which::GmBest);
        self.pm = best(&runs, self.metric, Which::PmBest);
    }
}

/// The best mean over runs of the same methods.
fn best(runs: &[Vec<Row>], metric: Metric, which: Which) -> Option<Best> {
    let methods = runs.iter().map(Vec::len).min()?;
    let means = (0..methods).filter_map(|place| {
        let figure = |rows: &Vec<Row>| {
            let row = &rows[place];
            let own = if which.is_generic() { row.generic } else { row.personal };
            which.figure(row).filter(|_| own && !row.has_failed())
        };
        let figures = runs.iter().map(figure).collect::<Option<Vec<f64>>>()?;
        let figure = figures.iter().sum::<f64>() / figures.len() as f64;
        Some(Best { method: runs[0][place].title.clone(), figure })
    });
    means.min_by(|a, b| metric.order(a.figure, b.figure))
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}

fn run(top: &Path, folder: &Path) -> Listed {
    let mut listed = Listed::new(top, folder, Kind::Run);
    let log = folder.join(EVENTS_FILE);
    listed.modified = modified(&log).or_else(|| modified(&folder.join(EXPERIMENT_FILE)));
    let running = files::is_locked(folder);
    listed.state = match RunLog::skim(&log) {
        Ok(log) => {
            let state = state_of(&log, running);
            listed.describe(&[log]);
            state
        }
        Err(ReportError::Absent { .. } | ReportError::Empty { .. }) if !running => {
            State::NotStarted
        }
        // Somebody writes while we read.
        Err(_) if running => State::Running { at: "just begun".to_owned() },
        Err(error) => State::Damaged { why: why(&error) },
    };
    listed
}

/// What is wrong, without the file and the remedy.
fn why(error: &ReportError) -> String {
    let text = error.to_string();
    let text = text.split("; ").next().unwrap_or_default();
    match text.split_once(EVENTS_FILE) {
        Some((_, after)) => after.trim_start_matches([':', ',', ' ']).to_owned(),
        None => text.to_owned(),
    }
}

fn state_of(log: &RunLog, running: bool) -> State {
    if log.seconds.is_some() && !running {
        return State::Finished;
    }
    let under_way = log.methods.iter().find(|method| method.finish.is_none());
    let at = under_way.map_or_else(
        || "at its end".to_owned(),
        |method| {
            let (done, planned) = (method.completed(), log.started.rounds);
            format!("round {done} of {planned} of {}", method.info.title)
        },
    );
    if running { State::Running { at } } else { State::Interrupted { at } }
}

fn series(top: &Path, folder: &Path) -> Listed {
    let mut listed = Listed::new(top, folder, Kind::Series);
    listed.modified = modified(&folder.join(SERIES_FILE));
    let seeds = match seeds_of(folder) {
        Ok(seeds) => seeds,
        Err(error) => {
            let text = error.to_string();
            let why = text.lines().next().unwrap_or_default().to_owned();
            listed.state = State::Damaged { why };
            return listed;
        }
    };
    let runs: Vec<Listed> = seeds
        .iter()
        .map(|seed| folder.join(format!("seed-{seed}")))
        .filter(|folder| folder.is_dir())
        .map(|folder| run(top, &folder))
        .collect();
    listed.modified = runs.iter().filter_map(|run| run.modified).max().or(listed.modified);
    let finished = runs.iter().filter(|run| run.state == State::Finished).count();
    let running = files::is_locked(folder);
    let of = seeds.len();
    let under_way = runs.iter().find_map(|run| match &run.state {
        State::Running { at } | State::Interrupted { at } => Some(at.as_str()),
        _ => None,
    });
    let at = match under_way {
        Some(at) => format!("seed {} of {of}: {at}", finished + 1),
        None => format!("{finished} of {of} seeds done"),
    };
    let damaged = runs.iter().find_map(|run| match &run.state {
        State::Damaged { why } => Some(format!("{}: {why}", run.name)),
        _ => None,
    });
    listed.state = match damaged {
        Some(why) => State::Damaged { why },
        None if finished == of && !running => State::Finished,
        None if running => State::Running { at },
        None if runs.is_empty() => State::NotStarted,
        None => State::Interrupted { at },
    };
    let readable = |run: &&Listed| !matches!(run.state, State::Damaged { .. } | State::NotStarted);
    let logs: Vec<RunLog> = runs
        .iter()
        .filter(readable)
        .filter_map(|run| RunLog::skim(&run.folder.join(EVENTS_FILE)).ok())
        .collect();
    listed.describe(&logs);
    listed
}

fn sweep(top: &Path, folder: &Path) -> Listed {
    let mut listed = Listed::new(top, folder, Kind::Sweep);
    listed.modified = modified(&folder.join(RESULTS_FILE));
    let running = files::is_locked(folder);
    let results = files::read(&folder.join(RESULTS_FILE)).unwrap_or_default();
    let results = results.split(|byte| *byte == b'\n').count().saturating_sub(1);
    let at = format!("{results} results");
    listed.state = if running { State::Running { at } } else { State::Finished };
    listed
}
