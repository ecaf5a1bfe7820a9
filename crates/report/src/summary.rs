//! One row of figures per method.

use serde::Serialize;
use std::collections::BTreeMap;

use formant_runtime::event::{Guarded, Metric, Phase, RunStarted, Runtime, Spent};

use crate::attacked::Attacked;
use crate::paired::standings;
use crate::{Evaluation, Failure, MethodLog, NewcomerRow, RunLog, Standings, WorseOff, gains};

/// One method in figures. Scores are by the first metric of the run, which is accuracy unless `metric` says
/// otherwise: fractions from 0 to 1, absent where nothing was scored or the model had diverged; a best
/// one is over rounds from 1 on, its first round if several tie.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Row {
    /// Unique in the run.
    pub label: String,
    /// How tables call it.
    pub title: String,
    /// Whether it trains a generic model; if not, GM figures are of the averaged PM.
    pub generic: bool,
    /// Whether it trains personal models; if not, PM figures are of the GM on local test sets.
    pub personal: bool,
    /// What scores are by.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
    /// Best GM.
    pub gm_best: Option<f64>,
    /// GM at the last evaluation.
    pub gm_last: Option<f64>,
    /// Further models that could be called the generic one.
    pub gm_candidates: Vec<CandidateRow>,
    /// What the hyper-parameters make of the method, if that is another one.
    pub degenerate: Option<String>,
    /// Best PM, weighted by local test sizes: the paper's figure.
    pub pm_best: Option<f64>,
    /// PM at the last evaluation, weighted likewise.
    pub pm_last: Option<f64>,
    /// Plain mean over clients at the last evaluation.
    pub pm_mean_last: Option<f64>,
    /// Mean of the worst tenth of the clients at the last evaluation.
    pub worst_decile_last: Option<f64>,
    /// The same at the round of the best PM.
    pub worst_decile_best: Option<f64>,
    /// The round of the best GM.
    pub best_round_gm: Option<usize>,
    /// The round of the best PM.
    pub best_round_pm: Option<usize>,
    /// Rounds completed.
    pub rounds: usize,
    /// Rounds planned.
    pub planned: usize,
    /// Whether the method ended, be it early.
    pub finished: bool,
    /// Wall time of training and evaluation.
    pub seconds: f64,
    /// Wall time of the finished rounds, without evaluation.
    pub train_seconds: f64,
    /// Encoded size of all accepted uploads.
    pub uploaded_bytes: u64,
    /// Samples trained on per second of the finished rounds' wall time, by all clients together.
    pub samples_per_second: Option<f64>,
    /// Seconds until everything was over, by the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_seconds: Option<f64>,
    /// Share of these in which a client computed nothing, the mean over clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// Seconds until the last aggregation, by the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_closed: Option<f64>,
    /// Size of all broadcasts that were sent, if there was a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downloaded_bytes: Option<u64>,
    /// Size of the refused uploads, as far as it is known.
    pub refused_bytes: u64,
    /// Seconds of the virtual clock in which each client computed nothing, in client order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_seconds: Vec<f64>,
    /// Uploads that were refused.
    pub refused: usize,
    /// The same by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_by_reason: BTreeMap<String, usize>,
    /// Client phases that failed.
    pub failed_phases: usize,
    /// The first of them.
    pub first_failure: Option<Failure>,
    /// Evaluations in which a figure was not a number.
    pub diverged_evaluations: usize,
    /// Why it stopped before its last round, if it did.
    pub stopped: Option<String>,
    /// The round whose models were kept as the best, if the method had patience and ended as planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_round: Option<usize>,
    /// Whether that was decided by the test set, of which the figures are too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kept_by_test: bool,
    /// Clients that are worse off than by training alone; absent without a method `local`, and for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_than_alone: Option<WorseOff>,
    /// What clients served at last in place of their personal models; absent if nobody had a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// Who attacked the simulation; absent if nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacked: Option<Attacked>,
    /// The same models by the other metrics of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherRow>,
    /// Where it stands among the other methods of the run.
    pub standing: Standings,
    /// What all rounds together may have revealed of a client; absent without `[privacy]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Spent>,
    /// What clients came to that joined when training was over, in each way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub newcomers: Vec<NewcomerRow>,
}

