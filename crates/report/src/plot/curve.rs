//! One method's line in a plot: its path, the band around it, markers and figures under the pointer.

use std::fmt::Write;

use super::marker::marker;
use super::scale::Scale;
use crate::html::text;

/// Points per line; more are thinned out, keeping each stretch's extremes.
const POINTS: usize = 240;
/// Points per line that show their figure under the pointer.
const TIPS: usize = 40;
/// Points per line that have a marker.
const MARKERS: usize = 5;
/// Figures above this are as good as diverged, and would flatten everything else.
const ABSURD: f64 = 1e30;

/// One method's figures.
pub(crate) struct Curve {
    /// What the plot calls it.
    pub(crate) name: String,
    /// Which colour and marker are its own in all plots.
    pub(crate) slot: usize,
    /// Whether its figures are in parentheses in the table.
    pub(crate) aside: bool,
    /// By ascending round.
    pub(crate) points: Vec<Point>,
    /// The round to mark as the best.
    pub(crate) best: Option<usize>,
}

/// A figure after a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Rounds completed.
    pub(crate) round: usize,
    /// Where it stands on the horizontal axis.
    pub(crate) x: f64,
    /// The figure, the mean over seeds if there are several; absent where the method had diverged.
    pub(crate) value: Option<f64>,
    /// The lowest and the highest of the seeds, if there are several.
    pub(crate) band: Option<(f64, f64)>,
}

impl Point {
    /// The figure, if it can be drawn.
    pub(super) fn figure(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite() && value.abs() < ABSURD)
    }

    /// All of it that is drawn.
    pub(super) fn extent(&self) -> Option<(f64, f64)> {
        let value = self.figure()?;
        Some(self.band.unwrap_or((value, value)))
    }
}

impl Curve {
    /// Where the last figure is.
    pub(super) fn end(&self, x: &Scale, y: &Scale) -> Option<(f64, f64)> {
        let last = self.points.iter().rev().find_map(|point| Some((point.x, point.figure()?)));
        last.map(|(at, value)| (x.place(at), y.place(value)))
    }

    /// Band, path, markers and the ring around the best figure.
    pub(super) fn draw(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let kept = thinned(&self.points);
        let drawn =
            kept.split(|point| point.figure().is_none()).filter(|stretch| !stretch.is_empty());
        let (mut line, mut band) = (String::new(), String::new());
        for stretch in drawn {
            path(&mut line, 'M', stretch.iter().filter_map(|p| Some((p.x, p.figure()?))), x, y);
            if stretch.iter().any(|point| point.band.is_some()) {
                let ends = || stretch.iter().filter_map(|p| Some((p.x, p.extent()?)));
                path(&mut band, 'M', ends().map(|(at, (_, high))| (at, high)), x, y);
                path(&mut band, 'L', ends().rev().map(|(at, (low, _))| (at, low)), x, y);
                band.push('z');
            }
        }
        if !band.is_empty() {
            let _ = write!(svg, "<path class=\"band\" d=\"{band}\"/>");
        }
        let _ = write!(svg, "<path class=\"line\" d=\"{line}\"/>");
        let shown: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter_map(|p| Some((x.place(p.x), y.place(p.figure().filter(|&v| y.holds(v))?))))
            .collect();
        let shapes: String = spaced(shown.len(), self.slot)
            .map(|place| marker(self.slot, shown[place], 3.0))
            .collect();
        if !shapes.is_empty() {
            let _ = write!(svg, "<path class=\"mark\" d=\"{shapes}\"/>");
        }
        let best = self.points.iter().find(|point| Some(point.round) == self.best);
        if let Some((at, value)) = best.and_then(|point| Some((point.x, point.figure()?))) {
            let (cx, cy) = (x.place(at), y.place(value));
            let _ = write!(svg, "<circle class=\"ring\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"5\"/>");
        }
    }

