//! A comparison of runs for spreadsheets and for LaTeX.

use crate::alone::WORSE_OFF;
use crate::compare::{COLUMNS, coverage, legend, letter};
use crate::export::csv::{Sheet, cell};
use crate::export::latex::{Grid, NEEDS, cells, environment, escaped, figure};
use crate::scoreboard::{FIGURES, first_heading};
use crate::seeds::{notes, worse_off};
use crate::{Comparison, Group, GroupRow, SeedRow, Standing, Which};

/// A line for every method of every group: what differs, means and deviations, and the difference to the baseline with
/// its interval, all as fractions from 0 to 1.
pub fn comparison_csv(found: &Comparison) -> Vec<u8> {
    let mut headings: Vec<String> =
        ["group", "label", "method", "seeds"].map(str::to_owned).to_vec();
    headings.extend(found.keys.iter().cloned());
    let columns = ["gm_best", "gm_last", "pm_best", "pm_last"];
    for column in columns {
        let parts = ["mean", "deviation", "standing", "difference", "low", "high"];
        headings.extend(parts.map(|part| format!("{column}_{part}")));
    }
    headings.extend(["worst_10_last_mean", "worst_10_last_deviation"].map(str::to_owned));
    headings.extend(["worse_off_mean", "worse_off_of"].map(str::to_owned));
    let mut sheet = Sheet::new("comparison.csv", &[]).with(headings);
    for (place, group, row) in each(found) {
        let seeds: Vec<String> = group.seeds.iter().map(u64::to_string).collect();
        let mut line = vec![letter(place), row.row.label.clone(), row.row.name.clone()];
        line.push(seeds.join(" "));
        let value = |key: &String| group.values.get(key).or_else(|| row.values.get(key)).cloned();
        line.extend(found.keys.iter().map(|key| value(key).unwrap_or_default()));
        let spreads = [row.row.gm_best, row.row.gm_last, row.row.pm_best, row.row.pm_last];
        for (which, spread) in Which::ALL.into_iter().zip(spreads) {
            let standing = row.row.standing.of(which).map(|standing| match standing {
                Standing::Ahead => "ahead",
                Standing::Tied => "level",
            });
            let difference = difference(found, place, &row.row.label, which);
            let interval = difference.and_then(|difference| difference.interval);
            line.extend([
                cell(spread.mean),
                cell(spread.deviation),
                cell(standing),
                cell(difference.map(|difference| difference.mean)),
                cell(interval.map(|interval| interval.low)),
                cell(interval.map(|interval| interval.high)),
            ]);
        }
        let worst = row.row.worst_decile_last;
        line.extend([cell(worst.mean), cell(worst.deviation)]);
        let worse = row.row.worse_than_alone;
        line.extend([cell(worse.map(|found| found.worse)), cell(worse.map(|found| found.clients))]);
        sheet.push(line);
    }
    sheet.file().bytes
}

/// Every method with its group.
fn each(found: &Comparison) -> impl Iterator<Item = (usize, &Group, &GroupRow)> {
    let groups = found.groups.iter().enumerate();
    groups.flat_map(|(place, group)| group.rows.iter().map(move |row| (place, group, row)))
}

/// How far a method of a group is from the baseline of its problem. Entries are in the order of the groups' methods.
fn difference(
    found: &Comparison,
    group: usize,
    label: &str,
    which: Which,
) -> Option<crate::Difference> {
    let problem = found.problems.iter().find(|problem| problem.groups.contains(&group))?;
    let contest = problem.contests.iter().find(|contest| contest.figure == which)?;
    let mut before = 0;
    for place in problem.groups.iter().take_while(|place| **place != group) {
        before += found.groups[*place].rows.len();
    }
    let own = found.groups[group].rows.iter().position(|row| row.row.label == label)?;
    contest.entries.get(before + own)?.to_baseline
}

/// The table as an environment `table` with its footnotes. What is bold or level is what `formant compare` prints.
pub fn comparison_latex(found: &Comparison) -> String {
    let several = found.groups.len() > 1;
    let in_columns = found.keys.len() <= COLUMNS;
    let mut names = vec![first_heading(found.metric)];
    if several && in_columns {
        names.extend(found.keys.iter().cloned());
    } else if several {
        names.push("group".to_owned());
    }
    let rows: Vec<SeedRow> = each(found).map(|(_, _, row)| row.row.clone()).collect();
    let mut worse = worse_off(rows.iter()).into_iter();
    let heading = (worse.len() > 0).then_some(WORSE_OFF);
    let headings = names.iter().map(String::as_str).chain(FIGURES).chain(heading);
    let headings = headings.map(escaped).collect();
    let mut grid = Grid { names: names.len(), headings, rows: Vec::new() };
    for (place, group, row) in each(found) {
        let failed = if row.row.failed > 0 { escaped("†") } else { String::new() };
        let mut line = vec![escaped(&row.row.name) + &failed];
        if several && in_columns {
            let value = |key| group.values.get(key).or_else(|| row.values.get(key));
            line.extend(found.keys.iter().map(|key| escaped(value(key).map_or("", |v| v))));
        } else if several {
            line.push(letter(place));
        }
        let of = &row.row;
        let spreads = [of.gm_best, of.gm_last, of.pm_best, of.pm_last, of.worst_decile_last];
        line.extend(cells(of, spreads, true));
        line.extend(worse.next().as_ref().map(figure));
        grid.rows.push(line);
    }
    let mut below = notes(&rows);
    if several && !in_columns {
        below.extend(found.groups.iter().enumerate().map(|(place, group)| legend(place, group)));
    }
    below.extend(coverage(&found.groups));
    let mut text = String::from(NEEDS);
    let caption = format!("Comparison by {}, in percent.", found.metric.title());
    environment(&mut text, "comparison", &caption, &[&grid], &below);
    text
}
