//! Who is ahead, and by how much: every method against a baseline and against the leader.
//!
//! [`crate::bootstrap`] says how the intervals are made. A method that trains no such model, that diverged
//! or that gave up does not compete: its figure stands in a table, but nobody is measured against it unless it
//! is named as the baseline.

use formant_runtime::event::Metric;
use serde::Serialize;

use crate::bootstrap::{Deviations, Panel, Sample, Tested, deviations, interval, mean};
use crate::entrant::Entrant;
use crate::scoreboard::names;
use crate::seeds::check_repetitions;
use crate::summary::unranked;
use crate::{Interval, ReportError, Row, RunLog, Spread};

pub use crate::bootstrap::RESAMPLES;

/// A column that methods compete in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The generic model at its best round.
    GmBest,
    /// The generic model at the last evaluation.
    GmLast,
    /// The personal models at their best round.
    PmBest,
    /// The personal models at the last evaluation.
    PmLast,
}

impl Which {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::GmBest, Self::GmLast, Self::PmBest, Self::PmLast];

    /// How tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::GmBest => "GM best",
            Self::GmLast => "GM last",
            Self::PmBest => "PM best",
            Self::PmLast => "PM last",
        }
    }

    /// Whether it is about the generic model.
    pub fn is_generic(self) -> bool {
        matches!(self, Self::GmBest | Self::GmLast)
    }

    /// A method's figure.
    pub fn figure(self, row: &Row) -> Option<f64> {
        match self {
            Self::GmBest => row.gm_best,
            Self::GmLast => row.gm_last,
            Self::PmBest => row.pm_best,
            Self::PmLast => row.pm_last,
        }
    }
}

/// Where a figure stands among those that compete with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Better than every other by more than the noise.
    Ahead,
    /// The best, or not to be told from it.
    Tied,
}

/// The standing of a method in every column; absent where others are ahead, it does not compete, or nobody
/// knows the noise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Standings {
    /// Of its best GM.
    pub gm_best: Option<Standing>,
    /// Of its GM at the last evaluation.
    pub gm_last: Option<Standing>,
    /// Of its best PM.
    pub pm_best: Option<Standing>,
    /// Of its PM at the last evaluation.
    pub pm_last: Option<Standing>,
}

impl Standings {
    /// In one column.
    pub fn of(&self, which: Which) -> Option<Standing> {
        match which {
            Which::GmBest => self.gm_best,
            Which::GmLast => self.gm_last,
            Which::PmBest => self.pm_best,
            Which::PmLast => self.pm_last,
        }
    }

    /// Whether it shares the lead anywhere.
    pub fn has_ties(&self) -> bool {
        Which::ALL.iter().any(|which| self.of(*which) == Some(Standing::Tied))
    }

    pub(crate) fn set(&mut self, which: Which, standing: Option<Standing>) {
        match which {
            Which::GmBest => self.gm_best = standing,
            Which::GmLast => self.gm_last = standing,
            Which::PmBest => self.pm_best = standing,
            Which::PmLast => self.pm_last = standing,
        }
    }
}

/// How much better one method is than another, as a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The difference of the means over the runs.
    pub mean: f64,
    /// What it may be; absent where the noise is not known.
    pub interval: Option<Interval>,
    /// Whether both were scored with the same seeds on the same clients.
    pub paired: bool,
}

impl Difference {
    /// Whether it exceeds the noise.
    pub fn is_told(&self) -> bool {
        self.interval.is_some_and(|interval| interval.excludes_zero())
    }
}

/// All methods in one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contest {
    /// The column.
    pub figure: Which,
    /// The label of the method that all are compared with.
    pub baseline: Option<String>,
    /// The label of the best of those that compete.
    pub leader: Option<String>,
    /// Every method, in the order of the runs.
    pub entries: Vec<ContestEntry>,
}

/// One method in one column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContestEntry {
    /// Unique in each run.
    pub label: String,
    /// How tables call it.
    pub name: String,
    /// Mean and standard deviation over the runs.
    pub figure: Spread,
    /// Whether it competes.
    pub competes: bool,
    /// Where it stands.
    pub standing: Option<Standing>,
    /// How much better it is than the baseline; absent for that, and without figures.
    pub to_baseline: Option<Difference>,
    /// How much better it is than the leader (not at all, as a rule); absent for that.
    pub to_leader: Option<Difference>,
}

/// What several runs of one experiment, or a single one, say about who is ahead.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Significance {
    /// The runs' seeds.
    pub seeds: Vec<u64>,
    /// What differs between the runs, and so lies within ± and the intervals.
    pub covers: String,
    /// Draws behind each interval.
    pub resamples: usize,
    /// What figures are by.
    pub metric: Metric,
    /// Column by column.
    pub contests: Vec<Contest>,
}