impl Row {
    /// Whether clients of it diverged or it gave up: it is scored on what there was before, and does not compete.
    pub fn has_failed(&self) -> bool {
        self.failed_phases > 0 || self.gave_up()
    }

    /// Whether it stopped early, and not because its patience was over.
    pub fn gave_up(&self) -> bool {
        self.stopped.is_some() && self.kept_round.is_none()
    }
}

/// A method by another metric than the first. Best rounds are those by the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FurtherRow {
    /// The metric.
    pub metric: Metric,
    /// The GM of the best round.
    pub gm_best: Option<f64>,
    /// The GM at the last evaluation.
    pub gm_last: Option<f64>,
    /// The PMs of their best round, weighted by local test sizes.
    pub pm_best: Option<f64>,
    /// The PMs at the last evaluation, weighted likewise.
    pub pm_last: Option<f64>,
    /// Mean of the worst tenth of the clients at the last evaluation.
    pub worst_decile_last: Option<f64>,
}

/// A model that could be called the generic one, in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateRow {
    /// What the method calls it.
    pub name: String,
    /// Its best.
    pub best: Option<f64>,
    /// At the last evaluation.
    pub last: Option<f64>,
}

/// Sums up a run, one row per method in the run's order.
///
/// Rows serialise to JSON as they are; figures that do not exist become `null`.
pub fn rows(log: &RunLog) -> Vec<Row> {
    let mut rows = vec![unranked(log)];
    let found = standings(std::slice::from_ref(log), &rows);
    let mut rows = rows.pop().unwrap_or_default();
    for (row, standing) in rows.iter_mut().zip(found) {
        row.standing = standing;
    }
    rows
}

/// The same without standings, which take longest to find.
pub fn unranked(log: &RunLog) -> Vec<Row> {
    let compared = gains(log).into_iter().map(|gains| gains.over_local);
    let worse = compared.map(|found| {
        found.map(|found| WorseOff { worse: found.worse, clients: found.clients.len() })
    });
    let row = |(method, worse_than_alone)| Row { worse_than_alone, ..row(method, &log.started) };
    log.methods.iter().zip(worse).map(row).collect()
}

fn row(method: &MethodLog, run: &RunStarted) -> Row {
    let (metric, planned) = (run.metrics.first(), run.rounds);
    let best_gm = best(method, metric, |evaluation| evaluation.gm);
    let best_pm = best(method, metric, |evaluation| evaluation.pm);
    let kept_round = method.finish.as_ref().and_then(|finish| finish.best_round);
    let last = method.last().map(|(_, evaluation)| evaluation);
    let train_seconds = method.train_seconds();
    let clock = method.finish.as_ref().and_then(|finish| finish.clock.as_ref());
    let so_far = train_seconds + method.evaluation_seconds();
    let at_best_pm = best_pm.and_then(|(round, _)| method.evaluations.get(&round));
    Row {
        label: method.info.label.clone(),
        title: method.info.title.clone(),
        generic: method.info.generic,
        personal: method.info.personal,
        metric,
        gm_best: best_gm.map(|(_, accuracy)| accuracy),
        gm_last: last.and_then(|evaluation| evaluation.gm),
        gm_candidates: candidates(method, metric),
        degenerate: method.info.degenerate.clone(),
        pm_best: best_pm.map(|(_, accuracy)| accuracy),
        pm_last: last.and_then(|evaluation| evaluation.pm),
        pm_mean_last: last.and_then(|evaluation| evaluation.pm_mean),
        worst_decile_last: last.and_then(|evaluation| evaluation.worst_decile),
        worst_decile_best: at_best_pm.and_then(|evaluation| evaluation.worst_decile),
        best_round_gm: best_gm.map(|(round, _)| round),
        best_round_pm: best_pm.map(|(round, _)| round),
        rounds: method.completed(),
        planned,
        finished: method.finish.is_some(),
        seconds: method.finish.as_ref().map_or(so_far, |finish| finish.seconds),
        train_seconds,
        uploaded_bytes: method.uploaded_bytes(),
        samples_per_second: samples_per_second(method, train_seconds),
        clock_seconds: clock.map(|clock| clock.seconds),
        idle_share: clock.and_then(idle_share),
        idle_seconds: clock.map(|clock| clock.idle.clone()).unwrap_or_default(),
        clock_closed: clock.map(|clock| clock.closed),
        downloaded_bytes: clock.map(|_| method.rounds.values().map(|r| r.downloaded_bytes).sum()),
        refused_bytes: method
            .refusals
            .iter()
            .filter_map(|refused| refused.bytes)
            .fold(0, u64::saturating_add),
        refused: method.refusals.len(),
        refused_by_reason: refused_by_reason(method),
        failed_phases: method.failures().count(),
        first_failure: method.failures().next().cloned(),
        diverged_evaluations: method.evaluations.values().filter(|e| e.diverged).count(),
        stopped: method.finish.as_ref().and_then(|finish| finish.stopped.clone()),
        kept_round,
        kept_by_test: kept_round.is_some() && run.split == "test",
        worse_than_alone: None,
        guard: last.and_then(|evaluation| evaluation.guard.clone()),
        attacked: Attacked::of(run, last),
        standing: Standings::default(),
        further: further(method, run, [best_gm, best_pm].map(|best| best.map(|(round, _)| round))),
        privacy: method.rounds.values().rev().find_map(|round| round.privacy),
        newcomers: method.newcomers.iter().map(|found| NewcomerRow::new(found, metric)).collect(),
    }
}

