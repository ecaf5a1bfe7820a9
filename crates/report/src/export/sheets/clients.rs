//! Client by client.

use super::super::csv::{Sheet, cell, word};
use super::super::record::ClientFigures;
use crate::{RunLog, rows};

/// `clients.csv`: every client with every method.
pub(super) fn clients(logs: &[RunLog]) -> Sheet {
    let headings = [
        "seed",
        "method",
        "client",
        "train",
        "test",
        "metric",
        "best_round_pm",
        "pm_best",
        "last_round",
        "pm_last",
        "gm_accuracy_last",
        "idle_seconds",
    ];
    let mut sheet = Sheet::new("clients.csv", &headings);
    for log in logs {
        for (row, method) in rows(log).iter().zip(&log.methods) {
            let figures = ClientFigures::new(method, row);
            for (client, size) in log.started.clients.iter().enumerate() {
                let of = |list: &[Option<f64>]| list.get(client).copied().flatten();
                sheet.push(vec![
                    log.started.seed.to_string(),
                    word(&row.label),
                    client.to_string(),
                    cell(size.map(|size| size.train)),
                    cell(size.map(|size| size.test)),
                    word(row.metric.word()),
                    cell(row.best_round_pm),
                    cell(of(figures.best)),
                    cell(method.last().map(|(round, _)| round)),
                    cell(of(figures.last)),
                    cell(of(figures.gm)),
                    cell(row.idle_seconds.get(client)),
                ]);
            }
        }
    }
    sheet
}

/// `division.csv`: training samples of every client by class.
pub(super) fn division(logs: &[RunLog]) -> Sheet {
    let mut sheet = Sheet::new("division.csv", &["seed", "client", "class", "name", "train"]);
    for log in logs {
        let Some(division) = &log.started.division else { continue };
        for (client, counts) in division.counts.iter().flatten().enumerate() {
            for (class, count) in counts.iter().enumerate() {
                sheet.push(vec![
                    log.started.seed.to_string(),
                    client.to_string(),
                    class.to_string(),
                    cell(division.classes.get(class)),
                    count.to_string(),
                ]);
            }
        }
    }
    sheet
}
