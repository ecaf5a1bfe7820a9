//! Where models err: whom they take for whom, and whether they are as sure as they are right.

use std::fmt::Write;

use formant_runtime::event::{Errors, Reliability};

use super::drawing::scrolling;
use super::panels::{Panels, slug};
use super::{Drawing, headings, swatch, text};
use crate::answers::{answers, class, classes};
use crate::plot::{HALF, Heat, Panel, Sure, reliability};
use crate::quantity::{count, percent};
use crate::scoreboard::names_of;
use crate::{Answered, Answers, RunLog};

/// Figures are written into cells up to so many classes.
const WRITTEN: usize = 20;
/// Confusions of a model in the table.
const LISTED: usize = 3;

/// The section: a table, calibration, and a pair of confusion matrices per method.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Some(log) = logs.first() else { return };
    let found = answers(log);
    if found.is_empty() {
        return;
    }
    page.push_str(
        "<p class=\"caption\">All answers at a method's end: the generic model's (GM) on the global test \
         set, and the personal models' (PM), each on its own client's samples, added up. ECE, the \
         expected calibration error: sort answers by how sure they are into bins of equal width, and take the \
         mean distance between confidence and the share of right answers, weighted by the bins' \
         sizes. A model that says 90 % and is right 90 times in 100 has none.</p>\n",
    );
    table(page, log, &found);
    calibration(log, &found).show(page);
    let matrices = confusion(log, &found);
    if matrices.is_empty() {
        let _ = writeln!(
            page,
            "<p class=\"notes\">With more than {} classes, the log does not hold who is taken for \
             whom.</p>",
            Errors::CLASSES
        );
        return;
    }
    page.push_str(
        "<h3>Confusion</h3>\n<p class=\"caption\">Rows are what a sample is, columns what was answered; \
         colour and figures are shares of a row, in percent. The diagonal is right. A dot is less than half \
         a percent.</p>\n",
    );
    let best = best(&found);
    for (slot, panels) in matrices {
        let open = if Some(slot) == best { " open" } else { "" };
        let _ = writeln!(
            page,
            "<details class=\"method\"{open}><summary>{}</summary>",
            text(&panels.title)
        );
        panels.show(page);
        page.push_str("</details>\n");
    }
}

/// Calibration, and a pair of confusion matrices per method.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let Some(log) = logs.first() else { return Vec::new() };
    let found = answers(log);
    let pairs = confusion(log, &found).into_iter().map(|(_, panels)| panels);
    std::iter::once(calibration(log, &found)).chain(pairs).map(Panels::drawing).collect()
}

/// Which method's matrices are shown at once: the one whose personal models are right most often.
fn best(found: &[Answers]) -> Option<usize> {
    let accuracy =
        |answers: &Answers| answers.pm.as_ref().or(answers.gm.as_ref()).map(|a| a.accuracy);
    let scored = found.iter().enumerate().filter_map(|(place, a)| Some((place, accuracy(a)?)));
    // The first of those that tie.
    scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(place, _)| place)
}

/// Methods that have ended, with their place in the run and their answers.
fn ended<'a>(
    log: &'a RunLog,
    found: &'a [Answers],
) -> impl Iterator<Item = (usize, String, &'a Answers)> {
    let places = log.methods.iter().enumerate().zip(names_of(log));
    places.filter_map(move |((slot, method), name)| {
        let answers = found.iter().find(|answers| answers.label == method.info.label)?;
        Some((slot, name, answers))
    })
}

