//! The file of a preset: one experiment in two sizes, what it varies, and the paper's figures.

use crate::tune::Rules;
use crate::{Draft, StudyError, Tuned};
use formant_experiment::Override;
use formant_methods::Zoo;
use formant_report::results::{Axis, Form, Open, Published};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// The sizes that every preset has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Small enough for a desk: two cores and half an hour.
    Desk,
    /// The paper's setting.
    Paper,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Desk => "desk",
            Self::Paper => "paper",
        })
    }
}

/// What a file says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct File {
    /// The preset's name, which the file does not repeat.
    #[serde(skip)]
    pub(crate) name: String,
    pub(super) title: String,
    /// What of the paper it is about.
    pub(super) of_the_paper: String,
    pub(super) summary: String,
    pub(super) form: Form,
    /// Whether all combinations of the axes are run, or one axis at a time.
    #[serde(default)]
    pub(super) vary: Vary,
    /// The data are this folder of the folder of datasets.
    #[serde(default)]
    pub(crate) folder: Option<String>,
    /// The experiment that both sizes change.
    pub(super) experiment: Table,
    pub(super) desk: Size,
    pub(super) paper: Size,
    #[serde(default)]
    axis: Vec<AxisEntry>,
    /// How hyper-parameters are chosen.
    #[serde(default)]
    pub(crate) tune: Option<Rules>,
    /// Those that were chosen, from a file of their own.
    #[serde(skip)]
    pub(super) tuned: Tuned,
    /// What the paper does not give.
    #[serde(default)]
    open: Vec<OpenEntry>,
    /// Method, cell, measure: the figure as the paper prints it.
    #[serde(default)]
    figures: BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>,
}

/// How axes are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Vary {
    /// Every value of one with every value of the others.
    #[default]
    Together,
    /// The values of one, the others being as the experiment has them.
    OneAtATime,
}

/// One of the two sizes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    pub(super) seeds: Vec<i64>,
    /// Accuracies whose time is asked for.
    #[serde(default)]
    pub(super) targets: Vec<f64>,
    /// What is to be said about it.
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// Changes to the experiment.
    #[serde(default)]
    pub(super) set: Table,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisEntry {
    key: String,
    symbol: String,
    values: Vec<Value>,
    /// Other values at one of the sizes.
    #[serde(default)]
    desk: Option<Vec<Value>>,
    #[serde(default)]
    paper: Option<Vec<Value>>,
    /// What else changes with a value, at both sizes and at one of them.
    #[serde(default)]
    with: BTreeMap<String, Table>,
    #[serde(default, rename = "with-desk")]
    with_desk: BTreeMap<String, Table>,
    #[serde(default, rename = "with-paper")]
    with_paper: BTreeMap<String, Table>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenEntry {
    setting: String,
    chosen: String,
    why: String,
    /// Where it holds; without it, at both sizes.
    #[serde(default)]
    scale: Option<Scale>,
}

/// One place of a table: values of axes, and the changes that they mean.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) values: BTreeMap<String, Json>,
    pub(crate) changes: Vec<Override>,
}

impl File {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, StudyError> {
        let wrong = |reason: String| StudyError::Preset { name: name.into(), reason };
        let mut file: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        name.clone_into(&mut file.name);
        for (scale, size) in [(Scale::Desk, &file.desk), (Scale::Paper, &file.paper)] {
            if size.seeds.is_empty() {
                return Err(wrong(format!("[{scale}] has no seeds")));
            }
            for axis in &file.axis {
                let values = axis.values(scale);
                if values.is_empty() {
                    return Err(wrong(format!("the axis {} has no values", axis.key)));
                }
                let known: Vec<String> = axis.values.iter().chain(values).map(written).collect();
                let mut named = axis.with.keys().chain(axis.with_at(scale).keys());
                if let Some(stranger) = named.find(|key| !known.contains(key)) {
                    let reason = format!("axis.with.{stranger} is no value of {}", axis.key);
                    return Err(wrong(reason));
                }
            }
        }
        file.published()?;
        Ok(file)
    }

