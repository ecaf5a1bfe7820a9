//! How far a difference between two methods might be off: bootstrap intervals.
//!
//! A figure has up to two sources of noise, and both are resampled, for all methods with the same
//! draws: a difference is then that of one and the same draw (it is *paired*).
//!
//! **Runs.** With `S` runs (seeds), `S` of them are drawn with replacement, and a method's deviation is
//! `mean of its drawn figures − mean of its figures`. A single run says nothing of this part.
//!
//! **Clients** (PM). As many clients as there are, drawn with replacement; a method's deviation is
//! `Σ w·x / Σ w` over the drawn ones less the same over all, `w` being local test sizes, as in the PM figure.
//! If all runs have one division of the data, their clients are the same: one draw counts for all runs
//! (Owen 2007, *The pigeonhole bootstrap*), because a division that happens to suit a method suits it in every
//! run. If every run has a division of its own, each run's clients are drawn by themselves. What divisions and clients do
//! to the runs' figures is then in both parts, so that the interval errs on the safe side.
//!
//! **Test samples** (GM, and PM with a single client). Of these the log has only how many were right. The
//! difference of two models on the same `n` samples has the variance `(p₁ + p₂ − (p₁ − p₂)²) / n`, where `p₁`
//! is the share that only the first has right and `p₂` the share that only the second has. Models that learnt
//! the same task tend to err on the same samples, so that they disagree no more than by chance:
//! `p₁ + p₂ ≤ a(1 − b) + b(1 − a)` for accuracies `a` and `b`. Put in, that is the sum of two binomial variances,
//! `(a(1 − a) + b(1 − b)) / n`. It errs on the safe side: it calls a tie what a sample-by-sample test may
//! tell apart. `a` and `b` are taken with one right and one wrong answer more (Agresti and Caffo 2000), so
//! that a perfect score is not free of noise. Runs share the test set, so its noise is that of the mean over the
//! runs and is not divided by their number. (The variance of a mean is at most the mean of the variances.)
//! Other metrics than accuracy and balanced accuracy have no such formula: their GM has no interval.
//!
//! **Few runs, few clients.** The bootstrap of a mean of `n` values is too narrow by `√((n − 1) / n)`, and knows
//! the spread no better than from `n` values. Deviations are stretched by `√(n / (n − 1)) · t / z`, with the
//! 97.5 % quantiles of Student's distribution for `n − 1` degrees of freedom and of the normal one (compare
//! Hesterberg 2015, *What teachers should know about the bootstrap*). For clients, `n` is
//! `(Σ w)² / Σ w²`: clients that hold nearly everything count, others hardly. Two runs therefore tell little.
//!
//! **Grain.** Clients that all show the same difference have no spread, though their test sets are small. No interval is
//! narrower than what one test sample more or less, of all clients together, would change.
//!
//! The interval reaches from the 2.5 % to the 97.5 % quantile of
//! `difference + runs' deviation + clients' deviation + test samples' deviation`.

use formant_numerics::{Rng, Stream};
use serde::Serialize;

/// Draws behind every interval.
pub const RESAMPLES: usize = 2_000;

/// Of more clients than this, groups are drawn: every so manieth client is in the same one. The means of groups
/// vary as those of clients do, and a million clients take no longer than these.
const UNITS: usize = 500;

/// Below this many clients, weighed by their test sizes, there is as good as one.
pub(crate) const LONE: f64 = 1.5;

/// The 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_985;

/// The same of Student's, for 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// What a difference may be, in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether it says who is ahead.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The runs that methods have in common, and the clients in them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    /// Draws of panels with different numbers are independent.
    pub(crate) number: u64,
    /// For each run, the local test size of every client; empty where it is not known.
    pub(crate) weights: Vec<Vec<f64>>,
    /// Whether all runs have the same clients.
    pub(crate) one_division: bool,
}

/// One method's figure in every run of a panel.
#[derive(Debug, Clone)]
pub(crate) struct Sample<'l> {
    /// Run by run.
    pub(crate) figures: Vec<f64>,
    /// What it is the mean of, run by run; empty for a figure that is not one of clients.
    pub(crate) clients: Vec<&'l [Option<f64>]>,
}

