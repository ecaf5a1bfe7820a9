//! Whether a run folder and a plan belong together, asked before anything is changed.

mod extension;

use crate::checkpoint::{CHECKPOINT_FILE, Checkpoint};
use crate::event::{Event, RunStarted};
use crate::event_log::{EVENTS_FILE, LogMark, Tail};
use crate::{RunPlan, RuntimeError};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

/// What a run folder holds.
pub(crate) enum Found {
    /// No run that has begun.
    Nothing,
    /// A run that goes on from here.
    Underway(Checkpoint),
    /// A run that has ended, and that a plan extends.
    Complete(Checkpoint),
}

impl Found {
    /// Where its log goes on.
    pub(crate) fn log(&self) -> LogMark {
        match self {
            Self::Nothing => LogMark::default(),
            Self::Underway(checkpoint) | Self::Complete(checkpoint) => checkpoint.log,
        }
    }
}

/// What a run folder holds that goes with a plan. A run that has ended goes with no plan, unless it may be
/// extended and the plan has more for it to do.
pub(crate) fn found(
    plan: &RunPlan,
    run_dir: &Path,
    may_extend: bool,
) -> Result<Found, RuntimeError> {
    let log = run_dir.join(EVENTS_FILE);
    let Some(checkpoint) = Checkpoint::read(run_dir)? else {
        // The first checkpoint follows the log's first line at once; a log that went on had one.
        if line_at(&log, 0)?.is_some_and(|(_, more)| more) {
            return Err(RuntimeError::Damaged {
                path: run_dir.join(CHECKPOINT_FILE),
                found: format!("it is missing, though {EVENTS_FILE} has gone on"),
                hint: "restore it, or start the run again in a new folder".into(),
            });
        }
        return Ok(Found::Nothing);
    };
    let damaged = |found: &str| RuntimeError::Damaged {
        path: log.clone(),
        found: found.into(),
        hint: "restore the log, or start the run again in a new folder".into(),
    };
    let (header, _) = line_at(&log, checkpoint.header)?
        .ok_or_else(|| damaged("it is missing, though the run has begun"))?;
    let Ok(Event::RunStarted(header)) = serde_json::from_str(&header) else {
        return Err(damaged("its first line does not open a run"));
    };
    checkpoint.log.resume(run_dir, Tail::Synced)?;
    if checkpoint.method >= header.methods.len() {
        if !may_extend {
            return Err(RuntimeError::Complete { path: run_dir.into() });
        }
        extension::check(&checkpoint, &header, plan, run_dir)?;
        return Ok(Found::Complete(checkpoint));
    }
    compare(&header, &plan.header, run_dir)?;
    let whole = if checkpoint.round == 0 {
        checkpoint.server.is_none() && checkpoint.clients.is_empty()
    } else {
        // The header has as many methods as the plan: it was compared.
        let rules = plan.rules(&plan.methods[checkpoint.method]);
        checkpoint.server.is_some()
            && checkpoint.clients.len() == rules.clients
            && checkpoint.kept.clients().all(|client| client < rules.clients)
            && checkpoint.situation.as_ref().is_some_and(|situation| situation.fits(&rules))
    };
    if !whole || checkpoint.round > plan.rounds {
        return Err(RuntimeError::Damaged {
            path: run_dir.join(CHECKPOINT_FILE),
            found: format!("it does not name a state for round {}", checkpoint.round),
            hint: "restore it, or start the run again in a new folder".into(),
        });
    }
    Ok(Found::Underway(checkpoint))
}

/// A line of a log that begins at a place, and whether more follows; `None` without a log or at its end.
fn line_at(path: &Path, offset: u64) -> Result<Option<(String, bool)>, RuntimeError> {
    let fail = |source| RuntimeError::file("read", path, source);
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    file.seek(SeekFrom::Start(offset)).map_err(fail)?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).map_err(fail)?;
    if line.is_empty() {
        return Ok(None);
    }
    let more = !reader.fill_buf().map_err(fail)?.is_empty();
    Ok(Some((String::from_utf8_lossy(&line).into_owned(), more)))
}