    pub(super) fn size(&self, scale: Scale) -> &Size {
        match scale {
            Scale::Desk => &self.desk,
            Scale::Paper => &self.paper,
        }
    }

    /// The data at a scale, by the name that the experiment gives them.
    pub(super) fn source(&self, scale: Scale) -> String {
        let of = |table: &Table| Some(table.get("data")?.get("source")?.as_str()?.to_owned());
        let named = of(&self.size(scale).set).or_else(|| of(&self.experiment));
        named.unwrap_or_else(|| "mnist-small".into())
    }

    /// The experiment of a size, still without the values of a cell.
    pub(crate) fn draft(&self, scale: Scale, zoo: &Zoo) -> Draft {
        let mut draft = Draft::new(self.experiment.clone(), zoo);
        for change in flattened(&self.size(scale).set) {
            draft.change(change);
        }
        draft
    }

    pub(crate) fn axes(&self) -> Vec<Axis> {
        let axis = |axis: &AxisEntry| Axis { key: axis.key.clone(), symbol: axis.symbol.clone() };
        self.axis.iter().map(axis).collect()
    }

    /// All cells; the last axis varies fastest.
    pub(crate) fn cells(&self, scale: Scale) -> Result<Vec<Cell>, StudyError> {
        if self.vary == Vary::OneAtATime {
            let mut cells = Vec::new();
            for axis in &self.axis {
                for value in axis.values(scale) {
                    cells.push(axis.laid_over(&Cell::default(), value, scale)?);
                }
            }
            return Ok(cells);
        }
        let mut cells = vec![Cell::default()];
        for axis in &self.axis {
            let mut next = Vec::new();
            for cell in &cells {
                for value in axis.values(scale) {
                    next.push(axis.laid_over(cell, value, scale)?);
                }
            }
            cells = next;
        }
        Ok(cells)
    }

    /// What the paper does not give, at a scale.
    pub(super) fn open(&self, scale: Scale) -> Vec<Open> {
        let here = self.open.iter().filter(|open| open.scale.is_none_or(|at| at == scale));
        let open = |open: &OpenEntry| Open {
            setting: open.setting.clone(),
            chosen: open.chosen.clone(),
            why: open.why.clone(),
        };
        here.map(open).collect()
    }

    /// Whether the paper has no figures for it.
    pub(super) fn figures_are_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// The paper's figures.
    pub(super) fn published(&self) -> Result<Vec<Published>, StudyError> {
        let wrong = |reason: String| StudyError::Preset { name: self.name.clone(), reason };
        let mut all = Vec::new();
        let symbols: Vec<&str> = self.axis.iter().map(|axis| &*axis.symbol).collect();
        for (method, cells) in &self.figures {
            for (cell, measures) in cells {
                if !cell.is_empty() && !symbols.iter().any(|symbol| cell.starts_with(symbol)) {
                    return Err(wrong(format!("figures.{method}.\"{cell}\" names no axis")));
                }
                for (measure, text) in measures {
                    let figure = figure(text).ok_or_else(|| {
                        wrong(format!(
                            "figures.{method}.\"{cell}\".{measure} = {text:?} is no figure"
                        ))
                    })?;
                    let (mean, deviation, aside) = figure;
                    let (method, cell) = (method.clone(), cell.clone());
                    let measure = measure.clone();
                    all.push(Published { method, cell, measure, mean, deviation, aside });
                }
            }
        }
        Ok(all)
    }
}

impl AxisEntry {
    fn values(&self, scale: Scale) -> &[Value] {
        let own = match scale {
            Scale::Desk => &self.desk,
            Scale::Paper => &self.paper,
        };
        own.as_ref().unwrap_or(&self.values)
    }

    fn with_at(&self, scale: Scale) -> &BTreeMap<String, Table> {
        match scale {
            Scale::Desk => &self.with_desk,
            Scale::Paper => &self.with_paper,
        }
    }

