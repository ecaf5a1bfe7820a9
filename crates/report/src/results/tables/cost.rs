//! What a training step costs.

use super::{Results, Shown, Table};
use crate::quantity::count;

/// A row for each network and method: how much longer than plain training, and the share that this is.
pub(super) fn steps(results: &Results) -> Table {
    let head = [
        "network",
        "parameters",
        "method",
        "batch",
        "plain, samples/s",
        "shared phase",
        "term's share",
        "personal phase",
        "term's share",
    ];
    let measured = results.runs.iter().filter_map(|run| Some((run, run.steps.as_ref()?)));
    let rows = measured.map(|(run, steps)| {
        let times = |x: Option<f64>| x.map_or("–".into(), |x| format!("{:.2}×", x / steps.plain));
        // Faster than plain training, as a head alone is, there is no share.
        let share = |x: Option<f64>| {
            let share = x.map(|x| 1.0 - steps.plain / x).filter(|share| *share >= 0.0);
            share.map_or("–".into(), |share| format!("{:.0} %", share * 100.0))
        };
        let cells = [
            steps.network.clone(),
            count(steps.parameters as u64),
            run.method.clone(),
            steps.batch.to_string(),
            count((1.0 / steps.plain).round() as u64),
            times(steps.shared),
            share(steps.shared),
            times(steps.personal),
            share(steps.personal),
        ];
        cells.map(Shown::plain).to_vec()
    });
    Table { title: String::new(), head: head.map(str::to_owned).to_vec(), rows: rows.collect() }
}
