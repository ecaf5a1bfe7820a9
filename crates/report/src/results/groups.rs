//! Runs in the order of tables: cells, their methods, and the seeds of each.

use super::{Outcome, Results, Scores};
use crate::bootstrap::Panel;
use crate::entrant::{Entrant, EntrantRun};
use crate::paired::contest;
use crate::{Spread, Standing, Which};
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

impl<'r> Line<'r> {
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

    fn at(&self, seed: u64) -> Option<&'r Outcome> {
        self.runs.iter().copied().find(|run| run.seed == seed)
    }
}

/// What a race is about: a column, and what a run has of it.
pub(super) struct Race<'r> {
    pub(super) which: Which,
    /// None where a run takes no part.
    pub(super) entry: &'r dyn Fn(&'r Outcome) -> Option<EntrantRun<'r>>,
    /// Test sizes of those whose mean it is.
    pub(super) sizes: &'r dyn Fn(&'r Outcome) -> &'r [usize],
}

/// Where methods stand in a column of the GM and PM figures.
pub(super) fn standings(lines: &[Line<'_>], which: Which) -> Vec<Option<Standing>> {
    raced(lines, &Race { which, entry: &trained, sizes: &client_sizes })
}

/// Where lines stand in a race, by the rule of all tables ([`crate::bootstrap`]), over the seeds that all have.
pub(super) fn raced<'r>(lines: &[Line<'r>], race: &Race<'r>) -> Vec<Option<Standing>> {
    let mut standings = vec![None; lines.len()];
    let takes_part = |line: &Line<'r>| line.runs.iter().any(|run| (race.entry)(run).is_some());
    let racing: Vec<(usize, &Line<'r>)> =
        lines.iter().enumerate().filter(|(_, line)| takes_part(line)).collect();
    let Some((_, first)) = racing.first() else { return standings };
    let common = first.runs.iter().map(|run| run.seed).filter(|seed| {
        racing.iter().all(|(_, line)| line.at(*seed).and_then(race.entry).is_some())
    });
    let seeds: Vec<u64> = common.collect();
    if seeds.is_empty() {
        // A table that is not finished: some have run with other seeds than others.
        return standings;
    }
    let runs: Vec<&Outcome> = seeds.iter().filter_map(|seed| first.at(*seed)).collect();
    let weights = |run: &&'r Outcome| (race.sizes)(run).iter().map(|size| *size as f64).collect();
    let weights: Vec<Vec<f64>> = runs.iter().map(weights).collect();
    let fixed = runs.len() == 1 || runs.iter().all(|run| run.division.is_some());
    let one_division = fixed && weights.iter().all(|sizes| Some(sizes) == weights.first());
    let entrants = racing.iter().map(|(_, line)| Entrant {
        name: line.method.to_owned(),
        label: line.method,
        title: line.method,
        panel: 0,
        runs: seeds.iter().filter_map(|seed| (race.entry)(line.at(*seed)?)).collect(),
    });
    let entrants: Vec<Entrant<'_>> = entrants.collect();
    let metric = runs.first().map(|run| run.metric).unwrap_or_default();
    let panels = [Panel { number: 0, weights, one_division }];
    let contest = contest(race.which, metric, &entrants, &panels, None);
    for ((place, _), entry) in racing.iter().zip(contest.entries) {
        standings[*place] = entry.standing;
    }
    standings
}

/// A run's GM and PM figures.
fn trained(run: &Outcome) -> Option<EntrantRun<'_>> {
    let scores = run.scores.as_ref()?;
    let clients = scores.clients.as_ref();
    Some(EntrantRun {
        generic: run.generic,
        personal: run.personal,
        failed: run.trouble.is_some(),
        global_test: scores.global_test,
        figures: [scores.gm_best, scores.gm_last, scores.pm_best, scores.pm_last],
        clients: [clients.map(|of| &*of.best), clients.map(|of| &*of.last)],
    })
}

fn client_sizes(run: &Outcome) -> &[usize] {
    let clients = run.scores.as_ref().and_then(|scores| scores.clients.as_ref());
    clients.map_or(&[], |clients| &clients.test)
}

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

    #[test]
    fn values_are_written_short() {
        let values = [serde_json::json!(1.0), serde_json::json!(0.5), "raw".into(), 3.into()];
        assert_eq!(values.map(|value| written(&value)), ["1", "0.5", "raw", "3"]);
    }
}
