//! Tables of figures as colours.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::label_width;
use super::panel::{Panel, heading};
use super::scale::round_step;
use crate::html::text;
use crate::quantity::shortened;

/// Cells that have a text of their own under the pointer; more share a path per shade.
const TIPS: usize = 600;
/// Shades of cells without a text.
const SHADES: f64 = 24.0;
/// Shortest label that is still a word.
const NAME: usize = 14;

/// Where cells begin, below a title and without one.
const TOP: f64 = 40.0;
const UNTITLED: f64 = 8.0;
/// How wide a colour of the legend is at most.
const BOX: f64 = 44.0;

/// What a heat map shows.
pub(crate) struct Heat<'a> {
    /// Its name, and further figures below it.
    pub(crate) title: (String, String),
    /// Which method's colour its name has.
    pub(crate) slot: Option<usize>,
    /// What it shows, in words.
    pub(crate) says: String,
    /// How wide and how tall the whole may become.
    pub(crate) size: (f64, f64),
    /// What the rows are called, from above.
    pub(crate) rows: Vec<String>,
    /// What the columns are called; none if rows differ in length.
    pub(crate) columns: Vec<String>,
    /// What rows and columns are.
    pub(crate) axes: (&'a str, &'a str),
    /// A figure for every cell, row by row.
    pub(crate) cells: Vec<Vec<f64>>,
    /// The figure of the deepest colour.
    pub(crate) most: f64,
    /// What a cell says under the pointer.
    pub(crate) tip: &'a dyn Fn(usize, usize) -> String,
    /// What a cell has written in it, if anything.
    pub(crate) written: Option<&'a dyn Fn(usize, usize) -> String>,
    /// How the legend writes a figure; without it there is no legend.
    pub(crate) legend: Option<&'a dyn Fn(f64) -> String>,
}

/// How deep a figure's colour is: by its root, so that small figures are seen beside large ones.
fn depth(value: f64, most: f64) -> f64 {
    if value > 0.0 && most > 0.0 { (value / most).sqrt().min(1.0) } else { 0.0 }
}

