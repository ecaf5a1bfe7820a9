//! The clients that joined when training was over.

use std::fmt::Write;

use formant_runtime::event::Approach;

use super::drawing::scrolling;
use super::{Drawing, headings, swatch, text};
use crate::newcomers::{NewcomerEntry, notes, plot, shown_epochs};
use crate::quantity::percent;
use crate::{RunLog, unranked};

/// A table and a plot over epochs for each way; nothing in a run without newcomers.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let (entries, metric) = (entries(logs), logs[0].started.metrics.first());
    let shown = shown_epochs(&entries);
    if shown.is_empty() {
        return;
    }
    let figure = metric.title();
    let _ = writeln!(
        page,
        "<p class=\"caption\">Clients that took no part in training get a personal \
         model from what is there: {figure} in % on their own test sets after so many epochs on their own \
         samples, by plain fine-tuning and by a method's own rule where it has another one.</p>"
    );
    let mut table = String::from("<table class=\"dense\">\n");
    let epochs = shown.iter().map(|epoch| format!("epoch {epoch}"));
    let titles: Vec<String> = ["method", "by"]
        .map(str::to_owned)
        .into_iter()
        .chain(epochs)
        .chain(["mean", "worst 10 %"].map(str::to_owned))
        .collect();
    headings(&mut table, titles.iter().map(String::as_str));
    for (slot, entry) in entries.iter().enumerate() {
        for row in &entry.rows {
            let star = if row.failed > 0 { " †" } else { "" };
            let (name, by) = (text(&entry.name), row.approach.title());
            let _ = write!(
                table,
                "<tr><th scope=\"row\">{}{name}</th><td>{by}{star}</td>",
                swatch(slot)
            );
            let aside = row.approach == Approach::FineTuning && !entry.generic;
            let figures = shown.iter().map(|epoch| row.epochs.get(*epoch).map(|e| e.weighted));
            let last = row.epochs.last();
            for figure in figures.chain([last.map(|e| e.mean), last.map(|e| e.worst_decile)]) {
                let written = figure.map_or_else(|| "–".to_owned(), percent);
                let _ = if aside {
                    write!(table, "<td class=\"aside\">({written})</td>")
                } else {
                    write!(table, "<td>{written}</td>")
                };
            }
            table.push_str("</tr>\n");
        }
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Newcomers", &table);
    page.push_str("<ul class=\"notes\">\n");
    for note in notes(&entries) {
        let _ = writeln!(page, "<li>{}</li>", text(&note));
    }
    page.push_str("</ul>\n<div class=\"pair\">\n");
    for drawing in figures(logs) {
        drawing.show(page);
    }
    page.push_str("</div>\n");
}

/// The plots over epochs, one for each way; none in a run without newcomers.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let (entries, metric) = (entries(logs), logs[0].started.metrics.first());
    if shown_epochs(&entries).is_empty() {
        return Vec::new();
    }
    [
        ("newcomers-fine-tuning", "Newcomers by fine-tuning", Approach::FineTuning),
        ("newcomers-own-rule", "Newcomers by the method's own rule", Approach::Own),
    ]
    .into_iter()
    .map(|(name, title, approach)| {
        let none = "No method of the run has a rule of its own.";
        Drawing::new(name, title, plot(&entries, approach, metric), none)
    })
    .collect()
}

/// Of the first run.
fn entries(logs: &[RunLog]) -> Vec<NewcomerEntry> {
    NewcomerEntry::all(&unranked(&logs[0]))
}
