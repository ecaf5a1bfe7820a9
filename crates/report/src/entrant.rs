//! A method with its figures in all runs of a group.

use crate::bootstrap::{LONE, Panel, Sample};
use crate::{Row, RunLog, Spread, Which};

/// One method over the runs of a panel.
pub(crate) struct Entrant<'l> {
    /// How tables call it.
    pub(crate) name: String,
    /// Unique in each run.
    pub(crate) label: &'l str,
    /// What the method is called.
    pub(crate) title: &'l str,
    /// Which runs they are: entrants of one panel are paired.
    pub(crate) panel: usize,
    /// Run by run.
    pub(crate) runs: Vec<EntrantRun<'l>>,
}

/// What one run has of a method.
pub(crate) struct EntrantRun<'l> {
    /// Whether it trains a generic model.
    pub(crate) generic: bool,
    /// Whether it trains personal models.
    pub(crate) personal: bool,
    /// Whether it diverged or gave up.
    pub(crate) failed: bool,
    /// Samples that its generic model is scored on.
    pub(crate) global_test: usize,
    /// In the order of [`Which::ALL`].
    pub(crate) figures: [Option<f64>; 4],
    /// Every client's figure at the best evaluation of the PMs and at the last one.
    pub(crate) clients: [Option<&'l [Option<f64>]>; 2],
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
        let first = rows.first().map(|rows| &rows[place]);
        let runs = logs.iter().zip(rows).map(|(log, rows)| {
            let (method, row) = (&log.methods[place], &rows[place]);
            let best = row.best_round_pm.and_then(|round| method.evaluations.get(&round));
            let last = method.last().map(|(_, evaluation)| evaluation);
            EntrantRun {
                generic: row.generic,
                personal: row.personal,
                failed: row.has_failed(),
                global_test: log.started.global_test,
                figures: Which::ALL.map(|which| which.figure(row)),
                clients: [best, last].map(|found| found.map(|found| found.per_client.as_slice())),
            }
        });
        Self {
            name,
            label: first.map_or("", |row| &row.label),
            title: first.map_or("", |row| &row.title),
            panel,
            runs: runs.collect(),
        }
    }

    /// Whether somebody means it.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        [self.label, self.title, &self.name].iter().any(|n| n.eq_ignore_ascii_case(name))
    }

    /// Mean and deviation of a figure.
    pub(crate) fn spread(&self, which: Which) -> Spread {
        Spread::of(&self.figures(which).collect::<Vec<_>>())
    }

    fn figures(&self, which: Which) -> impl Iterator<Item = Option<f64>> {
        self.runs.iter().map(move |run| run.figures[which as usize])
    }

    /// Whether it trains the model and never failed. One some of whose clients diverged is scored on what they
    /// had before; it wins nothing.
    pub(crate) fn competes(&self, which: Which) -> bool {
        let own =
            |run: &EntrantRun<'_>| if which.is_generic() { run.generic } else { run.personal };
        self.runs.iter().all(|run| !run.failed && own(run))
    }

    /// Samples that its generic model is scored on: the fewest of all runs.
    pub(crate) fn global_test(&self) -> usize {
        self.runs.iter().map(|run| run.global_test).min().unwrap_or(0)
    }

    /// Its figures, if it has one in every run.
    pub(crate) fn sample(&self, which: Which) -> Option<Sample<'l>> {
        let figures = self.figures(which).collect::<Option<Vec<f64>>>();
        let figures = figures.filter(|figures| !figures.is_empty())?;
        let clients = self.runs.iter().filter_map(|run| match which {
            Which::PmBest => run.clients[0],
            Which::PmLast => run.clients[1],
            Which::GmBest | Which::GmLast => None,
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
