//! What was chosen, as a file that runs and presets take.

use super::search::{Open, Why};
use super::space::spelt;
use crate::reproduce::{flattened_below, same, shown};
use crate::{Rank, Scale, StudyError};
use formant_experiment::{Experiment, Override};
use formant_runtime::RuntimeError;
use formant_runtime::files::{self, Replacement, Synced};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use toml::{Table, Value};

/// The best setting of one method in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Winner {
    /// The method's label.
    pub method: String,
    /// Where it was chosen, by key.
    #[serde(default)]
    pub cell: BTreeMap<String, Json>,
    /// Its keys, as a `[[method]]` has them.
    #[serde(default)]
    pub set: Table,
    /// What it was chosen by, on validation samples.
    #[serde(default)]
    pub score: Option<f64>,
    /// The generic model.
    #[serde(default)]
    pub gm: Option<f64>,
    /// The personal models.
    #[serde(default)]
    pub pm: Option<f64>,
    /// Whether even the best diverged or gave up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Which models count.
    pub by: Rank,
    /// Settings that could be tried.
    pub budget: usize,
    /// Settings that were tried.
    pub settings: usize,
    /// Seeds of each setting.
    pub seeds: Vec<i64>,
    /// Whether half steps were tried as well.
    #[serde(default)]
    pub refined: bool,
    /// Keys along which something better may lie; none if the winner is inside.
    #[serde(default)]
    pub open: Vec<Open>,
    /// The size of a preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// The best settings of methods in cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// One for each method and cell.
    #[serde(default, rename = "winner")]
    pub winners: Vec<Winner>,
}

impl Winner {
    /// Whether all neighbours of the setting were tried and are worse.
    pub fn is_inside(&self) -> bool {
        self.open.is_empty() && !self.failed
    }

    /// The setting as `key=value`s.
    pub fn setting(&self) -> String {
        let pair =
            |(path, value): &(Vec<String>, Value)| format!("{}={}", path.join("."), spelt(value));
        flattened_below(&self.set).iter().map(pair).collect::<Vec<_>>().join(" ")
    }

    /// The cell as `key=value`s.
    pub fn cell_name(&self) -> String {
        cell_name(&self.cell)
    }

    /// Inside or open, in words.
    pub fn verdict(&self) -> String {
        if self.failed {
            return "diverged".into();
        }
        if self.is_inside() {
            return "inside".into();
        }
        let because = |why: Why, words: &str| {
            let keys = self.open.iter().filter(|open| open.why == why).map(|open| &*open.key);
            let keys: Vec<&str> = keys.collect();
            (!keys.is_empty()).then(|| format!("{words}: {}", keys.join(", ")))
        };
        let open = [because(Why::Budget, "budget spent"), because(Why::EndOfList, "end of list")];
        format!("open, {}", open.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    /// What it changes in an experiment.
    pub fn changes(&self) -> Vec<Override> {
        let change = |(path, value): (Vec<String>, Value)| {
            let below = path.iter().map(String::as_str);
            let path: Vec<&str> = ["method", &self.method].into_iter().chain(below).collect();
            Override::new(&path, value)
        };
        flattened_below(&self.set).into_iter().map(change).collect()
    }

    /// Whether it was chosen where these keys have these values.
    fn fits(&self, value: impl Fn(&str) -> Option<String>) -> bool {
        let mut keys = self.cell.iter();
        keys.all(|(key, own)| value(key).is_some_and(|value| same(&shown(own), &value)))
    }
}

pub(super) fn cell_name(cell: &BTreeMap<String, Json>) -> String {
    let pair = |(key, value): (&String, &Json)| format!("{key}={}", shown(value));
    cell.iter().map(pair).collect::<Vec<_>>().join(" ")
}

impl Tuned {
    /// Reads a file of winners.
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        let bytes = files::read(path)?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|reason| {
            let path = path.to_path_buf();
            StudyError::BadTuned { path, reason }
        })
    }