    /// Figures that show under the pointer.
    pub(super) fn tips(
        &self,
        svg: &mut String,
        x: &Scale,
        y: &Scale,
        written: impl Fn(f64) -> String,
    ) {
        let every = self.points.len().div_ceil(TIPS).max(1);
        for point in self.points.iter().step_by(every) {
            let Some(value) = point.figure().filter(|&value| y.holds(value)) else { continue };
            let _ = write!(
                svg,
                "<circle class=\"tip\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}, round {}: {}\
                 </title></circle>",
                x.place(point.x),
                y.place(value),
                text(&self.name),
                point.round,
                written(value)
            );
        }
    }
}

fn path(
    path: &mut String,
    first: char,
    points: impl Iterator<Item = (f64, f64)>,
    x: &Scale,
    y: &Scale,
) {
    for (place, (at, value)) in points.enumerate() {
        let stroke = if place == 0 { first } else { 'L' };
        let _ = write!(path, "{stroke}{:.1} {:.1}", x.place(at), y.extend(value));
    }
}

/// Which of some points get a marker: a few at even distances, other ones for each method, so that lines
/// on top of each other still show theirs. The only point always has one: a path would leave no trace.
fn spaced(points: usize, slot: usize) -> impl Iterator<Item = usize> {
    let count = points.min(MARKERS);
    // Halves, quarters, …: neighbours are far from each other.
    let shift = [0.0, 0.5, 0.25, 0.75, 0.125, 0.625, 0.375, 0.875][slot % 8];
    let step = points as f64 / count.max(1) as f64;
    (0..count).map(move |place| (((place as f64 + shift) * step) as usize).min(points - 1))
}

/// All points, or of every stretch its lowest and highest, so that spikes survive.
fn thinned(points: &[Point]) -> Vec<Point> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(POINTS + 2);
    for stretch in points.chunks(points.len().div_ceil(POINTS / 2)) {
        let order = |a: &&Point, b: &&Point| {
            let [a, b] = [a, b].map(|point| point.figure().unwrap_or(f64::INFINITY));
            a.total_cmp(&b)
        };
        let ends = (stretch.iter().min_by(order), stretch.iter().max_by(order));
        if let (Some(low), Some(high)) = ends {
            let (former, latter) = if low.round <= high.round { (low, high) } else { (high, low) };
            kept.push(*former);
            if former.round != latter.round {
                kept.push(*latter);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(round: usize, value: f64) -> Point {
        Point { round, x: round as f64, value: Some(value), band: None }
    }

    #[test]
    fn thousands_of_rounds_are_thinned_without_losing_the_spike() {
        let points: Vec<_> = (0..50_000)
            .map(|round| point(round, if round == 31_337 { 9.0 } else { 1.0 }))
            .collect();
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS + 2, "{}", kept.len());
        assert!(kept.contains(&point(31_337, 9.0)));
        assert!(kept.windows(2).all(|pair| pair[0].round < pair[1].round));
    }

    #[test]
    fn markers_are_few_and_at_other_places_for_other_methods() {
        let places = |points, slot| spaced(points, slot).collect::<Vec<_>>();
        assert_eq!(places(0, 3), Vec::<usize>::new());
        assert_eq!(places(1, 7), [0]);
        assert_eq!(places(50, 0), [0, 10, 20, 30, 40]);
        assert_eq!(places(50, 1), [5, 15, 25, 35, 45]);
    }

    #[test]
    fn a_band_goes_up_and_comes_back() {
        let mut points = vec![point(0, 0.5), point(1, 0.6)];
        points[0].band = Some((0.4, 0.6));
        points[1].band = Some((0.5, 0.7));
        let curve = Curve { name: "A".into(), slot: 0, aside: false, points, best: None };
        let (x, y) = (Scale::linear(0.0, 1.0, 0.0, 10.0), Scale::linear(0.0, 1.0, 0.0, 10.0));
        let mut svg = String::new();
        curve.draw(&mut svg, &x, &y);
        let band = "<path class=\"band\" d=\"M0.0 6.0L10.0 7.0L10.0 5.0L0.0 4.0z\"/>";
        assert!(svg.starts_with(band), "{svg}");
    }
}
