//! The spectra of generic and personal models: how far apart they are round by round, what a method's
//! term did about it, and what they look like layer by layer.

mod layers;

use std::fmt::Write;

use formant_runtime::event::Phase;

use super::drawing::scrolling;
use super::panels::Panels;
use super::{Drawing, curves, headings, swatch, text};
use crate::plot::{Axes, Curve, Measure, Point, lines, terms};
use crate::quantity::{magnitude, percent};
use crate::scoreboard::names_of;
use crate::spectra::spectral_courses;
use crate::{Apart, RunLog, SpectralCourse, TermShare};

/// Evaluations whose figures are also written down.
const LISTED: usize = 50;

/// The words, plots and tables about spectra; nothing if the log has none.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let Some(log) = logs.first() else { return };
    let courses = spectral_courses(log);
    if courses.iter().all(|course| course.rounds.is_empty() && course.terms.is_empty()) {
        return;
    }
    if courses.iter().any(|course| !course.rounds.is_empty()) {
        apart(page, logs, &courses);
    }
    let shares = term_panels(log, &courses);
    if !shares.plots.is_empty() {
        page.push_str(
            "<p class=\"caption\">The term itself: the line is the mean objective of a phase (the mean over \
             clients and steps, terms included), the filled part below it what the method's own terms added. \
             For SCD that is λ times its own distance of spectra, the pull of one model on the other: in the shared phase on what \
             is uploaded, in the personal phase on what stays. For Ditto, FedProx and the like it is a penalty \
             on the distance itself. A term whose share is near zero did nothing; one that stays \
             large holds the model back from its data. Every plot has its own scale.</p>\n",
        );
        shares.show(page);
    }
    layers::section(page, log);
}

/// Everything that the section draws.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    let Some(log) = logs.first() else { return Vec::new() };
    let mut drawings = courses_over_rounds(logs);
    drawings.push(term_panels(log, &spectral_courses(log)).drawing());
    drawings.extend(layers::figures(log));
    drawings
}

/// How far the models are apart: in words, over rounds, and at the end.
fn apart(page: &mut String, logs: &[RunLog], courses: &[SpectralCourse]) {
    let mut clients: Vec<usize> = courses.iter().flat_map(|c| c.clients.iter().copied()).collect();
    clients.sort_unstable();
    clients.dedup();
    let _ = writeln!(
        page,
        "<p class=\"caption\">A model is a list of numbers, and its spectrum says how strongly each frequency \
         is present in that list: low frequencies are what changes slowly along the parameters, high \
         ones what differs from one parameter to the next. SCD lets the generic model (GM) and the personal \
         models (PM) teach each other through these spectra. Below: how far the PMs of {} are from the GM of \
         their method, the mean over these clients.</p>\n\
         <p class=\"caption\">The divergence is D(P‖Q) = Σ P ln(P / Q) over frequencies, where P and Q \
         are the magnitudes |DFT(w)| of all parameters of PM and GM, each divided by its sum. It is 0 if both \
         spectra have the same shape, whatever their phases, and grows as their shapes part. The lowest tenth \
         of the frequencies is what SCD's GM learns from unless τ is set otherwise. The relative distance \
         ‖w_p − w_G‖ / ‖w_G‖ sees phases too: if D is small and the distance is not, the models share \
         a spectrum without being alike. A method whose curve of D lies below the others' keeps its \
         PMs close to its GM in the spectrum; compare SCD with Ditto, which pulls on the distance, and with \
         methods that pull on neither. Where PM and GM are the same, D is 0 and there is no point to draw.</p>",
        listed(&clients)
    );
    page.push_str("<div class=\"trio\">\n");
    for drawing in courses_over_rounds(logs) {
        drawing.show(page);
    }
    page.push_str("</div>\n");
    table(page, &logs[0], courses);
}

/// Clients in words: `client 3`, `clients 0, 5 and 9`.
fn listed(clients: &[usize]) -> String {
    match clients {
        [one] => format!("client {one}"),
        [first @ .., last] if clients.len() <= 12 => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("clients {} and {last}", first.join(", "))
        }
        many => format!("{} clients", many.len()),
    }
}

type Of = fn(&Apart) -> f64;

/// What is drawn over rounds: name of the file, title, axis, figure.
const OVER_ROUNDS: [(&str, &str, &str, Of); 3] = [
    ("spectral-divergence", "Divergence of the spectra, all frequencies", "D", |apart| {
        apart.divergence
    }),
    (
        "spectral-divergence-low",
        "Divergence of the spectra, lowest tenth of the frequencies",
        "D",
        |apart| apart.low_divergence,
    ),
    (
        "model-distance",
        "Relative distance of the models",
        "‖w_p − w_G‖ / ‖w_G‖",
        |apart| apart.distance,
    ),
];

