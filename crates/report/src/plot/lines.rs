//! A figure over rounds, seconds or bytes, one line per method.

use std::fmt::Write;

use super::curve::{Curve, Point};
use super::marker::marker;
use super::scale::{Scale, round_step};
use super::{COLOURS, HALF, colour, label_width, open};
use crate::html::text;
use crate::quantity::{percent, shortened};

const LEFT: f64 = 76.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
const LABEL_GAP: f64 = 15.0;
/// From the end of the axis to a label: a bend, and the method's marker.
const BESIDE: f64 = 26.0;

/// What a plot is of.
pub(crate) struct Axes<'a> {
    /// What the horizontal axis is called.
    pub(crate) x: &'a str,
    /// Whether it counts, so that there is nothing between whole numbers.
    pub(crate) whole: bool,
    /// What the vertical axis is called.
    pub(crate) y: &'a str,
    /// What it measures.
    pub(crate) measure: Measure,
}

/// What the vertical axis measures.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// Fractions, written as percentages. The frame is fitted to what comes after the first fifth
    /// of the rounds: the steep start would take all the room from where methods differ.
    Accuracy,
    /// Losses, on a logarithmic axis if they span orders of magnitude.
    Loss,
}

impl Measure {
    /// A figure as people read it.
    pub(crate) fn written(self, value: f64) -> String {
        match self {
            Self::Accuracy => percent(value),
            Self::Loss => format!("{value:.4}"),
        }
    }
}

