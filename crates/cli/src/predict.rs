//! `formant predict`.

use crate::args::predict::{ModelArgs, PredictArgs};
use crate::output::{note, print};
use crate::progress::LateBar;
use formant_data::{Fitting, Source};
use formant_model::{Card, ModelFile, Predictor, Role, folder, known_labels, ranking};
use formant_numerics::{Shape, Size};
use formant_runtime::quantity::count;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// What is predicted of one image.
struct Row {
    input: String,
    /// Classes and their probabilities, the most probable first.
    top: Vec<(usize, f64)>,
    label: Option<u16>,
}

pub(crate) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let quiet = args.source.quiet;
    let predictor = open(&args.model)?;
    let sources = Source::open_all(&args.inputs, &args.source.options(predictor.card()))?;
    announce(&predictor, quiet);
    let labels: Vec<_> = sources.iter().map(|s| known_labels(predictor.card(), s)).collect();
    let labelled = labels.iter().flatten().any(Option::is_some);
    let mut page = Page { args, card: predictor.card(), labelled, rows: Vec::new() };
    if args.csv {
        print(&page.csv_header())?;
    }
    let bar = LateBar::new(sources.iter().map(Source::len).sum());
    let (mut fitting, mut skipped) = (Fitting::default(), Vec::new());
    let (mut seen, mut right, mut all) = (0, 0, 0);
    let classes = predictor.card().classes.len();
    for (source, labels) in sources.iter().zip(&labels) {
        let done = predictor.each(source, args.source.threads(), |predicted| {
            let rows = predicted.probabilities.chunks_exact(classes);
            for (i, probabilities) in predicted.indices.iter().zip(rows) {
                let top = ranking(probabilities, usize::from(args.top));
                let top: Vec<_> = top.into_iter().map(|c| (c, probabilities[c])).collect();
                let row = Row { input: source.name(*i), top, label: labels[*i] };
                seen += usize::from(row.label.is_some());
                right += usize::from(row.is_right());
                all += 1;
                page.rows.push(row);
            }
            skipped.extend(predicted.skipped.iter().map(ToString::to_string));
            bar.advance(predicted.indices.len() + predicted.skipped.len());
            page.flush()
        })?;
        fitting.add(&done);
    }
    bar.finish();
    if !quiet {
        notes(&fitting, &skipped, predictor.card().input, all);
        if seen > 0 {
            let share = 100.0 * right as f64 / seen as f64;
            note!("note: {right} of {seen} inputs with a label are right ({share:.1} %)");
        }
    }
    page.finish(args, &skipped)?;
    Ok(ExitCode::SUCCESS)
}

/// Finds and reads a model.
pub(crate) fn open(args: &ModelArgs) -> anyhow::Result<Predictor> {
    let path = folder::locate(&args.model, args.choice.method.as_deref(), args.choice.which())?;
    Ok(Predictor::new(ModelFile::read(&path)?, &path.display().to_string())?)
}

/// Says which model is used.
pub(crate) fn announce(predictor: &Predictor, quiet: bool) {
    if !quiet {
        note!("model: {}", described(predictor.card()));
    }
}

/// Whose model it is, of which method, network and round.
fn described(card: &Card) -> String {
    let role = match &card.role {
        Role::Generic => "generic".to_owned(),
        Role::Averaged => "averaged".to_owned(),
        Role::Personal { client, name: None } => format!("client {client}'s personal"),
        Role::Personal { name: Some(name), .. } => format!("{name}'s personal"),
    };
    let method = match (card.method.label.as_str(), card.method.name.as_str()) {
        (label, name) if label.eq_ignore_ascii_case(name) => label.to_owned(),
        (label, name) => format!("{label} ({name})"),
    };
    let (round, network, classes) = (card.round, &card.network.name, card.classes.len());
    let dataset = &card.dataset;
    format!(
        "{role} model of {method} after round {round} ({network}, {classes} classes, trained on {dataset})"
    )
}

/// A model as JSON describes it.
pub(crate) fn model_json(card: &Card) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(card)?)
}

/// What had to be done to the images, in a few words.
pub(crate) fn notes(fitting: &Fitting, skipped: &[String], shape: Shape, all: usize) {
    if let Some(Size { height, width }) = fitting.size {
        let others = if fitting.sizes_differ { " and other sizes" } else { "" };
        note!(
            "note: {} of {} images were cropped and resized, from {width}x{height}{others} to {}x{} pixels",
            count(fitting.resized as u64),
            count(all as u64),
            shape.width,
            shape.height
        );
    }
    for (number, from, to) in
        [(fitting.to_grey, "in colour", "grey"), (fitting.to_colour, "grey", "coloured")]
    {
        if number > 0 {
            let (number, all) = (count(number as u64), count(all as u64));
            note!(
                "note: {number} of {all} images were {from} and were made {to} as the model needs them"
            );
        }
    }
    for skipped in skipped {
        note!("note: left out {}", skipped.lines().next().unwrap_or_default());
    }
}

