//! The results as a table for a terminal and for Markdown.

use unicode_width::UnicodeWidthStr;

use crate::Row;
use crate::alone::WORSE_OFF;
use crate::markdown::escaped;
use crate::newcomers::{NewcomerEntry, newcomer_table};
use crate::quantity::one_line;
use crate::scoreboard::{FIGURES, Figure, Scoreboard, first_heading};

const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// The results as a GitHub Markdown table whose columns line up on a terminal too.
///
/// A figure of a GM or PM column that is ahead of all others by more than the noise is bold: with asterisks, or with an
/// ANSI sequence if `colour` (then nothing is escaped for Markdown either). Where nobody is, the best one and those
/// that cannot be told from it have the mark `≈`. Figures in parentheses are not of the model that
/// the column is about and do not compete; footnotes say why, and what failed.
pub fn table(rows: &[Row], colour: bool) -> String {
    let board = Scoreboard::new(rows);
    let plain = |text: &str| plain(text, colour);
    let mut columns = vec![Column::new(&first_heading(board.metric), false)];
    for entry in &board.entries {
        let mut name = plain(&entry.name);
        if let Some(progress) = &entry.progress {
            name = format!("{name}, {progress}");
        }
        if entry.noted {
            name.push_str(" †");
        }
        columns[0].push(Cell::text(name));
    }
    for (place, heading) in FIGURES.iter().enumerate() {
        let mut column = Column::new(heading, true);
        for entry in &board.entries {
            column.push(Cell::figure(&entry.figures[place], colour));
        }
        columns.push(column);
    }
    if !board.worse_off.is_empty() {
        let mut column = Column::new(WORSE_OFF, true);
        for figure in &board.worse_off {
            column.push(Cell::figure(figure, colour));
        }
        columns.push(column);
    }
    let mut time = Column::new("time", true);
    for entry in &board.entries {
        time.push(Cell::text(entry.time.clone()));
    }
    columns.push(time);

    let mut text = table_lines(&columns);
    text.push_str(&further(&board, colour, plain));
    for (place, note) in board.notes.iter().enumerate() {
        text.push_str(if place == 0 { "\n- " } else { "- " });
        text.push_str(&plain(note));
        text.push('\n');
    }
    text.push_str(&newcomer_table(&NewcomerEntry::all(rows), board.metric, colour));
    text
}

/// A text in which nothing is markup, of the terminal if `colour`, else of Markdown.
pub(crate) fn plain(text: &str, colour: bool) -> String {
    if colour { one_line(text) } else { escaped(text) }
}

/// A Markdown table whose columns line up; the first row is the heading, the first column words and the
/// others figures.
pub fn markdown_table(cells: &[impl AsRef<[String]>]) -> String {
    let columns = cells.first().map_or(0, |row| row.as_ref().len());
    let widest = |column: usize| {
        let cells = cells.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for (place, row) in cells.iter().enumerate() {
        let padded = row.as_ref().iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if column == 0 { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
        });
        text.push_str(&line(padded));
        if place == 0 {
            let rule = widths.iter().enumerate().map(|(column, width)| {
                if column == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
            });
            text.push_str(&line(rule));
        }
    }
    text
}

/// The table of the other metrics, if there are any.
fn further(board: &Scoreboard, colour: bool, plain: impl Fn(&str) -> String) -> String {
    if board.further.is_empty() {
        return String::new();
    }
    let mut columns = vec![Column::new("further metric", false), Column::new("method", false)];
    for entry in &board.further {
        columns[0].push(Cell::text(entry.metric.title().to_owned()));
        columns[1].push(Cell::text(plain(&entry.name)));
    }
    for (place, heading) in FIGURES.iter().enumerate() {
        let mut column = Column::new(heading, true);
        for entry in &board.further {
            column.push(Cell::figure(&entry.figures[place], colour));
        }
        columns.push(column);
    }
    format!("\n{}", table_lines(&columns))
}

/// Any table in Markdown: texts, of which the first of a row is its name.
pub(crate) fn grid(headings: &[&str], rows: &[Vec<String>]) -> String {
    let column = |(place, heading): (usize, &&str)| {
        let mut column = Column::new(heading, place > 0);
        for row in rows {
            column.push(Cell::text(escaped(row.get(place).map_or("–", String::as_str))));
        }
        column
    };
    table_lines(&headings.iter().enumerate().map(column).collect::<Vec<_>>())
}

/// Columns as the lines of a table.
pub(crate) fn table_lines(columns: &[Column]) -> String {
    let mut text = line(columns.iter().map(Column::heading));
    text.push_str(&line(columns.iter().map(Column::rule)));
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        text.push_str(&line(columns.iter().map(|column| column.cell(row))));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// A cell in three parts, so that numbers line up whatever stands around them.
#[derive(Default)]
pub(crate) struct Cell {
    before: &'static str,
    body: String,
    after: &'static str,
    bold: bool,
}

impl Cell {
    pub(crate) fn text(body: String) -> Self {
        Self { body, ..Self::default() }
    }

    /// A figure, in parentheses if it is not of the model that the column is about.
    pub(crate) fn aside(body: String, aside: bool) -> Self {
        let (before, after) = if aside { ("(", ")") } else { ("", "") };
        Self { before, body, after, bold: false }
    }

    pub(crate) fn figure(figure: &Figure, colour: bool) -> Self {
        let (before, after) = match figure {
            Figure { aside: true, .. } => ("(", ")"),
            Figure { best: true, .. } if !colour => ("**", "**"),
            Figure { tied: true, .. } => ("", " ≈"),
            _ => ("", ""),
        };
        Self { before, body: figure.text.clone(), after, bold: figure.best && colour }
    }
}

/// A column with the widths, on the screen, of its widest parts.
pub(crate) struct Column {
    heading: String,
    right: bool,
    cells: Vec<Cell>,
    before: usize,
    body: usize,
    after: usize,
}

impl Column {
    pub(crate) fn new(heading: &str, right: bool) -> Self {
        let heading = heading.to_owned();
        Self { heading, right, cells: Vec::new(), before: 0, body: 0, after: 0 }
    }

    pub(crate) fn push(&mut self, cell: Cell) {
        self.before = self.before.max(cell.before.width());
        self.body = self.body.max(cell.body.width());
        self.after = self.after.max(cell.after.width());
        self.cells.push(cell);
    }

    fn width(&self) -> usize {
        // A Markdown rule needs three dashes, one of them a colon where the column leans right.
        self.heading.width().max(self.before + self.body + self.after).max(3)
    }

    fn heading(&self) -> String {
        let space = " ".repeat(self.width() - self.heading.width());
        if self.right { space + &self.heading } else { format!("{}{space}", self.heading) }
    }

    fn rule(&self) -> String {
        let dashes = "-".repeat(self.width() - 1);
        if self.right { dashes + ":" } else { dashes + "-" }
    }

    fn cell(&self, row: usize) -> String {
        let cell = &self.cells[row];
        let used = cell.before.width() + cell.body.width() + cell.after.width();
        let free = self.width() - used;
        let trailing = if self.right { self.after - cell.after.width() } else { free };
        let (leading, trailing) = (" ".repeat(free - trailing), " ".repeat(trailing));
        let (bold, plain) = if cell.bold { (BOLD, PLAIN) } else { ("", "") };
        let Cell { before, body, after, .. } = cell;
        format!("{leading}{bold}{before}{body}{after}{plain}{trailing}")
    }
}