/// The plot, or nothing if no curve has a point. `says` is its spoken description.
pub(crate) fn lines(says: &str, axes: &Axes<'_>, curves: &[Curve]) -> Option<String> {
    let drawn = |curve: &&Curve| curve.points.iter().any(|point| point.figure().is_some());
    let curves: Vec<&Curve> = curves.iter().filter(drawn).collect();
    let places = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.x));
    let (first, last) = (places().min_by(f64::total_cmp)?, places().max_by(f64::total_cmp)?);

    // Many lines need more height, and their labels less width.
    let crowded = curves.len() > COLOURS;
    let least = if crowded { 380.0_f64 } else { 310.0 };
    let height = least.max(TOP + BOTTOM + curves.len() as f64 * LABEL_GAP);
    let letters = if crowded { 15 } else { 20 };
    let labels: Vec<String> = curves.iter().map(|curve| label(curve, letters)).collect();
    let margin = labels.iter().map(|label| label_width(label)).fold(40.0, f64::max) + BESIDE + 4.0;
    let (right, base) = (HALF - margin, height - BOTTOM);
    // Time and traffic begin at nothing, so that their ratios can be seen; rounds where the curves do.
    let first = if axes.whole { first } else { first.min(0.0) };
    let x = Scale::linear(first, last, LEFT, right);
    let y = vertical(axes.measure, &curves, base);

    let mut svg = open(HALF, height, says);
    frame(&mut svg, (&x, &y), axes, (right, base));
    let end = |curve: &&Curve| curve.end(&x, &y).unwrap_or((LEFT, TOP));
    let ends: Vec<(f64, f64)> = curves.iter().map(end).collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let heights = spread(&wanted, TOP, base);
    for (((curve, label), &end), label_y) in curves.iter().zip(&labels).zip(&ends).zip(heights) {
        let aside = if curve.aside { " aside" } else { "" };
        let _ = write!(
            svg,
            "<g class=\"{}{aside}\"><title>{}</title>",
            colour(curve.slot),
            text(&curve.name)
        );
        // An inner SVG clips what lies outside of the frame, which a round cap may overlap a little.
        let (width, tall) = (right - LEFT + 12.0, base - TOP + 6.0);
        let frame = format!("{:.1} {:.1} {width:.1} {tall:.1}", LEFT - 6.0, TOP - 6.0);
        let _ = write!(
            svg,
            "<svg x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{tall:.1}\" \
             viewBox=\"{frame}\">",
            LEFT - 6.0,
            TOP - 6.0
        );
        curve.draw(&mut svg, &x, &y);
        svg.push_str("</svg>");
        lead(&mut svg, curve.slot, end, (right, label_y), label);
        curve.tips(&mut svg, &x, &y, |value| match axes.measure {
            Measure::Accuracy => format!("{} %", percent(value)),
            Measure::Loss => axes.measure.written(value),
        });
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// From a line's end to its name, with its marker.
fn lead(svg: &mut String, slot: usize, end: (f64, f64), (right, y): (f64, f64), label: &str) {
    let far = if end.0 + 1.0 < right { " far" } else { "" };
    let (bend, at) = (right + 6.0, right + 18.0);
    let _ = write!(
        svg,
        "<path class=\"lead{far}\" d=\"M{:.1} {:.1}H{bend:.1}L{:.1} {y:.1}\"/>\
         <path class=\"mark\" d=\"{}\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        end.0,
        end.1,
        at - 3.0,
        marker(slot, (at, y), 3.4),
        right + BESIDE,
        y + 4.0,
        text(label)
    );
}

fn label(curve: &Curve, letters: usize) -> String {
    let name = shortened(&curve.name, letters);
    if curve.aside { format!("({name})") } else { name }
}

fn vertical(measure: Measure, curves: &[&Curve], base: f64) -> Scale {
    let (low, high) = match measure {
        Measure::Accuracy => accuracies(curves),
        Measure::Loss => {
            let (low, high) = extent(curves.iter().flat_map(|curve| &curve.points));
            if low > 0.0 && high / low > 50.0 {
                return Scale::logarithmic(low, high, base, TOP);
            }
            let step = round_step(((high - low) / 5.0).max(1e-6));
            ((low / step).floor() * step, (high / step).ceil() * step)
        }
    };
    Scale::linear(low, high, base, TOP)
}

fn accuracies(curves: &[&Curve]) -> (f64, f64) {
    let settled = |curve: &Curve| match curve.points.len() {
        // Two or three figures are shown whole; of some more, all but the untrained model's.
        0..4 => 0,
        4..10 => usize::from(curve.points[0].round == 0),
        many => many / 5,
    };
    let (low, high) = extent(curves.iter().flat_map(|curve| &curve.points[settled(curve)..]));
    let (low, high) = (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
    let step = round_step((high - low).max(0.02) / 5.0);
    (((low / step).floor() * step).max(0.0), ((high / step).ceil() * step).min(1.0))
}

/// The lowest and the highest figure; the whole range of fractions if there is none.
fn extent<'p>(points: impl Iterator<Item = &'p Point>) -> (f64, f64) {
    let ends = points
        .filter_map(Point::extent)
        .reduce(|ends, (low, high)| (ends.0.min(low), ends.1.max(high)));
    ends.unwrap_or((0.0, 1.0))
}

fn frame(svg: &mut String, (x, y): (&Scale, &Scale), axes: &Axes<'_>, (right, base): (f64, f64)) {
    svg.push_str("<g class=\"axis\">");
    for (value, written) in y.ticks(7) {
        let written = match axes.measure {
            Measure::Accuracy => percent(value).trim_end_matches(".0").to_owned(),
            Measure::Loss => written,
        };
        let at = y.place(value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right:.1}\"/>\
             <text class=\"left\" x=\"{:.1}\" y=\"{:.1}\">{written}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let ticks = x.ticks(5).into_iter().filter(|(value, _)| !axes.whole || value.fract() == 0.0);
    for (value, written) in ticks {
        let at = x.place(value);
        let written = if axes.whole { written.trim_end_matches(".0") } else { &written };
        let _ = write!(
            svg,
            "<path d=\"M{at:.1} {base:.1}v5\"/>\
             <text class=\"below\" x=\"{at:.1}\" y=\"{:.1}\">{written}</text>",
            base + 19.0
        );
    }
    let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, base));
    let _ = write!(
        svg,
        "<path d=\"M{LEFT} {base:.1}H{right:.1}\"/>\
         <text class=\"below title\" x=\"{middle_x:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"below title\" transform=\"translate(12 {middle_y:.1}) rotate(-90)\">{}</text>\
         </g>",
        base + 38.0,
        text(axes.x),
        text(axes.y)
    );
}

