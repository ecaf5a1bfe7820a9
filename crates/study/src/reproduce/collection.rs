//! What the parts of a reproduction have found, in one file and as tables.

use super::{Reproduction, Scale};
use crate::{StudyError, run_folders};
use formant_report::results::{self, Axis, Form, Layout, Outcome, RESULTS_FORMAT, Results};
use formant_runtime::RuntimeError;
use formant_runtime::event::RunStarted;
use formant_runtime::files::{self, Replacement, Synced, Writers};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

impl Reproduction {
    /// What a folder has of the table, and what is missing in it.
    pub fn collect(&self, folder: &Path) -> Result<Results, StudyError> {
        let (request, preset) = (&self.request, &self.preset);
        let size = preset.size(request.scale);
        let mut all = Results {
            format: RESULTS_FORMAT,
            name: preset.name.clone(),
            title: if request.names_data() {
                format!("{} (on other data)", preset.title)
            } else {
                preset.title.clone()
            },
            of_the_paper: preset.of_the_paper.clone(),
            scale: request.scale.to_string(),
            form: preset.form,
            axes: preset.axes(),
            targets: size.targets.clone(),
            commands: vec![self.command()],
            open: preset.open(request.scale),
            notes: self.notes(),
            paper: if request.names_data() { Vec::new() } else { preset.published()? },
            missing: Vec::new(),
            runs: Vec::new(),
        };
        let found: Vec<Option<Vec<Outcome>>> =
            (0..self.parts.len()).map(|place| self.outcomes(folder, place)).collect();
        for (cell, label) in self.rows() {
            for (part, found) in self.parts.iter().zip(&found) {
                if part.label != label || !part.cells.contains(cell) {
                    continue;
                }
                match found {
                    Some(outcomes) => all.runs.extend(
                        outcomes.iter().map(|run| Outcome { cell: cell.clone(), ..run.clone() }),
                    ),
                    // A part may stand in several cells.
                    None if all.missing.contains(&part.name) => {}
                    None => all.missing.push(part.name.clone()),
                }
            }
        }
        Ok(all)
    }

