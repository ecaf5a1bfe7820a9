//! The tables of scores.

use std::fmt::Write;

use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::alone::{READING, WORSE_OFF};
use crate::quantity::counted;
use crate::scoreboard::{FIGURES, FURTHER_READING, Figure, Scoreboard, first_heading, reading};
use crate::seeds::{notes as seed_notes, worse_off};
use crate::{RunLog, SeedRow, Spread, over_seeds, rows};

/// The table by the first metric, that of the others, and the notes.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let rows = rows(&logs[0]);
    let board = Scoreboard::new(&rows);
    let _ = write!(page, "<p class=\"caption\">{}", reading(board.metric));
    if !board.worse_off.is_empty() {
        let _ = write!(page, " {READING}");
    }
    if let Some(seeds) = seeds(logs) {
        let number = counted(logs.len(), "seed");
        let _ = writeln!(
            page,
            " Figures are means ± sample standard deviations over {number}: the spread of initial \
             values and batches, and of the division of the data unless data.seed holds it fixed.</p>"
        );
        scrolling(page, "wide", "Results over seeds", &over_seeds_table(&seeds, &board));
        notes(page, &seed_notes(&seeds));
        return;
    }
    page.push_str("</p>\n");
    let mut table = String::from("<table>\n");
    let first = first_heading(board.metric);
    let worse = (!board.worse_off.is_empty()).then_some(WORSE_OFF);
    headings(&mut table, [first.as_str()].into_iter().chain(FIGURES).chain(worse).chain(["time"]));
    for (slot, entry) in board.entries.iter().enumerate() {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}", swatch(slot), text(&entry.name));
        if let Some(progress) = &entry.progress {
            let _ = write!(table, " <span class=\"progress\">{}</span>", text(progress));
        }
        table.push_str(if entry.noted { " †</th>" } else { "</th>" });
        figures(&mut table, &entry.figures);
        figures(&mut table, board.worse_off.get(slot));
        let _ = writeln!(table, "<td>{}</td></tr>", text(&entry.time));
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Results", &table);
    further(page, &board);
    notes(page, &board.notes);
}

fn notes(page: &mut String, notes: &[String]) {
    if !notes.is_empty() {
        page.push_str("<ul class=\"notes\">\n");
        for note in notes {
            let _ = writeln!(page, "<li>{}</li>", text(note));
        }
        page.push_str("</ul>\n");
    }
}

/// The means, if there are several runs to take them of.
fn seeds(logs: &[RunLog]) -> Option<Vec<SeedRow>> {
    (logs.len() > 1).then(|| over_seeds(logs).ok()).flatten()
}

/// Means and deviations by the first metric, then those by the others in groups of rows.
fn over_seeds_table(rows: &[SeedRow], board: &Scoreboard) -> String {
    let mut table = String::from("<table>\n");
    let first = first_heading(board.metric);
    let worse = worse_off(rows.iter());
    let heading = (!worse.is_empty()).then_some(WORSE_OFF);
    headings(&mut table, [first.as_str()].into_iter().chain(FIGURES).chain(heading));
    for (slot, row) in rows.iter().enumerate() {
        let [gm_best, gm_last, pm_best] = [row.gm_best, row.gm_last, row.pm_best];
        let figures = [gm_best, gm_last, pm_best, row.pm_last, row.worst_decile_last];
        means(&mut table, (slot, row), board, (figures, worse.get(slot)), true);
    }
    let metrics = rows.first().map(|row| row.further.iter().map(|further| further.metric));
    for (place, metric) in metrics.into_iter().flatten().enumerate() {
        group(&mut table, metric.title(), 6 + usize::from(heading.is_some()));
        for (slot, row) in rows.iter().enumerate() {
            let by = &row.further[place];
            let [gm_best, gm_last, pm_best] = [by.gm_best, by.gm_last, by.pm_best];
            let figures = [gm_best, gm_last, pm_best, by.pm_last, by.worst_decile_last];
            means(&mut table, (slot, row), board, (figures, None), false);
        }
    }
    table.push_str("</tbody>\n</table>");
    table
}

fn means(
    table: &mut String,
    (slot, row): (usize, &SeedRow),
    board: &Scoreboard,
    (spreads, worse): ([Spread; 5], Option<&Figure>),
    ranked: bool,
) {
    let name = board.entries.get(slot).map_or(&row.title, |entry| &entry.name);
    let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(name));
    let cell = |(column, figure)| row.cell(figure, column, ranked);
    let cells: Vec<Figure> = spreads.into_iter().enumerate().map(cell).collect();
    figures(table, cells.iter().chain(worse));
    table.push_str("</tr>\n");
}

/// A row that says what the ones below it are by.
fn group(table: &mut String, title: &str, columns: usize) {
    let _ = writeln!(
        table,
        "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\">{title}</th></tr>"
    );
}

fn figures<'f>(page: &mut String, figures: impl IntoIterator<Item = &'f Figure>) {
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
    for entries in board.further.chunk_by(|a, b| a.metric == b.metric) {
        group(&mut table, entries[0].metric.title(), 6);
        for entry in entries {
            let (swatch, name) = (swatch(entry.slot), text(&entry.name));
            let _ = write!(table, "<tr><th scope=\"row\">{swatch}{name}</th>");
            figures(&mut table, &entry.figures);
            table.push_str("</tr>\n");
        }
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Further metrics", &table);
}
