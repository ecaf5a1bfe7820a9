//! Who holds what: the labels of every client as a heat map, and what the repair has changed.

use std::fmt::Write;

use formant_runtime::event::Division;

use super::{Drawing, text};
use crate::RunLog;
use crate::answers::class;
use crate::insight::divided;
use crate::plot::{FULL, Heat};
use crate::quantity::{count, counted};

/// Clients that are drawn at most; of more, evenly spaced ones.
const CLIENTS: usize = 100;
/// Rows at most; of more classes, neighbours share one.
const ROWS: usize = 100;
/// The most figures that stand in a table behind the plot.
const TABLE: usize = 1_000;

/// The words and the heat map of a division; nothing where nobody knows it.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Some(divided) = logs.first().and_then(divided) else { return };
    for words in divided.words() {
        let _ = writeln!(page, "<p class=\"caption\">{}</p>", text(&words));
    }
    for drawing in figures(logs) {
        drawing.show(page);
    }
}

/// The heat map.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let division = logs.first().and_then(|log| log.started.division.as_ref());
    division.map(drawing).into_iter().collect()
}

/// The part of a division that is drawn.
struct Shown<'a> {
    clients: Vec<usize>,
    /// First and last class of every row.
    rows: Vec<(usize, usize)>,
    counts: &'a [Vec<u32>],
}

impl<'a> Shown<'a> {
    fn new(counts: &'a [Vec<u32>], classes: usize) -> Self {
        let number = counts.len();
        let clients = if number <= CLIENTS {
            (0..number).collect()
        } else {
            (0..CLIENTS).map(|place| place * (number - 1) / (CLIENTS - 1)).collect()
        };
        let each = classes.div_ceil(ROWS).max(1);
        let rows = (0..classes).step_by(each).map(|first| (first, (first + each).min(classes) - 1));
        Self { clients, rows: rows.collect(), counts }
    }

    fn samples(&self, row: usize, column: usize) -> u64 {
        let (first, last) = self.rows[row];
        let held = &self.counts[self.clients[column]];
        (first..=last).map(|class| u64::from(held.get(class).copied().unwrap_or(0))).sum()
    }

    fn name(&self, row: usize, classes: &[String]) -> String {
        let (first, last) = self.rows[row];
        if first == last {
            class(classes, first)
        } else {
            format!("{}…{}", class(classes, first), class(classes, last))
        }
    }
}

fn drawing(division: &Division) -> Drawing {
    const NAME: &str = "label-heat-map";
    let classes = &division.classes;
    let Some(counts) = &division.counts else {
        let otherwise = format!(
            "The log does not hold who has what: that would be more than {} figures.",
            count(Division::MOST as u64)
        );
        return Drawing::new(NAME, "Training samples by client and class", None, otherwise);
    };
    let shown = Shown::new(counts, classes.len());
    let mut title = "Training samples by client and class".to_owned();
    if shown.clients.len() < counts.len() {
        let _ =
            write!(title, ", {} evenly spaced of {} clients", CLIENTS, count(counts.len() as u64));
    }
    if shown.rows.len() < classes.len() {
        let _ =
            write!(title, ", {} classes in {} rows", count(classes.len() as u64), shown.rows.len());
    }
    let (rows, columns) = (shown.rows.len(), shown.clients.len());
    let cells: Vec<Vec<f64>> = (0..rows)
        .map(|row| (0..columns).map(|column| shown.samples(row, column) as f64).collect())
        .collect();
    let most = cells.iter().flatten().copied().fold(0.0, f64::max);
    let names: Vec<String> = (0..rows).map(|row| shown.name(row, classes)).collect();
    let says = format!(
        "Training samples of {} by class, the more the deeper the colour; the most are {}",
        counted(counts.len(), "client"),
        count(most as u64)
    );
    let clients: Vec<String> = shown.clients.iter().map(ToString::to_string).collect();
    let tip = |row: usize, column: usize| {
        let held = counted(shown.samples(row, column) as usize, "sample");
        format!("client {}, class {}: {held}", shown.clients[column], names[row])
    };
    let heat = Heat {
        title: (String::new(), String::new()),
        slot: None,
        says,
        size: (FULL, 860.0),
        rows: names.clone(),
        columns: clients.clone(),
        axes: ("class", "client"),
        most,
        tip: &tip,
        written: None,
        legend: Some(&|value| count(value.round() as u64)),
        cells,
    };
    let plot = heat.panel().map(|panel| panel.svg());
    let drawing = Drawing::new(NAME, title, plot, "The division holds no class or no client.");
    if rows * columns > TABLE {
        return drawing;
    }
    let headings = std::iter::once("client".to_owned()).chain(names).collect();
    let row = |column: usize| {
        let figures = (0..rows).map(|row| count(shown.samples(row, column)));
        std::iter::once(clients[column].clone()).chain(figures).collect()
    };
    drawing.with_data(headings, (0..columns).map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_clients_and_classes_a_bounded_part_is_drawn() {
        let counts = vec![vec![1; 230]; 1_000];
        let shown = Shown::new(&counts, 230);
        assert_eq!((shown.clients.len(), shown.rows.len()), (CLIENTS, 77));
        assert_eq!((shown.clients[0], shown.clients[CLIENTS - 1]), (0, 999));
        assert_eq!(
            (shown.samples(0, 0), shown.samples(76, 3)),
            (3, 2),
            "the last row has two classes"
        );
        let ragged = vec![vec![4], vec![]];
        let shown = Shown::new(&ragged, 2);
        assert_eq!((shown.samples(0, 0), shown.samples(1, 0), shown.samples(0, 1)), (4, 0, 0));
    }
}
