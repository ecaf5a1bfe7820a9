//! Runs of different experiments side by side: what differs between them is a column.
//!
//! Runs that differ in their seeds alone are one group. Groups whose data are the same solve the same problem, and
//! their methods compete; where they also have the same seeds and clients, differences are paired.

use std::collections::{BTreeMap, BTreeSet};

use formant_runtime::event::Metric;
use serde::Serialize;
use serde_json::Value;

use crate::differences::difference_table;
use crate::entrant::Entrant;
use crate::markdown::escaped;
use crate::paired::{contest, named, panel};
use crate::quantity::shortened;
use crate::scoreboard::{first_heading, names};
use crate::seeds::{check_repetitions, figure_columns, notes, setting, worse_off_column};
use crate::summary::unranked;
use crate::table::{Cell, Column, table_lines};
use crate::{Contest, ReportError, Row, RunLog, SeedRow, Which, covers, over_seeds};

/// More differing keys than this are told below the table instead of in columns.
pub(crate) const COLUMNS: usize = 3;

/// Characters of a value in a column.
const VALUE: usize = 18;

/// What is shown for a key that is not set.
const UNSET: &str = "–";

/// Groups of runs, and what differs between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The keys that differ, dotted; those of methods begin with `method.`.
    pub keys: Vec<String>,
    /// The groups, in the order in which they were named.
    pub groups: Vec<Group>,
    /// For each problem, all columns.
    pub problems: Vec<Problem>,
    /// What figures are by.
    #[serde(skip_serializing_if = "Metric::is_accuracy")]
    pub metric: Metric,
}

/// Runs that differ in their seeds alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The places of its runs among those that were named, by seed.
    pub runs: Vec<usize>,
    /// Their seeds.
    pub seeds: Vec<u64>,
    /// What lies within ±.
    pub covers: String,
    /// What it has of the keys that differ and are of no method.
    pub values: BTreeMap<String, String>,
    /// Its methods.
    pub rows: Vec<GroupRow>,
}

/// A method of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRow {
    /// Its figures.
    #[serde(flatten)]
    pub row: SeedRow,
    /// What it has of the keys that differ between its own kind.
    pub values: BTreeMap<String, String>,
}

/// Groups whose data are the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// Their places.
    pub groups: Vec<usize>,
    /// Column by column, all methods of all of them.
    pub contests: Vec<Contest>,
}

/// Compares runs of any experiments by one metric.
pub fn compare(logs: Vec<RunLog>, baseline: Option<&str>) -> Result<Comparison, ReportError> {
    let metric = logs.first().map_or(Metric::Accuracy, |log| log.started.metrics.first());
    if let Some(other) = logs.iter().map(|log| log.started.metrics.first()).find(|m| *m != metric) {
        return Err(ReportError::Unlike {
            key: "evaluation.metrics".to_owned(),
            one: metric.title().to_owned(),
            another: other.title().to_owned(),
        });
    }
    let members = grouped(logs);
    let general: Vec<_> = members.iter().map(|group| general_keys(&group.logs[0])).collect();
    let differing = differing(&general);
    let own = own_keys(&members);
    let mut groups = Vec::new();
    for (group, general) in members.iter().zip(&general) {
        check_repetitions(&group.logs)?;
        let values = picked(general, &differing);
        let rows = over_seeds(&group.logs)?.into_iter().enumerate().map(|(place, row)| {
            let values =
                own.get(&row.label).map(|keys| picked(&method_keys(&group.logs[0], place), keys));
            GroupRow { row, values: values.unwrap_or_default() }
        });
        groups.push(Group {
            runs: group.places.clone(),
            seeds: group.logs.iter().map(|log| log.started.seed).collect(),
            covers: covers(&group.logs),
            values,
            rows: rows.collect(),
        });
    }
    let own = own.into_values().flatten().collect::<BTreeSet<String>>();
    let keys: Vec<String> = differing.into_iter().chain(own).collect();
    // Groups have letters where what differs is too much for columns.
    let lettered = groups.len() > 1 && keys.len() > COLUMNS;
    let problems = compete(&members, &mut groups, metric, baseline, lettered)?;
    Ok(Comparison { keys, groups, problems, metric })
}

/// Logs of one group, and where they were named.
struct Member {
    setting: Value,
    places: Vec<usize>,
    logs: Vec<RunLog>,
}

fn grouped(logs: Vec<RunLog>) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    let mut numbered: Vec<(usize, RunLog)> = logs.into_iter().enumerate().collect();
    let order: Vec<Value> = numbered.iter().map(|(_, log)| setting(log)).collect();
    numbered.sort_by_key(|(_, log)| log.started.seed);
    for setting in order {
        if !found.iter().any(|group| group.setting == setting) {
            found.push(Member { setting, places: Vec::new(), logs: Vec::new() });
        }
    }
    for (place, log) in numbered {
        let setting = setting(&log);
        if let Some(group) = found.iter_mut().find(|group| group.setting == setting) {
            group.places.push(place);
            group.logs.push(log);
        }
    }
    found
}

