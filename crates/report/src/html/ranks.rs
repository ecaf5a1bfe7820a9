//! Where the work was done, for simulations in several processes.

use std::fmt::Write;

use formant_runtime::event::{RankWork, Ranks};

use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::quantity::{bytes, count, duration};
use crate::scoreboard::names;
use crate::{RunLog, rows as rows_of};

/// What is told of each rank.
pub(crate) const COLUMNS: [&str; 8] =
    ["rank", "host", "threads", "clients", "busy", "idle", "sent", "received"];

/// How to read it.
pub(crate) const CAPTION: &str = "A simulation in several processes (ranks): clients whose states each of them held \
    at the end, how long its threads had something to do, and the share of the time in which they had not. Where ranks \
    are idle by different shares, the others have waited for the busiest. Of the session that has ended the method.";

/// Ranks that are shown of a method, the idlest and the busiest among them.
const SHOWN: usize = 32;

/// A table; nothing for a run in one process.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let rows = rows(&logs[0]);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h3>Ranks</h3>\n<p class=\"caption\">{CAPTION}</p>");
    let mut table = String::from("<table class=\"dense\">\n");
    headings(&mut table, ["method"].into_iter().chain(COLUMNS));
    for (slot, name, cells) in rows {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(&name));
        for cell in cells {
            let _ = write!(table, "<td>{}</td>", text(&cell));
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Ranks", &table);
}

/// The place of a method, its name, and what is told of one of its ranks.
pub(crate) fn rows(log: &RunLog) -> Vec<(usize, String, Vec<String>)> {
    let names = names(&rows_of(log));
    let mut rows = Vec::new();
    for (slot, (method, name)) in log.methods.iter().zip(names).enumerate() {
        let Some(ranks) = &method.ranks else { continue };
        let shown = shown(ranks);
        for (rank, work) in &shown {
            rows.push((slot, name.clone(), cells(ranks, *rank, work)));
        }
        let hidden = ranks.ranks.len() - shown.len();
        if hidden > 0 {
            let mut cells = vec![String::new(); COLUMNS.len()];
            cells[0] = format!("{} more", count(hidden as u64));
            rows.push((slot, name, cells));
        }
    }
    rows
}

/// The share of its time in which a rank had nothing to do.
fn idle(ranks: &Ranks, work: &RankWork) -> f64 {
    let time = ranks.seconds * work.threads as f64;
    if time > 0.0 { (1.0 - work.busy / time).clamp(0.0, 1.0) } else { 0.0 }
}

/// All ranks, or the busiest and the idlest of many, by number.
fn shown(ranks: &Ranks) -> Vec<(usize, &RankWork)> {
    let mut all: Vec<(usize, &RankWork)> = ranks.ranks.iter().enumerate().collect();
    if all.len() > SHOWN {
        all.sort_by(|(_, a), (_, b)| idle(ranks, a).total_cmp(&idle(ranks, b)));
        all.drain(SHOWN / 2..all.len() - SHOWN / 2);
        all.sort_by_key(|(rank, _)| *rank);
    }
    all
}

fn cells(ranks: &Ranks, rank: usize, work: &RankWork) -> Vec<String> {
    vec![
        rank.to_string(),
        work.host.clone(),
        count(work.threads as u64),
        count(work.clients as u64),
        duration(work.busy),
        format!("{:.0} %", 100.0 * idle(ranks, work)),
        bytes(work.sent),
        bytes(work.received),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(busy: f64) -> RankWork {
        RankWork { host: "a".into(), threads: 2, clients: 3, busy, sent: 1_000, received: 0 }
    }

    #[test]
    fn idle_is_what_threads_have_not_worked() {
        let ranks = Ranks { method: "m".into(), seconds: 10.0, ranks: vec![work(5.0), work(25.0)] };
        assert_eq!(idle(&ranks, &ranks.ranks[0]), 0.75);
        assert_eq!(idle(&ranks, &ranks.ranks[1]), 0.0, "clocks are not exact");
        assert_eq!(cells(&ranks, 0, &ranks.ranks[0])[5], "75 %");
    }

    #[test]
    fn of_many_ranks_the_idlest_and_the_busiest_are_shown() {
        let all = (0..100).map(|rank| work(f64::from((rank * 37) % 100) / 10.0)).collect();
        let ranks = Ranks { method: "m".into(), seconds: 10.0, ranks: all };
        let shown = shown(&ranks);
        assert_eq!(shown.len(), SHOWN);
        assert!(shown.is_sorted_by_key(|(rank, _)| *rank));
        let busy: Vec<f64> = shown.iter().map(|(_, work)| work.busy).collect();
        assert!(busy.contains(&0.0) && busy.contains(&9.9));
    }
}
