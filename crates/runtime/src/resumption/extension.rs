//! Whether a run that has ended can go on to more rounds or with further methods.

use super::compare;
use crate::checkpoint::{Checkpoint, Ended};
use crate::event::RunStarted;
use crate::{MethodPlan, RunPlan, RuntimeError};
use formant_methods::Moment;
use serde_json::Value;
use std::path::Path;

const LONGER: &str = "start a new run with more rounds";

/// Refuses a plan that asks for something else than more rounds or methods behind those that there are, and more
/// rounds that would not be those of a run that was longer from the start.
pub(super) fn check(
    checkpoint: &Checkpoint,
    before: &RunStarted,
    plan: &RunPlan,
    run_dir: &Path,
) -> Result<(), RuntimeError> {
    let refuse =
        |change: String, hint| Err(RuntimeError::Changed { path: run_dir.into(), change, hint });
    let (rounds, methods) = (plan.rounds, plan.methods.len());
    if rounds < before.rounds || methods < before.methods.len() {
        let change = if rounds < before.rounds {
            format!("it has done {} rounds, and {rounds} are fewer", before.rounds)
        } else {
            format!("it has run {} methods, and {methods} are fewer", before.methods.len())
        };
        return refuse(change, "a run can be extended by more rounds or methods, not cut short");
    }
    compare(before, &shortened(&plan.header, before), run_dir)?;
    if rounds > before.rounds {
        if plan.evaluation.patience.is_some() {
            let change = "evaluation.patience decides how many rounds a method has, and models that it has \
                          given up are gone";
            return refuse(change.into(), LONGER);
        }
        if before.config.get("privacy").is_some_and(|keys| keys.get("target_epsilon").is_some()) {
            let change = format!(
                "privacy.target_epsilon was what its {} rounds might spend together, and they have",
                before.rounds
            );
            return refuse(change, LONGER);
        }
        for (method, ended) in plan.methods.iter().zip(&checkpoint.ended) {
            let label = &method.label;
            match ended {
                Ended::Unkept => {
                    return refuse(
                        format!("the states of {label} that more rounds need were not kept"),
                        "they are, below runtime.keep_limit, if runtime.keep is all; start a new run",
                    );
                }
                Ended::Kept(_) if !is_alike(method, before.rounds, rounds) => {
                    return refuse(
                        format!(
                            "the number of rounds is part of how {label} trains (a cosine schedule, a warm-up \
                             that is a share of them): {rounds} from the start would have been others"
                        ),
                        LONGER,
                    );
                }
                Ended::Kept(_) | Ended::Early => {}
            }
        }
    }
    let begun = Checkpoint { method: 0, ..checkpoint.clone() };
    if begun.next_method(methods, rounds) == methods {
        return Err(RuntimeError::Complete { path: run_dir.into() });
    }
    Ok(())
}

/// Whether the rounds so far are those of a run of more rounds: by what a method says of each, and by its rates.
fn is_alike(method: &MethodPlan, done: usize, rounds: usize) -> bool {
    (1..=done).all(|round| {
        let (then, now) = (Moment { round, rounds: done }, Moment { round, rounds });
        let phases = [&method.shared, &method.personal];
        method.method.hints(then) == method.method.hints(now)
            && phases.iter().all(|phase| phase.at(then) == phase.at(now))
    })
}

/// A header without what an extension may add to an earlier one.
fn shortened(now: &RunStarted, before: &RunStarted) -> RunStarted {
    let mut header = now.clone();
    header.rounds = before.rounds;
    header.methods.truncate(before.methods.len());
    if let (Some(now), Some(before)) = (header.config.as_object_mut(), before.config.as_object()) {
        if let Some(rounds) = before.get("rounds") {
            now.insert("rounds".into(), rounds.clone());
        }
        let count = before.get("method").and_then(Value::as_array).map_or(0, Vec::len);
        if let Some(methods) = now.get_mut("method").and_then(Value::as_array_mut) {
            methods.truncate(count);
        }
    }
    header
}
