//! The results table before it becomes Markdown, terminal text or HTML.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use formant_runtime::event::{Metric, Phase};

use crate::alone::{column, guard_note};
use crate::attacked::attack_note;
use crate::privacy::spent;
use crate::quantity::{bytes, counted, duration, one_line, percent, shortened};
use crate::{Row, RunLog, Standing};

/// What stands above the columns of figures.
pub(crate) const FIGURES: [&str; 5] = ["GM best", "GM last", "PM best", "PM last", "worst 10 %"];

/// What stands above the names of the methods: with the metric, unless it is accuracy.
pub(crate) fn first_heading(metric: Metric) -> String {
    match metric {
        Metric::Accuracy => "method".to_owned(),
        other => format!("method, by {}", other.title()),
    }
}

/// What the columns hold, for people who see them for the first time.
pub(crate) fn reading(metric: Metric) -> String {
    let (all, one) = match metric {
        Metric::Accuracy => ("Accuracies are", "PM accuracy".to_owned()),
        Metric::CalibrationError => {
            ("Calibration errors, of which less is better, are", "PM calibration error".to_owned())
        }
        Metric::BalancedAccuracy => ("Balanced accuracies are", "PM balanced accuracy".to_owned()),
        other => ("Figures are", format!("PM {}", other.title())),
    };
    let named = match metric {
        Metric::MacroF1 | Metric::Auroc => format!("{} in percent", metric.title()),
        _ => "in percent".to_owned(),
    };
    format!(
        "{all} {named}. GM: the generic model on the global test set. PM: each client's personal model \
         on its own test set, averaged with the test sizes as weights. Best is over the rounds, last is \
         the last evaluation. Worst 10 %: mean {one} of the worst tenth of the clients at the last \
         evaluation."
    )
}

/// What the table of further metrics holds.
pub(crate) const FURTHER_READING: &str = "The same models by the other metrics, in percent; best is \
     the round that is best in the first table. Of a calibration error, less is better. Not ranked.";

/// What the marks of a figure mean.
pub(crate) const TIED: &str = "≈ Level with the best of the column: the 95 % interval of the difference includes 0. \
     Bold is ahead of every other.";

/// What a figure in parentheses is, in a column of generic models.
pub(crate) const ASIDE_GM: &str = "(GM) The method trains no generic model: in parentheses, its personal models averaged, on the global test set. Not ranked.";

/// And in one of personal models.
pub(crate) const ASIDE_PM: &str = "(PM) The method trains no personal models: in parentheses, its generic model on the clients' own test sets. Not ranked.";

/// What the noise is made of in a table of one run.
const ONE_RUN: &str = "Of one run, the interval covers clients (PM) and test samples (GM) alone; --seeds 5 would add \
     other initial values and batches.";

/// The reason of an upload whose round has closed.
const LATE: &str = "late";

/// Characters of a reason that are shown.
const REASON: usize = 30;

/// All rows with their marks, and the footnotes below them.
pub(crate) struct Scoreboard {
    pub(crate) metric: Metric,
    pub(crate) entries: Vec<Entry>,
    /// How many clients each leaves worse off than training alone; empty where nobody trains alone.
    pub(crate) worse_off: Vec<Figure>,
    pub(crate) notes: Vec<String>,
    /// The other metrics, one after the other, each with all methods.
    pub(crate) further: Vec<FurtherEntry>,
}

/// One method by another metric.
pub(crate) struct FurtherEntry {
    pub(crate) metric: Metric,
    /// The method's place.
    pub(crate) slot: usize,
    pub(crate) name: String,
    pub(crate) figures: [Figure; 5],
}

/// One method.
pub(crate) struct Entry {
    /// Its title, or its label if several methods share the title.
    pub(crate) name: String,
    /// How far it got, if it did not get to the end.
    pub(crate) progress: Option<String>,
    /// Whether a footnote speaks of it.
    pub(crate) noted: bool,
    /// One figure per column between method and time.
    pub(crate) figures: [Figure; 5],
    pub(crate) time: String,
}

/// One figure.
pub(crate) struct Figure {
    /// Percent, or a dash.
    pub(crate) text: String,
    /// Whether it goes in parentheses: it is not of the model that the column is about.
    pub(crate) aside: bool,
    /// Whether it is ahead of all others of its column by more than the noise.
    pub(crate) best: bool,
    /// Whether it is the best of its column or cannot be told from that.
    pub(crate) tied: bool,
}

