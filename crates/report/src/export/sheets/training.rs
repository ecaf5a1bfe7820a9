//! Evaluations, rounds and what they cost.

use formant_runtime::event::{Metric, Phase};
use std::collections::BTreeSet;

use super::super::csv::{Sheet, cell, word};
use crate::{Activity, Evaluation, MethodLog, RunLog, rows};

/// `history.csv`: every evaluation, with what had been spent until then.
pub(super) fn history(logs: &[RunLog]) -> Sheet {
    let others: BTreeSet<Metric> =
        logs.iter().flat_map(|log| log.started.metrics.further()).collect();
    let names = ["gm", "pm", "worst_decile"];
    let by = others.iter().flat_map(|metric| names.map(|name| format!("{name}_{}", metric.word())));
    let headings = [
        "seed",
        "method",
        "round",
        "metric",
        "gm",
        "gm_loss",
        "pm",
        "pm_mean",
        "worst_decile",
        "diverged",
        "evaluation_seconds",
        "seconds",
        "uploaded_bytes",
        "downloaded_bytes",
        "clock_gm",
        "clock_pm",
    ];
    let mut sheet = Sheet::new("history.csv", &headings).with(by);
    for (log, method) in each(logs) {
        for (&round, evaluation) in &method.evaluations {
            sheet.push(evaluated(log, method, round, evaluation, &others));
        }
    }
    sheet
}

fn evaluated(
    log: &RunLog,
    method: &MethodLog,
    round: usize,
    evaluation: &Evaluation,
    others: &BTreeSet<Metric>,
) -> Vec<String> {
    let until = || method.rounds.range(..=round).map(|(_, round)| round);
    let trained: f64 = until().filter_map(|round| round.seconds).sum();
    let scored: f64 = method.evaluations.range(..=round).map(|(_, scores)| scores.seconds).sum();
    let mut cells = vec![
        log.started.seed.to_string(),
        word(&method.info.label),
        round.to_string(),
        word(log.started.metrics.first().word()),
        cell(evaluation.gm),
        cell(evaluation.gm_loss),
        cell(evaluation.pm),
        cell(evaluation.pm_mean),
        cell(evaluation.worst_decile),
        evaluation.diverged.to_string(),
        evaluation.seconds.to_string(),
        (trained + scored).to_string(),
        until().fold(0, |sum: u64, round| sum.saturating_add(round.uploaded_bytes)).to_string(),
        until().fold(0, |sum: u64, round| sum.saturating_add(round.downloaded_bytes)).to_string(),
        cell(evaluation.clock.map(|clock| clock.gm)),
        cell(evaluation.clock.map(|clock| clock.pm)),
    ];
    for metric in others {
        let found = evaluation.further.get(metric).copied().unwrap_or_default();
        cells.extend([cell(found.gm), cell(found.pm), cell(found.worst_decile)]);
    }
    cells
}

/// `rounds.csv`: every round of training, summed over its clients.
pub(super) fn rounds(logs: &[RunLog]) -> Sheet {
    let phase = |name: &'static str| {
        ["phases", "seconds", "samples", "steps", "loss", "terms"]
            .map(|figure| format!("{name}_{figure}"))
    };
    let headings = [
        "seed",
        "method",
        "round",
        "participants",
        "seconds",
        "clock",
        "uploaded_bytes",
        "broadcast_bytes",
        "downloaded_bytes",
        "failed_phases",
    ];
    let by_phase = phase("shared").into_iter().chain(phase("personal"));
    let mut sheet = Sheet::new("rounds.csv", &headings).with(by_phase);
    for (log, method) in each(logs) {
        for (number, round) in &method.rounds {
            let mut cells = vec![
                log.started.seed.to_string(),
                word(&method.info.label),
                number.to_string(),
                round.participants.to_string(),
                cell(round.seconds),
                cell(round.clock),
                round.uploaded_bytes.to_string(),
                cell(round.broadcast_bytes),
                round.downloaded_bytes.to_string(),
                round.failures.len().to_string(),
            ];
            for phase in [Phase::Shared, Phase::Personal] {
                let totals = round.phase(phase);
                cells.extend([
                    totals.phases.to_string(),
                    totals.seconds.to_string(),
                    totals.samples.to_string(),
                    totals.steps.to_string(),
                    cell(totals.mean_loss()),
                    cell(totals.mean_terms()),
                ]);
            }
            sheet.push(cells);
        }
    }
    sheet
}

