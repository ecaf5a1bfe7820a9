//! Plots as SVG.
//!
//! A plot only says what is what by class; colours and fonts live in its style sheet, which a page has
//! once and a plot that stands alone carries along ([`standalone`]). Every plot bounds what it draws, so
//! that neither thousands of clients nor thousands of rounds make a report that a browser cannot open.

mod bands;
mod bars;
mod curve;
mod heat;
mod lines;
mod marker;
mod palette;
mod panel;
mod ranked;
mod reliability;
mod scale;
mod strip;
mod terms;
mod timeline;
mod values;
mod whisker;

pub(crate) use bands::{Bands, Kind, bands, bands_legend};
pub(crate) use bars::bars;
pub(crate) use curve::{Curve, Point};
pub(crate) use heat::Heat;
pub(crate) use lines::{Axes, Measure, lines};
pub(crate) use marker::marker;
pub(crate) use palette::{DARK, LIGHT, declarations};
pub(crate) use panel::{PANEL, Panel, mosaic};
pub(crate) use ranked::{BARS, Ranked, ranked};
pub(crate) use reliability::{Sure, reliability};
pub(crate) use strip::{DOTS, Strip, strips};
pub(crate) use terms::terms;
pub(crate) use timeline::timeline;
pub(crate) use values::{Band, Place, Values, values};
pub(crate) use whisker::{Whisker, whiskers};

use crate::html::text;

/// The style of all plots, with the names of colours.
pub(crate) const STYLE: &str = include_str!("plot/style.css");

/// How many colours the style sheet knows, `s0` and up.
pub(crate) const COLOURS: usize = 8;

/// What fonts plots that stand alone ask for, the usual ones first.
const FONTS: &str = "svg { font-family: Helvetica, Arial, \"Liberation Sans\", \"DejaVu Sans\", \
                     sans-serif; font-size: 12px; }\n";

/// The classes that give a method its colour, and a dash beyond the last colour.
pub(crate) fn colour(slot: usize) -> String {
    let again = if slot >= COLOURS { " again" } else { "" };
    format!("s{}{again}", slot % COLOURS)
}

/// How every plot begins. [`standalone`] reads the sizes again.
const OPENING: &str = "<svg viewBox=\"0 0 ";

/// Opens an SVG that scales with the page and says aloud what it shows. It ends with `</svg>`.
pub(crate) fn open(width: f64, height: f64, says: &str) -> String {
    format!("{OPENING}{width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">", text(says))
}

/// A plot of a page as a file of its own: with its size, its style and white paper below it.
pub(crate) fn standalone(plot: &str) -> String {
    let after = plot.strip_prefix(OPENING).unwrap_or(plot);
    let (opening, content) = after.split_once('>').unwrap_or((after, ""));
    let (size, rest) = opening.split_once('"').unwrap_or((opening, ""));
    let (width, height) = size.split_once(' ').unwrap_or((size, size));
    let style = palette::resolved(STYLE, LIGHT);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {size}\"{rest}>\n<style>\n{FONTS}{style}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{content}\n"
    )
}

/// How wide plots are that stand beside each other, in pixels of their own.
pub(crate) const HALF: f64 = 480.0;

/// How wide plots are that have a line of the page for themselves.
pub(crate) const FULL: f64 = 760.0;

/// Whether a plot is too wide for a small screen.
pub(crate) fn is_wide(plot: &str) -> bool {
    let size = plot.strip_prefix(OPENING).and_then(|rest| rest.split(' ').next());
    size.and_then(|width| width.parse().ok()).is_some_and(|width: f64| width > HALF)
}

/// Width of a label in a plot's 12-pixel font, generously: fonts that stand in for others are wider.
pub(crate) fn label_width(label: &str) -> f64 {
    unicode_width::UnicodeWidthStr::width(label) as f64 * 7.4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_stands_alone_with_its_size_and_colours() {
        let svg =
            standalone(&format!("{}<path class=\"line\"/></svg>", open(480.0, 300.0, "a > b")));
        let opening = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"480\" height=\"300\" \
                       viewBox=\"0 0 480 300\" role=\"img\" aria-label=\"a &gt; b\">";
        assert!(svg.starts_with(opening), "{svg}");
        assert!(svg.contains("<path class=\"line\"/></svg>") && !svg.contains("var("), "{svg}");
    }
}