    fn laid_over(&self, cell: &Cell, value: &Value, scale: Scale) -> Result<Cell, StudyError> {
        let mut cell = cell.clone();
        cell.values.insert(self.key.clone(), serde_json::to_value(value)?);
        let path: Vec<&str> = self.key.split('.').collect();
        cell.changes.push(Override::new(&path, value.clone()));
        for with in [&self.with, self.with_at(scale)] {
            cell.changes.extend(with.get(&written(value)).map(flattened).unwrap_or_default());
        }
        Ok(cell)
    }
}

/// A value as `axis.with` and `--only` name it.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) => format!("{number}"),
        other => other.to_string(),
    }
}

/// Changes written as nested tables: `data.alpha = 0.1` is the change that `--set data.alpha=0.1` is.
pub(crate) fn flattened(table: &Table) -> Vec<Override> {
    let change = |(path, value): (Vec<String>, Value)| {
        Override::new(&path.iter().map(String::as_str).collect::<Vec<_>>(), value)
    };
    flattened_below(table).into_iter().map(change).collect()
}

/// The leaves of nested tables with their paths.
pub(crate) fn flattened_below(table: &Table) -> Vec<(Vec<String>, Value)> {
    fn walk(table: &Table, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
        for (key, value) in table {
            path.push(key.clone());
            match value {
                Value::Table(inner) => walk(inner, path, found),
                leaf => found.push((path.clone(), leaf.clone())),
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(table, &mut Vec::new(), &mut found);
    found
}

/// `85.35 ± 0.11`, `(80.33 ± 0.38)` or `1.82×`: the mean, the deviation, and whether it is in parentheses.
fn figure(text: &str) -> Option<(f64, Option<f64>, bool)> {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (aside, bare) = (inner.is_some(), inner.unwrap_or(text).trim_end_matches('×'));
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    match bare.split_once('±') {
        Some((mean, deviation)) => Some((number(mean)?, Some(number(deviation)?), aside)),
        None => Some((number(bare)?, None, aside)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_the_paper_prints_them() {
        assert_eq!(figure("85.35 ± 0.11"), Some((85.35, Some(0.11), false)));
        assert_eq!(figure("(80.33 ± 0.38)"), Some((80.33, Some(0.38), true)));
        assert_eq!(figure("1.82×"), Some((1.82, None, false)));
        assert_eq!(figure("about 80"), None);
        assert_eq!(figure("(80"), None);
    }

    #[test]
    fn nested_keys_are_changes() {
        let table: Table =
            "rounds = 3\ndata.alpha = 0.1\nmethod.\"SCD complex\".tau = 0.2".parse().unwrap();
        let expected = [
            Override::new(&["rounds"], 3),
            Override::new(&["data", "alpha"], 0.1),
            Override::new(&["method", "SCD complex", "tau"], 0.2),
        ];
        assert_eq!(flattened(&table), expected);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_the_reason() {
        let good = "title='t'\nof-the-paper=''\nsummary='s'\nform='methods'\n[experiment]\n[desk]\nseeds=[1]\n[paper]\nseeds=[1]\n";
        assert!(File::parse("x", good).is_ok());
        for (change, expected) in [
            ("[desk]\nseeds=[]\n", "[desk] has no seeds"),
            ("[[axis]]\nkey='a'\nsymbol='a'\nvalues=[]\n", "the axis a has no values"),
            (
                "[[axis]]\nkey='a'\nsymbol='a'\nvalues=[1]\nwith.2={b=1}\n",
                "axis.with.2 is no value",
            ),
            ("[figures.A]\n\"b = 1\"={gm='1'}\n", "names no axis"),
            ("[figures.A]\n\"\"={gm='x'}\n", "is no figure"),
            ("[somewhere]\n", "unknown field `somewhere`"),
        ] {
            let text = match change.strip_prefix("[desk]\nseeds=[]\n") {
                Some(_) => good.replace("[desk]\nseeds=[1]", "[desk]\nseeds=[]"),
                None => format!("{good}{change}"),
            };
            let error = File::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
        }
    }
}
