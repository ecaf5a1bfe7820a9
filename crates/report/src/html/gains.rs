//! Who gains: every client's personal model against training alone and against the generic model.

use std::fmt::Write;

use formant_runtime::event::Side;

use super::drawing::scrolling;
use super::panels::Panels;
use super::{Drawing, headings, swatch, text};
use crate::plot::{BARS, Ranked, ranked};
use crate::quantity::{percent, signed};
use crate::scoreboard::names_of;
use crate::{Gained, Gains, RunLog, gains};

/// How to get what is missing without a method whose clients train alone.
pub(crate) const WITHOUT_LOCAL: &str = "This run has no method whose clients train alone, so nobody can \
     tell who would be better off without the federation. Add one to the experiment ([[method]] with \
     name = \"local\") and run it again.";

/// The section: a table, and a small plot per method and comparison.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Some(log) = logs.first() else { return };
    let found = gains(log);
    let compared = found.iter().any(|gains| gains.over_local.is_some() || gains.over_gm.is_some());
    let scored = log.methods.iter().any(|method| method.last().is_some());
    // A server has one method and no client's scores.
    if !compared && (!scored || log.started.side == Side::Server) {
        return;
    }
    let metric = log.started.metrics.first().title();
    if compared {
        let _ = writeln!(
            page,
            "<p class=\"caption\">What a client's personal model (PM) gains in {metric}, in percentage \
             points, on the client's own samples: against training alone (Local), and against the \
             generic model (GM) of the same method. Worse off are clients whose PM is strictly worse. Worst \
             tenth: the mean gain of the tenth of the clients that gains least. In parentheses, a method that \
             trains no personal models: its clients use the GM.</p>"
        );
        table(page, logs, &found);
    }
    if crate::gains::alone(log).is_none() {
        let _ = writeln!(page, "<p class=\"notes\">{}</p>", text(WITHOUT_LOCAL));
    } else if log.methods.len() == 1 {
        page.push_str(
            "<p class=\"notes\">Local is the only method: there is nothing to compare it with.</p>\n",
        );
    }
    for panels in plots(log, &found) {
        panels.show(page);
    }
    let many = |found: &Option<Gained>| found.as_ref().is_some_and(|f| f.clients.len() > BARS);
    if found.iter().any(|gains| many(&gains.over_local) || many(&gains.over_gm)) {
        let _ = writeln!(
            page,
            "<p class=\"notes\">Of more than {BARS} clients, neighbours in rank share a bar, which is \
             their mean.</p>"
        );
    }
}

/// A figure for each comparison.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let Some(log) = logs.first() else { return Vec::new() };
    plots(log, &gains(log)).into_iter().map(Panels::drawing).collect()
}

fn plots(log: &RunLog, found: &[Gains]) -> Vec<Panels> {
    type Of = fn(&Gains) -> Option<&Gained>;
    let kinds: [(&str, &str, &str, Of); 2] = [
        ("gains-over-local", "What each client gains over training alone", "alone", |gains| {
            gains.over_local.as_ref()
        }),
        (
            "gains-over-gm",
            "What each client's personal model gains over the generic model",
            "with the GM",
            |gains| gains.over_gm.as_ref(),
        ),
    ];
    let names = names_of(log);
    let mut plots = Vec::new();
    for (name, title, other, of) in kinds {
        let methods = found.iter().zip(&names).enumerate();
        let methods: Vec<Ranked<'_>> = methods
            .filter_map(|(slot, (gains, name))| {
                let name = if gains.personal { name.clone() } else { format!("({name})") };
                Some(Ranked { name, slot, found: of(gains)? })
            })
            .collect();
        if !methods.is_empty() {
            let panels = ranked(&methods, other);
            plots.push(Panels {
                name: name.to_owned(),
                title: title.to_owned(),
                plots: panels,
                large: false,
            });
        }
    }
    plots
}

fn table(page: &mut String, logs: &[RunLog], found: &[Gains]) {
    let mut table = String::from("<table class=\"dense\">\n");
    let mut columns: Vec<&str> = vec!["method"];
    columns.extend(COLUMNS);
    let several = logs.len() > 1;
    let over_seeds = format!("worse off than alone, {} seeds", logs.len());
    if several {
        columns.push(&over_seeds);
    }
    headings(&mut table, columns.into_iter());
    let others: Vec<Vec<Gains>> =
        if several { logs.iter().map(gains).collect() } else { Vec::new() };
    for (slot, (gains, name)) in found.iter().zip(names_of(&logs[0])).enumerate() {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(&name));
        for cell in cells(gains) {
            let _ = write!(table, "<td>{cell}</td>");
        }
        if several {
            let _ = write!(table, "<td>{}</td>", seeds(&others, &gains.label));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Who gains", &table);
}

/// What stands above the figures of [`cells`].
pub(crate) const COLUMNS: [&str; 6] = [
    "mean gain over alone",
    "worst tenth",
    "worse off than alone",
    "mean gain over GM",
    "worst tenth",
    "worse than with the GM",
];

/// A method's figures as the tables of both reports have them.
pub(crate) fn cells(gains: &Gains) -> Vec<String> {
    let own = |text: String| if gains.personal { text } else { format!("({text})") };
    let mut cells = Vec::new();
    for found in [&gains.over_local, &gains.over_gm] {
        match found {
            Some(found) => cells.extend([
                own(signed(found.mean)),
                own(signed(found.worst_decile)),
                own(worse(found)),
            ]),
            None => cells.extend(std::iter::repeat_n("–".to_owned(), 3)),
        }
    }
    cells
}

fn worse(found: &Gained) -> String {
    let percent = found.worse_share * 100.0;
    format!("{} of {}, {percent:.0} %", found.worse, found.clients.len())
}

/// The share of clients worse off than alone, over seeds.
fn seeds(runs: &[Vec<Gains>], label: &str) -> String {
    let shares = runs.iter().filter_map(|gains| {
        let gains = gains.iter().find(|gains| gains.label == label)?;
        Some(gains.over_local.as_ref()?.worse_share)
    });
    let shares: Vec<f64> = shares.collect();
    let (Some(low), Some(high)) = (
        shares.iter().copied().min_by(f64::total_cmp),
        shares.iter().copied().max_by(f64::total_cmp),
    ) else {
        return "–".to_owned();
    };
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    format!("{} % ({}–{})", percent(mean), percent(low), percent(high))
}
