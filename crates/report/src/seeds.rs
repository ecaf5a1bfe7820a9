//! Several runs of one experiment that differ in their seeds, as one table of means.

use formant_runtime::first_difference;
use serde::Serialize;
use serde_json::Value;

use crate::markdown::escaped;
use crate::quantity::one_line;
use crate::scoreboard::HEADINGS;
use crate::{ReportError, Row, RunLog, rows};

/// One method over all runs. Accuracies are fractions from 0 to 1.
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
    /// Best GM accuracy of each run.
    pub gm_best: Spread,
    /// GM accuracy at the last evaluation.
    pub gm_last: Spread,
    /// Best PM accuracy of each run.
    pub pm_best: Spread,
    /// PM accuracy at the last evaluation.
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
    fn of(values: &[Option<f64>]) -> Self {
        let Some(values) = values.iter().copied().collect::<Option<Vec<f64>>>() else {
            return Self { mean: None, deviation: None };
        };
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Self { mean: Some(mean), deviation }
    }

    fn text(&self) -> String {
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
                gm_best: figures(place, |row| row.gm_best),
                gm_last: figures(place, |row| row.gm_last),
                pm_best: figures(place, |row| row.pm_best),
                pm_last: figures(place, |row| row.pm_last),
                worst_decile_last: figures(place, |row| row.worst_decile_last),
            }
        })
        .collect())
}

/// A figure, whether it is of the model that the column is about, and whether the best is marked.
type Column = (fn(&SeedRow) -> Spread, fn(&SeedRow) -> bool, bool);

/// The means as a GitHub Markdown table, the best of each GM and PM column in bold.
pub fn seed_table(rows: &[SeedRow]) -> String {
    let columns: [Column; 5] = [
        (|row| row.gm_best, |row| row.generic, true),
        (|row| row.gm_last, |row| row.generic, true),
        (|row| row.pm_best, |row| row.personal, true),
        (|row| row.pm_last, |row| row.personal, true),
        (|row| row.worst_decile_last, |row| row.personal, false),
    ];
    let mut text = format!("| {} |\n|{}\n", HEADINGS[..6].join(" | "), " --- |".repeat(6));
    let mut cells: Vec<Vec<String>> =
        rows.iter().map(|row| vec![escaped(&one_line(&row.title))]).collect();
    for (figure, own, ranked) in columns {
        let competing = rows.iter().filter(|row| own(row)).filter_map(|row| figure(row).mean);
        // As printed: figures that look equal are equally good.
        let shown = |mean: f64| format!("{:.1}", mean * 100.0);
        let best = competing.max_by(f64::total_cmp).map(shown).filter(|_| ranked && rows.len() > 1);
        for (row, cells) in rows.iter().zip(&mut cells) {
            let spread = figure(row);
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
    for cells in cells {
        text += &["| ", &cells.join(" | "), " |\n"].concat();
    }
    text
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
