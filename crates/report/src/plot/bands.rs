//! A tensor's spectrum by frequency, one small plot per tensor.

use std::fmt::Write;

use super::colour;
use super::panel::{Frame, PANEL, Panel, heading, legend};
use super::scale::Scale;
use crate::html::text;

const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 38.0;
const BASE: f64 = 158.0;

/// One line of a spectrum.
pub(crate) struct Bands<'a> {
    /// Whose it is.
    pub(crate) who: String,
    /// How it is drawn.
    pub(crate) kind: Kind,
    /// Magnitudes from the lowest to the highest band.
    pub(crate) magnitudes: &'a [f32],
}

/// Whose spectrum it is, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The generic model at the first evaluation.
    Before,
    /// The generic model's after it.
    Generic,
    /// A personal model's after it.
    Personal,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Generic => "generic",
            Self::Personal => "thin",
        }
    }
}

/// A tensor's spectra on logarithmic axes, in the colour of a method; nothing if none has a positive figure.
pub(crate) fn bands(layer: &str, slot: usize, lines: &[Bands<'_>]) -> Option<Panel> {
    let figures = || {
        let all = lines.iter().flat_map(|line| line.magnitudes).map(|&band| f64::from(band));
        all.filter(|band| *band > 0.0 && band.is_finite())
    };
    let low = figures().min_by(f64::total_cmp)?;
    let high = figures().max_by(f64::total_cmp)?;
    // At least half a decade, so that noise does not look like structure.
    let widen = (3.0 / (high / low)).max(1.0).sqrt();
    let right = PANEL - 6.0;
    let frame = Frame {
        x: Scale::linear(0.0, 1.0, LEFT, right),
        y: Scale::logarithmic(low / widen, high * widen, BASE, TOP),
        left: LEFT,
        right,
        base: BASE,
    };
    let mut body = String::new();
    heading(&mut body, layer, None, "");
    let ticks: Vec<_> = frame.y.ticks(4);
    frame.rows(&mut body, &ticks);
    frame.columns(&mut body, &[]);
    let _ = write!(body, "<g class=\"{}\">", colour(slot));
    for kind in [Kind::Before, Kind::Personal, Kind::Generic] {
        for line in lines.iter().filter(|line| line.kind == kind) {
            line_of(&mut body, &frame, line);
        }
    }
    let _ = write!(
        body,
        "</g><text x=\"{LEFT}\" y=\"{0:.1}\">low</text>\
         <text class=\"left\" x=\"{right}\" y=\"{0:.1}\">high</text>",
        BASE + 17.0
    );
    frame.caption(&mut body, 17.0, "frequency");
    let says = format!("{layer}: magnitude by frequency, generic and personal models");
    Some(Panel::new(PANEL, HEIGHT, says, body))
}

fn line_of(body: &mut String, frame: &Frame, line: &Bands<'_>) {
    let number = line.magnitudes.len() as f64;
    let points =
        line.magnitudes.iter().enumerate().filter(|(_, band)| **band > 0.0 && band.is_finite());
    let points: Vec<(f64, f64)> =
        points.map(|(place, &band)| ((place as f64 + 0.5) / number, f64::from(band))).collect();
    let (class, who) = (line.kind.class(), text(&line.who));
    let _ = match points.as_slice() {
        // A line needs two points; a lone one would leave no trace.
        [(x, y)] => write!(
            body,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{who}</title></circle>",
            frame.x.place(*x),
            frame.y.place(*y)
        ),
        several => write!(
            body,
            "<path class=\"{class}\" d=\"{}\"><title>{who}</title></path>",
            frame.path(several.iter().copied())
        ),
    };
}

/// What the lines are.
pub(crate) fn bands_legend(slot: usize, first: Option<&str>, clients: &str) -> Panel {
    let mark = |kind: Kind| {
        format!(
            "<g class=\"{}\"><path class=\"{}\" d=\"M0 0H24\"/></g>",
            colour(slot),
            kind.class()
        )
    };
    let before = first.map(|first| (mark(Kind::Before), format!("generic model {first}")));
    let mut entries: Vec<(String, &str)> =
        before.iter().map(|(mark, first)| (mark.clone(), first.as_str())).collect();
    entries.extend([
        (mark(Kind::Generic), "generic model at the end"),
        (mark(Kind::Personal), "personal models at the end"),
        (String::new(), clients),
    ]);
    legend(&entries)
}
