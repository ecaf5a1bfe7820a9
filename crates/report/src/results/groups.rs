//! Runs in the order of tables: cells, their methods, and the seeds of each.

use super::{Outcome, Results, Scores};
use crate::Spread;
use serde_json::Value;
use std::collections::BTreeMap;

/// The runs of one cell.
pub(super) struct Cell<'r> {
    /// The values of the axes, such as `α = 0.5`; empty if there are none.
    pub(super) name: String,
    pub(super) lines: Vec<Line<'r>>,
}

/// One method in one cell, with all its seeds.
pub(super) struct Line<'r> {
    pub(super) method: &'r str,
    pub(super) runs: Vec<&'r Outcome>,
}

/// Which figure of a run.
pub(super) type Pick = fn(&Scores) -> Option<f64>;

impl Results {
    /// All cells, in the order of their first runs.
    pub(super) fn cells(&self) -> Vec<Cell<'_>> {
        self.grouped(|run| self.cell_name(&run.cell))
    }

    /// Runs by a name of the cell, and by method within it.
    pub(super) fn grouped(&self, name: impl Fn(&Outcome) -> String) -> Vec<Cell<'_>> {
        let mut cells: Vec<Cell<'_>> = Vec::new();
        for run in &self.runs {
            let name = name(run);
            let place = cells.iter().position(|cell| cell.name == name).unwrap_or_else(|| {
                cells.push(Cell { name, lines: Vec::new() });
                cells.len() - 1
            });
            let lines = &mut cells[place].lines;
            match lines.iter_mut().find(|line| line.method == run.method) {
                Some(line) => line.runs.push(run),
                None => lines.push(Line { method: &run.method, runs: vec![run] }),
            }
        }
        cells
    }

    /// What tables call a cell: the axes that it has values for, in their order.
    pub fn cell_name(&self, cell: &BTreeMap<String, Value>) -> String {
        let parts = self.axes.iter().filter_map(|axis| {
            cell.get(&axis.key).map(|value| format!("{} = {}", axis.symbol, written(value)))
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The seeds, ascending.
    pub(super) fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.runs.iter().map(|run| run.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }
}

impl Line<'_> {
    /// Whether the method trains generic models.
    pub(super) fn generic(&self) -> bool {
        self.runs.iter().all(|run| run.generic)
    }

    /// Whether the method trains personal models.
    pub(super) fn personal(&self) -> bool {
        self.runs.iter().all(|run| run.personal)
    }

    /// A figure over the seeds.
    pub(super) fn spread(&self, pick: Pick) -> Spread {
        let values = self.runs.iter().map(|run| run.scores.as_ref().and_then(pick));
        Spread::of(&values.collect::<Vec<_>>())
    }

    fn by_seed(&self, pick: Pick) -> BTreeMap<u64, f64> {
        let figure = |run: &&Outcome| Some((run.seed, run.scores.as_ref().and_then(pick)?));
        self.runs.iter().filter_map(figure).collect()
    }
}

/// How a figure stands among its rivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ahead of all others by more than the noise.
    Ahead,
    /// The best, or level with it.
    Level,
    /// Behind the best, or not in the race.
    Behind,
}

/// Who is ahead by a figure, among those that compete. Differences are paired over seeds; what a t-test
/// at 95 % cannot tell from nothing is level. A single seed says nothing about noise.
pub(super) fn standings(
    lines: &[Line<'_>],
    competes: impl Fn(&Line<'_>) -> bool,
    pick: Pick,
) -> Vec<Standing> {
    let mut standings = vec![Standing::Behind; lines.len()];
    let rivals: Vec<(usize, BTreeMap<u64, f64>)> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| competes(line))
        .map(|(place, line)| (place, line.by_seed(pick)))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    let mean = |figures: &BTreeMap<u64, f64>| figures.values().sum::<f64>() / figures.len() as f64;
    let metric = lines.first().and_then(|line| line.runs.first()).map(|run| run.metric);
    let (Some(metric), true) = (metric, rivals.len() > 1) else { return standings };
    let best = rivals.iter().min_by(|a, b| metric.order(mean(&a.1), mean(&b.1)));
    let Some((first, best)) = best else { return standings };
    if rivals.iter().any(|(_, figures)| figures.len() < 2) {
        return standings;
    }
    let level: Vec<usize> = rivals
        .iter()
        .filter(|(place, figures)| place == first || !differ(best, figures))
        .map(|(place, _)| *place)
        .collect();
    // Where nobody is behind, nobody is ahead.
    if level.len() < rivals.len() {
        let standing = if level.len() == 1 { Standing::Ahead } else { Standing::Level };
        for place in level {
            standings[place] = standing;
        }
    }
    standings
}

/// Whether two methods differ by more than the noise of their seeds.
fn differ(one: &BTreeMap<u64, f64>, other: &BTreeMap<u64, f64>) -> bool {
    let pairs = one.iter().filter_map(|(seed, a)| Some(a - other.get(seed)?));
    let differences: Vec<f64> = pairs.collect();
    let count = differences.len();
    if count < 2 {
        return false;
    }
    let mean = differences.iter().sum::<f64>() / count as f64;
    let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
    let error = (squares / (count as f64 - 1.0) / count as f64).sqrt();
    mean.abs() > QUANTILES[(count - 2).min(QUANTILES.len() - 1)] * error
}

/// Student's t at 97.5 % with 1, 2, … degrees of freedom; with more than the last, a little too strict.
const QUANTILES: [f64; 9] = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A value as tables write it: `0.5`, `1`, `normalized`.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| format!("{number}"))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(values: &[f64]) -> BTreeMap<u64, f64> {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn a_difference_counts_if_it_is_larger_than_its_noise() {
        let one = seeds(&[0.50, 0.60, 0.55]);
        // Ahead by the same in every seed, however much these differ among each other.
        assert!(differ(&one, &seeds(&[0.48, 0.581, 0.529])));
        assert!(!differ(&one, &seeds(&[0.48, 0.62, 0.52])));
        assert!(!differ(&seeds(&[0.9]), &seeds(&[0.1])), "one seed shows no noise");
        assert!(!differ(&one, &one));
    }

    #[test]
    fn values_are_written_short() {
        let values = [serde_json::json!(1.0), serde_json::json!(0.5), "raw".into(), 3.into()];
        assert_eq!(values.map(|value| written(&value)), ["1", "0.5", "raw", "3"]);
    }
}
