//! The clients that joined when training was over.

use std::fmt::Write;

use formant_runtime::event::{Approach, Metric};

use super::{card, headings, swatch, text};
use crate::Row;
use crate::newcomers::{NewcomerEntry, notes, plot, shown_epochs};
use crate::quantity::percent;

/// A table and a plot over epochs for each way; nothing in a run without newcomers.
pub(super) fn section(page: &mut String, rows: &[Row], metric: Metric) {
    let entries = NewcomerEntry::all(rows);
    let shown = shown_epochs(&entries);
    if shown.is_empty() {
        return;
    }
    let figure = metric.title();
    let _ = writeln!(
        page,
        "<section>\n<h2>Newcomers</h2>\n<p class=\"caption\">Clients that took no part in training get a personal \
         model from what is there: {figure} in % on their own test sets after so many epochs on their own \
         samples, by plain fine-tuning and by a method's own rule where it has another one.</p>\n\
         <div class=\"wide\"><table class=\"dense\">"
    );
    let epochs = shown.iter().map(|epoch| format!("epoch {epoch}"));
    let titles: Vec<String> = ["method", "by"]
        .map(str::to_owned)
        .into_iter()
        .chain(epochs)
        .chain(["mean", "worst 10 %"].map(str::to_owned))
        .collect();
    headings(page, titles.iter().map(String::as_str));
    for (slot, entry) in entries.iter().enumerate() {
        for row in &entry.rows {
            let star = if row.failed > 0 { " †" } else { "" };
            let (name, by) = (text(&entry.name), row.approach.title());
            let _ = write!(
                page,
                "<tr><th scope=\"row\">{}{name}</th><td>{by}{star}</td>",
                swatch(slot)
            );
            let aside = row.approach == Approach::FineTuning && !entry.generic;
            let figures = shown.iter().map(|epoch| row.epochs.get(*epoch).map(|e| e.weighted));
            let last = row.epochs.last();
            for figure in figures.chain([last.map(|e| e.mean), last.map(|e| e.worst_decile)]) {
                let written = figure.map_or_else(|| "–".to_owned(), percent);
                let _ = if aside {
                    write!(page, "<td class=\"aside\">({written})</td>")
                } else {
                    write!(page, "<td>{written}</td>")
                };
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</tbody>\n</table></div>\n<ul class=\"notes\">\n");
    for note in notes(&entries) {
        let _ = writeln!(page, "<li>{}</li>", text(&note));
    }
    page.push_str("</ul>\n<div class=\"pair\">\n");
    for (title, approach, none) in [
        ("By fine-tuning", Approach::FineTuning, "Nothing was fine-tuned."),
        ("By the method's own rule", Approach::Own, "No method of the run has a rule of its own."),
    ] {
        card(page, title, plot(&entries, approach, metric), none);
    }
    page.push_str("</div>\n</section>\n");
}
