//! Small plots that stand beside each other, in the page's grid or in one figure of their own.

use std::fmt::Write;

use super::scale::Scale;
use super::{colour, open};
use crate::html::text;
use crate::quantity::shortened;

/// How wide small plots are.
pub(crate) const PANEL: f64 = 270.0;
/// Room between two of them in a figure.
const GAP: f64 = 18.0;

/// One small plot.
pub(crate) struct Panel {
    width: f64,
    height: f64,
    says: String,
    body: String,
}

impl Panel {
    /// `body` is markup within a frame of this size; `says` is what it shows, in words.
    pub(super) fn new(width: f64, height: f64, says: String, body: String) -> Self {
        Self { width, height, says, body }
    }

    /// The plot on its own.
    pub(crate) fn svg(&self) -> String {
        format!("{}{}</svg>", open(self.width, self.height, &self.says), self.body)
    }
}

/// All plots in one figure, `columns` of them in a row; nothing if there are none.
pub(crate) fn mosaic(says: &str, panels: &[Panel], columns: usize) -> Option<String> {
    let columns = columns.min(panels.len()).max(1);
    let width = panels.iter().map(|panel| panel.width).max_by(f64::total_cmp)?;
    let rows: Vec<&[Panel]> = panels.chunks(columns).collect();
    let tall = |row: &[Panel]| row.iter().map(|panel| panel.height).fold(0.0, f64::max);
    let whole = rows.iter().map(|row| tall(row) + GAP).sum::<f64>() - GAP;
    let mut svg = open(columns as f64 * (width + GAP) - GAP, whole, says);
    let mut top = 0.0;
    for row in rows {
        for (column, panel) in row.iter().enumerate() {
            let Panel { width: own, height, says, body } = panel;
            let _ = write!(
                svg,
                "<svg x=\"{:.0}\" y=\"{top:.0}\" width=\"{own:.0}\" height=\"{height:.0}\" \
                 viewBox=\"0 0 {own:.0} {height:.0}\"><title>{}</title>{body}</svg>",
                column as f64 * (width + GAP),
                text(says)
            );
        }
        top += tall(row) + GAP;
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The two lines above a small plot: what it is of, beside its colour, and its figures in words.
pub(super) fn heading(body: &mut String, name: &str, slot: Option<usize>, figures: &str) {
    let from = match slot {
        Some(slot) => {
            let _ = write!(
                body,
                "<g class=\"{}\"><path class=\"line\" d=\"M1 10H15\"/></g>",
                colour(slot)
            );
            22
        }
        None => 0,
    };
    let _ = write!(
        body,
        "<text class=\"name\" x=\"{from}\" y=\"14\">{}</text><text x=\"{from}\" y=\"30\">{}</text>",
        text(&shortened(name, 34)),
        text(figures)
    );
}

/// Where a small plot's figures are drawn.
pub(super) struct Frame {
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) base: f64,
}

impl Frame {
    /// Grid lines with the values of the vertical axis beside them.
    pub(super) fn rows(&self, body: &mut String, ticks: &[(f64, String)]) {
        let Self { left, right, .. } = self;
        body.push_str("<g class=\"axis\">");
        for (value, written) in ticks {
            let at = self.y.place(*value);
            let _ = write!(
                body,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/>\
                 <text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{written}</text>",
                left - 6.0,
                at + 4.0
            );
        }
        body.push_str("</g>");
    }

    /// The values of the horizontal axis.
    pub(super) fn columns(&self, body: &mut String, ticks: &[(f64, String)]) {
        let base = self.base;
        body.push_str("<g class=\"axis\">");
        for (value, written) in ticks {
            let at = self.x.place(*value);
            let _ = write!(
                body,
                "<path d=\"M{at:.1} {base:.1}v4\"/>\
                 <text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{written}</text>",
                base + 17.0
            );
        }
        let _ = write!(body, "<path d=\"M{} {base:.1}H{}\"/></g>", self.left, self.right);
    }

    /// What the horizontal axis measures.
    pub(super) fn caption(&self, body: &mut String, below: f64, caption: &str) {
        let _ = write!(
            body,
            "<text class=\"below title\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            f64::midpoint(self.left, self.right),
            self.base + below,
            text(caption)
        );
    }

    /// A path through points, in values.
    pub(super) fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let stroke = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{stroke}{:.1} {:.1}", self.x.place(x), self.y.place(y));
        }
        path
    }
}

/// The lines of a legend: a mark in its own markup, 24 wide and centred on height 0, and what it means.
pub(super) fn legend(entries: &[(String, &str)], height: f64) -> Panel {
    let mut body = String::new();
    for (place, (mark, meaning)) in entries.iter().enumerate() {
        let y = 26.0 + 22.0 * place as f64;
        let _ = write!(
            body,
            "<g transform=\"translate(4 {y:.0})\">{mark}</g>\
             <text class=\"name\" x=\"38\" y=\"{:.0}\">{}</text>",
            y + 4.0,
            text(meaning)
        );
    }
    let says = entries.iter().map(|entry| entry.1).collect::<Vec<_>>().join(", ");
    Panel::new(PANEL, height, format!("Legend: {says}"), body)
}
