//! The parts of a reproduction: what is run once, by itself, and kept.
//!
//! A part is one method in one cell with one seed. So shards of any number have something to do, and a
//! run that is interrupted loses little; data are read once for all parts that share them and follow each other.

use super::Request;
use super::preset::{Cell, File, written};
use crate::divided::SharedData;
use crate::{Effort, Observer, StudyError, measure};
use formant_data::CatalogueEntry;
use formant_experiment::{Experiment, MethodSetting, Override};
use formant_methods::schema::suggest;
use formant_methods::{Moment, Zoo};
use formant_report::RunLog;
use formant_report::results::{Form, Outcome, Results, StepFigures};
use formant_runtime::files::{self, Replacement, Synced, Writers};
use formant_runtime::sim::{self, Outcome as Ending};
use formant_runtime::{EVENTS_FILE, RunPlan, RuntimeError};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use toml::{Table, Value};

/// What a part has found, in its folder.
const OUTCOME_FILE: &str = "outcome.json";
/// Seconds in which each method of a measurement is measured.
pub(super) const MEASURED_SECONDS: f64 = 2.0;

/// One method in one cell with one seed, or one measurement.
#[derive(Debug, Clone)]
pub struct Part {
    /// Hash of the resolved experiment, without how the machine is used and where data lie.
    pub hash: String,
    /// What it is, in words.
    pub name: String,
    /// What is run.
    pub experiment: Experiment,
    /// The method's label; none for a measurement, which is of all.
    pub(super) label: Option<String>,
    /// The cells that it belongs to: where keys are varied one at a time, what nobody has changed belongs to
    /// several.
    pub(super) cells: Vec<BTreeMap<String, Json>>,
    /// How much there is to do, in units that are the same on every machine.
    pub(super) work: f64,
    /// The folder of its data below that of the datasets, if it is no known dataset.
    folder: Option<String>,
}

/// All parts of a request, by cell, then by seed, then by method.
pub(super) fn all(request: &Request, preset: &File, zoo: &Zoo) -> Result<Vec<Part>, StudyError> {
    let axes = preset.axes();
    let mut changes = Vec::new();
    for (place, seed) in request.seeds.iter().enumerate() {
        if request.seeds[..place].contains(seed) {
            let text: Vec<String> = request.seeds.iter().map(ToString::to_string).collect();
            return Err(StudyError::SeedTwice { text: text.join(","), seed: *seed });
        }
    }
    for text in &request.set {
        let key = text.split('=').next().unwrap_or_default().trim();
        if key == "seed" {
            return Err(StudyError::SetSeed { text: text.clone() });
        }
        if axes.iter().any(|axis| axis.key == key) {
            return Err(StudyError::SetAxis { key: key.into(), name: preset.name.clone() });
        }
        changes.push(Override::parse(text)?);
    }
    changes.extend(data_place(
        request.names_data(),
        request.data_dir.as_deref(),
        preset.folder.as_deref(),
    ));
    changes.push(Override::new(&["name"], format!("{} ({})", preset.name, request.scale)));
    changes.push(Override::new(&["runtime", "keep"], "none"));
    changes.extend_from_slice(&request.last);
    let draft = preset.draft(request.scale, zoo);
    let mut cells = preset.cells(request.scale)?;
    let first = draft.experiment(&[&cells[0].changes[..], &changes].concat())?;
    let tuned = request.tuned.as_ref().unwrap_or(&preset.tuned);
    let labels: Vec<String> = first.methods.iter().map(|method| method.label.clone()).collect();
    for cell in &mut cells {
        let winners = tuned.in_cell(&cell.values, request.scale, &labels);
        cell.changes.extend(winners);
    }
    let chosen = Chosen::of(request, preset, &cells, &first)?;
    let own = preset.size(request.scale).seeds.clone();
    let seeds = if request.seeds.is_empty() { own } else { request.seeds.clone() };
    let names = Results::empty(axes);
    let (mut parts, mut known): (Vec<Part>, HashMap<String, usize>) = (Vec::new(), HashMap::new());
    for cell in chosen.cells {
        for seed in &seeds {
            let seeded = [Override::new(&["seed"], *seed)];
            let whole = draft.experiment(&[&cell.changes[..], &changes, &seeded].concat())?;
            let labels = if preset.form == Form::Cost {
                vec![None]
            } else {
                chosen.labels.iter().cloned().map(Some).collect()
            };
            for label in labels {
                let experiment = alone(&whole, label.as_deref(), zoo)?;
                let hash = hash(&experiment, preset.folder.as_deref());
                if let Some(place) = known.get(&hash) {
                    parts[*place].cells.push(cell.values.clone());
                    continue;
                }
                let words = [
                    names.cell_name(&cell.values),
                    label.as_ref().map_or_else(String::new, |_| title(&experiment)),
                    format!("seed {seed}"),
                ];
                let words: Vec<String> = words.into_iter().filter(|w| !w.is_empty()).collect();
                known.insert(hash.clone(), parts.len());
                parts.push(Part {
                    hash,
                    name: words.join(", "),
                    work: if label.is_some() { work(&experiment) } else { 1.0 },
                    experiment,
                    label,
                    cells: vec![cell.values.clone()],
                    folder: preset.folder.clone(),
                });
            }
        }
    }
    Ok(parts)
}

