//! What each method cost in time and traffic.

use std::fmt::Write;

use formant_runtime::event::Phase;

use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::quantity::{bytes, count, duration};
use crate::scoreboard::names;
use crate::{MethodLog, Row, RunLog, rows};

const HEADINGS: [&str; 10] = [
    "method",
    "rounds",
    "wall time",
    "training",
    "evaluation",
    "shared phases",
    "personal phases",
    "samples/s",
    "upload/round",
    "broadcast",
];

/// The table.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    page.push_str(
        "<p class=\"caption\">Wall time splits into training and evaluation. Phase times are summed \
         over clients, so with several clients at work at once they exceed it. Samples per second are \
         of both phases and all clients together; upload is what all clients of a round sent, \
         broadcast what each of them was sent.</p>\n",
    );
    let mut table = String::from("<table class=\"dense\">\n");
    headings(&mut table, HEADINGS.into_iter());
    let rows = rows(&logs[0]);
    let named = names(&rows).into_iter().enumerate().zip(logs[0].methods.iter().zip(&rows));
    for ((slot, name), (method, row)) in named {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(&name));
        for cell in cells(method, row) {
            let _ = write!(table, "<td>{}</td>", text(&cell));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Cost", &table);
}

fn cells(method: &MethodLog, row: &Row) -> [String; 9] {
    let missing = || "–".to_owned();
    let phase = |phase: Phase| {
        let totals = method.phases(phase);
        if totals.phases == 0 { missing() } else { duration(totals.seconds) }
    };
    let finished: Vec<_> =
        method.rounds.values().filter(|round| round.broadcast_bytes.is_some()).collect();
    let mean = |sizes: u64| sizes.checked_div(finished.len() as u64).map_or_else(missing, bytes);
    let uploaded = finished.iter().fold(0, |sum: u64, r| sum.saturating_add(r.uploaded_bytes));
    let sent = finished.iter().filter_map(|r| r.broadcast_bytes).fold(0, u64::saturating_add);
    let began = !method.rounds.is_empty() || !method.evaluations.is_empty();
    let time = |seconds: f64| if began { duration(seconds) } else { missing() };
    [
        count(row.rounds as u64),
        time(row.seconds),
        time(row.train_seconds),
        time(method.evaluation_seconds()),
        phase(Phase::Shared),
        phase(Phase::Personal),
        row.samples_per_second.map_or_else(missing, |rate| count(rate.round() as u64)),
        mean(uploaded),
        mean(sent),
    ]
}