/// An experiment's keys without those of its methods.
fn general_keys(log: &RunLog) -> BTreeMap<String, String> {
    let mut setting = setting(log);
    if let Some(sections) = setting.as_object_mut() {
        sections.remove("method");
    }
    let mut keys = BTreeMap::new();
    flatten("", &setting, &mut keys);
    keys
}

/// The keys of one method, without its names.
fn method_keys(log: &RunLog, place: usize) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    let settings = log.started.config.get("method").and_then(|methods| methods.get(place));
    for value in [Some(&log.methods[place].info.hyper_parameters), settings].into_iter().flatten() {
        flatten("method", value, &mut keys);
    }
    for name in ["method.name", "method.label", "method.title"] {
        keys.remove(name);
    }
    keys
}

fn flatten(at: &str, value: &Value, keys: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(&at, value, keys);
            }
        }
        Value::String(text) => {
            keys.insert(at.to_owned(), text.clone());
        }
        other => {
            keys.insert(at.to_owned(), other.to_string());
        }
    }
}

/// Keys that do not have the same value everywhere.
fn differing(all: &[BTreeMap<String, String>]) -> BTreeSet<String> {
    let keys: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    let differs = |key: &&String| {
        let values: BTreeSet<Option<&String>> = all.iter().map(|keys| keys.get(*key)).collect();
        values.len() > 1
    };
    keys.into_iter().filter(differs).cloned().collect()
}

/// For each label, the keys in which its methods differ between the groups.
fn own_keys(members: &[Member]) -> BTreeMap<String, BTreeSet<String>> {
    let mut by_label: BTreeMap<String, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    for group in members {
        for (place, method) in group.logs[0].methods.iter().enumerate() {
            let keys = method_keys(&group.logs[0], place);
            by_label.entry(method.info.label.clone()).or_default().push(keys);
        }
    }
    by_label.into_iter().map(|(label, all)| (label, differing(&all))).collect()
}

fn picked(from: &BTreeMap<String, String>, keys: &BTreeSet<String>) -> BTreeMap<String, String> {
    let value = |key: &String| from.get(key).cloned().unwrap_or_else(|| UNSET.to_owned());
    keys.iter().map(|key| (key.clone(), value(key))).collect()
}

