//! A figure by round, one line per method.

use std::fmt::Write;

use super::scale::{Scale, round_step};
use super::{colour, label_width, open};
use crate::html::text;
use crate::quantity::{percent, shortened};

/// Points per line; more are thinned out, keeping each stretch's extremes.
const POINTS: usize = 400;
/// Points per line that show their figure under the pointer.
const TIPS: usize = 120;
/// Figures above this are as good as diverged, and would flatten everything else.
const ABSURD: f64 = 1e30;

const WIDTH: f64 = 540.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
const LABEL_GAP: f64 = 15.0;

/// One method's figures by round.
pub(crate) struct Curve {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour is its own in all plots.
    pub(crate) slot: usize,
    /// Whether its figures are in parentheses in the table.
    pub(crate) aside: bool,
    /// Round and figure, by ascending round; absent where the method had diverged.
    pub(crate) points: Vec<(usize, Option<f64>)>,
    /// The round to mark as the best.
    pub(crate) best: Option<usize>,
}

/// What the vertical axis measures.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// Fractions, written as percentages. The frame is fitted to what comes after the first fifth
    /// of the rounds: the steep start would take all the room from where methods differ.
    Accuracy,
    /// Losses, on a logarithmic axis if they span orders of magnitude.
    Loss,
}

/// The plot, or nothing if no curve has a point. `says` is its spoken description.
pub(crate) fn lines(says: &str, axis: &str, measure: Measure, curves: &[Curve]) -> Option<String> {
    lines_over("round", says, axis, measure, curves)
}

/// The same over something else that is counted, such as epochs.
pub(crate) fn lines_over(
    counted: &str,
    says: &str,
    axis: &str,
    measure: Measure,
    curves: &[Curve],
) -> Option<String> {
    let curves: Vec<&Curve> =
        curves.iter().filter(|curve| curve.points.iter().any(|p| figure(p).is_some())).collect();
    let rounds = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
    let (first, last) = (rounds().min()?, rounds().max()?);

    let height = 310.0_f64.max(TOP + BOTTOM + curves.len() as f64 * LABEL_GAP);
    let labels: Vec<String> = curves.iter().map(|curve| label(curve)).collect();
    let margin = labels.iter().map(|label| label_width(label)).fold(40.0, f64::max) + 26.0;
    let (right, base) = (WIDTH - margin, height - BOTTOM);
    let x = Scale::linear(first as f64, last as f64, LEFT, right);
    let y = vertical(measure, &curves, base);

    let mut svg = open(WIDTH, height, says);
    axes(&mut svg, &x, &y, measure, [counted, axis], (right, base));
    let ends = curves.iter().map(|curve| end(curve, &x, &y)).collect::<Vec<_>>();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let heights = spread(&wanted, TOP, base);
    for (((curve, label), &(end_x, end_y)), label_y) in
        curves.iter().zip(&labels).zip(&ends).zip(heights)
    {
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
        line(&mut svg, curve, &x, &y);
        svg.push_str("</svg>");
        let far = if end_x + 1.0 < right { " far" } else { "" };
        let (bend, label_x) = (right + 6.0, right + 18.0);
        let _ = write!(
            svg,
            "<path class=\"lead{far}\" d=\"M{end_x:.1} {end_y:.1}H{bend:.1}L{:.1} {label_y:.1}\"/>\
             <text class=\"name\" x=\"{label_x:.1}\" y=\"{:.1}\">{}</text>",
            label_x - 3.0,
            label_y + 4.0,
            text(label)
        );
        tips(&mut svg, curve, &x, &y, measure, counted);
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn figure(point: &(usize, Option<f64>)) -> Option<f64> {
    point.1.filter(|value| value.is_finite() && value.abs() < ABSURD)
}

fn label(curve: &Curve) -> String {
    let name = shortened(&curve.name, 20);
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
    let settled = |curve: &Curve| {
        // A short curve is shown whole; a long one keeps at least its end, wherever that is.
        if curve.points.len() < 10 { 0 } else { curve.points.len() / 5 }
    };
    let (low, high) = extent(curves.iter().flat_map(|curve| &curve.points[settled(curve)..]));
    let (low, high) = (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
    let step = round_step((high - low).max(0.02) / 5.0);
    (((low / step).floor() * step).max(0.0), ((high / step).ceil() * step).min(1.0))
}

/// The lowest and the highest figure; the whole range of fractions if there is none.
fn extent<'p>(points: impl Iterator<Item = &'p (usize, Option<f64>)>) -> (f64, f64) {
    let ends = points.filter_map(figure).fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    });
    ends.unwrap_or((0.0, 1.0))
}

