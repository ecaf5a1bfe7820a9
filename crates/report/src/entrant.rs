//! A method with its figures in all runs of a group.

use crate::bootstrap::{LONE, Panel, Sample};
use crate::{MethodLog, Row, RunLog, Spread, Which};

/// One method over the runs of a panel.
pub(crate) struct Entrant<'l> {
    /// How tables call it.
    pub(crate) name: String,
    /// Which runs they are: entrants of one panel are paired.
    pub(crate) panel: usize,
    runs: Vec<(&'l RunLog, &'l MethodLog, &'l Row)>,
}

impl<'l> Entrant<'l> {
    /// The method at a place that it has in all runs.
    pub(crate) fn new(
        name: String,
        place: usize,
        panel: usize,
        logs: &'l [RunLog],
        rows: &'l [Vec<Row>],
    ) -> Self {
        let runs =
            logs.iter().zip(rows).map(|(log, rows)| (log, &log.methods[place], &rows[place]));
        Self { name, panel, runs: runs.collect() }
    }

    pub(crate) fn label(&self) -> &'l str {
        self.runs.first().map_or("", |(_, _, row)| &row.label)
    }

    /// Whether somebody means it.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let names = self.runs.first().map(|(_, _, row)| [row.label.as_str(), row.title.as_str()]);
        names
            .into_iter()
            .flatten()
            .chain([self.name.as_str()])
            .any(|n| n.eq_ignore_ascii_case(name))
    }

    /// Mean and deviation of a figure.
    pub(crate) fn spread(&self, figure: impl Fn(&Row) -> Option<f64>) -> Spread {
        Spread::of(&self.runs.iter().map(|(_, _, row)| figure(row)).collect::<Vec<_>>())
    }

    /// Runs in which it diverged or gave up.
    pub(crate) fn failed(&self) -> usize {
        self.runs.iter().filter(|(_, _, row)| row.has_failed()).count()
    }

    /// Whether it trains the model and never failed. One some of whose clients diverged is scored on what they
    /// had before; it wins nothing.
    pub(crate) fn competes(&self, which: Which) -> bool {
        let own = |row: &Row| if which.is_generic() { row.generic } else { row.personal };
        self.failed() == 0 && self.runs.iter().all(|(_, _, row)| own(row))
    }

    /// Samples that its generic model is scored on: the fewest of all runs.
    pub(crate) fn global_test(&self) -> usize {
        self.runs.iter().map(|(log, _, _)| log.started.global_test).min().unwrap_or(0)
    }

    /// Its figures, if it has one in every run.
    pub(crate) fn sample(&self, which: Which) -> Option<Sample<'l>> {
        let figures = self.runs.iter().map(|(_, _, row)| which.figure(row));
        let figures =
            figures.collect::<Option<Vec<f64>>>().filter(|figures| !figures.is_empty())?;
        let clients = self.runs.iter().filter_map(|(_, method, row)| {
            let evaluation = match which {
                Which::PmBest => method.evaluations.get(&row.best_round_pm?),
                Which::PmLast => method.last().map(|(_, evaluation)| evaluation),
                Which::GmBest | Which::GmLast => None,
            };
            evaluation.map(|evaluation| evaluation.per_client.as_slice())
        });
        let clients: Vec<&[Option<f64>]> = clients.collect();
        // Those of some runs alone would be taken for those of others.
        let clients = if clients.len() == figures.len() { clients } else { Vec::new() };
        Some(Sample { figures, clients })
    }
}

impl Panel {
    /// The test samples of a client that is as good as alone; none if there are more that count.
    pub(crate) fn lone_client(&self) -> Option<usize> {
        let alone = |weights: &Vec<f64>| {
            let total: f64 = weights.iter().sum();
            let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
            total > 0.0 && total * total < LONE * squares
        };
        let samples = self.weights.first()?.iter().sum::<f64>() as usize;
        self.weights.iter().any(alone).then_some(samples)
    }
}
