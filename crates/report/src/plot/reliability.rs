//! How sure models are and how often they are right, one small plot per method.

use std::fmt::Write;

use formant_runtime::event::Reliability;

use super::colour;
use super::panel::{Frame, PANEL, Panel, heading, legend};
use super::scale::Scale;
use crate::quantity::{count, percent};

const HEIGHT: f64 = 270.0;
const LEFT: f64 = 38.0;
const TOP: f64 = 42.0;
const BASE: f64 = 228.0;

/// One method's answers by how sure they are.
pub(crate) struct Sure<'a> {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour is its own in all plots.
    pub(crate) slot: usize,
    /// The generic model's, and its calibration error.
    pub(crate) gm: Option<(&'a [Reliability], f64)>,
    /// The personal models', and their calibration error.
    pub(crate) pm: Option<(&'a [Reliability], f64)>,
}

/// A small plot of each, and a legend.
pub(crate) fn reliability(methods: &[Sure<'_>]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = methods.iter().map(panel).collect();
    if !panels.is_empty() {
        let dot = |class: &str| {
            format!("<g class=\"s0\"><circle class=\"{class}\" cx=\"12\" r=\"5\"/></g>")
        };
        let marks = [
            (dot("sure"), "personal models (PM)"),
            (dot("ring"), "generic model (GM)"),
            ("<path class=\"even\" d=\"M0 0H24\"/>".to_owned(), "as sure as right"),
            (String::new(), "Up: right answers, %."),
            (String::new(), "Larger dots: more answers."),
        ];
        panels.push(legend(&marks));
    }
    panels
}

fn panel(method: &Sure<'_>) -> Panel {
    let right = PANEL - 14.0;
    let x = Scale::linear(0.0, 1.0, LEFT, right);
    let y = Scale::linear(0.0, 1.0, BASE, TOP);
    let frame = Frame { x, y, left: LEFT, right, base: BASE };
    let error = |model: &Option<(&[Reliability], f64)>| {
        model.map_or_else(|| "–".to_owned(), |(_, error)| percent(error))
    };
    let figures = format!("ECE: PM {} %, GM {} %", error(&method.pm), error(&method.gm));
    let mut body = String::new();
    heading(&mut body, &method.name, Some(method.slot), &figures);
    let ticks: Vec<(f64, String)> =
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| (share, format!("{:.0}", share * 100.0))).to_vec();
    frame.rows(&mut body, &ticks);
    frame.columns(&mut body, &ticks);
    let even = frame.path([(0.0, 0.0), (1.0, 1.0)].into_iter());
    let _ =
        write!(body, "<path class=\"even\" d=\"{even}\"/><g class=\"{}\">", colour(method.slot));
    for (model, class, called) in [(&method.gm, "ring", "GM"), (&method.pm, "sure", "PM")] {
        if let Some((bins, _)) = model {
            dots(&mut body, &frame, bins, class, called);
        }
    }
    body.push_str("</g>");
    frame.caption(&mut body, 34.0, "confidence, %");
    let says =
        format!("{}: how often answers are right by how sure they are. {figures}", method.name);
    Panel::new(PANEL, HEIGHT, says, body)
}

fn dots(body: &mut String, frame: &Frame, bins: &[Reliability], class: &str, called: &str) {
    let all: u64 = bins.iter().map(|bin| bin.samples).sum();
    let held: Vec<(f64, f64, &Reliability)> = bins
        .iter()
        .filter(|bin| bin.samples > 0 && bin.confidence.is_finite())
        .map(|bin| {
            let samples = bin.samples as f64;
            (bin.confidence / samples, bin.right as f64 / samples, bin)
        })
        .collect();
    let path = frame.path(held.iter().map(|&(sure, right, _)| (sure, right)));
    let _ = write!(body, "<path class=\"thin\" d=\"{path}\"/>");
    for (sure, right, bin) in held {
        let radius = 2.0 + 5.0 * (bin.samples as f64 / all.max(1) as f64).sqrt();
        let _ = write!(
            body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\"><title>{called}: {} \
             answers, {} % sure, {} % right</title></circle>",
            frame.x.place(sure),
            frame.y.place(right),
            count(bin.samples),
            percent(sure),
            percent(right)
        );
    }
}