fn axes(
    svg: &mut String,
    x: &Scale,
    y: &Scale,
    measure: Measure,
    [counted, axis]: [&str; 2],
    (right, base): (f64, f64),
) {
    svg.push_str("<g class=\"axis\">");
    for (value, written) in y.ticks(7) {
        let written = match measure {
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
    // Rounds are whole, so a short run must not get ticks between them.
    for (value, written) in x.ticks(6).into_iter().filter(|(value, _)| value.fract() == 0.0) {
        let at = x.place(value);
        let written = written.trim_end_matches(".0");
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
         <text class=\"below title\" x=\"{middle_x:.1}\" y=\"{:.1}\">{counted}</text>\
         <text class=\"below title\" transform=\"translate(14 {middle_y:.1}) rotate(-90)\">{}</text>\
         </g>",
        base + 38.0,
        text(axis)
    );
}

/// The path through all figures, broken where the method had diverged, and the best one's ring.
fn line(svg: &mut String, curve: &Curve, x: &Scale, y: &Scale) {
    let mut path = String::new();
    let mut pen_down = false;
    for point in thinned(&curve.points) {
        let Some(value) = figure(&point) else {
            pen_down = false;
            continue;
        };
        let stroke = if pen_down { 'L' } else { 'M' };
        let _ = write!(path, "{stroke}{:.1} {:.1}", x.place(point.0 as f64), y.extend(value));
        pen_down = true;
    }
    let _ = write!(svg, "<path class=\"line\" d=\"{path}\"/>");
    // A line needs two points; a lone one would leave no trace.
    let mut figures = curve.points.iter().filter_map(|point| Some((point.0, figure(point)?)));
    if let (Some((round, value)), None) = (figures.next(), figures.next()) {
        let (cx, cy) = (x.place(round as f64), y.place(value));
        let _ = write!(svg, "<circle class=\"lone\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3.5\"/>");
    }
    let best = curve.points.iter().find(|point| Some(point.0) == curve.best);
    if let Some((round, Some(value))) = best {
        let (cx, cy) = (x.place(*round as f64), y.place(*value));
        let _ = write!(svg, "<circle class=\"ring\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\"/>");
    }
}

fn tips(svg: &mut String, curve: &Curve, x: &Scale, y: &Scale, measure: Measure, counted: &str) {
    let every = curve.points.len().div_ceil(TIPS).max(1);
    for point in curve.points.iter().step_by(every) {
        let Some(value) = figure(point).filter(|&value| y.holds(value)) else { continue };
        let written = match measure {
            Measure::Accuracy => format!("{} %", percent(value)),
            Measure::Loss => format!("{value:.4}"),
        };
        let _ = write!(
            svg,
            "<circle class=\"tip\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}, {counted} {}: {written}\
             </title></circle>",
            x.place(point.0 as f64),
            y.place(value),
            text(&curve.name),
            point.0
        );
    }
}

/// Where the curve's last figure is.
fn end(curve: &Curve, x: &Scale, y: &Scale) -> (f64, f64) {
    let last = curve.points.iter().rev().find_map(|point| Some((point.0, figure(point)?)));
    last.map_or((LEFT, TOP), |(round, value)| (x.place(round as f64), y.place(value)))
}

/// All points, or of every stretch its lowest and highest, so that spikes survive.
fn thinned(points: &[(usize, Option<f64>)]) -> Vec<(usize, Option<f64>)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(POINTS + 2);
    for stretch in points.chunks(points.len().div_ceil(POINTS / 2)) {
        let order = |a: &&(usize, Option<f64>), b: &&(usize, Option<f64>)| {
            let [a, b] = [a, b].map(|point| figure(point).unwrap_or(f64::INFINITY));
            a.total_cmp(&b)
        };
        let ends = (stretch.iter().min_by(order), stretch.iter().max_by(order));
        if let (Some(low), Some(high)) = ends {
            let (former, latter) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            kept.push(*former);
            if former.0 != latter.0 {
                kept.push(*latter);
            }
        }
    }
    kept
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
        Curve { name: "FedAvg".to_owned(), slot: 0, aside: false, points, best: None }
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
    fn thousands_of_rounds_are_thinned_without_losing_the_spike() {
        let points: Vec<_> = (0..50_000)
            .map(|round| (round, Some(if round == 31_337 { 9.0 } else { 1.0 })))
            .collect();
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS + 2, "{}", kept.len());
        assert!(kept.contains(&(31_337, Some(9.0))));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn a_diverged_stretch_leaves_a_gap() {
        let gap = curve(vec![(1, Some(1.0)), (2, Some(0.8)), (3, None), (4, Some(2.0))]);
        let svg = lines("loss", "loss", Measure::Loss, &[gap]).unwrap();
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
    }

    #[test]
    fn a_single_evaluation_is_a_visible_point() {
        let point = curve(vec![(0, None), (1, Some(0.5))]);
        let svg = lines("x", "x", Measure::Accuracy, &[point]).unwrap();
        assert_eq!(svg.matches("class=\"lone\"").count(), 1);
    }

    #[test]
    fn nothing_to_show_is_no_plot() {
        let empty = [curve(vec![]), curve(vec![(1, None)]), curve(vec![(1, Some(1e200))])];
        assert!(lines("x", "x", Measure::Loss, &empty).is_none());
    }
}
