//! Comma-separated values as RFC 4180 has them: a heading, quotes where needed, lines that end with CR LF.
//!
//! Figures are what the log has, to the last digit: fractions from 0 to 1, seconds, bytes. What is not known is empty.

use std::fmt::Display;

use crate::export::{ExportFile, sheets};
use crate::{RunLog, SeedRow, Spread};

/// One file: headings and rows of as many cells.
pub(super) struct Sheet {
    name: &'static str,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub(super) fn new(name: &'static str, headings: &[&str]) -> Self {
        Self { name, headings: headings.iter().map(|&h| h.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds columns at the end; only before the first row.
    pub(super) fn with(mut self, headings: impl IntoIterator<Item = String>) -> Self {
        self.headings.extend(headings);
        self
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.headings.len(), "{}: {row:?}", self.name);
        self.rows.push(row);
    }

    pub(super) fn file(&self) -> ExportFile {
        let mut writer =
            ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
        for row in std::iter::once(&self.headings).chain(&self.rows) {
            // Memory takes whatever is written, and all rows are as long as the headings.
            let _ = writer.write_record(row);
        }
        ExportFile::new(self.name, writer.into_inner().unwrap_or_default())
    }
}

/// A cell: empty for what is not known.
pub(super) fn cell(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A cell with a text.
pub(super) fn word(text: &str) -> String {
    text.to_owned()
}

/// Everything that the report of some runs of one experiment shows, one file per kind of row. A file that would have no
/// rows is left out.
pub fn csv(logs: &[RunLog]) -> Vec<ExportFile> {
    let sheets = sheets::all(logs);
    sheets.iter().filter(|sheet| !sheet.rows.is_empty()).map(Sheet::file).collect()
}

/// The table of means over seeds as one file.
pub fn seed_csv(rows: &[SeedRow]) -> ExportFile {
    const FIGURES: [&str; 5] = ["gm_best", "gm_last", "pm_best", "pm_last", "worst_decile_last"];
    let figures =
        FIGURES.iter().flat_map(|name| [format!("{name}_mean"), format!("{name}_deviation")]);
    let mut sheet = Sheet::new("seeds.csv", &["method", "title", "generic", "personal", "metric"])
        .with(figures);
    for row in rows {
        let first = [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last];
        let further = row.further.iter().map(|by| {
            (by.metric, [by.gm_best, by.gm_last, by.pm_best, by.pm_last, by.worst_decile_last])
        });
        for (metric, figures) in std::iter::once((row.metric, first)).chain(further) {
            let mut cells = vec![
                word(&row.label),
                word(&row.title),
                row.generic.to_string(),
                row.personal.to_string(),
                word(metric.word()),
            ];
            for Spread { mean, deviation } in figures {
                cells.extend([cell(mean), cell(deviation)]);
            }
            sheet.push(cells);
        }
    }
    sheet.file()
}