/// Compares the methods of one experiment over its runs, which differ in their seeds alone. A baseline is named by
/// its label or title; without one, it is the first method that trains the model.
pub fn significance(logs: &[RunLog], baseline: Option<&str>) -> Result<Significance, ReportError> {
    check_repetitions(logs)?;
    let runs: Vec<Vec<Row>> = logs.iter().map(unranked).collect();
    let metric = logs.first().map_or(Metric::Accuracy, |log| log.started.metrics.first());
    let entrants = entrants(logs, &runs);
    let baseline = baseline.map(|name| named(&entrants, name)).transpose()?;
    let panels = [panel(logs, 0)];
    let contests = Which::ALL.map(|which| contest(which, metric, &entrants, &panels, baseline));
    Ok(Significance {
        seeds: logs.iter().map(|log| log.started.seed).collect(),
        covers: covers(logs),
        resamples: RESAMPLES,
        metric,
        contests: contests.into(),
    })
}

/// The standings of all methods over runs of one experiment.
pub(crate) fn standings(logs: &[RunLog], runs: &[Vec<Row>]) -> Vec<Standings> {
    let metric = logs.first().map_or(Metric::Accuracy, |log| log.started.metrics.first());
    let (entrants, panels) = (entrants(logs, runs), [panel(logs, 0)]);
    let mut found = vec![Standings::default(); entrants.len()];
    for which in Which::ALL {
        let contest = contest(which, metric, &entrants, &panels, None);
        for (standings, entry) in found.iter_mut().zip(contest.entries) {
            standings.set(which, entry.standing);
        }
    }
    found
}

/// What differs between runs of one experiment.
///
/// It is told by the experiment: a fixed `data.seed` is one division for all.
pub fn covers(logs: &[RunLog]) -> String {
    let fixed = logs.first().and_then(data_seed);
    match (logs.len(), fixed) {
        (0 | 1, _) => {
            "the clients and the test samples of one run; neither other initial values and \
                       batches nor another division of the data"
                .to_owned()
        }
        (_, Some(seed)) => {
            format!("initial values and batches; one division of the data (data.seed = {seed})")
        }
        (_, None) => "initial values, batches and the division".to_owned(),
    }
}

pub(crate) fn data_seed(log: &RunLog) -> Option<u64> {
    log.started.config.get("data")?.get("seed")?.as_u64()
}

/// The methods of an experiment over its runs, which all have the same ones.
fn entrants<'l>(logs: &'l [RunLog], runs: &'l [Vec<Row>]) -> Vec<Entrant<'l>> {
    let Some(first) = runs.first() else { return Vec::new() };
    let places = names(first).into_iter().enumerate();
    places.map(|(place, name)| Entrant::new(name, place, 0, logs, runs)).collect()
}

/// The runs as they are resampled.
pub(crate) fn panel(logs: &[RunLog], number: u64) -> Panel {
    let sizes = |log: &RunLog| {
        let sizes = log.started.clients.iter().map(|size| Some(size.as_ref()?.test as f64));
        sizes.collect::<Option<Vec<f64>>>().unwrap_or_default()
    };
    let one_division = logs.first().is_some_and(|first| {
        let is_fixed = data_seed(first).is_some() || logs.len() == 1;
        is_fixed && logs.iter().all(|log| log.started.clients == first.started.clients)
    });
    Panel { number, weights: logs.iter().map(sizes).collect(), one_division }
}

/// The method that somebody means.
pub(crate) fn named(entrants: &[Entrant<'_>], name: &str) -> Result<usize, ReportError> {
    let found = entrants.iter().position(|entrant| entrant.is_called(name));
    found.ok_or_else(|| {
        let mut known: Vec<&str> = Vec::new();
        for label in entrants.iter().map(|entrant| entrant.label) {
            if !known.contains(&label) {
                known.push(label);
            }
        }
        ReportError::UnknownBaseline { name: name.to_owned(), known: known.join(", ") }
    })
}

/// One column of a comparison: entrants of the same panel are paired.
pub(crate) fn contest(
    which: Which,
    metric: Metric,
    entrants: &[Entrant<'_>],
    panels: &[Panel],
    baseline: Option<usize>,
) -> Contest {
    let field = Field::new(which, metric, entrants, panels);
    let competing = || (0..entrants.len()).filter(|&place| field.competes(place));
    let by_mean = |a: &usize, b: &usize| {
        let mean = |place: usize| field.samples[place].as_ref().map_or(f64::NAN, Scored::mean);
        metric.order(mean(*a), mean(*b))
    };
    let leader = competing().min_by(by_mean);
    let baseline = baseline.or_else(|| competing().next());
    let standings = field.standings(leader, &competing().collect::<Vec<_>>());
    let label = |place: Option<usize>| place.map(|place| entrants[place].label.to_owned());
    let entries = entrants.iter().zip(standings).enumerate().map(|(place, (entrant, standing))| {
        let to = |other: Option<usize>| {
            other.filter(|other| *other != place).and_then(|other| field.difference(place, other))
        };
        ContestEntry {
            label: entrant.label.to_owned(),
            name: entrant.name.clone(),
            figure: entrant.spread(which),
            competes: field.competes(place),
            standing,
            to_baseline: to(baseline),
            to_leader: to(leader),
        }
    });
    let entries = entries.collect();
    Contest { figure: which, baseline: label(baseline), leader: label(leader), entries }
}

/// All figures of a column, and how they vary.
struct Field<'l> {
    which: Which,
    metric: Metric,
    entrants: &'l [Entrant<'l>],
    panels: &'l [Panel],
    samples: Vec<Option<Scored>>,
}