/// Where the data are, unless somebody has named others.
pub(crate) fn data_place(
    is_named: bool,
    data_dir: Option<&Path>,
    folder: Option<&str>,
) -> Option<Override> {
    let dir = || {
        let dir = formant_data::data_dir(data_dir);
        std::path::absolute(&dir).unwrap_or(dir)
    };
    match folder {
        // Whoever names other data means those.
        Some(folder) if !is_named => {
            let source = dir().join(folder).display().to_string();
            Some(Override::new(&["data", "source"], source))
        }
        _ => {
            data_dir?;
            Some(Override::new(&["data", "dir"], dir().display().to_string()))
        }
    }
}

/// What `--only` leaves.
struct Chosen<'c> {
    cells: Vec<&'c Cell>,
    labels: Vec<String>,
}

impl<'c> Chosen<'c> {
    fn of(
        request: &Request,
        preset: &File,
        cells: &'c [Cell],
        first: &Experiment,
    ) -> Result<Self, StudyError> {
        let axes = preset.axes();
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut methods: Vec<&str> = Vec::new();
        for given in &request.only {
            let axis = given.split_once('=').and_then(|(key, value)| {
                let axis = axes.iter().find(|axis| axis.key == key.trim())?;
                Some((&*axis.key, value.trim()))
            });
            match axis {
                Some((key, value)) => values.entry(key).or_default().push(value),
                None => methods.push(given),
            }
        }
        let is_wanted = |cell: &&Cell| {
            values.iter().all(|(key, wanted)| {
                let value = cell.values.get(*key).map(shown);
                value.is_none_or(|value| wanted.iter().any(|wanted| same(wanted, &value)))
            })
        };
        let refuse = |given: &str, hint: String| StudyError::Only {
            given: given.into(),
            name: preset.name.clone(),
            hint,
        };
        for (key, wanted) in &values {
            for value in wanted {
                let known: Vec<String> =
                    cells.iter().filter_map(|cell| cell.values.get(*key)).map(shown).collect();
                if !known.iter().any(|known| same(value, known)) {
                    let each = known.iter().enumerate();
                    let once: Vec<&str> =
                        each.filter(|(i, v)| !known[..*i].contains(v)).map(|(_, v)| &**v).collect();
                    let hint = format!(
                        "{key} has the values {}; name several with several --only",
                        once.join(", ")
                    );
                    return Err(refuse(&format!("{key}={value}"), hint));
                }
            }
        }
        let all = || first.methods.iter();
        let mut labels = Vec::new();
        for given in &methods {
            // A row by a label of its own, or all rows of a method by its name.
            let row = all().find(|method| {
                method.label == *given && method.label != method.method.method.entry().name
            });
            let is_meant = |method: &&MethodSetting| {
                let entry = method.method.method.entry();
                [&*method.label, entry.name, entry.title]
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(given))
            };
            let found = row.into_iter().chain(all().filter(is_meant).filter(|_| row.is_none()));
            let found: Vec<String> = found.map(|method| method.label.clone()).collect();
            if found.is_empty() {
                let known = all().map(|method| &*method.label).chain(axes.iter().map(|a| &*a.key));
                let known: Vec<&str> = known.collect();
                let hint = suggest(given, known.iter().copied(), "methods and axes");
                return Err(refuse(given, hint));
            }
            labels.extend(found);
        }
        if methods.is_empty() {
            labels = all().map(|method| method.label.clone()).collect();
        }
        Ok(Self { cells: cells.iter().filter(is_wanted).collect(), labels })
    }
}