/// Moves labels apart so that none covers another, each as near to its wish as that allows.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    let mut heights = wanted.to_vec();
    let mut lowest = top;
    for &place in &order {
        heights[place] = heights[place].max(lowest);
        lowest = heights[place] + LABEL_GAP;
    }
    let mut highest = bottom;
    for &place in order.iter().rev() {
        heights[place] = heights[place].min(highest);
        highest = heights[place] - LABEL_GAP;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: Vec<(usize, Option<f64>)>) -> Curve {
        let point = |(round, value)| Point { round, x: round as f64, value, band: None };
        let points = points.into_iter().map(point).collect();
        Curve { name: "FedAvg".to_owned(), slot: 0, aside: false, points, best: None }
    }

    fn drawn(measure: Measure, curves: &[Curve]) -> Option<String> {
        lines("says", &Axes { x: "round", whole: true, y: "y", measure }, curves)
    }

    #[test]
    fn labels_that_want_the_same_place_are_moved_apart_within_the_plot() {
        let heights = spread(&[100.0, 100.0, 20.0, 101.0], 14.0, 110.0);
        let mut sorted = heights.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_GAP), "{heights:?}");
        assert!(sorted[0] >= 14.0 && sorted[3] <= 110.0, "{heights:?}");
        assert_eq!(heights[2], 20.0, "a label with room stays where it wants to be");
    }

    #[test]
    fn a_diverged_stretch_leaves_a_gap() {
        let gap = curve(vec![(1, Some(1.0)), (2, Some(0.8)), (3, None), (4, Some(2.0))]);
        let svg = drawn(Measure::Loss, &[gap]).unwrap();
        let path = svg.split("class=\"line\" d=\"").nth(1).unwrap();
        assert_eq!(path.split('"').next().unwrap().matches('M').count(), 2);
    }

    #[test]
    fn the_frame_fits_a_long_run_after_its_steep_start() {
        let accuracy = |round: usize| 0.8 - 0.7 * (-(round as f64) / 2.0).exp();
        let long = curve((0..=50).map(|round| (round, Some(accuracy(round)))).collect());
        let (low, high) = accuracies(&[&long]);
        assert!(low > 0.7 && high >= accuracy(50), "{low} {high}");
        let short = curve(vec![(0, Some(0.1)), (1, Some(0.8))]);
        assert_eq!(accuracies(&[&short]), (0.0, 0.8));
        let some = curve((0..=5).map(|round| (round, Some(accuracy(round)))).collect());
        assert!(accuracies(&[&some]).0 >= 0.3, "the untrained model is beyond the frame");
    }

    #[test]
    fn the_frame_holds_the_band() {
        let mut wide = curve((0..20).map(|round| (round, Some(0.5))).collect());
        wide.points[19].band = Some((0.31, 0.69));
        let (low, high) = accuracies(&[&wide]);
        assert!(low <= 0.31 && high >= 0.69, "{low} {high}");
    }

    #[test]
    fn a_single_evaluation_is_a_visible_point() {
        let point = curve(vec![(0, None), (1, Some(0.5))]);
        let svg = drawn(Measure::Accuracy, &[point]).unwrap();
        let inner = svg.split("class=\"line\"").nth(1).unwrap().split("</svg>").next().unwrap();
        assert_eq!(inner.matches("class=\"mark\"").count(), 1);
    }

    #[test]
    fn nothing_to_show_is_no_plot() {
        let empty = [curve(vec![]), curve(vec![(1, None)]), curve(vec![(1, Some(1e200))])];
        assert!(drawn(Measure::Loss, &empty).is_none());
    }
}
