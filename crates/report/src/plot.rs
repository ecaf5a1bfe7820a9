//! Plots as inline SVG.
//!
//! Colours, fonts and dark mode live in the page's style sheet; the SVG only says what is what by
//! class. Every plot bounds what it draws, so that neither thousands of clients nor thousands of
//! rounds make a report that a browser cannot open.

mod bars;
mod lines;
mod scale;
mod strip;
mod values;

pub(crate) use bars::bars;
pub(crate) use lines::{Curve, Measure, lines};
pub(crate) use strip::{DOTS, Strip, strips};
pub(crate) use values::{Band, Place, Values, values};

use crate::html::text;

/// How many colours the style sheet knows, `s0` and up.
pub(crate) const COLOURS: usize = 8;

/// The classes that give a method its colour, and a dash beyond the last colour.
fn colour(slot: usize) -> String {
    let again = if slot >= COLOURS { " again" } else { "" };
    format!("s{}{again}", slot % COLOURS)
}

/// Opens an SVG that scales with the page and says aloud what it shows.
fn open(width: f64, height: f64, says: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
        text(says)
    )
}

/// Width of a label in the page's 12-pixel font, generously.
fn label_width(label: &str) -> f64 {
    unicode_width::UnicodeWidthStr::width(label) as f64 * 6.5
}
