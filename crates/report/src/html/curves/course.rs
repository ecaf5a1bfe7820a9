//! The course of a method over one or several runs, taken from the logs.

use super::axis::{Axis, Moment};
use crate::plot::{Curve, Point};
use crate::scoreboard::names;
use crate::{MethodLog, Row, RunLog};

/// What a plot shows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shown {
    /// The generic model's score.
    Gm,
    /// The personal models' score, weighted by local test sizes.
    Pm,
    /// The mean loss of the shared phases.
    Loss,
}

impl Shown {
    /// For names of files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gm => "gm",
            Self::Pm => "pm",
            Self::Loss => "loss",
        }
    }

    fn moment(self) -> Moment {
        match self {
            Self::Gm => Moment::Gm,
            Self::Pm => Moment::Pm,
            Self::Loss => Moment::Closed,
        }
    }

    /// Round and figure, by ascending round; absent where the method had diverged.
    fn figures(self, method: &MethodLog) -> Vec<(usize, Option<f64>)> {
        let evaluations = method.evaluations.iter();
        let rounds = method.rounds.iter();
        match self {
            Self::Gm => evaluations.map(|(&round, found)| (round, found.gm)).collect(),
            Self::Pm => evaluations.map(|(&round, found)| (round, found.pm)).collect(),
            Self::Loss => rounds
                .filter(|(_, round)| round.shared.losses > 0 || round.shared.diverged > 0)
                .map(|(&number, round)| (number, round.shared.mean_loss()))
                .collect(),
        }
    }
}

/// One curve for every method of the first log.
pub(super) fn curves(logs: &[RunLog], rows: &[Row], shown: Shown, axis: &Axis) -> Vec<Curve> {
    let named = names(rows).into_iter().zip(rows).enumerate();
    let curve = |(slot, (name, row)): (usize, (String, &Row))| {
        let runs = logs.iter().filter_map(|log| {
            let method = log.methods.iter().find(|method| method.info.label == row.label)?;
            let points = points(method, shown, axis);
            (!points.is_empty()).then_some(points)
        });
        let (aside, best) = match shown {
            Shown::Gm => (!row.generic, row.best_round_gm),
            Shown::Pm => (!row.personal, row.best_round_pm),
            Shown::Loss => (false, None),
        };
        let points = mean(runs.collect());
        let standing = !axis.is_rounds() && points.iter().all(|point| point.x == 0.0);
        // Figures above each other would be a wall; the last one says what is had for nothing.
        let points = if standing { points.last().copied().into_iter().collect() } else { points };
        Curve { name, slot, aside, points, best: best.filter(|_| logs.len() == 1) }
    };
    named.map(curve).collect()
}

fn points(method: &MethodLog, shown: Shown, axis: &Axis) -> Vec<Point> {
    let places = axis.places(method);
    let point = |(round, value)| {
        let x = places.of(method, round, shown.moment());
        Point { round, x, value, band: None }
    };
    shown.figures(method).into_iter().map(point).collect()
}

/// The mean of the runs that have begun, at the rounds that all of them have.
pub(in crate::html) fn mean(runs: Vec<Vec<Point>>) -> Vec<Point> {
    if runs.len() < 2 {
        return runs.into_iter().next().unwrap_or_default();
    }
    let (first, others) = (&runs[0], &runs[1..]);
    let common = first.iter().filter_map(|point| {
        let of = |run: &Vec<Point>| {
            let found = run.binary_search_by_key(&point.round, |point| point.round);
            found.ok().map(|place| run[place])
        };
        let same: Vec<Point> = others.iter().map(of).collect::<Option<_>>()?;
        let all = || std::iter::once(*point).chain(same.iter().copied());
        let number = runs.len() as f64;
        let values: Option<Vec<f64>> = all().map(|point| point.value).collect();
        let spread = values.map(|values| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (values.iter().sum::<f64>() / number, (low, high))
        });
        Some(Point {
            round: point.round,
            x: all().map(|point| point.x).sum::<f64>() / number,
            value: spread.map(|(mean, _)| mean),
            band: spread.map(|(_, band)| band),
        })
    });
    common.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(usize, Option<f64>)]) -> Vec<Point> {
        let point = |&(round, value)| Point { round, x: round as f64 * 2.0, value, band: None };
        values.iter().map(point).collect()
    }

    #[test]
    fn seeds_are_averaged_where_all_have_got_to() {
        let one = run(&[(0, Some(0.1)), (2, Some(0.5)), (4, Some(0.9)), (6, Some(1.0))]);
        let two = run(&[(0, Some(0.1)), (2, None), (4, Some(0.7))]);
        let found = mean(vec![one.clone(), two]);
        let shown: Vec<_> = found.iter().map(|p| (p.round, p.x, p.value, p.band)).collect();
        assert_eq!(shown[0], (0, 0.0, Some(0.1), Some((0.1, 0.1))));
        assert_eq!(shown[1], (2, 4.0, None, None), "one of them has no figure");
        assert_eq!(shown[2], (4, 8.0, Some(0.8), Some((0.7, 0.9))));
        assert_eq!(shown.len(), 3, "the second run has not got to round 6");
        assert_eq!(mean(vec![one.clone()]), one);
    }
}