    /// Reads the text of such a file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// The winners that a preset takes in a cell, as changes; `labels` are its methods.
    pub(crate) fn in_cell(
        &self,
        cell: &BTreeMap<String, Json>,
        scale: Scale,
        labels: &[String],
    ) -> Vec<Override> {
        let fits = |winner: &&Winner| {
            winner.scale.is_none_or(|own| own == scale)
                && labels.contains(&winner.method)
                && winner.fits(|key| cell.get(key).map(shown))
        };
        self.winners.iter().filter(fits).flat_map(Winner::changes).collect()
    }

    /// The winners that an experiment takes: those of its methods whose cell it is in.
    pub(crate) fn of_experiment(&self, experiment: &Experiment) -> Vec<Override> {
        let table = experiment.to_table();
        let value = |key: &str| {
            let mut at: Option<&Value> = None;
            for part in key.split('.') {
                at = match at {
                    None => table.get(part),
                    Some(Value::Table(inner)) => inner.get(part),
                    Some(_) => None,
                };
                at?;
            }
            at.map(spelt)
        };
        let has = |label: &str| experiment.methods.iter().any(|method| method.label == label);
        let fits = |winner: &&Winner| has(&winner.method) && winner.fits(&value);
        self.winners.iter().filter(fits).flat_map(Winner::changes).collect()
    }

    /// The same with newer winners, which replace those of their method and cell.
    #[must_use]
    pub fn renewed(mut self, newer: &Self) -> Self {
        for winner in &newer.winners {
            let same = |old: &&mut Winner| {
                (&old.method, &old.cell, old.scale) == (&winner.method, &winner.cell, winner.scale)
            };
            match self.winners.iter_mut().find(same) {
                Some(old) => *old = winner.clone(),
                None => self.winners.push(winner.clone()),
            }
        }
        self
    }

    /// The file.
    pub fn text(&self, command: &str) -> String {
        let mut text = format!(
            "# Settings that `{command}` chose on validation images, a [[winner]] for each method and cell.\n\
             # `open` names keys along which something better may lie: the budget was spent, or the list has an end.\n"
        );
        for winner in &self.winners {
            let _ = write!(text, "\n{}", winner.text());
        }
        text
    }

    /// Writes the file, with what it held of other methods and cells.
    pub fn write(&self, path: &Path, command: &str) -> Result<Self, StudyError> {
        let before = if path.exists() { Self::read(path)? } else { Self::default() };
        let all = before.renewed(self);
        let text = all.text(command);
        files::replace(path, Replacement::synced(Synced::Content), |file| {
            file.write_all(text.as_bytes())
        })
        .map_err(|error| RuntimeError::file("write", path, error))?;
        Ok(all)
    }
}

impl Winner {
    fn text(&self) -> String {
        let inline = |table: Table| Value::Table(table).to_string();
        let cell = self
            .cell
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), Value::try_from(value).ok()?)));
        let mut text = String::from("[[winner]]\n");
        let mut line = |key: &str, value: String| {
            let _ = writeln!(text, "{key} = {value}");
        };
        line("method", Value::String(self.method.clone()).to_string());
        line("cell", inline(cell.collect()));
        line("set", inline(self.set.clone()));
        for (key, figure) in [("score", self.score), ("gm", self.gm), ("pm", self.pm)] {
            if let Some(figure) = figure {
                line(key, format!("{figure:.5}"));
            }
        }
        if self.failed {
            line("failed", "true".into());
        }
        line("by", format!("\"{}\"", self.by));
        line("budget", self.budget.to_string());
        line("settings", self.settings.to_string());
        line("seeds", format!("{:?}", self.seeds));
        line("refined", self.refined.to_string());
        let open = self.open.iter().filter_map(|open| Value::try_from(open).ok());
        line("open", Value::Array(open.collect()).to_string());
        if let Some(scale) = self.scale {
            line("scale", format!("\"{scale}\""));
        }
        text
    }
}
