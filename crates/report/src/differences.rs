//! Every method against the baseline, as a table.

use crate::markdown::escaped;
use crate::table::{Cell, Column, table_lines};
use crate::{Contest, Difference};

/// The differences to the baseline in percentage points, with their intervals: a heading and a GitHub Markdown
/// table; nothing if there is nobody to compare with.
pub fn difference_table(contests: &[Contest]) -> String {
    let Some(first) = contests.first() else { return String::new() };
    let differs =
        |place: usize| contests.iter().any(|contest| contest.entries[place].to_baseline.is_some());
    let places: Vec<usize> = (0..first.entries.len()).filter(|place| differs(*place)).collect();
    if places.is_empty() {
        return String::new();
    }
    let mut columns = vec![Column::new("difference", false)];
    for &place in &places {
        columns[0].push(Cell::text(escaped(&first.entries[place].name)));
    }
    for contest in contests {
        let mut column = Column::new(contest.figure.title(), true);
        for &place in &places {
            let entry = &contest.entries[place];
            let text = entry.to_baseline.as_ref().map_or_else(|| "–".to_owned(), shown);
            column.push(Cell::text(text));
        }
        columns.push(column);
    }
    format!("\n{}\n{}", table_lines(&columns), escaped_line(&reading(contests)))
}

/// A paragraph in which nothing is markup.
fn escaped_line(text: &str) -> String {
    escaped(text) + "\n"
}

/// `FedAvg (GM) and Ditto (PM)`, or a name for both.
pub(crate) fn baselines(contests: &[Contest]) -> String {
    let of = |generic: bool| {
        let mut known = contests.iter().filter(|contest| contest.figure.is_generic() == generic);
        known.find_map(baseline_name)
    };
    match (of(true), of(false)) {
        (Some(gm), Some(pm)) if gm != pm => format!("{gm} (GM) and {pm} (PM)"),
        (gm, pm) => gm.or(pm).unwrap_or("nobody").to_owned(),
    }
}

/// The name of what a column compares with.
pub(crate) fn baseline_name(contest: &Contest) -> Option<&str> {
    // Groups of runs may share a label; the baseline is the one without a difference to itself.
    let label = contest.baseline.as_deref()?;
    let mut called = contest.entries.iter().filter(|entry| entry.label == label);
    let own =
        called.clone().find(|entry| entry.to_baseline.is_none() && entry.figure.mean.is_some());
    own.or_else(|| called.next()).map(|entry| entry.name.as_str())
}

/// How to read the table.
pub(crate) fn reading(contests: &[Contest]) -> String {
    let unpaired = contests
        .iter()
        .flat_map(|contest| &contest.entries)
        .filter_map(|entry| entry.to_baseline)
        .any(|difference| !difference.paired);
    let unpaired = if unpaired {
        " Those marked u are of runs that do not share both seeds and clients, and are not paired."
    } else {
        ""
    };
    format!(
        "Percentage points by which a method is above (+) or below (-) {}, with 95 % bootstrap intervals. One \
         that includes 0 tells nothing.{unpaired}",
        baselines(contests)
    )
}

/// `+0.4 [-0.1, +0.9]`.
pub(crate) fn shown(difference: &Difference) -> String {
    let points = |figure: f64| {
        let rounded = (figure * 1000.0).round() / 10.0;
        // Nothing is neither above nor below.
        if rounded == 0.0 { "0.0".to_owned() } else { format!("{rounded:+.1}") }
    };
    let mean = points(difference.mean);
    let unpaired = if difference.paired { "" } else { " u" };
    match difference.interval {
        Some(interval) => {
            format!("{mean} [{}, {}]{unpaired}", points(interval.low), points(interval.high))
        }
        None => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;

    #[test]
    fn differences_are_points_with_a_sign() {
        let interval = Some(Interval { low: -0.0012, high: 0.0091 });
        let difference = Difference { mean: 0.004, interval, paired: true };
        assert_eq!(shown(&difference), "+0.4 [-0.1, +0.9]");
        let none = Difference { mean: -0.000_04, interval: None, paired: true };
        assert_eq!(shown(&none), "0.0");
        let unpaired = Difference { paired: false, ..difference };
        assert_eq!(shown(&unpaired), "+0.4 [-0.1, +0.9] u");
    }
}