pub(crate) fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| written(&number.into()))
        }
        other => other.to_string(),
    }
}

/// Whether a word of the command line is a value: `1` is `1.0`.
pub(crate) fn same(given: &str, value: &str) -> bool {
    given == value
        || given.parse::<f64>().ok().zip(value.parse::<f64>().ok()).is_some_and(|(a, b)| a == b)
}

/// An experiment with one of its methods alone. It is resolved before, so that changes for other methods
/// find theirs.
pub(crate) fn alone(
    whole: &Experiment,
    label: Option<&str>,
    zoo: &Zoo,
) -> Result<Experiment, StudyError> {
    let Some(label) = label else { return Ok(whole.clone()) };
    let mut table = whole.to_table();
    if let Some(Value::Array(methods)) = table.get_mut("method") {
        methods.retain(|method| method.get("label").and_then(Value::as_str) == Some(label));
    }
    Ok(Experiment::parse(&table, &[], zoo)?)
}

/// How tables call the only method of an experiment.
fn title(experiment: &Experiment) -> String {
    let of = |method: &formant_experiment::MethodSetting| {
        let entry = method.method.method.entry();
        if method.label == entry.name { entry.title.to_owned() } else { method.label.clone() }
    };
    experiment.methods.first().map(of).unwrap_or_default()
}

/// What identifies a result. Neither threads nor the place of the data change it, so they are no part; an engine does.
fn hash(experiment: &Experiment, folder: Option<&str>) -> String {
    let mut identity: Table = experiment.to_table();
    identity.remove("runtime");
    identity.remove("name");
    if let Some(engine) = experiment.engine_name() {
        identity.insert("engine".into(), Value::String(engine));
    }
    if let Some(Value::Table(data)) = identity.get_mut("data") {
        data.remove("dir");
        if let Some(folder) = folder {
            data.insert("source".into(), Value::String(folder.into()));
        }
    }
    files::fingerprint(identity.to_string().as_bytes())
}

/// Clients that train in a round, as a share of all.
pub(super) fn share_at_work(experiment: &Experiment) -> f64 {
    let table = experiment.to_table();
    let rules = table.get("federation");
    let of = |key: &str| rules.and_then(|rules| rules.get(key));
    let buffer = of("buffer").and_then(Value::as_integer).unwrap_or(1) as f64;
    match (of("schedule").and_then(Value::as_str), experiment.data.clients) {
        (Some("buffered"), Some(clients)) => buffer / clients as f64,
        _ => experiment.federation.participation,
    }
}

/// Passes over the data in all rounds and both phases, weighed by who takes part.
fn work(experiment: &Experiment) -> f64 {
    let rounds = experiment.rounds;
    let passes = experiment.methods.iter().map(|setting| {
        let training = setting.training_beside(&experiment.training);
        let in_round = |round: usize| {
            let hints = setting.method.method.hints(Moment { round, rounds });
            let personal = if hints.personal_phase { training.personal_epochs } else { 0 };
            let personal = if personal > 0 { hints.personal.samples(1, personal) } else { 0 };
            hints.shared.samples(1, training.epochs) + personal
        };
        (1..=rounds).map(in_round).sum::<usize>() as f64
    });
    passes.sum::<f64>() * share_at_work(experiment)
}

impl Part {
    /// Whether it measures steps and trains nothing to its end.
    pub(super) fn is_measurement(&self) -> bool {
        self.label.is_none()
    }

    fn folder(&self, all: &Path) -> PathBuf {
        all.join("parts").join(&self.hash)
    }

