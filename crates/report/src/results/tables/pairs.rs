//! One method against every other, paired by seeds.
//!
//! Runs with the same seed have the same division, the same start and the same order of samples, so what differs within a pair is
//! the methods. Of `n` differences with mean `d` and deviation `s` the 95 % interval is `d ± t(n − 1) · s / √n`, Student's. It
//! says how other seeds would come out with these clients and test samples; the marks of the other tables also draw those
//! anew ([`crate::bootstrap`]) and are stricter.

use super::methods::{MODELS, Model};
use super::{Results, Shown, Table};
use crate::bootstrap::{mean, student};
use crate::results::groups::{Cell, Line, Pick};

/// By how much a method is above the others, in every cell where it has run.
pub(super) fn over(results: &Results, method: &str, only: Option<&str>) -> Table {
    let cells = results.cells();
    let cells: Vec<&Cell<'_>> =
        cells.iter().filter(|cell| only.is_none_or(|only| cell.name == only)).collect();
    let named = cells.iter().any(|cell| !cell.name.is_empty());
    let mut head = vec![format!("{method} over")];
    head.extend(named.then(|| "where".to_owned()));
    for model in &MODELS {
        head.extend(["best", "last"].map(|which| format!("{} {which}", model.title)));
    }
    let mut rows = Vec::new();
    for cell in cells {
        let Some(first) = cell.lines.iter().find(|line| line.method == method) else { continue };
        for other in cell.lines.iter().filter(|line| line.method != method) {
            let mut row = vec![Shown::plain(other.method)];
            row.extend(named.then(|| Shown::plain(&*cell.name)));
            for model in &MODELS {
                row.extend([model.best.1, model.last.1].map(|pick| gap(model, first, other, pick)));
            }
            rows.push(row);
        }
    }
    Table { title: String::new(), head, rows }
}

/// What is to be said below the table.
pub(super) fn remarks(table: &Table) -> Vec<String> {
    let intervals = table.rows.iter().flatten().filter(|shown| shown.text.contains('(')).count();
    let chance = match intervals / 20 {
        0 => "less than one",
        1 => "one",
        _ => "one in twenty",
    };
    vec![format!(
        "Points by which the mean over the common seeds is higher, with Student's 95 % interval of the paired differences; bold: it excludes 0. Of these {intervals} intervals, {chance} would by chance."
    )]
}

/// The difference of one figure, if both methods train the model.
fn gap(model: &Model, first: &Line<'_>, other: &Line<'_>, pick: Pick) -> Shown {
    if !(model.own)(first) || !(model.own)(other) {
        return Shown { aside: true, ..Shown::plain("–") };
    }
    let pairs = first.runs.iter().filter_map(|run| {
        let beside = other.runs.iter().find(|beside| beside.seed == run.seed)?;
        let sound = run.trouble.is_none() && beside.trouble.is_none();
        let figures = pick(run.scores.as_ref()?).zip(pick(beside.scores.as_ref()?));
        let (mine, theirs) = figures.filter(|_| sound)?;
        Some((mine - theirs) * 100.0)
    });
    let gaps: Vec<f64> = pairs.collect();
    match interval(&gaps) {
        None if gaps.is_empty() => Shown::plain("–"),
        None => Shown::plain(signed(mean(&gaps))),
        Some((low, high)) => Shown {
            bold: low > 0.0 || high < 0.0,
            ..Shown::plain(format!("{} ({} to {})", signed(mean(&gaps)), signed(low), signed(high)))
        },
    }
}

/// Student's 95 % interval of a mean; none of a single value.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let half = student(freedom) * (squares / freedom as f64 / values.len() as f64).sqrt();
    Some((middle - half, middle + half))
}

/// With its sign and one decimal; a true minus sign, since tables are read by people.
fn signed(points: f64) -> String {
    format!("{points:+.1}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences 1, 2, 3: mean 2, deviation 1, t(2) = 4.3027, so 2 ± 4.3027/√3 = 2 ± 2.484.
    #[test]
    fn the_interval_is_students() {
        let (low, high) = interval(&[1.0, 2.0, 3.0]).unwrap();
        assert!((low - (2.0 - 2.484_16)).abs() < 1e-3 && (high - (2.0 + 2.484_16)).abs() < 1e-3);
        assert_eq!(interval(&[1.0]), None);
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[0.5, 0.5]), Some((0.5, 0.5)));
        assert_eq!([1.25, -0.31, -0.01].map(signed), ["+1.2", "−0.3", "−0.0"]);
    }
}
