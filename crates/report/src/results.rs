//! The results of many runs as one small file, from which tables and pages are made: what `formant reproduce`
//! collects, and what documents take their tables from.

mod document;
mod drawing;
mod groups;
mod notes;
mod outcome;
mod page;
mod sheet;
mod tables;

pub use document::{Drift, rewrite};
pub use drawing::figures;
pub use outcome::{
    ClientScores, ClockFigures, Joined, Outcome, Point, Scores, StepFigures, turn_seconds,
};
pub use page::page;
pub use sheet::csv;
pub use tables::{Layout, latex, tables};

use crate::ReportError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the file.
pub const RESULTS_FORMAT: u32 = 1;

/// Runs with all that is needed to show them: accuracies are fractions from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`RESULTS_FORMAT`].
    pub format: u32,
    /// What was asked for, such as `cifar10`.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What of the paper it is about, such as `Table 1`; empty if nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of_the_paper: String,
    /// `desk`, `paper`, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scale: String,
    /// How it is shown.
    pub form: Form,
    /// What runs differ in, besides methods and seeds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// Accuracies whose time is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<f64>,
    /// What to type for the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Settings that the paper does not give.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
    /// Further remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The paper's figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<Published>,
    /// Runs that are not there yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The runs, in the order of tables: by cell, then by method, then by seed.
    pub runs: Vec<Outcome>,
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// A row for each method, a table for each cell.
    Methods,
    /// A row for each value of a key, a table and a plot for each key.
    Values,
    /// What the wait-free schedule saves: time to targets with and without it.
    Speedup,
    /// Accuracies and times by the virtual clock, a table for each cell.
    Clock,
    /// What a training step costs.
    Cost,
    /// What newcomers came to, epoch by epoch.
    Newcomers,
}

/// A key in which runs differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The key of the experiment.
    pub key: String,
    /// How tables call it.
    pub symbol: String,
}

/// A setting that the paper does not give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Which.
    pub setting: String,
    /// What was taken.
    pub chosen: String,
    /// And why.
    pub why: String,
}

/// A figure of the paper, in the paper's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The method's title here.
    pub method: String,
    /// The cell, as tables call it, such as `α = 0.5`.
    pub cell: String,
    /// `gm`, `pm`, or a target such as `40 %`.
    pub measure: String,
    /// The figure.
    pub mean: f64,
    /// Its standard deviation, if one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Whether it stands in parentheses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
}

impl Results {
    /// No runs yet, of one method beside the other.
    pub fn empty(axes: Vec<Axis>) -> Self {
        Self {
            format: RESULTS_FORMAT,
            name: String::new(),
            title: String::new(),
            of_the_paper: String::new(),
            scale: String::new(),
            form: Form::Methods,
            axes,
            targets: Vec::new(),
            commands: Vec::new(),
            open: Vec::new(),
            notes: Vec::new(),
            paper: Vec::new(),
            missing: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Reads a file of results; `file` is what errors call it.
    pub fn parse(file: &std::path::Path, text: &str) -> Result<Self, ReportError> {
        let refuse = |reason: String| ReportError::Results { file: file.into(), reason };
        let found: Value = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        match found.get("format").and_then(Value::as_u64) {
            Some(format) if format > u64::from(RESULTS_FORMAT) => Err(refuse(format!(
                "it has format {format}, and this program reads formats up to {RESULTS_FORMAT}"
            ))),
            _ => serde_json::from_value(found).map_err(|error| refuse(error.to_string())),
        }
    }

    /// The file's text: one run a line, so that changes can be read.
    pub fn text(&self) -> Result<String, ReportError> {
        let fail = |error: serde_json::Error| ReportError::Results {
            file: "results.json".into(),
            reason: error.to_string(),
        };
        let Value::Object(mut all) = serde_json::to_value(self).map_err(fail)? else {
            return Ok(String::new());
        };
        all.remove("runs");
        let head = serde_json::to_string_pretty(&all).map_err(fail)?;
        let runs = self.runs.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>();
        let runs = runs.map_err(fail)?.join(",\n    ");
        let head = head.trim_end().trim_end_matches('}').trim_end();
        Ok(format!("{head},\n  \"runs\": [\n    {runs}\n  ]\n}}\n"))
    }
}