    /// What the folder of a reproduction has of it, if it is finished.
    pub(super) fn outcomes(&self, all: &Path) -> Option<Vec<Outcome>> {
        let text = files::read(&self.folder(all).join(OUTCOME_FILE)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// What is missing of its data in a folder of datasets.
    pub(super) fn lacks(&self, dir: &Path) -> Option<StudyError> {
        let source = &self.experiment.data.origin.source;
        let lack = |what: &str, fetched: &str| {
            let (what, fetched) = (what.into(), fetched.into());
            Some(StudyError::NoData { what, dir: dir.into(), fetched })
        };
        match (CatalogueEntry::named(source), &self.folder) {
            (Ok(entry), _) if entry.is_in(dir) => None,
            (Ok(entry), _) => lack(entry.name, entry.name),
            (Err(_), Some(folder)) if !Path::new(source).exists() => lack(folder, "inat2017"),
            // What is wrong with files of the user's is said when they are read.
            _ => None,
        }
    }

    /// Runs it or goes on with it; whether it came to its end.
    pub(super) fn run(
        &self,
        all: &Path,
        data: &mut SharedData,
        observer: &dyn Observer,
        stop: &AtomicBool,
    ) -> Result<bool, StudyError> {
        let folder = self.folder(all);
        files::create_folder(&folder)?;
        let plan = self.experiment.plan_on(data.federation(&self.experiment)?)?;
        let outcomes = if self.is_measurement() {
            let _lock = files::lock(&folder)?;
            self.measure(&plan, observer)?
        } else {
            let kept = self.experiment.to_kept();
            write(&folder.join("experiment.toml"), kept.as_bytes())?;
            let watch = observer.part_started(self, &plan);
            let mut ended = sim::run(&plan, &folder, &*watch, stop);
            // What an older version or a crash has left behind must not stand in the way for ever.
            if let Err(error @ RuntimeError::Damaged { .. }) = &ended {
                observer.part_renewed(self, error.to_string().lines().next().unwrap_or_default());
                set_aside(&folder)?;
                write(&folder.join("experiment.toml"), kept.as_bytes())?;
                ended = sim::run(&plan, &folder, &*watch, stop);
            }
            match ended {
                Ok(Ending::Interrupted) => return Ok(false),
                Ok(Ending::Complete) | Err(RuntimeError::Complete { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let log = RunLog::read(&folder.join(EVENTS_FILE))?;
            Outcome::of(&log, &BTreeMap::new(), &self.hash)
        };
        write(&folder.join(OUTCOME_FILE), &serde_json::to_vec(&outcomes)?)?;
        Ok(true)
    }

    fn measure(&self, plan: &RunPlan, observer: &dyn Observer) -> Result<Vec<Outcome>, StudyError> {
        let effort = Effort::new(MEASURED_SECONDS, 1.0)?;
        let figures = measure(plan, effort, observer)?;
        let header = &plan.header;
        let per_sample = |rate: Option<f64>| rate.map(|rate| 1.0 / rate);
        let outcome =
            |(info, found): (&formant_runtime::event::MethodInfo, &crate::MethodFigures)| Outcome {
                cell: BTreeMap::new(),
                label: info.label.clone(),
                method: info.title.clone(),
                generic: info.generic,
                personal: info.personal,
                seed: header.seed,
                hash: self.hash.clone(),
                formant: header.formant.clone(),
                data: header.data_check.clone(),
                fingerprint: None,
                metric: header.metrics.first(),
                division: None,
                scores: None,
                newcomers: Vec::new(),
                clock: None,
                steps: Some(StepFigures {
                    network: header.network.clone(),
                    parameters: header.parameters,
                    batch: figures.batch,
                    plain: 1.0 / figures.samples_per_second,
                    shared: per_sample(found.shared),
                    personal: per_sample(found.personal),
                }),
                seconds: effort.total(plan).as_secs_f64(),
                trouble: None,
            };
        Ok(header.methods.iter().zip(&figures.methods).map(outcome).collect())
    }
}

/// Moves what a folder holds to `FOLDER.damaged`, where an earlier one is replaced, and makes the folder anew.
fn set_aside(folder: &Path) -> Result<(), StudyError> {
    let mut aside = folder.as_os_str().to_owned();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    let _lock = files::lock(folder)?;
    let fail = |error| RuntimeError::file("move", folder, error);
    match std::fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(fail(error).into());
        }
        _ => {}
    }
    std::fs::rename(folder, &aside).map_err(fail)?;
    files::create_folder(folder)?;
    Ok(())
}

/// Writes a file that other processes may write too, with the same content.
fn write(path: &Path, bytes: &[u8]) -> Result<(), StudyError> {
    let how = Replacement { writers: Writers::Many, ..Replacement::synced(Synced::Content) };
    files::replace(path, how, |file| file.write_all(bytes))
        .map_err(|error| RuntimeError::file("write", path, error).into())
}
