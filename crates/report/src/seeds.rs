//! Several runs of one experiment that differ in their seeds, as one table of means.

use formant_runtime::event::Metric;
use formant_runtime::first_difference;
use serde::Serialize;
use serde_json::Value;

use crate::markdown::escaped;
use crate::quantity::one_line;
use crate::scoreboard::{FIGURES, first_heading};
use crate::{FurtherRow, ReportError, Row, RunLog, rows};

/// One method over all runs, by the first metric of the runs: fractions from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedRow {
    /// Unique in each run.
    pub label: String,
    /// How tables call it.
    pub title: String,
    /// Whether it trains a generic model; if not, GM figures are of the averaged PM.
    pub generic: bool,
    /// Whether it trains personal models; if not, PM figures are of the GM on local test sets.
    pub personal: bool,
    /// What scores are by.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
    /// Best GM of each run.
    pub gm_best: Spread,
    /// GM at the last evaluation.
    pub gm_last: Spread,
    /// Best PM of each run.
    pub pm_best: Spread,
    /// PM at the last evaluation.
    pub pm_last: Spread,
    /// Mean of the worst tenth of the clients at the last evaluation.
    pub worst_decile_last: Spread,
    /// The same models by the other metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherSeedRow>,
}

/// A method over all runs by another metric than the first. Best rounds are those by the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FurtherSeedRow {
    /// The metric.
    pub metric: Metric,
    /// The GM of each run's best round.
    pub gm_best: Spread,
    /// The GM at the last evaluation.
    pub gm_last: Spread,
    /// The PMs of each run's best round.
    pub pm_best: Spread,
    /// The PMs at the last evaluation.
    pub pm_last: Spread,
    /// Mean of the worst tenth of the clients at the last evaluation.
    pub worst_decile_last: Spread,
}

/// A figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The mean; absent where a run has no such figure.
    pub mean: Option<f64>,
    /// The sample standard deviation; absent for a single run.
    pub deviation: Option<f64>,
}

impl Spread {
    pub(crate) fn of(values: &[Option<f64>]) -> Self {
        let Some(values) = values.iter().copied().collect::<Option<Vec<f64>>>() else {
            return Self { mean: None, deviation: None };
        };
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Self { mean: Some(mean), deviation }
    }

    /// In percent: `93.1 ± 0.4`.
    pub(crate) fn text(&self) -> String {
        match (self.mean, self.deviation) {
            (None, _) => "–".to_owned(),
            (Some(mean), None) => format!("{:.1}", mean * 100.0),
            (Some(mean), Some(deviation)) => {
                format!("{:.1} ± {:.1}", mean * 100.0, deviation * 100.0)
            }
        }
    }
}

/// Sums up runs of one experiment, one row per method in the order of the first run. Runs that
/// differ in more than seed, name and use of the machine are no repetitions and refused.
pub fn over_seeds(logs: &[RunLog]) -> Result<Vec<SeedRow>, ReportError> {
    let Some((first, others)) = logs.split_first() else { return Ok(Vec::new()) };
    let setting = setting(first);
    for other in others {
        if let Some((key, one, another)) = first_difference(&setting, &self::setting(other)) {
            return Err(ReportError::Unlike { key, one, another });
        }
        if other.started.seed == first.started.seed {
            return Err(ReportError::SameSeed { seed: first.started.seed });
        }
    }
    let runs: Vec<Vec<Row>> = logs.iter().map(rows).collect();
    let figures = |place: usize, figure: fn(&Row) -> Option<f64>| {
        Spread::of(&runs.iter().map(|rows| figure(&rows[place])).collect::<Vec<_>>())
    };
    Ok((0..runs[0].len())
        .map(|place| {
            let row = &runs[0][place];
            SeedRow {
                label: row.label.clone(),
                title: row.title.clone(),
                generic: row.generic,
                personal: row.personal,
                metric: row.metric,
                gm_best: figures(place, |row| row.gm_best),
                gm_last: figures(place, |row| row.gm_last),
                pm_best: figures(place, |row| row.pm_best),
                pm_last: figures(place, |row| row.pm_last),
                worst_decile_last: figures(place, |row| row.worst_decile_last),
                further: further(&runs, place),
            }
        })
        .collect())
}