/// Refuses to go on where the same bits could not come out.
fn compare(before: &RunStarted, now: &RunStarted, run_dir: &Path) -> Result<(), RuntimeError> {
    let refuse =
        |change: String, hint| Err(RuntimeError::Changed { path: run_dir.into(), change, hint });
    if before.formant != now.formant {
        return refuse(
            format!("formant {} began it, and this is {}", before.formant, now.formant),
            "go on with that version, or start a new run: results may differ between versions",
        );
    }
    if before.format != now.format {
        return refuse(
            format!("its log has format {}, and this version writes {}", before.format, now.format),
            "go on with the build that began it, or start a new run",
        );
    }
    check_experiment(&before.config, &now.config, run_dir)?;
    let mut headers = [Value::Null, Value::Null];
    for (i, header) in [before, now].into_iter().enumerate() {
        // Remarks are words: the data have a check of their own.
        let (config, remarks) = (Value::Null, Vec::new());
        headers[i] = serde_json::to_value(RunStarted { config, remarks, ..header.clone() })
            .map_err(|error| RuntimeError::file("read", run_dir, error.into()))?;
    }
    match first_difference(&headers[0], &headers[1]) {
        Some(change) => {
            let hint = match change.0.as_str() {
                "engine" => "go on with the engine that began it: bits are promised per engine",
                "network" | "parameters" => "the network must be the one that the run began with",
                _ => "the data must be those that the run began with",
            };
            refuse(told(&change), hint)
        }
        None => Ok(()),
    }
}

/// Refuses an experiment that is not the one that a run's log speaks of; both as their file has them.
pub fn check_experiment(before: &Value, now: &Value, run_dir: &Path) -> Result<(), RuntimeError> {
    let essence = |config: &Value| {
        let mut config = config.clone();
        // How the machine is used changes no result.
        if let Some(sections) = config.as_object_mut() {
            sections.remove("runtime");
        }
        config
    };
    match difference(&essence(before), &essence(now)) {
        None => Ok(()),
        Some(change) => Err(RuntimeError::Changed {
            path: run_dir.into(),
            change,
            hint: "undo the change in experiment.toml, or start a new run with it",
        }),
    }
}

/// The first place where two documents differ, with both values.
fn difference(before: &Value, now: &Value) -> Option<String> {
    first_difference(before, now).map(|change| told(&change))
}

fn told((path, before, now): &(String, String, String)) -> String {
    format!("`{path}` was {before} when it began and is {now} now")
}

/// The path of the first place where two documents differ, and what stands there in each.
pub fn first_difference(before: &Value, now: &Value) -> Option<(String, String, String)> {
    difference_below(before, now, String::new())
}

fn difference_below(before: &Value, now: &Value, at: String) -> Option<(String, String, String)> {
    let below = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    let shown = |value: Option<&Value>| value.map_or("unset".to_owned(), ToString::to_string);
    match (before, now) {
        (Value::Object(a), Value::Object(b)) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            a.keys().chain(added).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference_below(a, b, below(key)),
                (a, b) => Some((below(key), shown(a), shown(b))),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(i, (a, b))| difference_below(a, b, below(&i.to_string())))
        }
        (Value::Array(a), Value::Array(b)) => {
            Some((at, format!("a list of {}", a.len()), format!("a list of {}", b.len())))
        }
        (a, b) => (a != b).then(|| (at, a.to_string(), b.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let base = json!({ "rounds": 3, "method": [{ "name": "ditto", "lambda": 1.0 }] });
        assert_eq!(difference(&base, &base), None);
        let cases = [
            (json!({ "rounds": 4, "method": [{}] }), "`rounds` was 3 when it began and is 4 now"),
            (
                json!({ "rounds": 3, "method": [{ "name": "ditto", "lambda": 2.0 }] }),
                "`method.0.lambda` was 1.0 when it began and is 2.0 now",
            ),
            (
                json!({ "rounds": 3, "method": [{ "name": "ditto" }] }),
                "`method.0.lambda` was 1.0 when it began and is unset now",
            ),
            (
                json!({ "rounds": 3, "method": [] }),
                "`method` was a list of 1 when it began and is a list of 0 now",
            ),
        ];
        for (now, expected) in cases {
            assert_eq!(difference(&base, &now).unwrap(), expected);
        }
    }
}