impl Scoreboard {
    pub(crate) fn new(rows: &[Row]) -> Self {
        let entries: Vec<Entry> =
            names(rows).into_iter().zip(rows).map(|(name, row)| entry(name, row)).collect();
        let metric = rows.first().map_or(Metric::Accuracy, |row| row.metric);
        let notes = notes(&entries, rows);
        Self { metric, entries, worse_off: column(rows), notes, further: further(rows) }
    }
}

/// What tables and plots call the methods: their titles, or the labels of those that share one.
pub(crate) fn names(rows: &[Row]) -> Vec<String> {
    called(rows.iter().map(|row| (row.title.as_str(), row.label.as_str())))
}

/// The same of a log whose rows nobody needs.
pub(crate) fn names_of(log: &RunLog) -> Vec<String> {
    let infos = log.methods.iter().map(|method| &method.info);
    called(infos.map(|info| (info.title.as_str(), info.label.as_str())))
}

/// From titles and labels.
fn called<'a>(methods: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let mut uses = BTreeMap::new();
    for (title, _) in methods.clone() {
        *uses.entry(title).or_insert(0) += 1;
    }
    let own = |title: &str| !title.trim().is_empty() && uses.get(title) == Some(&1);
    methods.map(|(title, label)| one_line(if own(title) { title } else { label })).collect()
}

/// The table of the other metrics.
fn further(rows: &[Row]) -> Vec<FurtherEntry> {
    let metrics = rows.first().map(|row| row.further.iter().map(|further| further.metric));
    let mut all = Vec::new();
    for (place, metric) in metrics.into_iter().flatten().enumerate() {
        for (slot, (name, row)) in names(rows).into_iter().zip(rows).enumerate() {
            let found = &row.further[place];
            let figures = [
                Figure::new(found.gm_best, row.generic, None),
                Figure::new(found.gm_last, row.generic, None),
                Figure::new(found.pm_best, row.personal, None),
                Figure::new(found.pm_last, row.personal, None),
                Figure::new(found.worst_decile_last, row.personal, None),
            ];
            all.push(FurtherEntry { metric, slot, name, figures });
        }
    }
    all
}

impl Figure {
    fn new(figure: Option<f64>, own: bool, standing: Option<Standing>) -> Self {
        let text = figure.map_or_else(|| "–".to_owned(), percent);
        Self::of(text, !own && figure.is_some(), standing)
    }

    pub(crate) fn of(text: String, aside: bool, standing: Option<Standing>) -> Self {
        let best = standing == Some(Standing::Ahead);
        Self { text, aside, best, tied: standing == Some(Standing::Tied) }
    }
}

fn entry(name: String, row: &Row) -> Entry {
    let begun = row.rounds > 0 || row.gm_last.is_some() || row.pm_last.is_some();
    let progress = match (row.finished, begun) {
        (true, _) if row.rounds >= row.planned => None,
        (false, false) => Some("not started".to_owned()),
        _ if row.stopped.is_some() && !row.gave_up() => {
            Some(format!("stopped after round {}", row.rounds))
        }
        _ => Some(format!("round {}/{}", row.rounds, row.planned)),
    };
    Entry {
        name,
        progress,
        noted: row.failed_phases > 0 || row.diverged_evaluations > 0 || row.gave_up(),
        figures: [
            Figure::new(row.gm_best, row.generic, row.standing.gm_best),
            Figure::new(row.gm_last, row.generic, row.standing.gm_last),
            Figure::new(row.pm_best, row.personal, row.standing.pm_best),
            Figure::new(row.pm_last, row.personal, row.standing.pm_last),
            Figure::new(row.worst_decile_last, row.personal, None),
        ],
        time: if begun { duration(row.seconds) } else { "–".to_owned() },
    }
}

