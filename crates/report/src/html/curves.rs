//! Learning curves: both models and the training loss, over rounds, seconds and bytes.

mod axis;
mod course;

use std::fmt::Write;

use formant_runtime::event::Side;

use super::drawing::show_all;
use super::{Drawing, capital, unscored};
use crate::plot::{Axes, Curve, Measure, lines};
use crate::quantity::counted;
use crate::{RunLog, rows};
use axis::Axis;
pub(super) use axis::downloaded;
pub(super) use course::mean;
use course::{Shown, curves};

/// Evaluations whose figures are also written down.
const LISTED: usize = 50;

/// The plots, behind tabs for the horizontal axis; on paper below each other.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let log = &logs[0];
    let metric = log.started.metrics.first();
    let beyond = if metric.less_is_better() { "above" } else { "below" };
    let _ = write!(
        page,
        "<p class=\"caption\">{} and training loss by round, time and traffic; round 0 is before training. A dashed line is a \
         figure that the table puts in parentheses. The first rounds of a long run may lie {beyond} \
         the frame, and each plot has its own scale. A loss is of its method's own objective, \
         penalties included: compare it over rounds rather than between methods. ",
        capital(metric.title())
    );
    page.push_str("The generic model is scored on the global test set, personal models on their clients' own test sets; losses are means over clients. ");
    if logs.len() > 1 {
        let _ = write!(
            page,
            "Lines are means over {}, bands go from the lowest to the highest of them; a line ends \
             where one of the runs does.",
            counted(logs.len(), "seed")
        );
    } else {
        page.push_str("A ring marks each method's best round.");
    }
    page.push_str("</p>\n");
    let axes = axis::all(logs);
    if axes.len() > 1 {
        page.push_str("<fieldset class=\"tabs\"><legend>Over</legend>\n");
        for (place, axis) in axes.iter().enumerate() {
            let checked = if place == 0 { " checked" } else { "" };
            let _ = writeln!(
                page,
                "<input type=\"radio\" name=\"axis\" id=\"over-{0}\"{checked}/>\
                 <label for=\"over-{0}\">{1}</label>",
                axis.id, axis.tab
            );
        }
        page.push_str("</fieldset>\n");
    }
    for axis in &axes {
        let _ = writeln!(page, "<div class=\"panel trio over-{}\">", axis.id);
        show_all(page, &drawings(logs, axis));
        page.push_str("</div>\n");
        if let Some(says) = axis.says {
            let _ = writeln!(page, "<p class=\"panel notes over-{}\">{says}</p>", axis.id);
        }
    }
}

/// All curves over all axes.
pub(super) fn figures(logs: &[RunLog]) -> Vec<Drawing> {
    axis::all(logs).iter().flat_map(|axis| drawings(logs, axis)).collect()
}

/// The plots over one axis.
fn drawings(logs: &[RunLog], axis: &Axis) -> Vec<Drawing> {
    let log = &logs[0];
    let rows = rows(log);
    let metric = log.started.metrics.first().title();
    let plots = [
        (Shown::Gm, "Generic model", format!("GM {metric}, %")),
        (Shown::Pm, "Personal models", format!("PM {metric}, %")),
        (Shown::Loss, "Training loss", "training loss".to_owned()),
    ];
    let drawing = |(shown, title, y): (Shown, &str, String)| {
        let (measure, otherwise) = match shown {
            Shown::Loss if log.started.side == Side::Server => {
                (Measure::Loss, "In a network, the losses of training stay with the clients.")
            }
            Shown::Loss => (Measure::Loss, "No finished phase yet."),
            Shown::Gm | Shown::Pm => (Measure::Accuracy, unscored(log)),
        };
        let found = curves(logs, &rows, shown, axis);
        let axes = Axes { x: &axis.title, whole: axis.is_rounds(), y: &y, measure };
        let says = format!("{title}: {y} over {}, one line per method", axis.title);
        let plot = lines(&says, &axes, &found);
        let (headings, cells) = listed(&found, axis, measure);
        let name = format!("{}-by-{}", shown.name(), axis.id);
        Drawing::new(name, format!("{title}, by {}", axis.by), plot, otherwise)
            .with_data(headings, cells)
    };
    plots.into_iter().map(drawing).collect()
}

/// The figures of the plots, one row per round: all of them, or evenly spaced ones.
fn listed(curves: &[Curve], axis: &Axis, measure: Measure) -> (Vec<String>, Vec<Vec<String>>) {
    let points = curves.iter().flat_map(|curve| &curve.points);
    let rounds: std::collections::BTreeSet<usize> = points.map(|point| point.round).collect();
    let rounds: Vec<usize> = rounds.into_iter().collect();
    let headings = ["round".to_owned()].into_iter().chain(curves.iter().map(|c| c.name.clone()));
    let rows = (0..rounds.len().min(LISTED)).map(|place| {
        let last = rounds.len() - 1;
        let place = if last < LISTED { place } else { place * last / (LISTED - 1) };
        let cells = curves.iter().map(|curve| {
            let found = curve.points.binary_search_by_key(&rounds[place], |point| point.round);
            let point = found.ok().map(|found| curve.points[found]);
            let Some((point, value)) = point.and_then(|point| Some((point, point.value?))) else {
                return "–".to_owned();
            };
            let mut cell = measure.written(value);
            if let Some((low, high)) = point.band {
                let _ = write!(cell, " ({}–{})", measure.written(low), measure.written(high));
            }
            if !axis.is_rounds() {
                let _ = write!(cell, " at {}", axis.written(point.x));
            }
            cell
        });
        [rounds[place].to_string()].into_iter().chain(cells).collect()
    });
    (headings.collect(), rows.collect())
}
