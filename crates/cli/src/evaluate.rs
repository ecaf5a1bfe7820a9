//! `formant evaluate`.

use crate::args::predict::EvaluateArgs;
use crate::output::{markdown_table, note, print, print_json};
use crate::predict::{announce, model_json, notes, open};
use crate::progress::LateBar;
use anyhow::bail;
use formant_data::{CATALOGUE, Source};
use formant_model::{Card, Metrics, Mistake, labels};
use formant_runtime::quantity::count;
use serde_json::json;
use std::process::ExitCode;

/// Of more classes, the matrix would not fit on a screen: only the worst confusions are printed.
const MOST_IN_MATRIX: usize = 20;
/// Confusions to print then.
const MOST_CONFUSIONS: usize = 20;

pub(crate) fn evaluate(args: &EvaluateArgs) -> anyhow::Result<ExitCode> {
    let quiet = args.source.quiet;
    let predictor = open(&args.model)?;
    let card = predictor.card();
    let source = data(args, card)?;
    let truth = labels(card, &source)?;
    announce(&predictor, quiet);
    let bar = LateBar::new(source.len());
    let (mut probabilities, mut right, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let fitting = predictor.each(&source, args.source.threads(), |predicted| {
        probabilities.extend_from_slice(predicted.probabilities);
        right.extend(predicted.indices.iter().map(|i| truth[*i]));
        skipped.extend(predicted.skipped.iter().map(ToString::to_string));
        bar.advance(predicted.indices.len() + predicted.skipped.len());
        anyhow::Ok(())
    })?;
    bar.finish();
    if right.is_empty() {
        bail!("{}: no image could be read\nhint: leave out --skip-bad to see why", source.origin());
    }
    let metrics = Metrics::new(&probabilities, &right, card.classes.len());
    if !quiet {
        notes(&fitting, &skipped, card.input, right.len());
        note_without_auroc(&metrics, &card.classes);
    }
    if args.json {
        print_json(&json!({
            "model": model_json(card)?,
            "data": { "source": source.origin(), "format": source.format() },
            "class_names": card.classes,
            "metrics": metrics,
            "skipped": skipped,
        }))?;
    } else {
        print(&page(&metrics, &card.classes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A path, or a dataset by name.
fn data(args: &EvaluateArgs, card: &Card) -> anyhow::Result<Source> {
    let name = args.data.to_str().unwrap_or_default();
    if CATALOGUE.iter().any(|entry| entry.name == name) {
        if args.data.exists() && !args.source.quiet {
            note!("note: {name} is the dataset of that name; ./{name} would be the path");
        }
        return Ok(Source::known(name, args.data_dir.as_deref(), args.source.split())?);
    }
    if !args.data.exists() {
        let known: Vec<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
        bail!(
            "{} is neither there nor a known dataset\nhint: check the path, or name one of {}",
            args.data.display(),
            known.join(", ")
        );
    }
    Ok(Source::open(&args.data, &args.source.options(card))?)
}

fn note_without_auroc(metrics: &Metrics, names: &[String]) {
    let without = metrics.classes.iter().zip(names).filter(|(class, _)| class.auroc.is_none());
    let without: Vec<&str> = without.map(|(_, name)| name.as_str()).collect();
    if !without.is_empty() {
        let shown = without.iter().take(MOST_CONFUSIONS).copied().collect::<Vec<_>>().join(", ");
        let more = without.len().saturating_sub(MOST_CONFUSIONS);
        let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
        note!(
            "note: AUROC leaves out classes of which there is no sample, or no other: {shown}{rest}"
        );
    }
}

fn page(metrics: &Metrics, names: &[String]) -> String {
    let figure = |value: f64| format!("{value:.4}");
    let optional = |value: Option<f64>| value.map_or("–".into(), figure);
    let text = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let pair = |name: &str, value: String| vec![name.to_owned(), value];
    let scores = [
        text(&["score", ""]),
        pair("samples", count(metrics.samples as u64)),
        pair("accuracy", figure(metrics.accuracy)),
        pair("balanced accuracy", figure(metrics.balanced_accuracy)),
        pair("macro-F1", figure(metrics.macro_f1)),
        pair("AUROC, one against the rest", optional(metrics.auroc)),
        pair("expected calibration error", figure(metrics.calibration_error)),
        pair("log loss", figure(metrics.log_loss)),
    ];
    let mut classes = vec![text(&["class", "samples", "precision", "recall", "F1", "AUROC"])];
    for (name, class) in names.iter().zip(&metrics.classes) {
        classes.push(vec![
            name.clone(),
            count(class.support),
            figure(class.precision),
            figure(class.recall),
            figure(class.f1),
            optional(class.auroc),
        ]);
    }
    format!(
        "{}\n{}\n{}",
        markdown_table(&scores),
        markdown_table(&classes),
        if names.len() <= MOST_IN_MATRIX { matrix(metrics, names) } else { worst(metrics, names) }
    )
}

/// A row for every right class, a column for every predicted one; nothing where there is none.
fn matrix(metrics: &Metrics, names: &[String]) -> String {
    let mut rows = vec![vec!["right \\ predicted".to_owned()]];
    rows[0].extend(names.iter().cloned());
    for (name, counts) in names.iter().zip(&metrics.confusion) {
        let mut row = vec![name.clone()];
        row.extend(counts.iter().map(|n| if *n == 0 { "·".into() } else { n.to_string() }));
        rows.push(row);
    }
    markdown_table(&rows)
}

fn worst(metrics: &Metrics, names: &[String]) -> String {
    let mistakes = metrics.mistakes();
    let header = ["most frequent mistakes: right", "predicted", "samples", "of its class"];
    let mut rows = vec![header.map(ToOwned::to_owned).to_vec()];
    for &Mistake { right, predicted, count } in mistakes.iter().take(MOST_CONFUSIONS) {
        let share = 100.0 * count as f64 / metrics.classes[right].support as f64;
        rows.push(vec![
            names[right].clone(),
            names[predicted].clone(),
            count.to_string(),
            format!("{share:.1} %"),
        ]);
    }
    let more = mistakes.len().saturating_sub(MOST_CONFUSIONS);
    let rest = if more == 0 {
        String::new()
    } else {
        format!("\n… and {more} other kinds; --json has all\n")
    };
    markdown_table(&rows) + &rest
}
