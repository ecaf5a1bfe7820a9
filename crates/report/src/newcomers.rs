//! What clients came to that joined when training was over.

use formant_runtime::event::{Adapted, Approach, MethodInfo, Metric, PersonalScore};
use serde::Serialize;
use std::fmt::Write as _;

use crate::Row;
use crate::html::text;
use crate::plot::{Axes, Curve, Measure, Point, lines, standalone};
use crate::quantity::{counted, percent};
use crate::scoreboard::names;
use crate::table::{Cell, Column, table_lines};

/// More columns of epochs than this would not fit on a screen.
const MOST_COLUMNS: usize = 9;

/// What newcomers came to by one method in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewcomerRow {
    /// The method's label.
    pub label: String,
    /// The way.
    pub approach: Approach,
    /// Rounds after which they joined.
    pub round: usize,
    /// How many they are.
    pub newcomers: usize,
    /// Samples that the model of each is scored on.
    pub test: Vec<usize>,
    /// What their models were worth after 0, 1, 2, … epochs.
    pub epochs: Vec<EpochRow>,
    /// Newcomers of whom an epoch diverged.
    pub failed: usize,
    /// Wall time, summed over newcomers.
    pub seconds: f64,
}

/// What newcomers' models were worth after some epochs, by the first metric of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochRow {
    /// Mean weighted by local test sizes.
    pub weighted: f64,
    /// Plain mean over newcomers.
    pub mean: f64,
    /// Mean of the worst tenth of them, at least one.
    pub worst_decile: f64,
    /// Every newcomer's; absent without test samples.
    pub per_client: Vec<Option<f64>>,
}

impl NewcomerRow {
    /// What an event says, by the first metric of its run.
    pub fn new(adapted: &Adapted, metric: Metric) -> Self {
        let epoch = |score: &PersonalScore| EpochRow {
            weighted: score.weighted,
            mean: score.mean,
            worst_decile: score.worst_decile,
            per_client: score.per_client.clone(),
        };
        let newcomers = adapted.epochs.first().map_or(0, |score| score.per_client.len());
        Self {
            label: adapted.method.clone(),
            approach: adapted.approach,
            round: adapted.round,
            newcomers,
            test: adapted.test.clone(),
            epochs: adapted.epochs.iter().filter_map(|s| s.by(metric)).map(epoch).collect(),
            failed: adapted.failed,
            seconds: adapted.seconds,
        }
    }
}

/// Newcomers of one method in a table or a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct NewcomerEntry {
    /// What tables call the method.
    pub name: String,
    /// Whether it trains a generic model; if not, fine-tuning begins with the mean of the personal ones.
    pub generic: bool,
    /// What they came to.
    pub rows: Vec<NewcomerRow>,
}

impl NewcomerEntry {
    /// Of a method that a run announces, and what is known of its newcomers.
    pub fn new(info: &MethodInfo, rows: Vec<NewcomerRow>) -> Self {
        let name = if info.title.trim().is_empty() { &info.label } else { &info.title };
        Self { name: name.clone(), generic: info.generic, rows }
    }

    /// Of all methods of a run.
    pub(crate) fn all(rows: &[Row]) -> Vec<Self> {
        let named = names(rows).into_iter().zip(rows);
        let entry = |(name, row): (String, &Row)| Self {
            name,
            generic: row.generic,
            rows: row.newcomers.clone(),
        };
        named.map(entry).collect()
    }

    fn by(&self, approach: Approach) -> Option<&NewcomerRow> {
        self.rows.iter().find(|row| row.approach == approach)
    }
}

