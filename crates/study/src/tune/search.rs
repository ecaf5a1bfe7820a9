//! A pattern search on a lattice: neighbours are tried key by key, whatever is better is moved to, and the end is
//! reached when every neighbour of the best has been tried, or nothing may be tried any more.
//!
//! What is left of the budget then goes into half steps between the neighbours of the best, once.

use super::space::{Point, Space};
use serde::{Deserialize, Serialize};

/// What became of a setting.
pub(super) enum Tried<W> {
    /// It was run, and is worth so much.
    Worth(W),
    /// There is no such setting: the key's range ends before it.
    Refused,
    /// It was asked to stop.
    Interrupted,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found<W> {
    /// The best setting.
    pub(super) point: Point,
    pub(super) worth: W,
    /// Settings that were run.
    pub(super) settings: usize,
    /// Keys along which the best has a neighbour that nobody has tried, or none in its list.
    pub(super) open: Vec<Open>,
    /// Whether half steps were tried too.
    pub(super) refined: bool,
}

/// A key along which something better may lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// The key.
    pub key: String,
    /// Why it is not known.
    pub why: Why,
}

/// Why a search knows no neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The budget was spent before the neighbour was tried.
    Budget,
    /// The list of values ends at the best.
    EndOfList,
}

/// Searches with at most so many settings. None if it was interrupted.
pub(super) fn search<W: Clone, E>(
    mut space: Space,
    budget: usize,
    beats: impl Fn(&W, &W) -> bool,
    evaluate: &mut dyn FnMut(&Space, &Point) -> Result<Tried<W>, E>,
) -> Result<Option<Found<W>>, E> {
    let start = space.start();
    let worth = match evaluate(&space, &start)? {
        Tried::Worth(worth) => worth,
        Tried::Refused | Tried::Interrupted => return Ok(None),
    };
    let mut seen = Seen {
        points: vec![start.clone()],
        settings: 1,
        best: start,
        worth,
        budget: budget.max(1),
    };
    if !seen.climb(&mut space, &beats, evaluate)? {
        return Ok(None);
    }
    let mut open = seen.open(&mut space);
    let (mut refined, is_open) = (false, |open: &Open| open.why == Why::Budget);
    if !open.iter().any(is_open) && seen.settings < seen.budget {
        // What is known of the whole steps stays true: half steps lead nowhere else than between them.
        open.retain(|open| !is_open(open));
        space.refine_around(&seen.best.clone());
        let before = seen.settings;
        if !seen.climb(&mut space, &beats, evaluate)? {
            return Ok(None);
        }
        refined = seen.settings > before;
    }
    let Seen { settings, best, worth, .. } = seen;
    Ok(Some(Found { point: best, worth, settings, open, refined }))
}

/// What was tried so far.
struct Seen<W> {
    /// All settings that were tried, the refused ones too.
    points: Vec<Point>,
    /// How many were run.
    settings: usize,
    best: Point,
    worth: W,
    budget: usize,
}

