//! What is asked for, and the section `[tune]` that says where to look.

use super::space::Space;
use super::{Search, Tuning};
use crate::reproduce::{Cell, File, alone, data_place, same, shown};
use crate::{Draft, Preset, Rank, Scale, StudyError};
use formant_experiment::{Experiment, Override, QUICKSTART};
use formant_methods::Zoo;
use formant_methods::schema::suggest;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Settings that a method may try, unless somebody says otherwise.
const BUDGET: usize = 15;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct TuneRequest {
    /// An experiment's or a preset's file, or the name of a preset; without it, the quickstart.
    pub experiment: Option<String>,
    /// Which size of a preset; without it, the desk.
    pub scale: Option<Scale>,
    /// Folder of the datasets; without it, the usual one.
    pub data_dir: Option<PathBuf>,
    /// Changes as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Only these methods; nothing means all that the experiment has.
    pub methods: Vec<String>,
    /// Cells as `KEY=V1,V2`: of what a preset varies, only these; of anything else, one search for each.
    pub cells: Vec<String>,
    /// Settings for each method in each cell, in place of the file's.
    pub budget: Option<usize>,
    /// Seeds of each setting, in place of the file's.
    pub seeds: Vec<i64>,
    /// What counts, in place of the file's.
    pub score: Option<Rank>,
    /// What is laid over everything and changes no result, such as the number of threads.
    pub last: Vec<Override>,
}

/// The section `[tune]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rules {
    #[serde(default)]
    budget: Option<usize>,
    #[serde(default)]
    seeds: Vec<i64>,
    #[serde(default)]
    score: Option<Rank>,
    /// What makes an experiment one that is chosen on, such as other images.
    #[serde(default)]
    set: Table,
    /// For each label, or name of a method, its keys.
    #[serde(default)]
    space: BTreeMap<String, Table>,
}

/// Where searches start from.
struct Ground {
    draft: Draft,
    cells: Vec<Cell>,
    rules: Rules,
    /// Keys that a preset varies.
    axes: Vec<String>,
    folder: Option<String>,
    scale: Option<Scale>,
    /// What errors name.
    name: String,
}

impl Tuning {
    /// Builds every search and checks every value that its space names, so that whatever is wrong is refused before
    /// anything runs. No data are read.
    pub fn new(request: &TuneRequest, zoo: &Zoo) -> Result<Self, StudyError> {
        let mut ground = Ground::of(request, zoo)?;
        let is_named = request.set.iter().any(|set| set.trim_start().starts_with("data.source"))
            || request.cells.iter().any(|cell| cell.trim_start().starts_with("data.source"));
        for text in &request.set {
            ground.draft.change(Override::parse(text)?);
        }
        let place = data_place(is_named, request.data_dir.as_deref(), ground.folder.as_deref());
        if let Some(place) = place {
            ground.draft.change(place);
        }
        let cells = ground.chosen_cells(&request.cells)?;
        let changes = crate::reproduce::flattened(&ground.rules.set);
        let rules = &ground.rules;
        let mut tuning = Self {
            zoo: zoo.clone(),
            searches: Vec::new(),
            last: request.last.clone(),
            budget: request.budget.or(rules.budget).unwrap_or(BUDGET),
            seeds: [&request.seeds, &rules.seeds]
                .into_iter()
                .find(|s| !s.is_empty())
                .cloned()
                .unwrap_or_default(),
            by: request.score.or(rules.score).unwrap_or_default(),
            scale: ground.scale,
            remarks: Vec::new(),
            data: crate::divided::SharedData::default(),
            changes,
            draft: ground.draft.clone(),
        };
        if tuning.budget == 0 {
            return Err(StudyError::NotPositive { flag: "--budget", value: 0.0 });
        }
        for cell in &cells {
            let scored = ground.draft.experiment(&cell.changes)?;
            let chosen_on =
                ground.draft.experiment(&[&cell.changes[..], &tuning.changes].concat())?;
            if tuning.seeds.is_empty() {
                tuning.seeds = vec![chosen_on.seed as i64];
            }
            tuning.remark(&scored, &chosen_on);
            for label in labels(&request.methods, &scored)? {
                let one = alone(&scored, Some(&label), zoo)?;
                let space = ground.space(&label, &one)?;
                let (values, changes) = (cell.values.clone(), cell.changes.clone());
                let search = Search { method: label, cell: values, changes, space };
                for point in search.space.named() {
                    let seed = tuning.seeds[0];
                    tuning.job(&search, &search.space, &point, seed).map_err(|source| {
                        let setting = format!("{} {}", search.name(), search.space.shown(&point));
                        StudyError::InCombination { setting, source: Box::new(source) }
                    })?;
                }
                tuning.searches.push(search);
            }
        }
        Ok(tuning)
    }

