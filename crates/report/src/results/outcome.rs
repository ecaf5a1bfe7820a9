//! What one method came to in one run, without the run's log.

use crate::newcomers::NewcomerRow;
use crate::paired::data_seed;
use crate::{Activity, MethodLog, RunLog, rows};
use formant_runtime::event::{Approach, Metric};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// The seed of the division of the data, if it is another than that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub division: Option<u64>,
    /// What was scored; absent for a measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Scores>,
    /// What became of clients that joined when training was over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub newcomers: Vec<Joined>,
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
    /// Samples that the GM is scored on.
    #[serde(default)]
    pub global_test: usize,
    /// Every client's figures: what a comparison needs to know its noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientScores>,
    /// Every evaluation.
    pub curve: Vec<Point>,
}

/// What the PM figures are means of, in client order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientScores {
    /// Samples that a client's PM is scored on.
    pub test: Vec<usize>,
    /// Where their mean was best.
    pub best: Vec<Option<f64>>,
    /// At the last evaluation.
    pub last: Vec<Option<f64>>,
}

/// What newcomers came to in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Joined {
    /// The way.
    pub approach: Approach,
    /// Mean over newcomers, weighted by local test sizes, after 0, 1, 2, … epochs.
    pub epochs: Vec<f64>,
    /// The worst tenth after the last one.
    pub worst_last: Option<f64>,
    /// Samples that a newcomer's model is scored on, in the order of newcomers.
    pub test: Vec<usize>,
    /// Every newcomer's figure after the last epoch.
    pub last: Vec<Option<f64>>,
    /// Newcomers of whom an epoch diverged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
}

impl Joined {
    fn of(row: &NewcomerRow) -> Self {
        let last = row.epochs.last();
        Self {
            approach: row.approach,
            epochs: row.epochs.iter().map(|epoch| short(epoch.weighted)).collect(),
            worst_last: last.map(|epoch| short(epoch.worst_decile)),
            test: row.test.clone(),
            last: last.map(|epoch| shortened(&epoch.per_client)).unwrap_or_default(),
            failed: row.failed,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
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
            let best = row.best_round_pm.and_then(|round| method.evaluations.get(&round));
            let sizes = log.started.clients.iter().map(|size| Some(size.as_ref()?.test));
            let clients = sizes.collect::<Option<Vec<usize>>>().zip(best).zip(method.last());
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
                division: data_seed(log),
                scores: Some(Scores {
                    gm_best: row.gm_best.map(short),
                    gm_last: row.gm_last.map(short),
                    pm_best: row.pm_best.map(short),
                    pm_last: row.pm_last.map(short),
                    worst_last: row.worst_decile_last.map(short),
                    global_test: log.started.global_test,
                    clients: clients.map(|((test, best), (_, last))| ClientScores {
                        test,
                        best: shortened(&best.per_client),
                        last: shortened(&last.per_client),
                    }),
                    curve: points.collect(),
                }),
                newcomers: row.newcomers.iter().map(Joined::of).collect(),
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

/// The same of every client, with five.
fn shortened(figures: &[Option<f64>]) -> Vec<Option<f64>> {
    figures.iter().map(|figure| figure.map(|figure| (figure * 1e5).round() / 1e5)).collect()
}
