//! The tables of scores.

use std::fmt::Write;

use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::scoreboard::{FIGURES, FURTHER_READING, Figure, Scoreboard, first_heading, reading};
use crate::{RunLog, rows};

/// The table by the first metric, that of the others, and the notes.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let rows = rows(&logs[0]);
    let board = Scoreboard::new(&rows);
    let _ = writeln!(page, "<p class=\"caption\">{}</p>", reading(board.metric));
    let mut table = String::from("<table>\n");
    let first = first_heading(board.metric);
    headings(&mut table, [first.as_str()].into_iter().chain(FIGURES).chain(["time"]));
    for (slot, entry) in board.entries.iter().enumerate() {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}", swatch(slot), text(&entry.name));
        if let Some(progress) = &entry.progress {
            let _ = write!(table, " <span class=\"progress\">{}</span>", text(progress));
        }
        table.push_str(if entry.noted { " †</th>" } else { "</th>" });
        figures(&mut table, &entry.figures);
        let _ = writeln!(table, "<td>{}</td></tr>", text(&entry.time));
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Results", &table);
    further(page, &board);
    if !board.notes.is_empty() {
        page.push_str("<ul class=\"notes\">\n");
        for note in &board.notes {
            let _ = writeln!(page, "<li>{}</li>", text(note));
        }
        page.push_str("</ul>\n");
    }
}

fn figures(page: &mut String, figures: &[Figure]) {
    for figure in figures {
        let shown = text(&figure.text);
        let _ = match figure {
            Figure { aside: true, .. } => write!(page, "<td class=\"aside\">({shown})</td>"),
            Figure { best: true, .. } => write!(page, "<td class=\"best\">{shown}</td>"),
            Figure { tied: true, .. } => {
                write!(page, "<td>{shown}<span class=\"tie\" title=\"level\"> ≈</span></td>")
            }
            _ => write!(page, "<td>{shown}</td>"),
        };
    }
}

/// The table of the other metrics, if there are any: a group of rows for each.
fn further(page: &mut String, board: &Scoreboard) {
    if board.further.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h3>Further metrics</h3>\n<p class=\"caption\">{FURTHER_READING}</p>");
    let mut table = String::from("<table>\n");
    headings(&mut table, ["method"].into_iter().chain(FIGURES));
    for group in board.further.chunk_by(|a, b| a.metric == b.metric) {
        let title = group[0].metric.title();
        let _ = writeln!(
            table,
            "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{title}</th></tr>"
        );
        for entry in group {
            let (swatch, name) = (swatch(entry.slot), text(&entry.name));
            let _ = write!(table, "<tr><th scope=\"row\">{swatch}{name}</th>");
            figures(&mut table, &entry.figures);
            table.push_str("</tr>\n");
        }
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Further metrics", &table);
}