/// The other metrics of a method over all runs.
fn further(runs: &[Vec<Row>], place: usize) -> Vec<FurtherSeedRow> {
    let metrics = runs[0][place].further.iter().map(|further| further.metric).enumerate();
    let rows = metrics.map(|(which, metric)| {
        let figures = |figure: fn(&FurtherRow) -> Option<f64>| {
            let of_runs = runs.iter().map(|rows| figure(&rows[place].further[which]));
            Spread::of(&of_runs.collect::<Vec<_>>())
        };
        FurtherSeedRow {
            metric,
            gm_best: figures(|row| row.gm_best),
            gm_last: figures(|row| row.gm_last),
            pm_best: figures(|row| row.pm_best),
            pm_last: figures(|row| row.pm_last),
            worst_decile_last: figures(|row| row.worst_decile_last),
        }
    });
    rows.collect()
}

/// The means as a GitHub Markdown table, the best of each GM and PM column in bold; a second one has the
/// other metrics.
pub fn seed_table(rows: &[SeedRow]) -> String {
    let metric = rows.first().map_or(Metric::Accuracy, |row| row.metric);
    let mut text = heading(&[&first_heading(metric)]);
    let figures: Vec<[Spread; 5]> = rows
        .iter()
        .map(|row| [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last])
        .collect();
    text += &lines(rows, &figures, metric, "");
    let metrics = rows.first().map(|row| row.further.iter().map(|further| further.metric));
    for (place, metric) in metrics.into_iter().flatten().enumerate() {
        if place == 0 {
            text.push('\n');
            text += &heading(&["further metric", "method"]);
        }
        let figures = rows.iter().map(|row| {
            let row = &row.further[place];
            [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last]
        });
        let figures: Vec<[Spread; 5]> = figures.collect();
        text += &lines(rows, &figures, metric, &format!("{} | ", metric.title()));
    }
    text
}

fn heading(first: &[&str]) -> String {
    let headings: Vec<&str> = first.iter().copied().chain(FIGURES).collect();
    format!("| {} |\n|{}\n", headings.join(" | "), " --- |".repeat(headings.len()))
}

/// The lines of all methods by one metric.
fn lines(rows: &[SeedRow], figures: &[[Spread; 5]], metric: Metric, before: &str) -> String {
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| vec![escaped(&one_line(&row.title))]).collect();
    for column in 0..FIGURES.len() {
        let own = |row: &SeedRow| if column < 2 { row.generic } else { row.personal };
        let each = || rows.iter().zip(figures).map(|(row, figures)| (row, figures[column]));
        let competing = each().filter(|(row, _)| own(row)).filter_map(|(_, spread)| spread.mean);
        // As printed: figures that look equal are equally good.
        let shown = |mean: f64| format!("{:.1}", mean * 100.0);
        let is_ranked = column < 4 && rows.len() > 1;
        let best = competing.min_by(|a, b| metric.order(*a, *b)).map(shown).filter(|_| is_ranked);
        for ((row, spread), cells) in each().zip(&mut cells) {
            let text = spread.text();
            cells.push(if !own(row) {
                format!("({text})")
            } else if best.is_some() && spread.mean.map(shown) == best {
                format!("**{text}**")
            } else {
                text
            });
        }
    }
    cells
        .iter()
        .fold(String::new(), |text, cells| text + "| " + before + &cells.join(" | ") + " |\n")
}

/// The experiment without what may differ between repetitions.
fn setting(log: &RunLog) -> Value {
    let mut config = log.started.config.clone();
    if let Some(sections) = config.as_object_mut() {
        for key in ["seed", "name", "runtime"] {
            sections.remove(key);
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_sample_deviations() {
        let spread = Spread::of(&[Some(0.5), Some(0.7), Some(0.9)]);
        assert!((spread.mean.unwrap() - 0.7).abs() < 1e-12);
        assert!((spread.deviation.unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(spread.text(), "70.0 ± 20.0");
        assert_eq!(Spread::of(&[Some(0.5)]).text(), "50.0");
        assert_eq!(Spread::of(&[Some(0.5), None]).text(), "–");
    }
}
