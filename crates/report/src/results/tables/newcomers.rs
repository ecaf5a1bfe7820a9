//! What newcomers came to: a row for each method and way, a column for each epoch.

use super::{Results, Shown, Table};
use crate::entrant::EntrantRun;
use crate::newcomers::columns_of;
use crate::results::groups::{Line, Race, raced};
use crate::results::{Joined, Outcome};
use crate::{Spread, Which};
use formant_runtime::event::Approach;

/// Both ways, in the order of tables.
pub(in crate::results) const WAYS: [Approach; 2] = [Approach::FineTuning, Approach::Own];

/// A table for each cell and way.
pub(super) fn by_cell(results: &Results) -> Vec<Table> {
    let cells = results.cells();
    let of_cell = cells.iter().flat_map(|cell| {
        WAYS.into_iter().filter_map(|way| {
            let title = [&*cell.name, way.title()];
            let title: Vec<&str> = title.into_iter().filter(|part| !part.is_empty()).collect();
            of_way(&cell.lines, way, title.join(", "))
        })
    });
    of_cell.collect()
}

/// What a run has of a way.
pub(in crate::results) fn joined(run: &Outcome, way: Approach) -> Option<&Joined> {
    run.newcomers.iter().find(|joined| joined.approach == way)
}

/// Whether a method has a model of its own to begin with: fine-tuning needs a generic one.
pub(in crate::results) fn is_own(line: &Line<'_>, way: Approach) -> bool {
    way == Approach::Own || line.generic()
}

fn of_way(lines: &[Line<'_>], way: Approach, title: String) -> Option<Table> {
    let has = |line: &&Line<'_>| line.runs.iter().any(|run| joined(run, way).is_some());
    let most = lines
        .iter()
        .flat_map(|line| &line.runs)
        .filter_map(|run| joined(run, way))
        .map(|joined| joined.epochs.len());
    let shown = columns_of(most.max()?);
    let entry = |run| {
        let joined = joined(run, way)?;
        let last = joined.epochs.last().copied();
        Some(EntrantRun {
            generic: true,
            personal: way == Approach::Own || run.generic,
            failed: run.trouble.is_some() || joined.failed > 0,
            global_test: 0,
            figures: [None, None, None, last],
            clients: [None, Some(&joined.last)],
        })
    };
    let sizes = |run| joined(run, way).map_or(&[][..], |joined| &joined.test);
    let standings = raced(lines, &Race { which: Which::PmLast, entry: &entry, sizes: &sizes });
    let mut head = vec!["method".to_owned()];
    head.extend(shown.iter().map(|epoch| match epoch {
        0 => "epoch 0".to_owned(),
        epoch => epoch.to_string(),
    }));
    head.push("worst 10 %".into());
    let mut rows = Vec::new();
    for (line, standing) in lines.iter().zip(standings).filter(|(line, _)| has(line)) {
        let own = is_own(line, way);
        let spread = |pick: &dyn Fn(&Joined) -> Option<f64>| {
            let figures = line.runs.iter().map(|run| pick(joined(run, way)?));
            Spread::of(&figures.collect::<Vec<_>>())
        };
        let failed = line.runs.iter().any(|run| joined(run, way).is_some_and(|j| j.failed > 0));
        let star = if failed { " †" } else { "" };
        let mut row = vec![Shown::plain(format!("{}{star}", line.method))];
        for (place, epoch) in shown.iter().enumerate() {
            let standing = standing.filter(|_| place + 1 == shown.len());
            let figure = spread(&|joined| joined.epochs.get(*epoch).copied());
            row.push(Shown::figure(figure, own, standing));
        }
        row.push(Shown::figure(spread(&|joined| joined.worst_last), own, None));
        rows.push(row);
    }
    Some(Table { title, head, rows })
}