impl Row {
    fn is_right(&self) -> bool {
        self.label.is_some_and(|label| self.top.first().is_some_and(|t| t.0 == usize::from(label)))
    }
}

/// The answer in one of its forms.
struct Page<'a> {
    args: &'a PredictArgs,
    card: &'a Card,
    labelled: bool,
    rows: Vec<Row>,
}

impl Page<'_> {
    fn class(&self, class: usize) -> &str {
        self.card.classes.get(class).map_or("", String::as_str)
    }

    fn label(&self, row: &Row) -> &str {
        row.label.map_or("", |label| self.class(usize::from(label)))
    }

    fn csv_header(&self) -> String {
        let mut columns = vec!["input".to_owned(), "class".into(), "probability".into()];
        columns.extend(self.labelled.then(|| "true_class".to_owned()));
        for nth in 2..=usize::from(self.args.top).min(self.card.classes.len()) {
            columns.extend([format!("class_{nth}"), format!("probability_{nth}")]);
        }
        columns.join(",") + "\n"
    }

    /// Comma-separated values are written as they come; a table needs all rows to line up.
    fn flush(&mut self) -> anyhow::Result<()> {
        if !self.args.csv {
            return Ok(());
        }
        let mut text = String::new();
        for row in std::mem::take(&mut self.rows) {
            let mut cells = vec![quoted(&row.input)];
            for (place, (class, probability)) in row.top.iter().enumerate() {
                cells.extend([quoted(self.class(*class)), probability.to_string()]);
                if place == 0 && self.labelled {
                    cells.push(quoted(self.label(&row)));
                }
            }
            writeln!(text, "{}", cells.join(","))?;
        }
        print(&text)
    }

    fn finish(&self, args: &PredictArgs, skipped: &[String]) -> anyhow::Result<()> {
        if args.csv {
            return Ok(());
        }
        if args.json { self.print_json(skipped) } else { print(&self.table()?) }
    }

    fn print_json(&self, skipped: &[String]) -> anyhow::Result<()> {
        let entry = |(class, probability): &(usize, f64)| json!({ "class": self.class(*class), "index": class, "probability": probability });
        let rows = self.rows.iter().map(|row| {
            let mut value = json!({ "input": row.input });
            if let Some(first) = row.top.first() {
                value["class"] = json!(self.class(first.0));
                value["probability"] = json!(first.1);
            }
            if row.label.is_some() {
                value["true_class"] = json!(self.label(row));
            }
            value["top"] = row.top.iter().map(entry).collect();
            value
        });
        let predictions: Vec<Value> = rows.collect();
        crate::output::print_json(&json!({
            "model": model_json(self.card)?,
            "predictions": predictions,
            "skipped": skipped,
        }))
    }

    fn table(&self) -> anyhow::Result<String> {
        let mut header = vec!["input", "class", "probability"];
        header.extend(self.labelled.then_some("true class"));
        if self.args.top > 1 && self.card.classes.len() > 1 {
            header.push("then");
        }
        let percent = |p: f64| format!("{:.1} %", 100.0 * p);
        let mut cells: Vec<Vec<String>> = vec![header.iter().map(ToString::to_string).collect()];
        for row in &self.rows {
            let Some((first, rest)) = row.top.split_first() else { continue };
            let mut line =
                vec![row.input.clone(), self.class(first.0).to_owned(), percent(first.1)];
            line.extend(self.labelled.then(|| self.label(row).to_owned()));
            let rest = rest.iter().map(|(c, p)| format!("{} {}", self.class(*c), percent(*p)));
            line.push(rest.collect::<Vec<_>>().join(", "));
            cells.push(line);
        }
        let width = |column: usize| {
            let cells = cells.iter().filter_map(|row| row.get(column));
            cells.map(|cell| console::measure_text_width(cell)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let mut text = String::new();
        for row in &cells {
            let padded = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                let pad = " ".repeat(width.saturating_sub(console::measure_text_width(cell)));
                if column == 2 { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
            });
            writeln!(text, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(text)
    }
}

/// A cell of comma-separated values.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(quoted("plain name.png"), "plain name.png");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"a\""), "\"say \"\"a\"\"\"");
    }
}