    /// Says when images that are chosen on may be scored later.
    fn remark(&mut self, scored: &Experiment, chosen_on: &Experiment) {
        let [on, later] = [chosen_on, scored].map(|experiment| &experiment.data);
        if on.origin != later.origin {
            return;
        }
        let is_apart = match (on.part, later.part) {
            (Some(on), Some(later)) => on.is_apart_from(later),
            _ => false,
        };
        // One division for all seeds has the same validation images, which are no test images.
        let is_one = on == later && on.seed.is_some();
        let remark = "images that are chosen on can be scored later: give [tune.set] a data.part of its own, such as \"1/5\", and the experiment another, such as \"2-5/5\", or one division to all by data.seed";
        if !is_apart && !is_one && self.remarks.is_empty() {
            self.remarks.push(remark.into());
        }
    }
}

impl Ground {
    fn of(request: &TuneRequest, zoo: &Zoo) -> Result<Self, StudyError> {
        let Some(given) = &request.experiment else {
            let table = QUICKSTART.parse::<Table>().unwrap_or_default();
            return Self::of_experiment(table, None, "the quickstart", zoo);
        };
        let path = Path::new(given);
        let looks_like_a_path =
            path.extension().is_some() || given.contains(std::path::MAIN_SEPARATOR);
        if !path.exists() && !looks_like_a_path {
            return Self::of_preset(Preset::named(given)?.file()?, request, zoo);
        }
        let table = Experiment::read_table(path)?;
        if table.contains_key("experiment") {
            let name = path.file_stem().map_or(given.clone().into(), |stem| stem.to_string_lossy());
            let file = File::parse(&name, &table.to_string())?;
            return Self::of_preset(file, request, zoo);
        }
        Self::of_experiment(table, Some(path), given, zoo)
    }

    fn of_preset(file: File, request: &TuneRequest, zoo: &Zoo) -> Result<Self, StudyError> {
        let scale = request.scale.unwrap_or(Scale::Desk);
        Ok(Self {
            draft: file.draft(scale, zoo),
            cells: file.cells(scale)?,
            axes: file.axes().into_iter().map(|axis| axis.key).collect(),
            rules: file.tune.clone().unwrap_or_default(),
            scale: Some(scale),
            name: file.name,
            folder: file.folder,
        })
    }

    fn of_experiment(
        mut table: Table,
        path: Option<&Path>,
        name: &str,
        zoo: &Zoo,
    ) -> Result<Self, StudyError> {
        let rules = match table.remove("tune") {
            None => Rules::default(),
            Some(section) => section.try_into().map_err(|error: toml::de::Error| {
                let reason = error.to_string().trim_end().to_owned();
                StudyError::Tune { name: name.into(), reason }
            })?,
        };
        let mut draft = Draft::new(table, zoo);
        if let Some(path) = path {
            draft.is_from(path);
        }
        let (axes, cells) = (Vec::new(), vec![Cell::default()]);
        Ok(Self { draft, cells, rules, axes, folder: None, scale: None, name: name.into() })
    }