/// How a sample's mean differs from draw to draw.
#[derive(Debug, Clone)]
pub(crate) struct Deviations {
    /// Draw by draw, from runs and clients.
    drawn: Vec<f64>,
    /// Whether the clients are in them.
    by_clients: bool,
}

/// The deviations of all samples of a panel. Samples are drawn together.
pub(crate) fn deviations(panel: &Panel, samples: &[Sample<'_>]) -> Vec<Deviations> {
    let mut found: Vec<Deviations> = samples
        .iter()
        .map(|_| Deviations { drawn: vec![0.0; RESAMPLES], by_clients: false })
        .collect();
    draw_runs(panel, samples, &mut found);
    let runs = panel.weights.len();
    let cohorts = 0..if panel.one_division { runs.min(1) } else { runs };
    let cohorts: Option<Vec<Cohort>> =
        cohorts.map(|run| Cohort::new(panel, run, samples)).collect();
    if let Some(cohorts) = cohorts.filter(|cohorts| !cohorts.is_empty()) {
        draw_clients(panel, &cohorts, &mut found);
    }
    found
}

fn draw_runs(panel: &Panel, samples: &[Sample<'_>], found: &mut [Deviations]) {
    let runs = panel.weights.len();
    if runs < 2 {
        return;
    }
    let stretch = stretch(runs as f64, runs - 1);
    let mut rng = Rng::new(panel.number, Stream::Resampling, 0, 0);
    let means: Vec<f64> = samples.iter().map(|sample| mean(&sample.figures)).collect();
    let mut drawn = vec![0; runs];
    for draw in 0..RESAMPLES {
        drawn.fill_with(|| rng.below(runs));
        for ((sample, found), own) in samples.iter().zip(found.iter_mut()).zip(&means) {
            let sum: f64 = drawn.iter().map(|&run| sample.figures[run]).sum();
            found.drawn[draw] += stretch * (sum / runs as f64 - own);
        }
    }
}

/// Clients that are drawn together: those of one run, or of all runs that have the same.
struct Cohort {
    /// What is drawn: clients with test samples, or groups of them.
    units: usize,
    /// `(Σ w)² / Σ w²`.
    effective: f64,
    /// For every method, unless its clients' figures are not known.
    columns: Vec<Option<Weighted>>,
}

/// A method's clients, unit by unit.
struct Weighted {
    /// `Σ w·x` over those that have a figure.
    products: Vec<f64>,
    /// `Σ w` over the same.
    weights: Vec<f64>,
    /// `Σ w·x / Σ w` over all.
    own: f64,
}

impl Cohort {
    /// None if there are not two clients that count.
    fn new(panel: &Panel, run: usize, samples: &[Sample<'_>]) -> Option<Self> {
        let weights = &panel.weights[run];
        let drawn: Vec<usize> = (0..weights.len()).filter(|&c| weights[c] > 0.0).collect();
        let units = drawn.len().min(UNITS);
        let all = Weighted::new(units, drawn.iter().map(|&client| (Some(0.0), weights[client])))?;
        let (total, squares) = (all.weights.iter().sum::<f64>(), dot(&all.weights, &all.weights));
        let effective = total * total / squares;
        if units < 2 || effective < LONE {
            return None;
        }
        let runs = if panel.one_division { 0..panel.weights.len() } else { run..run + 1 };
        let columns = samples.iter().map(|sample| {
            let figure = |client: usize| {
                let mut known = (0.0, 0.0);
                for run in runs.clone() {
                    let figure =
                        sample.clients.get(run).and_then(|run| run.get(client).copied()?);
                    known = figure.map_or(known, |figure| (known.0 + figure, known.1 + 1.0));
                }
                (known.1 > 0.0).then(|| known.0 / known.1)
            };
            Weighted::new(units, drawn.iter().map(|&client| (figure(client), weights[client])))
        });
        Some(Self { units, effective, columns: columns.collect() })
    }
}

impl Weighted {
    /// None if nobody has a figure.
    fn new(units: usize, clients: impl Iterator<Item = (Option<f64>, f64)>) -> Option<Self> {
        let (mut products, mut weights) = (vec![0.0; units], vec![0.0; units]);
        for (place, (figure, weight)) in clients.enumerate() {
            if let Some(figure) = figure {
                products[place % units] += weight * figure;
                weights[place % units] += weight;
            }
        }
        let own = products.iter().sum::<f64>() / weights.iter().sum::<f64>();
        own.is_finite().then_some(Self { products, weights, own })
    }
}

fn draw_clients(panel: &Panel, cohorts: &[Cohort], found: &mut [Deviations]) {
    let number = cohorts.len() as f64;
    let effective = cohorts.iter().map(|cohort| cohort.effective).sum::<f64>() / number;
    let freedom = (effective.round() as usize - 1) * cohorts.len();
    let stretch = stretch(effective, freedom) / number;
    for (sample, found) in found.iter_mut().enumerate() {
        found.by_clients = cohorts.iter().all(|cohort| cohort.columns[sample].is_some());
    }
    for (place, cohort) in cohorts.iter().enumerate() {
        let mut rng = Rng::new(panel.number, Stream::Resampling, 1, place as u64);
        let mut times = vec![0.0; cohort.units];
        for draw in 0..RESAMPLES {
            times.fill(0.0);
            for _ in 0..cohort.units {
                times[rng.below(cohort.units)] += 1.0;
            }
            for (column, found) in cohort.columns.iter().zip(found.iter_mut()) {
                let Some(column) = column.as_ref().filter(|_| found.by_clients) else { continue };
                let weight = dot(&times, &column.weights);
                // A draw without anybody who has a figure says nothing.
                if weight > 0.0 {
                    let figure = dot(&times, &column.products) / weight;
                    found.drawn[draw] += stretch * (figure - column.own);
                }
            }
        }
    }
}

/// In eight sums, which a compiler can keep in one register.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// Accuracies on so many samples, whose own noise counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tested {
    pub(crate) accuracy: f64,
    pub(crate) samples: usize,
}

impl Tested {
    /// The variance of a share of right answers.
    fn variance(self) -> f64 {
        let number = self.samples as f64 + 2.0;
        let share = (self.accuracy * self.samples as f64 + 1.0) / number;
        (share * (1.0 - share)).max(0.0) / number
    }
}

/// The interval of `one − other`, whose difference is known; none if a source of noise is not.
/// `tested` is what both have on the samples that nobody has drawn, `grain` the least that a figure can change by.
pub(crate) fn interval(
    difference: f64,
    [one, other]: [&Deviations; 2],
    tested: Option<[Tested; 2]>,
    grain: f64,
) -> Option<Interval> {
    let by_samples = match tested {
        _ if one.by_clients && other.by_clients => 0.0,
        Some([one, other]) => (one.variance() + other.variance()).sqrt(),
        None => return None,
    };
    let mut rng = Rng::new(0, Stream::Resampling, 2, 0);
    let mut values: Vec<f64> = one.drawn.iter().zip(&other.drawn).map(|(a, b)| a - b).collect();
    for value in &mut values {
        *value += difference;
        if by_samples > 0.0 {
            *value += by_samples * rng.normal();
        }
    }
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (quantile(&values, 0.025), quantile(&values, 0.975));
    Some(Interval { low: low.min(difference - grain), high: high.max(difference + grain) })
}

/// Between the two nearest of sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// By how much the deviations of a mean of `number` values are too small.
fn stretch(number: f64, freedom: usize) -> f64 {
    (number / (number - 1.0)).sqrt() * student(freedom) / NORMAL
}

/// The 97.5 % quantile of Student's distribution.
pub(crate) fn student(freedom: usize) -> f64 {
    if let Some(quantile) = STUDENT.get(freedom.saturating_sub(1)) {
        return *quantile;
    }
    // Cornish and Fisher's expansion, right to three digits from here on.
    let (n, z) = (freedom as f64, NORMAL);
    let first = (z.powi(3) + z) / (4.0 * n);
    z + first + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
