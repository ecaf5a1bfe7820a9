//! Differences with their intervals: a dot and a whisker per method.

use std::fmt::Write;

use super::scale::{Scale, round_step};
use super::{colour, label_width, open};
use crate::html::text;
use crate::quantity::shortened;

const WIDTH: f64 = super::HALF;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 46.0;
const LINE: f64 = 30.0;
const RIGHT: f64 = 22.0;

/// One method against another, in percentage points.
pub(crate) struct Whisker {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour is its own in all plots.
    pub(crate) slot: usize,
    /// Whether its figures are in parentheses in the table.
    pub(crate) aside: bool,
    /// The difference.
    pub(crate) mean: f64,
    /// Where it may lie.
    pub(crate) interval: Option<(f64, f64)>,
    /// All of it in words.
    pub(crate) says: String,
}

/// The plot, or nothing if there is no difference to draw.
pub(crate) fn whiskers(says: &str, axis: &str, drawn: &[Whisker]) -> Option<String> {
    let (low, high) = range(drawn)?;
    let label = |whisker: &Whisker| {
        let name = shortened(&whisker.name, 22);
        if whisker.aside { format!("({name})") } else { name }
    };
    let left = drawn.iter().map(|w| label_width(&label(w))).fold(40.0, f64::max) + 18.0;
    let (right, base) = (WIDTH - RIGHT, TOP + LINE * drawn.len() as f64);
    let x = Scale::linear(low, high, left, right);
    let mut svg = open(WIDTH, base + BOTTOM, says);
    svg.push_str("<g class=\"axis\">");
    for (value, written) in x.ticks(5) {
        let (at, below) = (x.place(value), base + 18.0);
        let class = if value == 0.0 { "base" } else { "grid" };
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{at:.1} {TOP}V{base:.1}\"/>\
             <text class=\"below\" x=\"{at:.1}\" y=\"{below:.1}\">{written}</text>"
        );
    }
    let (middle, below) = (f64::midpoint(left, right), base + 38.0);
    let _ = write!(
        svg,
        "<text class=\"below title\" x=\"{middle:.1}\" y=\"{below:.1}\">{}</text></g>",
        text(axis)
    );
    for (place, whisker) in drawn.iter().enumerate() {
        let y = TOP + LINE * (place as f64 + 0.5);
        let (name_x, name_y, at) = (left - 10.0, y + 4.0, x.place(whisker.mean));
        let _ = write!(
            svg,
            "<g class=\"{}\"><title>{}</title>\
             <text class=\"name left\" x=\"{name_x:.1}\" y=\"{name_y:.1}\">{}</text>",
            colour(whisker.slot),
            text(&whisker.says),
            text(&label(whisker))
        );
        if let Some((low, high)) = whisker.interval {
            let (from, to, up, down) = (x.place(low), x.place(high), y - 5.0, y + 5.0);
            let _ = write!(
                svg,
                "<path class=\"whisker\" d=\"M{from:.1} {y:.1}H{to:.1}M{from:.1} {up:.1}V{down:.1}\
                 M{to:.1} {up:.1}V{down:.1}\"/>"
            );
        }
        let _ = write!(svg, "<circle class=\"lone\" cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"4.5\"/></g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// All whiskers and the zero that they are read against.
fn range(drawn: &[Whisker]) -> Option<(f64, f64)> {
    let ends = drawn.iter().flat_map(|w| {
        let (low, high) = w.interval.unwrap_or((w.mean, w.mean));
        [low, high, w.mean]
    });
    let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
    if ends.is_empty() {
        return None;
    }
    let low = ends.iter().copied().fold(0.0, f64::min);
    let high = ends.iter().copied().fold(0.0, f64::max);
    let step = round_step((high - low).max(0.2) / 6.0);
    Some(((low / step).floor() * step, (high / step).ceil() * step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whisker(mean: f64, interval: Option<(f64, f64)>) -> Whisker {
        let name = "<Ditto>".to_owned();
        Whisker { name, slot: 1, aside: true, mean, interval, says: "so much".to_owned() }
    }

    #[test]
    fn a_whisker_reaches_from_end_to_end_and_zero_is_always_there() {
        let drawn = [whisker(2.0, Some((1.0, 3.0))), whisker(2.5, None)];
        let svg = whiskers("x", "points", &drawn).unwrap();
        assert_eq!(svg.matches("class=\"whisker\"").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("(&lt;Ditto&gt;)") && svg.contains(">0<") && svg.contains(">3<"));
        assert_eq!(range(&drawn), Some((0.0, 3.0)));
    }

    #[test]
    fn nothing_to_compare_is_no_plot() {
        assert!(whiskers("x", "x", &[]).is_none());
        assert!(whiskers("x", "x", &[whisker(f64::NAN, None)]).is_none());
    }
}
