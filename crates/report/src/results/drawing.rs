//! The figures of a page of results: curves with a band over seeds, or accuracy over the values of a key.

use super::groups::{Cell, Line, Pick, written};
use super::tables::newcomers::{WAYS, is_own, joined};
use super::{Axis, Form, Point as Evaluated, Results, Scores};
use crate::export::plain_name;
use crate::html::{Drawing, Figure};
use crate::plot::{Axes, Band, Curve, Measure, Place, Point, Values, lines, values};
use std::collections::BTreeMap;

/// Every figure of the results as a file of its own.
pub fn figures(results: &Results) -> Vec<Figure> {
    drawings(results).into_iter().filter_map(Drawing::figure).collect()
}

/// The figures that the form of the results asks for.
pub(super) fn drawings(results: &Results) -> Vec<Drawing> {
    match results.form {
        Form::Methods | Form::Speedup | Form::Clock => curves(results),
        Form::Values => sensitivity(results),
        Form::Newcomers => newcomers(results),
        Form::Cost => Vec::new(),
    }
}

/// What is said above the figures.
pub(super) fn caption(form: Form) -> &'static str {
    match form {
        Form::Methods => {
            "Accuracy over rounds, the mean over seeds; the band reaches from the lowest to the highest."
        }
        Form::Clock | Form::Speedup => {
            "Accuracy of the personal models over the seconds of the virtual clock, the mean over seeds; the \
             band reaches from the lowest to the highest."
        }
        Form::Values => {
            "Best accuracy over the values of one key, all others being as they are. The band is one \
             standard deviation over the seeds; values that span decades stand on a logarithmic axis."
        }
        Form::Newcomers => {
            "Accuracy of newcomers after each epoch on their own samples, the mean over seeds; the band \
             reaches from the lowest to the highest."
        }
        Form::Cost => "",
    }
}

/// Where a curve's points stand, and what they show.
type Look = (fn(&Evaluated) -> Option<f64>, fn(&Evaluated) -> Option<f64>);

/// GM and PM over rounds, or PM over the seconds of the virtual clock, for each cell.
fn curves(results: &Results) -> Vec<Drawing> {
    let by_rounds = |point: &Evaluated| Some(point.round as f64);
    let looks: &[(&str, Look)] = if results.form == Form::Methods {
        &[("GM", (by_rounds, |point| point.gm)), ("PM", (by_rounds, |point| point.pm))]
    } else {
        &[("PM", (|point| point.pm_at, |point| point.pm))]
    };
    let is_clock = results.form != Form::Methods;
    let mut all = Vec::new();
    for cell in results.cells() {
        for (model, look) in looks {
            let own = |line: &Line<'_>| {
                if *model == "GM" { line.generic() } else { line.personal() }
            };
            let title = titled(&cell, model);
            let axes = Axes {
                x: if is_clock { "virtual seconds" } else { "round" },
                whole: !is_clock,
                y: "accuracy, %",
                measure: Measure::Accuracy,
            };
            let of_line = |(slot, line): (usize, &Line<'_>)| Curve {
                name: line.method.to_owned(),
                slot,
                aside: !own(line),
                points: over_seeds(line, *look),
                best: None,
            };
            let drawn: Vec<Curve> = cell.lines.iter().enumerate().map(of_line).collect();
            let says = format!("{title}: accuracy over {}, one line per method", axes.x);
            let name = plain_name(&format!("curves {title}")).to_lowercase();
            let plot = lines(&says, &axes, &drawn);
            all.push(Drawing::new(name, title, plot, "No finished run yet."));
        }
    }
    all
}

fn titled(cell: &Cell<'_>, what: &str) -> String {
    if cell.name.is_empty() { what.to_owned() } else { format!("{what}, {}", cell.name) }
}

/// The points of a method, with a band where there are several seeds.
fn over_seeds(line: &Line<'_>, (place, figure): Look) -> Vec<Point> {
    let mut rounds: BTreeMap<usize, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let curves = line.runs.iter().filter_map(|run| run.scores.as_ref());
    for point in curves.flat_map(|Scores { curve, .. }| curve) {
        if let (Some(x), Some(value)) = (place(point), figure(point)) {
            let (places, figures) = rounds.entry(point.round).or_default();
            places.push(x);
            figures.push(value);
        }
    }
    rounds.into_iter().map(|(round, (places, figures))| banded(round, &places, &figures)).collect()
}