fn notes(entries: &[Entry], rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if rows.iter().any(|row| row.standing.has_ties()) {
        notes.push(format!("{TIED} {ONE_RUN}"));
    }
    let aside = |columns: &[usize]| {
        entries.iter().any(|entry| columns.iter().any(|&column| entry.figures[column].aside))
    };
    if aside(&[0, 1]) {
        notes.push(ASIDE_GM.to_owned());
    }
    if aside(&[2, 3, 4]) {
        notes.push(ASIDE_PM.to_owned());
    }
    for (entry, row) in entries.iter().zip(rows) {
        let figure = |accuracy: Option<f64>| accuracy.map_or_else(|| "–".to_owned(), percent);
        for candidate in &row.gm_candidates {
            notes.push(format!(
                "{}: its other candidate for the GM, {}, has {} at best and {} at last.",
                entry.name,
                candidate.name,
                figure(candidate.best),
                figure(candidate.last)
            ));
        }
        if row.refused > 0 {
            notes.push(format!("{}: {}.", entry.name, refusals(row)));
        }
        if let Some(privacy) = &row.privacy {
            notes.push(format!("{}: {}.", entry.name, spent(privacy)));
        }
        if let Some(degenerate) = &row.degenerate {
            notes.push(format!("{}: {degenerate}.", entry.name));
        }
        if let Some(best) = row.kept_round {
            notes.push(format!("{}: {}.", entry.name, patience(row, best)));
        }
    }
    if rows.iter().any(|row| row.kept_by_test) {
        notes.push(
            "Early stopping looked at the test set that these figures are of, which flatters them; \
             evaluation.split = \"validation\" would not."
                .to_owned(),
        );
    }
    for (entry, row) in entries.iter().zip(rows).filter(|(entry, _)| entry.noted) {
        notes.push(format!("† {}: {}.", entry.name, troubles(row).join("; ")));
    }
    let served = entries.iter().zip(rows).map(|(entry, row)| (&*entry.name, row.guard.as_ref()));
    notes.extend(guard_note(served));
    let attacked =
        entries.iter().zip(rows).map(|(entry, row)| (&*entry.name, row.attacked.as_ref()));
    notes.extend(attack_note(attacked));
    notes.extend(clock_note(entries, rows));
    notes
}

/// How a method with patience has ended.
fn patience(row: &Row, best: usize) -> String {
    let kept = format!("the models of round {best} are kept");
    match &row.stopped {
        Some(why) => format!("stopped after round {}, {}; {kept}", row.rounds, one_line(why)),
        None => kept,
    }
}

/// How many uploads did not count, and why.
fn refusals(row: &Row) -> String {
    let refused = counted(row.refused, "upload");
    let reasons = row.refused_by_reason.iter();
    let reasons = reasons
        .map(|(reason, count)| format!("{count} × {}", shortened(&one_line(reason), REASON)));
    if row.refused_by_reason.get(LATE) == Some(&row.refused) {
        return format!("{refused} came too late and did not count");
    }
    let were = if row.refused == 1 { "was" } else { "were" };
    format!(
        "{refused} {were} refused and did not count ({})",
        reasons.collect::<Vec<_>>().join(", ")
    )
}

/// What the virtual clock says, if there was one.
fn clock_note(entries: &[Entry], rows: &[Row]) -> Option<String> {
    let timed = entries.iter().zip(rows).filter_map(|(entry, row)| {
        let (closed, total) = (row.clock_closed?, row.clock_seconds?);
        let mut text = format!("{} {}", entry.name, duration(closed));
        if total > closed {
            let _ = write!(text, " ({} with the last phases)", duration(total));
        }
        let idle = row.idle_share.unwrap_or_default() * 100.0;
        let sent = row.uploaded_bytes.saturating_add(row.refused_bytes);
        let (up, down) = (bytes(sent), bytes(row.downloaded_bytes.unwrap_or(0)));
        let _ = write!(text, ", idle {idle:.0} %, {up} up, {down} down");
        Some(text)
    });
    let timed: Vec<String> = timed.collect();
    let clock = format!("By the virtual clock, until the last round closed: {}.", timed.join("; "));
    (!timed.is_empty()).then_some(clock)
}

fn troubles(row: &Row) -> Vec<String> {
    let mut troubles = Vec::new();
    if row.failed_phases > 0 {
        let failed = counted(row.failed_phases, "client phase");
        troubles.push(format!("{failed} diverged or failed and counted for nothing"));
    }
    if let Some(first) = &row.first_failure {
        let phase = match first.phase {
            Phase::Shared => "shared",
            Phase::Personal => "personal",
        };
        let error = one_line(&first.error);
        troubles.push(format!(
            "first in round {}, client {}, {phase} phase: {}",
            first.round,
            first.client,
            error.trim_end_matches('.')
        ));
    }
    if row.diverged_evaluations > 0 {
        let diverged = counted(row.diverged_evaluations, "evaluation");
        troubles.push(format!("{diverged} met a diverged model, whose figures are not numbers"));
    }
    if let Some(reason) = row.stopped.as_ref().filter(|_| row.gave_up()) {
        let reason = one_line(reason);
        troubles.push(format!(
            "stopped after round {} of {}: {}",
            row.rounds,
            row.planned,
            reason.trim_end_matches('.')
        ));
    }
    troubles
}
