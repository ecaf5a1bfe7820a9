//! Results as tables, whatever they are printed as.

mod clock;
mod cost;
mod methods;
pub(super) mod newcomers;
mod pairs;
mod values;

use super::{Form, Published, Results};
use crate::export;
use crate::markdown::escaped;
use crate::table::markdown_table;
use crate::{Spread, Standing};
use std::fmt::Write as _;

/// What of the results is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// One table with the best GM and PM for each method and cell, as papers have it.
    pub overview: bool,
    /// One table of what this method is above every other, paired by seeds.
    pub over: Option<String>,
    /// Only cells of this name, such as `α = 0.5`.
    pub cell: Option<String>,
    /// Leave out what is said below the tables.
    pub bare: bool,
    /// Leave out the list of settings that the paper does not give.
    pub brief: bool,
}

/// One table.
pub(super) struct Table {
    /// Empty if it is the only one.
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<Shown>>,
}

/// What stands in a cell of a table.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) bold: bool,
    pub(super) aside: bool,
}

impl Shown {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), bold: false, aside: false }
    }

    /// A figure over seeds; `own` if it is of a model that the method trains.
    pub(super) fn figure(spread: Spread, own: bool, standing: Option<Standing>) -> Self {
        let text = spread.text();
        match standing {
            _ if !own => Self { text: format!("({text})"), bold: false, aside: true },
            Some(Standing::Ahead) => Self { text, bold: true, aside: false },
            Some(Standing::Tied) => Self::plain(format!("{text} ≈")),
            None => Self::plain(text),
        }
    }

    fn markdown(&self) -> String {
        let text = escaped(&self.text);
        if self.bold { format!("**{text}**") } else { text }
    }
}

/// The tables in Markdown, with what is to be said about them.
pub fn tables(results: &Results, layout: &Layout) -> String {
    let mut text = String::new();
    let made = made(results, layout);
    for table in &made {
        if !text.is_empty() {
            text.push('\n');
        }
        if !table.title.is_empty() {
            let _ = writeln!(text, "**{}**\n", escaped(&table.title));
        }
        let mut cells = vec![table.head.iter().map(|head| escaped(head)).collect::<Vec<_>>()];
        cells.extend(table.rows.iter().map(|row| row.iter().map(Shown::markdown).collect()));
        text.push_str(&markdown_table(&cells));
    }
    if !layout.bare {
        text.push('\n');
        let notes = match &*made {
            [table] if layout.over.is_some() => pairs::remarks(table),
            _ => results.remarks(),
        };
        for note in notes {
            let _ = writeln!(text, "- {}", escaped(&note));
        }
        if !layout.brief && layout.over.is_none() && !results.open.is_empty() {
            text.push_str("\nWhat the paper does not give, and what was taken:\n\n");
            for open in &results.open {
                let _ = writeln!(text, "- {}", escaped(&open.sentence()));
            }
        }
    }
    text
}

/// The tables for LaTeX, in the style of booktabs: an environment `table` for each, and what is to be said below the
/// last one.
pub fn latex(results: &Results) -> String {
    let mut grids = Vec::new();
    if results.form == Form::Methods {
        let overview = Layout { overview: true, ..Layout::default() };
        grids.extend(made(results, &overview));
    }
    grids.extend(made(results, &Layout::default()));
    let mut notes = results.remarks();
    notes.extend(results.open.iter().map(super::Open::sentence));
    let tables = grids.iter().map(|table| {
        let cell = |shown: &Shown| (shown.text.clone(), shown.bold);
        let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
        let name = if table.title.is_empty() { "all".to_owned() } else { table.title.clone() };
        let caption = [&*results.title, &*table.title];
        let caption: Vec<&str> = caption.into_iter().filter(|part| !part.is_empty()).collect();
        let (label, caption) = (format!("{} {name}", results.name), caption.join(": "));
        export::Tabular { label, caption, head: table.head.clone(), rows: rows.collect() }
    });
    export::tabulars(&tables.collect::<Vec<_>>(), &notes)
}

/// The tables that the form of the results asks for.
pub(super) fn made(results: &Results, layout: &Layout) -> Vec<Table> {
    if let Some(method) = &layout.over {
        return vec![pairs::over(results, method, layout.cell.as_deref())];
    }
    match results.form {
        Form::Methods if layout.overview => vec![methods::overview(results)],
        Form::Methods => methods::by_cell(results, layout.cell.as_deref()),
        Form::Values => values::by_key(results),
        Form::Speedup => vec![clock::speedups(results)],
        Form::Clock => clock::by_cell(results),
        Form::Cost => vec![cost::steps(results)],
        Form::Newcomers => newcomers::by_cell(results),
    }
}

impl Results {
    /// What the paper has at a place.
    pub(super) fn published(&self, method: &str, cell: &str, measure: &str) -> Option<&Published> {
        self.paper.iter().find(|figure| {
            (&*figure.method, &*figure.cell, &*figure.measure) == (method, cell, measure)
        })
    }
}

impl Published {
    /// As the paper has it.
    pub(super) fn text(&self) -> String {
        let deviation = self.deviation.map_or(String::new(), |d| format!(" ± {d:.2}"));
        let text = format!("{:.2}{deviation}", self.mean);
        if self.aside { format!("({text})") } else { text }
    }
}