impl Heat<'_> {
    /// The heat map, or nothing without cells.
    pub(crate) fn panel(&self) -> Option<Panel> {
        let longest = self.cells.iter().map(Vec::len).max().filter(|&longest| longest > 0)?;
        let rows = self.cells.len();
        let (width, tallest) = self.size;
        let labels: Vec<String> = self.rows.iter().map(|name| shortened(name, NAME)).collect();
        let left = labels.iter().map(|label| label_width(label)).fold(0.0, f64::max) + 26.0;
        let legend = if self.legend.is_some() { 44.0 } else { 0.0 };
        let bottom = 40.0 + legend;
        // Cells are about square, unless that is too much or too little room.
        let square = (width - left - 4.0) / longest as f64;
        let room = (tallest - TOP - bottom).max(40.0) / rows as f64;
        let top = if self.title.0.is_empty() { UNTITLED } else { TOP };
        let tall = if self.columns.is_empty() { room } else { square.clamp(4.0, 30.0).min(room) };
        let wide = if self.columns.is_empty() { square } else { square.min(tall * 2.6) };
        let place = Place { left, top, wide, tall, longest };

        let mut body = String::new();
        if !self.title.0.is_empty() {
            heading(&mut body, &self.title.0, self.slot, &self.title.1);
        }
        self.names(&mut body, &labels, &place);
        self.shades(&mut body, &place);
        if self.written.is_some() {
            self.figures(&mut body, &place);
        }
        let base = top + tall * rows as f64;
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{left:.1} {top}H{:.1}V{base:.1}H{left:.1}z\"/>",
            left + wide * longest as f64
        );
        self.strip(&mut body, left, base + 52.0);
        Some(Panel::new(width, base + bottom, self.says.clone(), body))
    }

    /// Row and column labels, as many as there is room for, and what they are.
    fn names(&self, body: &mut String, labels: &[String], place: &Place) {
        let Place { left, top, wide, tall, longest } = *place;
        let base = top + tall * self.cells.len() as f64;
        body.push_str("<g class=\"axis\">");
        for row in (0..labels.len()).step_by(every(tall, 13.0)) {
            let _ = write!(
                body,
                "<text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left - 6.0,
                top + tall * (row as f64 + 0.5) + 4.0,
                text(&labels[row])
            );
        }
        let broadest = self.columns.iter().map(|name| label_width(&shortened(name, NAME)));
        let broadest = broadest.fold(0.0, f64::max) + 6.0;
        for column in (0..self.columns.len()).step_by(every(wide, broadest)) {
            let _ = write!(
                body,
                "<text class=\"below\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + wide * (column as f64 + 0.5),
                base + 15.0,
                text(&shortened(&self.columns[column], NAME))
            );
        }
        let (upright, along) = self.axes;
        let _ = write!(
            body,
            "<text class=\"below title\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"below title\" transform=\"translate(11 {:.1}) rotate(-90)\">{}</text></g>",
            left + wide * longest as f64 / 2.0,
            base + 33.0,
            text(along),
            f64::midpoint(top, base),
            text(upright)
        );
    }

    /// Few cells are shapes with a text each, many a path per shade.
    fn shades(&self, body: &mut String, place: &Place) {
        let drawn = || {
            let rows = self.cells.iter().enumerate();
            rows.flat_map(|(row, cells)| {
                cells.iter().enumerate().map(move |(column, &value)| (row, column, value))
            })
            .map(|(row, column, value)| (row, column, depth(value, self.most)))
            .filter(|cell| cell.2 > 0.0)
        };
        if drawn().count() <= TIPS {
            for (row, column, depth) in drawn() {
                let _ = write!(
                    body,
                    "<path class=\"heat\" fill-opacity=\"{depth:.3}\" d=\"{}\"><title>{}</title></path>",
                    self.cell(row, column, place),
                    text(&(self.tip)(row, column))
                );
            }
            return;
        }
        let mut shades = BTreeMap::<u32, String>::new();
        for (row, column, depth) in drawn() {
            let shade = (depth * SHADES).ceil() as u32;
            shades.entry(shade).or_default().push_str(&self.cell(row, column, place));
        }
        for (shade, path) in shades {
            let depth = f64::from(shade) / SHADES;
            let _ = write!(body, "<path class=\"heat\" fill-opacity=\"{depth:.3}\" d=\"{path}\"/>");
        }
    }

    fn cell(&self, row: usize, column: usize, place: &Place) -> String {
        let wide = place.wide * place.longest as f64 / self.cells[row].len() as f64;
        format!(
            "M{:.1} {:.1}h{wide:.1}v{:.1}h-{wide:.1}z",
            place.left + wide * column as f64,
            place.top + place.tall * row as f64,
            place.tall
        )
    }

    fn figures(&self, body: &mut String, place: &Place) {
        let Some(written) = self.written else { return };
        let size = (place.wide.min(place.tall) * 0.46).clamp(6.0, 12.0).floor();
        for (row, cells) in self.cells.iter().enumerate() {
            for (column, &value) in cells.iter().enumerate() {
                let figure = written(row, column);
                if figure.is_empty() {
                    continue;
                }
                let deep = if depth(value, self.most) > 0.55 { " deep" } else { "" };
                let _ = write!(
                    body,
                    "<text data-ground=\"cell\" class=\"below cell f{size:.0}{deep}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                    place.left + place.wide * (column as f64 + 0.5),
                    place.top + place.tall * (row as f64 + 0.5) + size * 0.36,
                    text(&figure)
                );
            }
        }
    }

    /// What the colours mean.
    fn strip(&self, body: &mut String, left: f64, top: f64) {
        let Some(legend) = self.legend else { return };
        // In a narrow plot it takes the whole width.
        let fits = left + 5.0 * BOX <= self.size.0;
        let (left, one) = if fits { (left, BOX) } else { (4.0, (self.size.0 - 8.0) / 5.0) };
        for step in 0..=4 {
            let depth = f64::from(step) / 4.0;
            let at = left + one * f64::from(step);
            let _ = write!(
                body,
                "<path class=\"heat\" fill-opacity=\"{depth:.2}\" d=\"M{at:.1} {top:.1}h{one:.1}v8h-{one:.1}z\"/>\
                 <text class=\"below\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at + one / 2.0,
                top + 22.0,
                text(&legend(self.most * depth * depth))
            );
        }
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{left:.1} {top:.1}h{0:.1}v8h-{0:.1}z\"/>",
            one * 5.0
        );
    }
}

/// Where cells are.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    top: f64,
    wide: f64,
    tall: f64,
    longest: usize,
}

/// Of labels this far apart, how many share the room of one.
fn every(apart: f64, needed: f64) -> usize {
    if apart >= needed { 1 } else { (round_step(needed / apart.max(0.1)) as usize).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(rows: usize, columns: usize) -> String {
        let heat = Heat {
            title: ("<x>".to_owned(), String::new()),
            slot: None,
            says: "x".to_owned(),
            size: (1080.0, 1080.0),
            rows: (0..rows).map(|row| format!("<{row}>")).collect(),
            columns: (0..columns).map(|column| column.to_string()).collect(),
            axes: ("class", "client"),
            cells: vec![(0..columns).map(|column| column as f64).collect(); rows],
            most: columns as f64,
            tip: &|row, column| format!("<{row}, {column}>"),
            written: None,
            legend: Some(&|value| format!("{value:.0}")),
        };
        heat.panel().map(|panel| panel.svg()).unwrap_or_default()
    }

    #[test]
    fn small_maps_have_texts_and_large_ones_few_paths() {
        let small = drawn(10, 20);
        assert_eq!(small.matches("&gt;</title>").count(), 10 * 19, "empty cells are not drawn");
        let large = drawn(100, 100);
        assert!(large.len() < 300_000, "{}", large.len());
        assert!(large.matches("class=\"heat\"").count() < 40);
        assert!(!large.contains("<0>") && drawn(0, 0).is_empty());
    }

    #[test]
    fn small_figures_are_seen_beside_large_ones() {
        assert_eq!(depth(1.0, 100.0), 0.1);
        assert_eq!((depth(0.0, 0.0), depth(-1.0, 1.0), depth(9.0, 1.0)), (0.0, 0.0, 1.0));
    }
}