impl<W: Clone> Seen<W> {
    /// Moves to better neighbours as long as there are some and the budget lasts; whether it was not interrupted.
    fn climb<E>(
        &mut self,
        space: &mut Space,
        beats: &impl Fn(&W, &W) -> bool,
        evaluate: &mut dyn FnMut(&Space, &Point) -> Result<Tried<W>, E>,
    ) -> Result<bool, E> {
        let mut moved = true;
        while moved {
            moved = false;
            for place in 0..space.0.len() {
                for direction in 0..space.0[place].directions() {
                    // On in one direction for as long as that is better.
                    while let Some(next) = self.untried(space, place, direction) {
                        if self.settings == self.budget {
                            return Ok(true);
                        }
                        let tried = evaluate(space, &next)?;
                        self.points.push(next.clone());
                        let worth = match tried {
                            Tried::Interrupted => return Ok(false),
                            Tried::Refused => break,
                            Tried::Worth(worth) => worth,
                        };
                        self.settings += 1;
                        if !beats(&worth, &self.worth) {
                            break;
                        }
                        (self.best, self.worth, moved) = (next, worth, true);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The neighbour of the best in a direction, unless it was tried.
    fn untried(&self, space: &mut Space, place: usize, direction: usize) -> Option<Point> {
        let value = space.0[place].next(&self.best[place], direction)?;
        let mut point = self.best.clone();
        point[place] = value;
        (!self.points.contains(&point)).then_some(point)
    }

    fn open(&self, space: &mut Space) -> Vec<Open> {
        let mut open = Vec::new();
        for place in 0..space.0.len() {
            let directions = 0..space.0[place].directions();
            let mut is_untried = |direction| self.untried(space, place, direction).is_some();
            let why = if directions.into_iter().any(&mut is_untried) {
                Why::Budget
            } else if space.0[place].is_edge(&self.best[place]) {
                Why::EndOfList
            } else {
                continue;
            };
            open.push(Open { key: space.0[place].key(), why });
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::number;
    use super::*;
    use std::collections::HashSet;

    fn space(text: &str) -> Space {
        Space::read(&text.parse().unwrap(), &[]).unwrap()
    }

    /// Searches for the greatest value of a function and counts how often it is asked.
    fn greatest(text: &str, budget: usize, f: impl Fn(&[f64]) -> Option<f64>) -> Found<f64> {
        let mut asked: HashSet<String> = HashSet::new();
        let found = search(space(text), budget, |a, b| a > b, &mut |space, point| {
            assert!(asked.insert(space.shown(point)), "nothing is tried twice");
            let numbers: Vec<f64> = point.iter().map(|v| number(v).unwrap_or(-1.0)).collect();
            Ok::<_, ()>(f(&numbers).map_or(Tried::Refused, Tried::Worth))
        });
        found.unwrap().unwrap()
    }

    /// A hill in logarithms with its top at some values.
    fn hill(tops: &[f64]) -> impl Fn(&[f64]) -> Option<f64> {
        move |x| Some(-x.iter().zip(tops).map(|(x, top)| (x / top).ln().powi(2)).sum::<f64>())
    }

    fn numbers(found: &Found<f64>) -> Vec<f64> {
        found.point.iter().filter_map(number).collect()
    }

    #[test]
    fn one_key_is_inside_after_three_settings_and_then_half_steps_are_tried() {
        let found = greatest("a = { start = 1.0, times = 3.0 }", 3, hill(&[1.1]));
        assert_eq!((numbers(&found), found.settings, found.open), (vec![1.0], 3, vec![]));
        assert!(!found.refined);
        let found = greatest("a = { start = 1.0, times = 3.0 }", 15, hill(&[1.6]));
        assert_eq!((numbers(&found), found.settings, found.open), (vec![1.73], 4, vec![]));
        assert!(found.refined);
    }

    #[test]
    fn the_lattice_goes_on_until_the_best_is_inside() {
        // 1, 3, 9, 27, 81 (worse), then down at 27: known. Then b: 1, 2 (worse), 0.5, 0.25 (worse).
        let text = "a = { start = 1.0, times = 3.0 }\nb = { start = 1.0, times = 2.0 }";
        let found = greatest(text, 9, hill(&[27.0, 0.5]));
        let open = Open { key: "a".into(), why: Why::Budget };
        assert_eq!((numbers(&found), found.open.clone()), (vec![27.0, 0.5], vec![open]));
        // The move along b has brought new neighbours along a: one more setting closes it.
        let found = greatest(text, 10, hill(&[27.0, 0.5]));
        assert_eq!((numbers(&found), found.open.clone()), (vec![27.0, 0.5], vec![]), "{found:?}");
    }

    #[test]
    fn a_spent_budget_says_along_which_keys() {
        let text = "a = { start = 1.0, times = 3.0 }\nb = { start = 1.0, times = 2.0 }";
        let found = greatest(text, 4, hill(&[27.0, 1.0]));
        assert_eq!((numbers(&found), found.settings), (vec![27.0, 1.0], 4));
        let open = |key: &str| Open { key: key.into(), why: Why::Budget };
        assert_eq!(found.open, [open("a"), open("b")]);
    }

    #[test]
    fn a_list_ends_and_says_so_unless_nothing_lies_beyond() {
        let found = greatest("a = [0.1, 0.2, 0.4]", 9, hill(&[9.0]));
        let end = Open { key: "a".into(), why: Why::EndOfList };
        assert_eq!((numbers(&found), found.open), (vec![0.4], vec![end]));
        let down = |x: &[f64]| Some(-x[0]);
        let found = greatest("a = [0.0, 0.2, 0.4]", 9, down);
        assert_eq!((numbers(&found), found.open), (vec![0.0], vec![]));
        let found =
            greatest("a = { values = [0.0, 1.0], times = 3.0, start = 1.0 }", 9, hill(&[9.0]));
        assert_eq!((numbers(&found), found.open), (vec![9.0], vec![]));
        let found = greatest("a = { start = 1.0, times = 3.0, max = 5.0 }", 9, hill(&[9.0]));
        assert_eq!((numbers(&found), found.open), (vec![5.0], vec![]), "a step ends at the bound");
        // What the experiment refuses is no setting, and none is spent on it.
        let below_two = |x: &[f64]| (x[0] < 2.0).then_some(x[0]);
        let found = greatest("a = { start = 1.0, times = 3.0 }", 2, below_two);
        assert_eq!((numbers(&found), found.settings, found.open), (vec![1.0], 2, vec![]));
    }

    #[test]
    fn words_are_all_neighbours_and_whole_numbers_stay_whole() {
        let found = greatest("a = ['x', 'y', 'z']\nb = { start = 2, times = 2 }", 20, |x| {
            Some(x[1]).filter(|b| *b < 9.0)
        });
        assert_eq!(found.point[1].as_integer(), Some(8));
        let found = greatest("b = { start = 2, times = 2 }", 20, |x| Some(-x[0]));
        assert_eq!((found.point[0].as_integer(), found.open), (Some(1), vec![]));
        let mut words = space("a = ['x', 'y', 'z']");
        let start = words.start();
        let next: Vec<_> = (0..3).map(|d| words.0[0].next(&start[0], d)).collect();
        assert!(next[0].is_none() && next[1].is_some() && next[2].is_some());
    }

    #[test]
    fn a_space_that_is_none_is_refused_with_the_reason() {
        for (text, expected) in [
            ("a = 1", "a: 1 is neither a list"),
            ("a = []", "a: it has no values"),
            ("a = { start = 1.0, times = 1.0 }", "a: `times` must be a factor above 1"),
            ("a = { start = 1.0, by = 2.0 }", "a: `by` is none of start, values"),
            ("a = { start = 'x', times = 2.0 }", "a: only numbers have a factor"),
            ("t.a = { values = [1.0], start = 2.0 }", "t.a: the start 2 is not among its values"),
        ] {
            let error = Space::read(&text.parse().unwrap(), &[]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
