//! The results of many runs as one small file, from which tables and pages are made: what `formant reproduce`
//! collects, and what documents take their tables from.

mod document;
mod drawing;
mod groups;
mod notes;
mod page;
mod sheet;
mod tables;

pub use document::{Drift, rewrite};
pub use page::page;
pub use sheet::csv;
pub use tables::{Layout, tables};

use crate::{Activity, MethodLog, ReportError, RunLog, rows};
use formant_runtime::event::Metric;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

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

/// One method in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The values of the axes, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cell: BTreeMap<String, Value>,
    /// The method's label in the experiment.
    pub label: String,
    /// How tables call it.
    pub method: String,
    /// Whether it trains a generic model.
    pub generic: bool,
    /// Whether it trains personal models.
    pub personal: bool,
    /// The seed.
    pub seed: u64,
    /// Hash of the resolved experiment without how the machine is used.
    pub hash: String,
    /// The program's version.
    pub formant: String,
    /// Hash of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Hash of the final models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// What scores are by.
    #[serde(default, skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
    /// What was scored; absent for a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// What the virtual clock says, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockFigures>,
    /// What was measured of single steps, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepFigures>,
    /// Wall time of this machine.
    pub seconds: f64,
    /// What went wrong, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How a method's models did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scores {
    /// Best GM over the evaluations.
    pub gm_best: Option<f64>,
    /// GM at the last evaluation.
    pub gm_last: Option<f64>,
    /// Best PM, weighted by local test sizes.
    pub pm_best: Option<f64>,
    /// PM at the last evaluation.
    pub pm_last: Option<f64>,
    /// The worst tenth of the clients at the last evaluation.
    pub worst_last: Option<f64>,
    /// Every evaluation.
    pub curve: Vec<Point>,
}

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Rounds completed.
    pub round: usize,
    /// GM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gm: Option<f64>,
    /// PM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pm: Option<f64>,
    /// Virtual seconds until the GM was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gm_at: Option<f64>,
    /// Virtual seconds until the PMs were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pm_at: Option<f64>,
}

/// What the virtual clock says of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockFigures {
    /// Seconds until the last aggregation.
    pub closed: f64,
    /// Share of the time in which a client computed nothing, the mean over clients.
    pub idle: Option<f64>,
    /// Mean seconds a round of a client's shared phase.
    pub shared: f64,
    /// Of its personal phase.
    pub personal: f64,
    /// Of its transfers.
    pub network: f64,
}

/// What training steps take on one core of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFigures {
    /// The network.
    pub network: String,
    /// Its trainable parameters.
    pub parameters: usize,
    /// Samples of a step.
    pub batch: usize,
    /// Seconds for a sample of plain training.
    pub plain: f64,
    /// In the method's shared phase, if it trains one.
    pub shared: Option<f64>,
    /// In its personal phase, if it has one.
    pub personal: Option<f64>,
}

impl Outcome {
    /// Every method of a run, in the cell that it belongs to. `hash` is the run's.
    pub fn of(log: &RunLog, cell: &BTreeMap<String, Value>, hash: &str) -> Vec<Self> {
        let methods = log.methods.iter().zip(rows(log));
        let outcome = |(method, row): (&MethodLog, crate::Row)| {
            let points = method.evaluations.iter().map(|(round, found)| Point {
                round: *round,
                gm: found.gm.map(short),
                pm: found.pm.map(short),
                gm_at: found.clock.map(|clock| short(clock.gm)),
                pm_at: found.clock.map(|clock| short(clock.pm)),
            });
            let finish = method.finish.as_ref();
            let clock = finish.and_then(|finish| finish.clock.as_ref()).map(|clock| ClockFigures {
                closed: short(clock.closed),
                idle: row.idle_share.map(short),
                shared: short(turn_seconds(method, &[Activity::Shared])),
                personal: short(turn_seconds(method, &[Activity::Personal])),
                network: short(turn_seconds(method, &[Activity::Download, Activity::Upload])),
            });
            Self {
                cell: cell.clone(),
                label: row.label.clone(),
                method: row.title.clone(),
                generic: row.generic,
                personal: row.personal,
                seed: log.started.seed,
                hash: hash.into(),
                formant: log.started.formant.clone(),
                data: log.started.data_check.clone(),
                fingerprint: finish.and_then(|finish| finish.fingerprint.clone()),
                metric: row.metric,
                scores: Some(Scores {
                    gm_best: row.gm_best.map(short),
                    gm_last: row.gm_last.map(short),
                    pm_best: row.pm_best.map(short),
                    pm_last: row.pm_last.map(short),
                    worst_last: row.worst_decile_last.map(short),
                    curve: points.collect(),
                }),
                clock,
                steps: None,
                seconds: short(row.seconds),
                trouble: trouble(&row),
            }
        };
        methods.map(outcome).collect()
    }

    /// The first evaluation whose PMs reach a target: its round, and the virtual seconds until then.
    pub fn reached(&self, target: f64) -> Option<(usize, f64)> {
        let points = &self.scores.as_ref()?.curve;
        points.iter().find_map(|point| {
            let is_there = !self.metric.is_better(target, point.pm?);
            is_there.then_some((point.round, point.pm_at?))
        })
    }
}

/// What makes a row doubtful, in a few words.
fn trouble(row: &crate::Row) -> Option<String> {
    if row.gave_up() {
        return row
            .stopped
            .as_ref()
            .map(|why| format!("stopped after round {}: {why}", row.rounds));
    }
    let found = [
        (row.failed_phases, "client phases diverged or failed"),
        (row.diverged_evaluations, "evaluations met a diverged model"),
    ];
    let found: Vec<String> = found
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!found.is_empty()).then(|| found.join(", "))
}

/// Seconds a round that a client spends with some activities, by the virtual clock and on average.
pub fn turn_seconds(log: &MethodLog, kinds: &[Activity]) -> f64 {
    let rounds = log.rounds.values();
    let of = rounds.flat_map(|r| &r.activities).filter(|(_, kind, _)| kinds.contains(kind));
    let total: f64 = of.map(|(_, _, span)| span.end - span.start).sum();
    let turns: usize = log.rounds.values().map(|round| round.participants).sum();
    total / turns.max(1) as f64
}

/// Seven decimals: files stay small, and no table shows more.
fn short(value: f64) -> f64 {
    (value * 1e7).round() / 1e7
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
