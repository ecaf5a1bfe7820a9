//! What each method cost in time and traffic.

use std::fmt::Write;

use formant_runtime::event::Phase;

use super::curves::downloaded;
use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::quantity::{bytes, count, duration};
use crate::scoreboard::names;
use crate::{MethodLog, Row, RunLog, rows};

const TIMES: [&str; 8] = [
    "method",
    "rounds",
    "wall time",
    "training",
    "evaluation",
    "shared phases",
    "personal phases",
    "samples/s",
];
const CLOCK: [&str; 3] = ["virtual time", "with the last phases", "idle"];
const TRAFFIC: [&str; 6] =
    ["method", "upload/round", "broadcast", "uploaded", "downloaded", "refused"];

/// A table of times and one of traffic.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let log = &logs[0];
    let rows = rows(log);
    let timed = rows.iter().any(|row| row.clock_seconds.is_some());
    page.push_str(
        "<p class=\"caption\">Wall time splits into training and evaluation. Phase times are summed \
         over clients, so with several clients at work at once they exceed it. Samples per second are \
         of both phases and all clients together.",
    );
    if timed {
        page.push_str(
            " Virtual time is until the last round closed, and until the last phases were over; idle \
             is the share of the latter in which a client computed nothing, the mean over clients.",
        );
    }
    if logs.len() > 1 {
        let _ = write!(page, " All of it is of the run with seed {}.", log.started.seed);
    }
    page.push_str("</p>\n");
    let clock = if timed { &CLOCK[..] } else { &[] };
    let cells = |method: &MethodLog, row: &Row| {
        let mut cells = times(method, row).to_vec();
        cells.extend(clock.iter().zip(clocked(row)).map(|(_, cell)| cell));
        cells
    };
    table(page, "Time", TIMES.iter().chain(clock), log, &rows, cells);
    page.push_str(
        "<p class=\"caption\">Upload is what all clients of a round sent, broadcast what each of them \
         was sent; then both over all rounds and clients.</p>\n",
    );
    table(page, "Traffic", TRAFFIC.iter(), log, &rows, |method, row| traffic(method, row).to_vec());
}

fn table<'h>(
    page: &mut String,
    title: &str,
    columns: impl Iterator<Item = &'h &'h str>,
    log: &RunLog,
    rows: &[Row],
    cells: impl Fn(&MethodLog, &Row) -> Vec<String>,
) {
    let mut table = String::from("<table class=\"dense\">\n");
    headings(&mut table, columns);
    let named = names(rows).into_iter().enumerate().zip(log.methods.iter().zip(rows));
    for ((slot, name), (method, row)) in named {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(&name));
        for cell in cells(method, row) {
            let _ = write!(table, "<td>{}</td>", text(&cell));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", title, &table);
}

fn missing() -> String {
    "–".to_owned()
}

fn times(method: &MethodLog, row: &Row) -> [String; 7] {
    let phase = |phase: Phase| {
        let totals = method.phases(phase);
        if totals.phases == 0 { missing() } else { duration(totals.seconds) }
    };
    let began = !method.rounds.is_empty() || !method.evaluations.is_empty();
    let time = |seconds: f64| if began { duration(seconds) } else { missing() };
    [
        count(row.rounds as u64),
        time(row.seconds),
        time(row.train_seconds),
        if method.evaluations.is_empty() { missing() } else { time(method.evaluation_seconds()) },
        phase(Phase::Shared),
        phase(Phase::Personal),
        row.samples_per_second.map_or_else(missing, |rate| count(rate.round() as u64)),
    ]
}

fn clocked(row: &Row) -> [String; 3] {
    [
        row.clock_closed.map_or_else(missing, duration),
        row.clock_seconds.map_or_else(missing, duration),
        row.idle_share.map_or_else(missing, |share| format!("{:.0} %", share * 100.0)),
    ]
}

fn traffic(method: &MethodLog, row: &Row) -> [String; 5] {
    let finished: Vec<_> =
        method.rounds.values().filter(|round| round.broadcast_bytes.is_some()).collect();
    let mean = |sizes: u64| sizes.checked_div(finished.len() as u64).map_or_else(missing, bytes);
    let uploaded = finished.iter().fold(0, |sum: u64, r| sum.saturating_add(r.uploaded_bytes));
    let sent = finished.iter().filter_map(|r| r.broadcast_bytes).fold(0, u64::saturating_add);
    let down = finished.iter().map(|round| downloaded(round)).fold(0, u64::saturating_add);
    let total = |size: u64| if finished.is_empty() { missing() } else { bytes(size) };
    let refused = match row.refused {
        0 => missing(),
        refused => format!("{} in {}", bytes(row.refused_bytes), count(refused as u64)),
    };
    [mean(uploaded), mean(sent), total(row.uploaded_bytes), total(down), refused]
}