fn banded(round: usize, places: &[f64], figures: &[f64]) -> Point {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Point {
        round,
        x: mean(places),
        value: Some(mean(figures)),
        band: (figures.len() > 1).then_some((low, high)),
    }
}

/// Newcomers over epochs, for each cell and way.
fn newcomers(results: &Results) -> Vec<Drawing> {
    let axes = Axes { x: "epoch", whole: true, y: "accuracy, %", measure: Measure::Accuracy };
    let mut all = Vec::new();
    for cell in results.cells() {
        for way in WAYS {
            let of_line = |(slot, line): (usize, &Line<'_>)| {
                let found = || line.runs.iter().filter_map(|run| joined(run, way));
                let most = found().map(|joined| joined.epochs.len()).min().unwrap_or(0);
                let point = |epoch: usize| {
                    let figures: Vec<f64> = found().map(|joined| joined.epochs[epoch]).collect();
                    banded(epoch, &[epoch as f64], &figures)
                };
                Curve {
                    name: line.method.to_owned(),
                    slot,
                    aside: !is_own(line, way),
                    points: (0..most).map(point).collect(),
                    best: None,
                }
            };
            let drawn: Vec<Curve> = cell.lines.iter().enumerate().map(of_line).collect();
            let title = titled(&cell, way.title());
            let says = format!("Newcomers by {title}: accuracy over epochs, one line per method");
            let name = plain_name(&format!("newcomers {title}")).to_lowercase();
            if let Some(plot) = lines(&says, &axes, &drawn) {
                all.push(Drawing::new(name, title, Some(plot), ""));
            }
        }
    }
    all
}

/// GM and PM over the values of each key, with a band of one standard deviation over seeds. Each has a plot and a scale
/// of its own: they are so far apart that a common one would show nothing else.
fn sensitivity(results: &Results) -> Vec<Drawing> {
    let models: [(&str, Pick); 2] =
        [("GM", |scores| scores.gm_best), ("PM", |scores| scores.pm_best)];
    let axes = results.axes.iter().enumerate();
    let drawn = axes.flat_map(|(place, axis)| models.map(|model| (place, axis, model))).map(
        |(place, axis, (model, pick))| {
            let name = format!("sensitivity-{}-{}", place + 1, model.to_lowercase());
            let title = format!("{model} over {}", axis.symbol);
            let plot = plot(results, axis, &title, pick);
            Drawing::new(name, title, plot, "No finished run yet.")
        },
    );
    drawn.collect()
}

fn plot(results: &Results, axis: &Axis, title: &str, pick: Pick) -> Option<String> {
    let cells = results.grouped(|run| run.cell.get(&axis.key).map_or(String::new(), written));
    let methods: Vec<&str> = {
        let mut all: Vec<&str> = Vec::new();
        for line in cells.iter().flat_map(|cell| &cell.lines) {
            if !all.contains(&line.method) {
                all.push(line.method);
            }
        }
        all
    };
    let band = |(slot, method): (usize, &&str)| {
        let points = cells.iter().filter(|cell| !cell.name.is_empty()).filter_map(|cell| {
            let line = cell.lines.iter().find(|line| line.method == *method)?;
            let spread = line.spread(pick);
            let value = line.runs.first().and_then(|run| run.cell.get(&axis.key))?;
            let place = value.as_f64().map_or_else(|| Place::Word(written(value)), Place::Number);
            Some((place, spread.mean?, spread.deviation.unwrap_or(0.0)))
        });
        Band { name: (*method).to_owned(), slot, points: points.collect() }
    };
    let bands: Vec<Band> = methods.iter().enumerate().map(band).collect();
    let says = format!("Best accuracy: {title}, one line per method");
    values(&Values { says: &says, across: &axis.symbol, up: "best accuracy, %", bands: &bands })
}