fn table(page: &mut String, log: &RunLog, found: &[Answers]) {
    let mut table = String::from("<table class=\"dense\">\n");
    let columns = ["method", "model", "samples", "right, %", "mean confidence, %", "ECE, %"];
    headings(&mut table, columns.into_iter().chain(["most often taken for another"]));
    for (slot, name, answers) in ended(log, found) {
        let info = &log.methods[slot].info;
        let models = [("GM", &answers.gm, info.generic), ("PM", &answers.pm, info.personal)];
        for (model, answered, own) in models {
            let Some(answered) = answered else { continue };
            let model = if own { model.to_owned() } else { format!("({model})") };
            let _ = writeln!(
                table,
                "<tr><th scope=\"row\">{}{}</th><td>{model}</td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td class=\"words\">{}</td></tr>",
                swatch(slot),
                text(&name),
                count(answered.samples),
                percent(answered.accuracy),
                percent(answered.confidence),
                percent(answered.calibration_error),
                text(&listed(answered))
            );
        }
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Errors and calibration", &table);
}

/// The most frequent confusions in words: `4 for 9 (12, 3.1 %)`.
pub(crate) fn listed(answered: &Answered) -> String {
    let worst = answered.confusions.iter().take(LISTED);
    let told = worst.map(|found| {
        let share = percent(found.share);
        format!("{} for {} ({}, {share} %)", found.class, found.answer, count(found.samples))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "–".to_owned() } else { told.join("; ") }
}

fn calibration(log: &RunLog, found: &[Answers]) -> Panels {
    let methods = ended(log, found).filter_map(|(slot, name, answers)| {
        let detail = log.methods[slot].detail.as_ref()?;
        let gm = sure(detail.gm.as_ref(), answers.gm.as_ref());
        let pm = sure(detail.pm.as_ref(), answers.pm.as_ref());
        (gm.is_some() || pm.is_some()).then_some(Sure { name, slot, gm, pm })
    });
    Panels {
        name: "calibration".to_owned(),
        title: "Calibration: how often answers are right by how sure they are".to_owned(),
        plots: reliability(&methods.collect::<Vec<_>>()),
        large: false,
    }
}

fn sure<'a>(
    errors: Option<&'a Errors>,
    answered: Option<&Answered>,
) -> Option<(&'a [Reliability], f64)> {
    Some((&errors?.reliability, answered?.calibration_error))
}

/// A pair of matrices for every method that has one, with its place among those that have ended.
fn confusion(log: &RunLog, found: &[Answers]) -> Vec<(usize, Panels)> {
    let classes = classes(log);
    let mut pairs = Vec::new();
    for (place, (slot, name, answers)) in ended(log, found).enumerate() {
        let method = &log.methods[slot];
        let Some(detail) = &method.detail else { continue };
        let models = [
            (method.info.generic, "generic model", "averaged PM", &detail.gm, &answers.gm),
            (
                method.info.personal,
                "personal models",
                "GM on clients' samples",
                &detail.pm,
                &answers.pm,
            ),
        ];
        let panels = models.into_iter().filter_map(|(own, called, otherwise, errors, answered)| {
            let matrix = errors.as_ref()?.confusion.as_ref()?;
            let called = if own { called } else { otherwise };
            matrix_of(&format!("{name}, {called}"), slot, matrix, classes, answered.as_ref()?)
        });
        let panels: Vec<Panel> = panels.collect();
        if !panels.is_empty() {
            let name_of_file = format!("confusion-{}", slug(slot, &method.info.label));
            let title = format!("Confusion: {name}");
            pairs.push((place, Panels { name: name_of_file, title, plots: panels, large: true }));
        }
    }
    pairs
}

fn matrix_of(
    title: &str,
    slot: usize,
    matrix: &[Vec<u64>],
    classes: &[String],
    answered: &Answered,
) -> Option<Panel> {
    let whole: Vec<f64> =
        matrix.iter().map(|row| row.iter().map(|&n| n as f64).sum::<f64>().max(1.0)).collect();
    let cells: Vec<Vec<f64>> = matrix
        .iter()
        .zip(&whole)
        .map(|(row, whole)| row.iter().map(|&n| n as f64 / whole).collect())
        .collect();
    let names: Vec<String> = (0..matrix.len()).map(|label| class(classes, label)).collect();
    let tip = |row: usize, column: usize| {
        format!(
            "{} taken for {}: {} of {}",
            names[row],
            class(classes, column),
            count(matrix[row][column]),
            count(whole[row] as u64)
        )
    };
    let written = |row: usize, column: usize| match cells[row][column] * 100.0 {
        share if share <= 0.0 => String::new(),
        share if share < 0.5 => "·".to_owned(),
        share => format!("{:.0}", share.round()),
    };
    let right = percent(answered.accuracy);
    let heat = Heat {
        title: (title.to_owned(), format!("{right} % right")),
        slot: Some(slot),
        says: format!(
            "{title}: {right} % right; most often taken for another: {}",
            listed(answered)
        ),
        size: (HALF, 520.0),
        columns: names.clone(),
        axes: ("is", "was answered"),
        most: 1.0,
        tip: &tip,
        written: (matrix.len() <= WRITTEN).then_some(&written),
        legend: None,
        cells: cells.clone(),
        rows: names.clone(),
    };
    heat.panel()
}