/// The other metrics, at the best rounds of GM and PM and at last.
fn further(method: &MethodLog, run: &RunStarted, best: [Option<usize>; 2]) -> Vec<FurtherRow> {
    let others = run.metrics.iter().filter(|metric| *metric != run.metrics.first());
    let [gm, pm] = best.map(|round| round.and_then(|round| method.evaluations.get(&round)));
    let last = method.last().map(|(_, evaluation)| evaluation);
    let rows = others.map(|metric| {
        let by = |evaluation: Option<&Evaluation>| {
            let found = evaluation.and_then(|evaluation| evaluation.further.get(&metric));
            found.copied().unwrap_or_default()
        };
        FurtherRow {
            metric,
            gm_best: by(gm).gm,
            gm_last: by(last).gm,
            pm_best: by(pm).pm,
            pm_last: by(last).pm,
            worst_decile_last: by(last).worst_decile,
        }
    });
    rows.collect()
}

fn refused_by_reason(method: &MethodLog) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for refused in &method.refusals {
        *counts.entry(refused.reason.clone()).or_default() += 1;
    }
    counts
}

fn idle_share(clock: &Runtime) -> Option<f64> {
    let mean = clock.idle.iter().sum::<f64>() / clock.idle.len() as f64;
    (clock.seconds > 0.0 && mean.is_finite()).then(|| mean / clock.seconds)
}

fn candidates(method: &MethodLog, metric: Metric) -> Vec<CandidateRow> {
    let Some((_, last)) = method.last() else { return Vec::new() };
    let of = |name: &str, evaluation: &Evaluation| {
        evaluation.gm_candidates.iter().find(|(other, _)| other == name).and_then(|(_, x)| *x)
    };
    let names = last.gm_candidates.iter().map(|(name, _)| name.clone());
    names
        .map(|name| CandidateRow {
            best: best(method, metric, |evaluation| of(&name, evaluation)).map(|(_, best)| best),
            last: of(&name, last),
            name,
        })
        .collect()
}

/// The best figure and its round. An untrained model does not count as an achievement.
fn best(
    method: &MethodLog,
    metric: Metric,
    figure: impl Fn(&Evaluation) -> Option<f64>,
) -> Option<(usize, f64)> {
    let trained = method.evaluations.range(1..);
    trained.filter_map(|(&round, evaluation)| Some((round, figure(evaluation)?))).fold(
        None,
        |best: Option<(usize, f64)>, next| match best {
            Some(best) if !metric.is_better(next.1, best.1) => Some(best),
            _ => Some(next),
        },
    )
}

/// Only finished rounds count on either side: a round in flight has samples but no time yet.
fn samples_per_second(method: &MethodLog, train_seconds: f64) -> Option<f64> {
    let samples: u64 = method
        .rounds
        .values()
        .filter(|round| round.seconds.is_some())
        .flat_map(|round| [Phase::Shared, Phase::Personal].map(|phase| round.phase(phase).samples))
        .fold(0, u64::saturating_add);
    (train_seconds > 0.0 && samples > 0).then(|| samples as f64 / train_seconds)
}