/// The table of newcomers, with notes; empty if there are none. For a terminal if `colour`, else as Markdown.
pub fn newcomer_table(entries: &[NewcomerEntry], metric: Metric, colour: bool) -> String {
    let shown = shown_epochs(entries);
    if shown.is_empty() {
        return String::new();
    }
    let plain = |text: &str| crate::table::plain(text, colour);
    let first = format!("newcomers' {}", metric.title());
    let mut columns = vec![Column::new(&first, false), Column::new("by", false)];
    let title = |epoch: &usize| if *epoch == 0 { "epoch 0".to_owned() } else { epoch.to_string() };
    columns.extend(shown.iter().map(|epoch| Column::new(&title(epoch), true)));
    columns.push(Column::new("mean", true));
    columns.push(Column::new("worst 10 %", true));
    for (entry, row) in each(entries) {
        columns[0].push(Cell::text(plain(&entry.name)));
        let star = if row.failed > 0 { " †" } else { "" };
        columns[1].push(Cell::text(format!("{}{star}", row.approach.title())));
        let aside = row.approach == Approach::FineTuning && !entry.generic;
        let figures = shown.iter().map(|epoch| row.epochs.get(*epoch).map(|e| e.weighted));
        let last = row.epochs.last();
        let ends = [last.map(|e| e.mean), last.map(|e| e.worst_decile)];
        for (column, figure) in columns[2..].iter_mut().zip(figures.chain(ends)) {
            column.push(Cell::aside(figure.map_or_else(|| "–".to_owned(), percent), aside));
        }
    }
    let mut text = format!("\n{}", table_lines(&columns));
    for (place, note) in notes(entries).iter().enumerate() {
        text.push_str(if place == 0 { "\n- " } else { "- " });
        text.push_str(&plain(note));
        text.push('\n');
    }
    text
}

/// What is to be said under a table of newcomers.
pub(crate) fn notes(entries: &[NewcomerEntry]) -> Vec<String> {
    let Some((_, first)) = each(entries).next() else { return Vec::new() };
    let who = counted(first.newcomers, "client");
    let mut notes = vec![format!(
        "(newcomers) {who} joined after the last round, with a personal model after so many epochs on their own samples: \
         means weighted by local test sizes; at last, also the plain mean and the worst tenth."
    )];
    let averaged =
        each(entries).any(|(entry, row)| row.approach == Approach::FineTuning && !entry.generic);
    if averaged {
        notes.push(
            "(newcomers) In parentheses: without a generic model, the mean of the personal ones is fine-tuned."
                .to_owned(),
        );
    }
    for (entry, row) in each(entries).filter(|(_, row)| row.failed > 0) {
        let (name, by) = (&entry.name, row.approach.title());
        notes.push(format!(
            "† {name}, {by}: training diverged at {}, whose models stay as they were before.",
            counted(row.failed, "newcomer")
        ));
    }
    notes
}

/// Every row with its method.
pub(crate) fn each(
    entries: &[NewcomerEntry],
) -> impl Iterator<Item = (&NewcomerEntry, &NewcomerRow)> {
    entries.iter().flat_map(|entry| entry.rows.iter().map(move |row| (entry, row)))
}

/// The epochs that get a column: all, or some if these are many.
pub(crate) fn shown_epochs(entries: &[NewcomerEntry]) -> Vec<usize> {
    columns_of(each(entries).map(|(_, row)| row.epochs.len()).max().unwrap_or(0))
}

/// The same for so many figures, of epoch 0 and those after it.
pub(crate) fn columns_of(most: usize) -> Vec<usize> {
    let Some(last) = most.checked_sub(1) else { return Vec::new() };
    if most <= MOST_COLUMNS {
        return (0..most).collect();
    }
    let round = (0..).map(|k: u32| [1, 2, 5][k as usize % 3] * 10_usize.pow(k / 3));
    let mut shown = vec![0];
    shown.extend(round.take_while(|epoch| *epoch < last));
    shown.push(last);
    shown
}

/// The plot of one way, over epochs; nothing without figures.
pub(crate) fn plot(
    entries: &[NewcomerEntry],
    approach: Approach,
    metric: Metric,
) -> Option<String> {
    let point = |(round, epoch): (usize, &EpochRow)| Point {
        round,
        x: round as f64,
        value: Some(epoch.weighted),
        band: None,
    };
    let curves = entries.iter().enumerate().filter_map(|(slot, entry)| {
        let row = entry.by(approach)?;
        Some(Curve {
            name: entry.name.clone(),
            slot,
            aside: approach == Approach::FineTuning && !entry.generic,
            points: row.epochs.iter().enumerate().map(point).collect(),
            best: None,
        })
    });
    let curves: Vec<Curve> = curves.collect();
    let says = format!(
        "Newcomers' {} after each epoch by {}, one line per method",
        metric.title(),
        approach.title()
    );
    let axis = format!("newcomers' {}, %", metric.title());
    let axes = Axes { x: "epoch", whole: true, y: &axis, measure: Measure::Accuracy };
    lines(&says, &axes, &curves)
}