    /// Cells and methods, in the order of tables.
    fn rows(&self) -> Vec<(&BTreeMap<String, serde_json::Value>, Option<String>)> {
        let mut cells: Vec<&BTreeMap<String, serde_json::Value>> = Vec::new();
        for cell in self.parts.iter().flat_map(|part| &part.cells) {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        // The order of the preset: what nobody has changed stands where its value does.
        if let Ok(known) = self.preset.cells(self.request.scale) {
            let place = |cell: &BTreeMap<_, _>| known.iter().position(|k| k.values == *cell);
            cells.sort_by_key(|cell| place(cell));
        }
        let mut labels: Vec<Option<String>> = Vec::new();
        for part in &self.parts {
            if !labels.contains(&part.label) {
                labels.push(part.label.clone());
            }
        }
        let each = cells.into_iter().flat_map(|cell| labels.iter().map(move |l| (cell, l.clone())));
        each.collect()
    }

    /// What to type for the same.
    fn command(&self) -> String {
        let request = &self.request;
        let mut command = format!("formant reproduce {} --scale {}", request.name, request.scale);
        let quoted = |word: &str| {
            if word.contains([' ', '(', '"']) { format!("'{word}'") } else { word.to_owned() }
        };
        for (flag, words) in [("--only", &request.only), ("--set", &request.set)] {
            for word in words {
                command.extend([" ", flag, " ", &quoted(word)]);
            }
        }
        if !request.seeds.is_empty() {
            let seeds: Vec<String> = request.seeds.iter().map(ToString::to_string).collect();
            command.extend([" --seeds ", &seeds.join(",")]);
        }
        if request.data_dir.is_some() {
            command += " --data-dir DIR";
        }
        command
    }

    fn seeds(&self) -> usize {
        let seeds = self.parts.iter().map(|part| part.experiment.seed);
        seeds.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// What is to be said about all of it.
    fn notes(&self) -> Vec<String> {
        let (request, preset) = (&self.request, &self.preset);
        // What the file says of its own setting is not so if that was changed.
        let mut notes = if request.set.is_empty() {
            preset.size(request.scale).notes.clone()
        } else {
            Vec::new()
        };
        if let Some(first) = self.parts.first()
            && preset.form != Form::Cost
            && self.seeds() > 1
        {
            notes.push(match first.experiment.data.seed {
                Some(seed) => format!("± covers initial models and the order of samples. The division of the samples among the clients is one and the same (data.seed = {seed}); with --set data.seed= it changes with the seed."),
                None => "± covers initial models, the order of samples, and the division of the samples among the clients, which changes with the seed.".into(),
            });
        }
        if !request.set.is_empty() {
            notes.push(format!(
                "Changed from the preset, whose own remarks are left out: {}.",
                request.set.join(", ")
            ));
        }
        if request.scale == Scale::Desk && !preset.figures_are_empty() && !request.names_data() {
            notes.push("The paper's figures are of its own setting, which is many times larger: the order of methods can be compared, the height of figures cannot.".into());
        }
        notes
    }
}

/// Writes `results.json`, `table.md`, `table.csv`, `table.tex`, `report.html` and every figure in `figures` into a
/// folder and says where they lie.
pub fn write_results(results: &Results, folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    files::create_folder(folder)?;
    let heading = format!("# {}\n\n", results.title);
    let mut written = vec![
        (folder.join("results.json"), results.text()?),
        (folder.join("table.md"), heading + &results::tables(results, &Layout::default())),
        (folder.join("table.csv"), results::csv(results)),
        (folder.join("table.tex"), results::latex(results)),
        (folder.join("report.html"), results::page(results)),
    ];
    let (figures, below) = (results::figures(results), folder.join("figures"));
    remove_figures(folder, &below);
    if !figures.is_empty() {
        files::create_folder(&below)?;
        let files = figures.into_iter();
        written.extend(files.map(|file| (below.join(format!("{}.svg", file.name)), file.svg)));
    }
    let mut paths = Vec::new();
    for (path, text) in written {
        let how = Replacement { writers: Writers::Many, ..Replacement::synced(Synced::Content) };
        files::replace(&path, how, |file| file.write_all(text.as_bytes()))
            .map_err(|error| RuntimeError::file("write", &path, error))?;
        paths.push(path);
    }
    Ok(paths)
}

/// Takes away the figures of the table that a folder has had, beside which another one's would mislead. What else lies
/// there is somebody's own.
fn remove_figures(folder: &Path, below: &Path) {
    let path = folder.join("results.json");
    let text = files::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(before) = text.and_then(|text| Results::parse(&path, &text).ok()) else { return };
    for figure in results::figures(&before) {
        let _ = std::fs::remove_file(below.join(format!("{}.svg", figure.name)));
    }
}

/// Results of ordinary runs: cells are what they differ in, besides their seeds.
pub fn results_of(name: &str, named: &[PathBuf]) -> Result<Results, StudyError> {
    let runs = run_folders(named)?;
    let logs = runs
        .iter()
        .map(|run| formant_report::RunLog::read(&run.join(formant_runtime::EVENTS_FILE)));
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    let settings: Vec<BTreeMap<String, serde_json::Value>> =
        logs.iter().map(|log| leaves(&log.started.config)).collect();
    check_one_table(&runs, &logs, &settings)?;
    let mut axes: Vec<Axis> = Vec::new();
    for key in settings.iter().flat_map(BTreeMap::keys) {
        let first = settings[0].get(key);
        let differs = settings.iter().any(|setting| setting.get(key) != first);
        if differs && !axes.iter().any(|axis| axis.key == *key) {
            let symbol = if key == "data.alpha" { "α".to_owned() } else { key.clone() };
            axes.push(Axis { key: key.clone(), symbol });
        }
    }
    let mut all = Results { name: name.into(), ..Results::empty(axes) };
    all.title = logs.first().map(|log| log.started.name.clone()).unwrap_or_default();
    for (log, setting) in logs.iter().zip(&settings) {
        let cell = all
            .axes
            .iter()
            .filter_map(|axis| Some((axis.key.clone(), setting.get(&axis.key)?.clone())));
        let cell: BTreeMap<_, _> = cell.collect();
        let hash = files::fingerprint(serde_json::to_string(setting)?.as_bytes());
        all.runs.extend(Outcome::of(log, &cell, &hash));
    }
    Ok(all)
}

/// Refuses runs that are not over, that are there twice, or in which one label means different methods.
fn check_one_table(
    runs: &[PathBuf],
    logs: &[formant_report::RunLog],
    settings: &[BTreeMap<String, serde_json::Value>],
) -> Result<(), StudyError> {
    for (place, log) in logs.iter().enumerate() {
        if log.seconds.is_none() {
            return Err(StudyError::Unfinished { folder: runs[place].clone() });
        }
        for earlier in 0..place {
            let refuse = |why: String, hint| {
                let (one, other) = (runs[earlier].clone(), runs[place].clone());
                Err(StudyError::NotOneTable { one, other, why, hint })
            };
            let (one, other) = (&logs[earlier].started, &log.started);
            for (place_here, method) in other.methods.iter().enumerate() {
                let known = one.methods.iter().position(|known| known.label == method.label);
                let Some(known) = known else { continue };
                if setting(one, known) != setting(other, place_here) {
                    let why = format!("{} is not the same method in both", method.label);
                    return refuse(why, "give methods with other settings labels of their own");
                }
                if one.seed == other.seed && settings[earlier] == settings[place] {
                    let why = format!("both have {} with seed {}", method.label, one.seed);
                    return refuse(why, "name every run once");
                }
            }
        }
    }
    Ok(())
}

/// Everything that an experiment says of the method at a place: hyper-parameters, and rates of its own.
fn setting(run: &RunStarted, place: usize) -> Option<&serde_json::Value> {
    run.config.get("method")?.get(place)
}

/// Every key of an experiment with its value, without what may differ between repetitions, the use of the
/// machine and the methods.
fn leaves(config: &serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    fn walk(
        path: &str,
        value: &serde_json::Value,
        found: &mut BTreeMap<String, serde_json::Value>,
    ) {
        match value {
            serde_json::Value::Object(inner) => {
                for (key, value) in inner {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    walk(&path, value, found);
                }
            }
            leaf => {
                found.insert(path.into(), leaf.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk("", config, &mut found);
    let aside = ["seed", "name", "method", "data.seed", "data.dir"];
    found.retain(|key, _| !aside.contains(&&**key) && !key.starts_with("runtime."));
    found
}