/// `cost.csv`: one row per method.
pub(super) fn cost(logs: &[RunLog]) -> Sheet {
    let headings = [
        "seed",
        "method",
        "rounds",
        "seconds",
        "train_seconds",
        "evaluation_seconds",
        "shared_seconds",
        "personal_seconds",
        "samples",
        "steps",
        "samples_per_second",
        "uploaded_bytes",
        "broadcast_bytes",
        "downloaded_bytes",
        "refused_uploads",
        "refused_bytes",
        "clock_closed",
        "clock_seconds",
        "idle_share",
        "models_bytes",
    ];
    let mut sheet = Sheet::new("cost.csv", &headings);
    for log in logs {
        for (row, method) in rows(log).iter().zip(&log.methods) {
            let (shared, personal) = (method.phases(Phase::Shared), method.phases(Phase::Personal));
            let broadcasts = method.rounds.values().filter_map(|round| round.broadcast_bytes);
            sheet.push(vec![
                log.started.seed.to_string(),
                word(&row.label),
                row.rounds.to_string(),
                row.seconds.to_string(),
                row.train_seconds.to_string(),
                method.evaluation_seconds().to_string(),
                shared.seconds.to_string(),
                personal.seconds.to_string(),
                shared.samples.saturating_add(personal.samples).to_string(),
                shared.steps.saturating_add(personal.steps).to_string(),
                cell(row.samples_per_second),
                row.uploaded_bytes.to_string(),
                broadcasts.fold(0, u64::saturating_add).to_string(),
                cell(row.downloaded_bytes),
                row.refused.to_string(),
                row.refused_bytes.to_string(),
                cell(row.clock_closed),
                cell(row.clock_seconds),
                cell(row.idle_share),
                cell(method.models.map(|models| models.bytes)),
            ]);
        }
    }
    sheet
}

/// `failures.csv`: every client phase that failed.
pub(super) fn failures(logs: &[RunLog]) -> Sheet {
    let headings = ["seed", "method", "round", "client", "phase", "error"];
    let mut sheet = Sheet::new("failures.csv", &headings);
    for (log, method) in each(logs) {
        for failure in method.failures() {
            sheet.push(vec![
                log.started.seed.to_string(),
                word(&method.info.label),
                failure.round.to_string(),
                failure.client.to_string(),
                word(match failure.phase {
                    Phase::Shared => "shared",
                    Phase::Personal => "personal",
                }),
                word(&failure.error),
            ]);
        }
    }
    sheet
}

/// `refusals.csv`: every upload that did not count.
pub(super) fn refusals(logs: &[RunLog]) -> Sheet {
    let headings = ["seed", "method", "round", "client", "bytes", "reason"];
    let mut sheet = Sheet::new("refusals.csv", &headings);
    for (log, method) in each(logs) {
        for refused in &method.refusals {
            sheet.push(vec![
                log.started.seed.to_string(),
                word(&method.info.label),
                refused.round.to_string(),
                refused.client.to_string(),
                cell(refused.bytes),
                word(&refused.reason),
            ]);
        }
    }
    sheet
}

/// `timeline.csv`: what every client and its link did when, by the virtual clock.
pub(super) fn timeline(logs: &[RunLog]) -> Sheet {
    let headings = ["seed", "method", "round", "client", "activity", "start", "end"];
    let mut sheet = Sheet::new("timeline.csv", &headings);
    for (log, method) in each(logs) {
        for (number, round) in &method.rounds {
            for (client, activity, span) in &round.activities {
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&method.info.label),
                    number.to_string(),
                    client.to_string(),
                    word(match activity {
                        Activity::Download => "download",
                        Activity::Shared => "shared",
                        Activity::Personal => "personal",
                        Activity::Upload => "upload",
                    }),
                    span.start.to_string(),
                    span.end.to_string(),
                ]);
            }
        }
    }
    sheet
}

/// Every method of every run.
pub(super) fn each(logs: &[RunLog]) -> impl Iterator<Item = (&RunLog, &MethodLog)> {
    logs.iter().flat_map(|log| log.methods.iter().map(move |method| (log, method)))
}