/// A method with a figure in every run.
struct Scored {
    figures: Vec<f64>,
    deviations: Deviations,
}

impl Scored {
    fn mean(&self) -> f64 {
        mean(&self.figures)
    }
}

impl<'l> Field<'l> {
    fn new(which: Which, metric: Metric, entrants: &'l [Entrant<'l>], panels: &'l [Panel]) -> Self {
        let mut samples: Vec<Option<Scored>> = entrants.iter().map(|_| None).collect();
        for (number, panel) in panels.iter().enumerate() {
            let of_panel = entrants.iter().enumerate().filter(|(_, e)| e.panel == number);
            let (places, drawn): (Vec<usize>, Vec<Sample<'_>>) =
                of_panel.filter_map(|(place, e)| Some((place, e.sample(which)?))).unzip();
            let found = deviations(panel, &drawn);
            for ((place, sample), deviations) in places.into_iter().zip(drawn).zip(found) {
                samples[place] = Some(Scored { figures: sample.figures, deviations });
            }
        }
        Self { which, metric, entrants, panels, samples }
    }

    fn competes(&self, place: usize) -> bool {
        self.samples[place].is_some() && self.entrants[place].competes(self.which)
    }

    fn difference(&self, one: usize, other: usize) -> Option<Difference> {
        let [a, b] = [one, other].map(|place| self.samples[place].as_ref());
        let (a, b) = (a?, b?);
        let difference = a.mean() - b.mean();
        let tested = self.tested(one).zip(self.tested(other)).map(|(a, b)| [a, b]);
        Some(Difference {
            mean: difference,
            interval: interval(difference, [&a.deviations, &b.deviations], tested, self.grain(one)),
            paired: self.entrants[one].panel == self.entrants[other].panel,
        })
    }

    /// The samples whose noise nobody has drawn: the global test set, or that of a single client.
    fn tested(&self, place: usize) -> Option<Tested> {
        if !matches!(self.metric, Metric::Accuracy | Metric::BalancedAccuracy) {
            return None;
        }
        let (entrant, accuracy) = (&self.entrants[place], self.samples[place].as_ref()?.mean());
        let samples = if self.which.is_generic() {
            entrant.global_test()
        } else {
            self.panels[entrant.panel].lone_client()?
        };
        (samples > 0).then_some(Tested { accuracy, samples })
    }

    /// What one test sample of a client changes.
    fn grain(&self, place: usize) -> f64 {
        let samples: f64 = self.panels[self.entrants[place].panel].weights.iter().flatten().sum();
        let runs = self.panels[self.entrants[place].panel].weights.len() as f64;
        if self.which.is_generic() || samples <= 0.0 { 0.0 } else { runs / samples }
    }

    /// The leader is ahead if it can be told from everybody; else it ties with those it cannot.
    fn standings(&self, leader: Option<usize>, competing: &[usize]) -> Vec<Option<Standing>> {
        let mut standings = vec![None; self.entrants.len()];
        let Some(leader) = leader.filter(|_| competing.len() > 1) else { return standings };
        let others = competing.iter().filter(|place| **place != leader);
        let found: Vec<(usize, Option<Difference>)> =
            others.map(|&place| (place, self.difference(leader, place))).collect();
        let is_known = |difference: &Difference| difference.interval.is_some();
        if !found.iter().any(|(_, difference)| difference.as_ref().is_some_and(is_known)) {
            return standings;
        }
        let mut ahead = true;
        for (place, difference) in found {
            if !difference.is_some_and(|difference| difference.is_told()) {
                standings[place] = Some(Standing::Tied);
                ahead = false;
            }
        }
        standings[leader] = Some(if ahead { Standing::Ahead } else { Standing::Tied });
        standings
    }
}
