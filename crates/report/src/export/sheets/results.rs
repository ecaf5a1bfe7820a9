//! The tables of results and what stands around them.

use super::super::csv::{Sheet, cell, word};
use super::super::{flattened, settings};
use crate::scoreboard::Scoreboard;
use crate::{RunLog, rows};

/// `table.csv`: one row per method.
pub(super) fn table(logs: &[RunLog]) -> Sheet {
    let mut sheet = Sheet::new(
        "table.csv",
        &[
            "seed",
            "method",
            "title",
            "generic",
            "personal",
            "metric",
            "gm_best",
            "gm_last",
            "pm_best",
            "pm_last",
            "pm_mean_last",
            "worst_decile_best",
            "worst_decile_last",
            "worse_off",
            "worse_off_of",
            "best_round_gm",
            "best_round_pm",
            "rounds",
            "planned",
            "finished",
            "stopped",
            "failed_phases",
            "diverged_evaluations",
            "seconds",
            "fingerprint",
        ],
    );
    for log in logs {
        for (row, method) in rows(log).iter().zip(&log.methods) {
            let finish = method.finish.as_ref();
            sheet.push(vec![
                log.started.seed.to_string(),
                word(&row.label),
                word(&row.title),
                row.generic.to_string(),
                row.personal.to_string(),
                word(row.metric.word()),
                cell(row.gm_best),
                cell(row.gm_last),
                cell(row.pm_best),
                cell(row.pm_last),
                cell(row.pm_mean_last),
                cell(row.worst_decile_best),
                cell(row.worst_decile_last),
                cell(row.worse_than_alone.map(|found| found.worse)),
                cell(row.worse_than_alone.map(|found| found.clients)),
                cell(row.best_round_gm),
                cell(row.best_round_pm),
                row.rounds.to_string(),
                row.planned.to_string(),
                row.finished.to_string(),
                cell(row.stopped.as_ref()),
                row.failed_phases.to_string(),
                row.diverged_evaluations.to_string(),
                row.seconds.to_string(),
                cell(finish.and_then(|finish| finish.fingerprint.as_ref())),
            ]);
        }
    }
    sheet
}

/// `further.csv`: the same models by the other metrics.
pub(super) fn further(logs: &[RunLog]) -> Sheet {
    let headings = [
        "seed",
        "method",
        "metric",
        "gm_best",
        "gm_last",
        "pm_best",
        "pm_last",
        "worst_decile_last",
    ];
    let mut sheet = Sheet::new("further.csv", &headings);
    for log in logs {
        for row in rows(log) {
            for by in &row.further {
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&row.label),
                    word(by.metric.word()),
                    cell(by.gm_best),
                    cell(by.gm_last),
                    cell(by.pm_best),
                    cell(by.pm_last),
                    cell(by.worst_decile_last),
                ]);
            }
        }
    }
    sheet
}

/// `candidates.csv`: other models that could be called the generic one.
pub(super) fn candidates(logs: &[RunLog]) -> Sheet {
    let mut sheet = Sheet::new("candidates.csv", &["seed", "method", "candidate", "best", "last"]);
    for log in logs {
        for row in rows(log) {
            for candidate in &row.gm_candidates {
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&row.label),
                    word(&candidate.name),
                    cell(candidate.best),
                    cell(candidate.last),
                ]);
            }
        }
    }
    sheet
}

/// `notes.csv`: what stands below the table.
pub(super) fn notes(logs: &[RunLog]) -> Sheet {
    let mut sheet = Sheet::new("notes.csv", &["seed", "note"]);
    for log in logs {
        for note in Scoreboard::new(&rows(log)).notes {
            sheet.push(vec![log.started.seed.to_string(), note]);
        }
    }
    sheet
}

/// `setting.csv`: the resolved experiment, key by key; `method` is empty for what holds for all.
pub(super) fn setting(logs: &[RunLog]) -> Sheet {
    let mut sheet = Sheet::new("setting.csv", &["seed", "method", "key", "value"]);
    for log in logs {
        let run = &log.started;
        let known = [
            ("formant", run.formant.clone()),
            ("dataset", run.dataset.clone()),
            ("network", run.network.clone()),
            ("parameters", run.parameters.to_string()),
            ("split", run.split.clone()),
            ("global_test", run.global_test.to_string()),
        ];
        let known = known.into_iter().map(|(key, value)| (format!("run.{key}"), value));
        for (key, value) in known.chain(settings(log)) {
            sheet.push(vec![run.seed.to_string(), String::new(), key, value]);
        }
        for method in &log.methods {
            let info = &method.info;
            for (key, value) in flattened("method", &info.hyper_parameters) {
                sheet.push(vec![run.seed.to_string(), word(&info.label), key, value]);
            }
        }
    }
    sheet
}