/// Lets the methods compete that solve the same problem.
fn compete(
    members: &[Member],
    groups: &mut [Group],
    metric: Metric,
    baseline: Option<&str>,
    lettered: bool,
) -> Result<Vec<Problem>, ReportError> {
    let rows: Vec<Vec<Vec<Row>>> =
        members.iter().map(|group| group.logs.iter().map(unranked).collect()).collect();
    let mut problems: Vec<(Value, Vec<usize>)> = Vec::new();
    for (place, group) in members.iter().enumerate() {
        let data = data_of(&group.logs[0]);
        match problems.iter_mut().find(|(known, _)| *known == data) {
            Some((_, places)) => places.push(place),
            None => problems.push((data, vec![place])),
        }
    }
    let (mut found, mut missed) = (Vec::new(), None);
    for (_, places) in &problems {
        let (mut panels, mut entrants, mut of) = (Vec::new(), Vec::new(), Vec::new());
        for &place in places {
            let logs = &members[place].logs;
            let seeds: Vec<u64> = logs.iter().map(|log| log.started.seed).collect();
            let number = panels.len();
            let drawn = panel(logs, number as u64);
            let same = |(known, other): &(Vec<u64>, crate::bootstrap::Panel)| {
                *known == seeds
                    && other.weights == drawn.weights
                    && other.one_division == drawn.one_division
            };
            let number = panels.iter().position(same).unwrap_or(number);
            if number == panels.len() {
                panels.push((seeds, drawn));
            }
            for (method, name) in names(&rows[place][0]).into_iter().enumerate() {
                let name = if lettered {
                    format!("{} {name}", letter(place))
                } else {
                    titled(name, &groups[place], method, places.len() > 1)
                };
                entrants.push(Entrant::new(name, method, number, logs, &rows[place]));
                of.push((place, method));
            }
        }
        let panels: Vec<_> = panels.into_iter().map(|(_, panel)| panel).collect();
        let base = match baseline.map(|name| named(&entrants, name)).transpose() {
            Ok(base) => base,
            Err(error) => {
                missed = Some(error);
                continue;
            }
        };
        let contests = Which::ALL.map(|which| contest(which, metric, &entrants, &panels, base));
        for contest in &contests {
            for (entry, (group, method)) in contest.entries.iter().zip(&of) {
                groups[*group].rows[*method].row.standing.set(contest.figure, entry.standing);
            }
        }
        found.push(Problem { groups: places.clone(), contests: contests.into() });
    }
    match missed {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// A method's name with what sets it apart in a problem of several groups.
fn titled(name: String, group: &Group, method: usize, several: bool) -> String {
    let own = group.values.iter().chain(&group.rows[method].values);
    let values: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
    if several && !values.is_empty() { format!("{name} ({})", values.join(", ")) } else { name }
}

/// What makes figures comparable.
fn data_of(log: &RunLog) -> Value {
    let run = &log.started;
    let data = run.config.get("data").cloned().unwrap_or_default();
    serde_json::json!([data, run.dataset, run.data_check, run.split, run.global_test])
}

/// A comparison as a GitHub Markdown table whose columns line up, with notes, and the differences below it.
pub fn comparison_table(found: &Comparison) -> String {
    let several = found.groups.len() > 1;
    let each: Vec<(usize, &Group, &GroupRow)> = found
        .groups
        .iter()
        .enumerate()
        .flat_map(|(place, group)| group.rows.iter().map(move |row| (place, group, row)))
        .collect();
    let mut columns = vec![Column::new(&first_heading(found.metric), false)];
    for (_, _, row) in &each {
        let failed = if row.row.failed > 0 { " †" } else { "" };
        columns[0].push(Cell::text(escaped(&row.row.name) + failed));
    }
    let in_columns = found.keys.len() <= COLUMNS;
    if several && in_columns {
        for key in &found.keys {
            let mut column = Column::new(&escaped(key), false);
            for (_, group, row) in &each {
                let value = group.values.get(key).or_else(|| row.values.get(key));
                column.push(Cell::text(escaped(&shortened(value.map_or("", |v| v), VALUE))));
            }
            columns.push(column);
        }
    } else if several {
        let mut column = Column::new("group", false);
        for (place, _, _) in &each {
            column.push(Cell::text(letter(*place)));
        }
        columns.push(column);
    }
    let rows: Vec<&SeedRow> = each.iter().map(|(_, _, row)| &row.row).collect();
    if several {
        let mut column = Column::new("runs", true);
        for (_, group, _) in &each {
            column.push(Cell::text(group.seeds.len().to_string()));
        }
        columns.push(column);
        figure_columns(&mut columns, &rows, |row| {
            [row.gm_best, row.gm_last, row.pm_best, row.pm_last].map(|spread| (spread, true))
        });
    } else {
        figure_columns(&mut columns, &rows, |row| {
            [row.gm_best, row.gm_last, row.pm_best, row.pm_last, row.worst_decile_last]
                .map(|spread| (spread, true))
        });
    }
    worse_off_column(&mut columns, rows.iter().copied());
    let mut text = table_lines(&columns);
    let all: Vec<SeedRow> = rows.into_iter().cloned().collect();
    let mut below = notes(&all);
    if several && !in_columns {
        below.extend(found.groups.iter().enumerate().map(|(place, group)| legend(place, group)));
    }
    below.extend(coverage(&found.groups));
    for (place, note) in below.iter().enumerate() {
        text.push_str(if place == 0 { "\n- " } else { "- " });
        text.push_str(&escaped(note));
        text.push('\n');
    }
    for problem in &found.problems {
        text.push_str(&difference_table(&problem.contests));
    }
    text
}

/// What ± covers, once for all groups that cover the same.
pub(crate) fn coverage(groups: &[Group]) -> Vec<String> {
    let repeated = groups.iter().filter(|group| group.seeds.len() > 1);
    let covered: BTreeSet<&str> = repeated.map(|group| group.covers.as_str()).collect();
    let seeds = match groups {
        [one] => {
            let seeds: Vec<String> = one.seeds.iter().map(u64::to_string).collect();
            format!("the seeds {}", seeds.join(", "))
        }
        _ => "a group's seeds".to_owned(),
    };
    let alike = covered.len() < 2;
    let note = |covers: &str| {
        let of = groups.iter().enumerate().filter(|(_, group)| group.covers == covers);
        let letters: Vec<String> = of.map(|(place, _)| letter(place)).collect();
        let of = if alike { String::new() } else { format!("{}: ", letters.join(", ")) };
        format!("{of}± is one standard deviation over {seeds}: {covers}.")
    };
    covered.into_iter().map(note).collect()
}

/// A, B, …, Z, A1, …
pub(crate) fn letter(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    if place < 26 { letter.to_string() } else { format!("{letter}{}", place / 26) }
}

pub(crate) fn legend(place: usize, group: &Group) -> String {
    let own = group.rows.iter().flat_map(|row| {
        row.values.iter().map(move |(key, value)| format!("{} {key}={value}", row.row.label))
    });
    let general = group.values.iter().map(|(key, value)| format!("{key}={value}"));
    format!("{}: {}", letter(place), general.chain(own).collect::<Vec<_>>().join(", "))
}
