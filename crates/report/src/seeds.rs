//! Several runs of one experiment that differ in their seeds, as one table of means.

use formant_runtime::event::{Guarded, Metric, Spent};
use formant_runtime::first_difference;
use serde::Serialize;
use serde_json::Value;

use crate::alone::{MeanWorseOff, WORSE_OFF, guard_note, guards};
use crate::attacked::{Attacked, attack_note};
use crate::markdown::escaped;
use crate::paired::standings;
use crate::privacy::spent;
use crate::quantity::counted;
use crate::scoreboard::{ASIDE_GM, ASIDE_PM, FIGURES, Figure, TIED, first_heading, names};
use crate::summary::unranked;
use crate::table::{Cell, Column, table_lines};
use crate::{FurtherRow, ReportError, Row, RunLog, Standings, Which};

/// One method over all runs, by the first metric of the runs: fractions from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedRow {
    /// Unique in each run.
    pub label: String,
    /// How tables call it.
    pub title: String,
    /// How tables call it: its title, or its label if several methods share the title.
    pub name: String,
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
    /// Clients that are worse off than by training alone; absent without a method `local`, and for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_than_alone: Option<MeanWorseOff>,
    /// What clients of all runs served at last in place of their personal models; absent if nobody had a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// What the rounds of one run together may have revealed of a client, of the run that has revealed most;
    /// absent without `[privacy]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy: Option<Spent>,
    /// Who attacked the simulations, as the first of them says; absent if nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacked: Option<Attacked>,
    /// Where it stands among the others.
    pub standing: Standings,
    /// Runs in which it diverged or gave up.
    pub failed: usize,
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
    check_repetitions(logs)?;
    if logs.is_empty() {
        return Ok(Vec::new());
    }
    let runs: Vec<Vec<Row>> = logs.iter().map(unranked).collect();
    let (standings, names) = (standings(logs, &runs), names(&runs[0]));
    let figures = |place: usize, figure: fn(&Row) -> Option<f64>| {
        Spread::of(&runs.iter().map(|rows| figure(&rows[place])).collect::<Vec<_>>())
    };
    Ok((0..runs[0].len())
        .map(|place| {
            let row = &runs[0][place];
            SeedRow {
                label: row.label.clone(),
                title: row.title.clone(),
                name: names[place].clone(),
                generic: row.generic,
                personal: row.personal,
                metric: row.metric,
                gm_best: figures(place, |row| row.gm_best),
                gm_last: figures(place, |row| row.gm_last),
                pm_best: figures(place, |row| row.pm_best),
                pm_last: figures(place, |row| row.pm_last),
                worst_decile_last: figures(place, |row| row.worst_decile_last),
                worse_than_alone: MeanWorseOff::of(
                    runs.iter().map(|rows| rows[place].worse_than_alone),
                ),
                attacked: runs.first().and_then(|rows| rows[place].attacked.clone()).map(|first| {
                    let own = runs.iter().map(|rows| rows[place].attacked.as_ref()?.pm_last);
                    let sum: Option<f64> = own.sum();
                    Attacked { pm_last: sum.map(|sum| sum / runs.len() as f64), ..first }
                }),
                guard: guards(runs.iter().map(|rows| rows[place].guard.as_ref())),
                privacy: runs
                    .iter()
                    .filter_map(|rows| rows[place].privacy)
                    .max_by(|one, other| one.epsilon.total_cmp(&other.epsilon)),
                standing: standings[place],
                failed: runs.iter().filter(|rows| rows[place].has_failed()).count(),
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

/// The means as a GitHub Markdown table whose columns line up; a second one has the other metrics.
///
/// A mean of a GM or PM column is bold if it is ahead of every other by more than the noise. Otherwise the best one
/// and those that cannot be told from it have a mark, which a footnote explains.
pub fn seed_table(rows: &[SeedRow]) -> String {
    let metric = rows.first().map_or(Metric::Accuracy, |row| row.metric);
    let mut columns = vec![Column::new(&first_heading(metric), false)];
    for row in rows {
        let failed = if row.failed > 0 { " †" } else { "" };
        columns[0].push(Cell::text(escaped(&row.name) + failed));
    }
    figure_columns(&mut columns, &rows.iter().collect::<Vec<_>>(), |row| {
        [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last]
            .map(|spread| (spread, true))
    });
    worse_off_column(&mut columns, rows.iter());
    let mut text = table_lines(&columns);
    let metrics = rows.first().map_or(&[][..], |row| &row.further);
    if !metrics.is_empty() {
        text.push('\n');
        text += &further_table(rows);
    }
    for (place, note) in notes(rows).iter().enumerate() {
        text.push_str(if place == 0 { "\n- " } else { "- " });
        text.push_str(&escaped(note));
        text.push('\n');
    }
    text
}

fn further_table(rows: &[SeedRow]) -> String {
    let mut columns = vec![Column::new("further metric", false), Column::new("method", false)];
    let number = rows.first().map_or(0, |row| row.further.len());
    let each: Vec<(usize, &SeedRow)> =
        (0..number).flat_map(|place| rows.iter().map(move |row| (place, row))).collect();
    for (place, row) in &each {
        columns[0].push(Cell::text(row.further[*place].metric.title().to_owned()));
        columns[1].push(Cell::text(escaped(&row.name)));
    }
    for (place, heading) in FIGURES.iter().enumerate() {
        let mut column = Column::new(heading, true);
        for (which, row) in &each {
            let further = &row.further[*which];
            let spreads = [
                further.gm_best,
                further.gm_last,
                further.pm_best,
                further.pm_last,
                further.worst_decile_last,
            ];
            column.push(Cell::figure(&row.cell(spreads[place], place, false), false));
        }
        columns.push(column);
    }
    table_lines(&columns)
}

/// The columns of figures, each with whether its standing is shown.
pub(crate) fn figure_columns<const N: usize>(
    columns: &mut Vec<Column>,
    rows: &[&SeedRow],
    figures: impl Fn(&SeedRow) -> [(Spread, bool); N],
) {
    for (place, heading) in FIGURES.iter().take(N).enumerate() {
        let mut column = Column::new(heading, true);
        for row in rows {
            let (spread, ranked) = figures(row)[place];
            column.push(Cell::figure(&row.cell(spread, place, ranked), false));
        }
        columns.push(column);
    }
}

/// The column of clients that are worse off, if somebody trains alone.
pub(crate) fn worse_off_column<'r>(
    columns: &mut Vec<Column>,
    rows: impl Iterator<Item = &'r SeedRow> + Clone,
) {
    let cells = worse_off(rows);
    if !cells.is_empty() {
        let mut column = Column::new(WORSE_OFF, true);
        for figure in &cells {
            column.push(Cell::figure(figure, false));
        }
        columns.push(column);
    }
}

/// The cells of that column; none where nobody trains alone.
pub(crate) fn worse_off<'r>(rows: impl Iterator<Item = &'r SeedRow> + Clone) -> Vec<Figure> {
    MeanWorseOff::column(rows.map(|row| (row.worse_than_alone, row.personal)))
}

impl SeedRow {
    /// A figure as it stands in a column.
    pub(crate) fn cell(&self, spread: Spread, column: usize, ranked: bool) -> Figure {
        let own = if column < 2 { self.generic } else { self.personal };
        let which = Which::ALL.get(column).filter(|_| ranked);
        let standing = which.and_then(|which| self.standing.of(*which));
        Figure::of(spread.text(), !own && spread.mean.is_some(), standing)
    }
}

/// What stands below a table of means.
pub(crate) fn notes(rows: &[SeedRow]) -> Vec<String> {
    let mut notes = Vec::new();
    if rows.iter().any(|row| row.standing.has_ties()) {
        notes.push(TIED.to_owned());
    }
    if rows.iter().any(|row| !row.generic && row.gm_last.mean.is_some()) {
        notes.push(ASIDE_GM.to_owned());
    }
    if rows.iter().any(|row| !row.personal && row.pm_last.mean.is_some()) {
        notes.push(ASIDE_PM.to_owned());
    }
    for row in rows {
        let told = row.privacy.as_ref().map(|privacy| format!("{}: {}.", row.name, spent(privacy)));
        notes.extend(told);
    }
    notes.extend(guard_note(rows.iter().map(|row| (&*row.name, row.guard.as_ref()))));
    notes.extend(attack_note(rows.iter().map(|row| (&*row.name, row.attacked.as_ref()))));
    for row in rows.iter().filter(|row| row.failed > 0) {
        notes.push(format!(
            "† {}: clients of it diverged, or it gave up, in {}. Not ranked.",
            row.name,
            counted(row.failed, "run")
        ));
    }
    notes
}

/// Refuses runs that are no repetitions of one experiment.
pub(crate) fn check_repetitions(logs: &[RunLog]) -> Result<(), ReportError> {
    let Some((first, others)) = logs.split_first() else { return Ok(()) };
    let setting = setting(first);
    let mut seeds = vec![first.started.seed];
    for other in others {
        if let Some((key, one, another)) = first_difference(&setting, &self::setting(other)) {
            return Err(ReportError::Unlike { key, one, another });
        }
        let seed = other.started.seed;
        if seeds.contains(&seed) {
            return Err(ReportError::SameSeed { seed });
        }
        seeds.push(seed);
    }
    Ok(())
}

/// The experiment without what may differ between repetitions.
pub(crate) fn setting(log: &RunLog) -> Value {
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