/// Both plots, one above the other, as a picture by itself; nothing without figures.
pub fn newcomer_svg(entries: &[NewcomerEntry], metric: Metric) -> Option<String> {
    let plots = [Approach::FineTuning, Approach::Own]
        .into_iter()
        .filter_map(|approach| Some((approach, plot(entries, approach, metric)?)));
    let (mut body, mut top, mut width) = (String::new(), 0.0, 0.0_f64);
    for (approach, plot) in plots {
        let size = plot.split("viewBox=\"0 0 ").nth(1)?.split('"').next()?;
        let (wide, high) = size.split_once(' ')?;
        let (wide, high): (f64, f64) = (wide.parse().ok()?, high.parse().ok()?);
        let placed =
            standalone(&plot).replacen("<svg ", &format!("<svg y=\"{:.0}\" ", top + 26.0), 1);
        let _ = writeln!(
            body,
            "<text x=\"12\" y=\"{:.0}\" font-family=\"sans-serif\" font-size=\"13\">{}</text>{placed}",
            top + 18.0,
            text(approach.title())
        );
        top += high + 34.0;
        width = width.max(wide);
    }
    (top > 0.0).then(|| {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {top:.0}\" width=\"{width:.0}\" \
             height=\"{top:.0}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, generic: bool, approach: Approach, epochs: usize) -> NewcomerEntry {
        let epoch = |k: usize| EpochRow {
            weighted: 0.5 + k as f64 / 100.0,
            mean: 0.4,
            worst_decile: 0.3,
            per_client: vec![Some(0.5), None],
        };
        let row = NewcomerRow {
            label: name.into(),
            approach,
            round: 3,
            newcomers: 2,
            test: vec![20, 0],
            epochs: (0..=epochs).map(epoch).collect(),
            failed: usize::from(!generic),
            seconds: 1.0,
        };
        NewcomerEntry { name: name.into(), generic, rows: vec![row] }
    }

    #[test]
    fn a_table_says_what_became_of_newcomers() {
        let entries = [
            entry("Ditto", true, Approach::Own, 2),
            entry("Local", false, Approach::FineTuning, 2),
        ];
        let text = newcomer_table(&entries, Metric::Accuracy, false);
        assert!(text.contains("| Ditto "), "{text}");
        assert!(text.contains("| own rule") && text.contains("52.0"), "{text}");
        assert!(text.contains("(52.0)") && text.contains("fine-tuning †"), "{text}");
        assert!(
            text.contains("2 clients joined") && text.contains("diverged at 1 newcomer,"),
            "{text}"
        );
        assert_eq!(newcomer_table(&[], Metric::Accuracy, false), "");
    }

    #[test]
    fn many_epochs_get_few_columns() {
        let all = |k| shown_epochs(&[entry("Ditto", true, Approach::Own, k)]);
        assert_eq!(all(5), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all(60), [0, 1, 2, 5, 10, 20, 50, 60]);
        assert!(all(1_000).len() < 12);
    }

    #[test]
    fn a_picture_by_itself_has_both_plots() {
        let entries = [
            entry("Ditto", true, Approach::Own, 2),
            entry("FedAvg <3", true, Approach::FineTuning, 2),
        ];
        let svg = newcomer_svg(&entries, Metric::Accuracy).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.matches("role=\"img\"").count() == 2);
        assert!(svg.contains("FedAvg &lt;3") && svg.contains(">epoch</text>"), "{svg}");
        assert_eq!(newcomer_svg(&[], Metric::Accuracy), None);
    }
}
