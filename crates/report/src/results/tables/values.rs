//! A row for each value of a key.

use super::{Results, Shown, Table};
use crate::results::groups::{Pick, written};

const FIGURES: [(&str, Pick); 5] = [
    ("GM best", |scores| scores.gm_best),
    ("GM last", |scores| scores.gm_last),
    ("PM best", |scores| scores.pm_best),
    ("PM last", |scores| scores.pm_last),
    ("worst 10 %", |scores| scores.worst_last),
];

/// A table for each key that was varied, the others being as they are.
pub(super) fn by_key(results: &Results) -> Vec<Table> {
    let axes = results.axes.iter().map(|axis| {
        let varied = results.grouped(|run| run.cell.get(&axis.key).map_or(String::new(), written));
        let rows = varied.iter().filter(|cell| !cell.name.is_empty()).flat_map(|cell| {
            cell.lines.iter().map(|line| {
                let value = &cell.name;
                let name = if cell.lines.len() > 1 {
                    format!("{value}, {}", line.method)
                } else {
                    value.clone()
                };
                let figures = FIGURES.iter().enumerate().map(|(place, (_, pick))| {
                    let own = if place < 2 { line.generic() } else { line.personal() };
                    Shown::figure(line.spread(*pick), own, None)
                });
                [Shown::plain(name)].into_iter().chain(figures).collect()
            })
        });
        let head = [axis.symbol.clone()].into_iter();
        Table {
            title: axis.symbol.clone(),
            head: head.chain(FIGURES.map(|(name, _)| name.to_owned())).collect(),
            rows: rows.collect(),
        }
    });
    axes.filter(|table: &Table| !table.rows.is_empty()).collect()
}
