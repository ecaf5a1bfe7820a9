//! A row for each method.

use super::{Results, Shown, Table};
use crate::alone::WORSE_OFF;
use crate::gains::ALONE;
use crate::results::Outcome;
use crate::results::Scores;
use crate::results::groups::{Cell, Line, Pick, standings};
use crate::{MeanWorseOff, Spread, Which, WorseOff};

/// The figures of the GM and of the PMs: which they are, and whether a method has the model.
pub(super) struct Model {
    pub(super) title: &'static str,
    measure: &'static str,
    pub(super) best: (Which, Pick),
    pub(super) last: (Which, Pick),
    pub(super) own: fn(&Line<'_>) -> bool,
}

pub(super) const MODELS: [Model; 2] = [
    Model {
        title: "GM",
        measure: "gm",
        best: (Which::GmBest, |scores: &Scores| scores.gm_best),
        last: (Which::GmLast, |scores: &Scores| scores.gm_last),
        own: |line| line.generic(),
    },
    Model {
        title: "PM",
        measure: "pm",
        best: (Which::PmBest, |scores: &Scores| scores.pm_best),
        last: (Which::PmLast, |scores: &Scores| scores.pm_last),
        own: |line| line.personal(),
    },
];

/// Best and last, the paper's figures with the difference, and the worst tenth: a table for each cell.
pub(super) fn by_cell(results: &Results, only: Option<&str>) -> Vec<Table> {
    let cells = results.cells();
    let cells = cells.iter().filter(|cell| only.is_none_or(|only| cell.name == only));
    cells.map(|cell| of_cell(results, cell)).collect()
}

fn of_cell(results: &Results, cell: &Cell<'_>) -> Table {
    let has_paper = results.paper.iter().any(|figure| figure.cell == cell.name);
    let mut head = vec!["method".to_owned()];
    let mut rows: Vec<Vec<Shown>> =
        cell.lines.iter().map(|line| vec![Shown::plain(line.method)]).collect();
    for model in &MODELS {
        head.extend(["best", "last"].map(|which| format!("{} {which}", model.title)));
        if has_paper {
            head.extend([format!("paper {}", model.title), "difference".into()]);
        }
        let bests = standings(&cell.lines, model.best.0);
        let lasts = standings(&cell.lines, model.last.0);
        for (place, (line, row)) in cell.lines.iter().zip(&mut rows).enumerate() {
            let (own, best) = ((model.own)(line), line.spread(model.best.1));
            row.push(Shown::figure(best, own, bests[place]));
            row.push(Shown::figure(line.spread(model.last.1), own, lasts[place]));
            if has_paper {
                row.extend(beside(results, line, &cell.name, model.measure, best));
            }
        }
    }
    head.push("worst 10 %".into());
    for (line, row) in cell.lines.iter().zip(&mut rows) {
        let worst = line.spread(|scores| scores.worst_last);
        row.push(Shown::figure(worst, line.personal(), None));
    }
    let worse: Vec<Option<MeanWorseOff>> =
        cell.lines.iter().map(|line| worse_off(line, &cell.lines)).collect();
    if worse.iter().any(Option::is_some) {
        head.push(WORSE_OFF.into());
        for ((line, row), found) in cell.lines.iter().zip(&mut rows).zip(worse) {
            let text = found.map_or_else(|| "–".to_owned(), MeanWorseOff::text);
            let aside = !line.personal() && found.is_some();
            let text = if aside { format!("({text})") } else { text };
            row.push(Shown { aside, ..Shown::plain(text) });
        }
    }
    Table { title: cell.name.clone(), head, rows }
}

/// How many clients are worse off at last than by training alone, over the seeds that both have; none for training alone.
fn worse_off(line: &Line<'_>, all: &[Line<'_>]) -> Option<MeanWorseOff> {
    let alone = all.iter().find(|other| other.runs.iter().all(|run| run.label == ALONE))?;
    if alone.method == line.method {
        return None;
    }
    let last = |run: &Outcome| run.scores.as_ref()?.clients.clone();
    let pairs = line.runs.iter().filter_map(|run| {
        let other = alone.runs.iter().find(|other| other.seed == run.seed)?;
        Some((last(run)?, last(other)?, run.metric))
    });
    let each = pairs.map(|(mine, other, metric)| {
        let both = mine.last.iter().zip(&other.last).filter_map(|(pm, other)| (*pm).zip(*other));
        let both: Vec<(f64, f64)> = both.collect();
        let same = mine.test == other.test && !both.is_empty();
        let worse = both.iter().filter(|(pm, other)| metric.is_better(*other, *pm)).count();
        same.then_some(WorseOff { worse, clients: both.len() })
    });
    MeanWorseOff::of(each)
}

/// The paper's figure and how far ours is from it.
fn beside(
    results: &Results,
    line: &Line<'_>,
    cell: &str,
    measure: &str,
    ours: Spread,
) -> [Shown; 2] {
    let Some(published) = results.published(line.method, cell, measure) else {
        return [Shown::plain("–"), Shown::plain("–")];
    };
    let difference = ours.mean.map(|mean| mean * 100.0 - published.mean);
    let difference = difference.map_or("–".into(), |points| format!("{points:+.1}"));
    [Shown { aside: published.aside, ..Shown::plain(published.text()) }, Shown::plain(difference)]
}

/// The best GM and PM of every cell side by side.
pub(super) fn overview(results: &Results) -> Table {
    let cells = results.cells();
    let mut head = vec!["method".to_owned()];
    let mut rows: Vec<Vec<Shown>> = Vec::new();
    let mut methods: Vec<&str> = Vec::new();
    for line in cells.iter().flat_map(|cell| &cell.lines) {
        if !methods.contains(&line.method) {
            methods.push(line.method);
            rows.push(vec![Shown::plain(line.method)]);
        }
    }
    for cell in &cells {
        for model in &MODELS {
            let name = if model.title == "GM" && !cell.name.is_empty() {
                format!("{}: GM", cell.name)
            } else {
                model.title.into()
            };
            head.push(name);
            let standings = standings(&cell.lines, model.best.0);
            for (method, row) in methods.iter().zip(&mut rows) {
                let found = cell.lines.iter().position(|line| line.method == *method);
                row.push(found.map_or_else(
                    || Shown::plain("–"),
                    |place| {
                        let line = &cell.lines[place];
                        let spread = line.spread(model.best.1);
                        Shown::figure(spread, (model.own)(line), standings[place])
                    },
                ));
            }
        }
    }
    Table { title: String::new(), head, rows }
}