    /// The cells that are asked for.
    fn chosen_cells(&self, given: &[String]) -> Result<Vec<Cell>, StudyError> {
        let mut cells = self.cells.clone();
        for text in given {
            let refuse = |hint: String| StudyError::Cell { given: text.clone(), hint };
            let Some((key, values)) = text.split_once('=') else {
                return Err(refuse("write --cell KEY=VALUE, e.g. --cell data.alpha=0.5".into()));
            };
            let key = key.trim();
            let values = crate::grid::split(values);
            if values.is_empty() {
                return Err(refuse("write --cell KEY=VALUE, e.g. --cell data.alpha=0.5".into()));
            }
            if self.axes.iter().any(|axis| axis == key) {
                let known: Vec<String> =
                    self.cells.iter().filter_map(|cell| cell.values.get(key)).map(shown).collect();
                if let Some(stranger) =
                    values.iter().find(|value| !known.iter().any(|known| same(value, known)))
                {
                    let known = known.join(", ");
                    return Err(refuse(format!("{stranger} is no value of it, which are {known}")));
                }
                let is_wanted = |cell: &Cell| {
                    let value = cell.values.get(key).map(shown);
                    value.is_none_or(|value| values.iter().any(|wanted| same(wanted, &value)))
                };
                cells.retain(is_wanted);
                continue;
            }
            let mut next = Vec::new();
            for cell in &cells {
                for value in &values {
                    let mut cell = cell.clone();
                    cell.changes.push(Override::parse(&format!("{key}={value}"))?);
                    cell.values.insert(key.into(), json(value)?);
                    next.push(cell);
                }
            }
            cells = next;
        }
        Ok(cells)
    }

    /// Where to look for the settings of a method, which stands alone in an experiment.
    fn space(&self, label: &str, alone: &Experiment) -> Result<Space, StudyError> {
        let wrong = |reason| StudyError::Tune { name: self.name.clone(), reason };
        let Some(entry) = alone.methods.first().map(|setting| setting.method.method.entry()) else {
            return Err(wrong(format!("it has no method {label}")));
        };
        let space = &self.rules.space;
        let Some(table) = space.get(label).or_else(|| space.get(entry.name)) else {
            return Err(wrong(format!("[tune.space] has nothing for {label}")));
        };
        Space::read(table, entry.keys).map_err(|why| wrong(format!("[tune.space] {label}.{why}")))
    }
}

/// The labels of the methods that are asked for, by label, name or title.
fn labels(given: &[String], experiment: &Experiment) -> Result<Vec<String>, StudyError> {
    let all = || experiment.methods.iter();
    if given.is_empty() {
        return Ok(all().map(|method| method.label.clone()).collect());
    }
    let mut labels: Vec<String> = Vec::new();
    for name in given {
        let by_label: Vec<_> = all().filter(|method| method.label == *name).collect();
        let is_called = |setting: &&formant_experiment::MethodSetting| {
            let entry = setting.method.method.entry();
            [&*setting.label, entry.name, entry.title].iter().any(|n| n.eq_ignore_ascii_case(name))
        };
        let found = if by_label.is_empty() { all().filter(is_called).collect() } else { by_label };
        if found.is_empty() {
            let known = all().map(|method| &*method.label);
            let hint = suggest(name, known, "methods of this experiment");
            return Err(StudyError::UnknownMethod { name: name.clone(), hint });
        }
        let new = found.into_iter().map(|method| method.label.clone());
        labels.extend(new.filter(|label| !labels.contains(label)).collect::<Vec<_>>());
    }
    Ok(labels)
}

/// A value of the command line as the cell of a file has it.
fn json(text: &str) -> Result<Json, StudyError> {
    let table = format!("value = {text}").parse::<Table>().ok();
    let value = table.and_then(|mut table| table.remove("value"));
    Ok(serde_json::to_value(value.unwrap_or_else(|| Value::String(text.into())))?)
}