fn courses_over_rounds(logs: &[RunLog]) -> Vec<Drawing> {
    let log = &logs[0];
    let runs: Vec<Vec<SpectralCourse>> = logs.iter().map(spectral_courses).collect();
    let mut drawings = Vec::new();
    for (name, title, axis, of) in OVER_ROUNDS {
        let mut found = Vec::new();
        for (slot, (called, method)) in names_of(log).into_iter().zip(&log.methods).enumerate() {
            let of_method = runs.iter().filter_map(|run| {
                let course = run.iter().find(|course| course.label == method.info.label)?;
                let points: Vec<Point> = course.rounds.iter().map(|at| point(at, of)).collect();
                (!points.is_empty()).then_some(points)
            });
            let points = curves::mean(of_method.collect());
            found.push(Curve {
                name: called,
                slot,
                aside: !method.info.personal,
                points,
                best: None,
            });
        }
        let axes = Axes { x: "round", whole: true, y: axis, measure: Measure::Loss };
        let says = format!("{title}, PM against GM, by round, one line per method");
        let plot = lines(&says, &axes, &found);
        let (headings, cells) = written(&found);
        let drawing = Drawing::new(name, title, plot, "No spectra of two different models yet.");
        drawings.push(drawing.with_data(headings, cells));
    }
    drawings
}

/// Equal models have a figure of 0, for which a logarithmic axis has no place.
fn point(at: &Apart, of: Of) -> Point {
    let value = Some(of(at)).filter(|value| *value > 0.0 && value.is_finite());
    Point { round: at.round, x: at.round as f64, value, band: None }
}

/// The figures of the curves, a row per round: all of them, or evenly spaced ones.
fn written(found: &[Curve]) -> (Vec<String>, Vec<Vec<String>>) {
    let drawn: Vec<&Curve> = found.iter().filter(|curve| !curve.points.is_empty()).collect();
    let rounds = drawn.iter().flat_map(|curve| curve.points.iter().map(|point| point.round));
    let mut rounds: Vec<usize> = rounds.collect();
    rounds.sort_unstable();
    rounds.dedup();
    let every = rounds.len().div_ceil(LISTED).max(1);
    let headings = std::iter::once("round".to_owned()).chain(drawn.iter().map(|c| c.name.clone()));
    let cells = rounds.iter().step_by(every).map(|&round| {
        let figures = drawn.iter().map(|curve| {
            let found = curve.points.iter().find(|point| point.round == round);
            found.and_then(|point| point.value).map_or_else(|| "–".to_owned(), magnitude)
        });
        std::iter::once(round.to_string()).chain(figures).collect()
    });
    (headings.collect(), cells.collect())
}

/// What stands above the figures of [`cells`].
pub(crate) const COLUMNS: [&str; 5] = [
    "D at last",
    "D at last, lowest tenth",
    "relative distance at last",
    "term's share of the loss, shared phase",
    "personal phase",
];

/// A method's figures as the tables of both reports have them.
pub(crate) fn cells(course: &SpectralCourse) -> Vec<String> {
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "–".to_owned());
    let last = |of: Of| or_dash(course.last().map(|apart| magnitude(of(apart))));
    let share =
        |phase| or_dash(course.term_share(phase).map(|share| format!("{} %", percent(share))));
    let mut cells: Vec<String> = OVER_ROUNDS.map(|(_, _, _, of)| last(of)).to_vec();
    cells.extend([share(Phase::Shared), share(Phase::Personal)]);
    cells
}

fn table(page: &mut String, log: &RunLog, courses: &[SpectralCourse]) {
    let mut table = String::from("<table class=\"dense\">\n");
    headings(&mut table, ["method"].into_iter().chain(COLUMNS));
    for (slot, (course, name)) in courses.iter().zip(names_of(log)).enumerate() {
        let _ = write!(table, "<tr><th scope=\"row\">{}{}</th>", swatch(slot), text(&name));
        for cell in cells(course) {
            let _ = write!(table, "<td>{cell}</td>");
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Spectra", &table);
    page.push_str(
        "<p class=\"notes\">The term's share is the mean over the rounds in which \
         the method had a term.</p>\n",
    );
}

/// The terms' part of the objective, for every method and phase that has one.
fn term_panels(log: &RunLog, courses: &[SpectralCourse]) -> Panels {
    let mut panels = Vec::new();
    for (slot, (course, name)) in courses.iter().zip(names_of(log)).enumerate() {
        for (phase, called) in
            [(Phase::Shared, "shared phase"), (Phase::Personal, "personal phase")]
        {
            let of_phase = course.terms.iter().filter(|term| term.phase == phase);
            let of_phase: Vec<TermShare> = of_phase.copied().collect();
            panels.extend(terms(&format!("{name}, {called}"), slot, &of_phase));
        }
    }
    Panels {
        name: "terms".to_owned(),
        title: "What the methods' own terms add to the loss".to_owned(),
        plots: panels,
        large: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named_as_long_as_they_are_few() {
        assert_eq!(listed(&[3]), "client 3");
        assert_eq!(listed(&[0, 5, 9]), "clients 0, 5 and 9");
        assert_eq!(listed(&(0..40).collect::<Vec<_>>()), "40 clients");
    }
}
