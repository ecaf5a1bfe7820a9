//! A run that has ended goes on to more rounds or with further methods, as if it had never ended.

use crate::standard::{case, plan_of};
use formant_federation::{Late, Schedule, Until};
use formant_report::RunLog;
use formant_runtime::event::Event;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Curve, EVENTS_FILE, Keep, Quiet, RunPlan, RuntimeError};
use formant_testing::{DENSE, Folder, StopAfter, Tripwire, WITH_BUFFERS, timed};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

fn of_rounds(mut plan: RunPlan, rounds: usize) -> RunPlan {
    (plan.rounds, plan.header.rounds) = (rounds, rounds);
    plan
}

fn extend(folder: &Folder, plan: &RunPlan) -> Result<Outcome, RuntimeError> {
    sim::extend(plan, folder.path(), &Quiet, &AtomicBool::new(false))
}

/// GM and PM by round.
type Scores = BTreeMap<usize, (Option<f64>, Option<f64>)>;

/// What tables and model files have, without what an end between has scored besides.
#[derive(Debug, PartialEq)]
struct Told {
    fingerprints: Vec<String>,
    evaluations: Vec<Scores>,
    models: Vec<(PathBuf, u64)>,
}

fn told(folder: &Folder, plan: &RunPlan) -> Told {
    let log = RunLog::read(&folder.file(EVENTS_FILE)).unwrap();
    assert!(log.seconds.is_some() && log.methods.len() == plan.methods.len());
    assert_eq!(log.started.rounds, plan.rounds);
    let methods = log.methods.iter();
    let is_scored =
        |round: usize| round == plan.rounds || round.is_multiple_of(plan.evaluation.every);
    Told {
        fingerprints: methods
            .clone()
            .map(|method| method.finish.as_ref().unwrap().fingerprint.clone().unwrap())
            .collect(),
        evaluations: methods
            .map(|method| {
                let scored = method.evaluations.iter().filter(|(round, _)| is_scored(**round));
                scored.map(|(round, evaluation)| (*round, (evaluation.gm, evaluation.pm))).collect()
            })
            .collect(),
        models: folder.result().models,
    }
}

/// Three rounds, then seven; against seven from the start.
fn extended(plan: impl Fn() -> RunPlan) {
    let name = &plan().methods[0].label;
    let (short, long) = (of_rounds(plan(), 3), of_rounds(plan(), 7));
    let whole = Folder::new();
    whole.run(&long).unwrap();
    let folder = Folder::new();
    folder.run(&short).unwrap();
    assert!(matches!(extend(&folder, &short), Err(RuntimeError::Complete { .. })));
    // Stopped in the middle, it goes on like any run.
    let stop = AtomicBool::new(false);
    let observer = StopAfter { label: name.clone(), round: 5, stop: &stop };
    let stopped = sim::extend(&long, folder.path(), &observer, &stop).unwrap();
    assert_eq!(stopped, Outcome::Interrupted, "{name}");
    folder.run(&long).unwrap();
    assert_eq!(told(&folder, &long), told(&whole, &long), "{name}");
    let ends = folder.events().iter().filter(|e| matches!(e, Event::RunFinished { .. })).count();
    assert_eq!(ends, 2);
}

#[test]
fn more_rounds_give_the_bits_of_a_run_that_was_longer_from_the_start() {
    for method in ["local", "fedavg", "ditto", "pfedme", "fedgen", "feddyn", "fedrep", "scd"] {
        extended(|| {
            case(&format!("name = \"{method}\""), DENSE).plan_with(|p| p.evaluation.every = 2)
        });
    }
    for method in ["fedbabu", "fedavgm"] {
        extended(|| case(&format!("name = \"{method}\""), WITH_BUFFERS).plan());
    }
}

#[test]
fn more_rounds_by_the_virtual_clock_too() {
    for (schedule, until) in [
        (Schedule::WaitFree, Until::Broadcast),
        (Schedule::ComputeAndWait, Until::Epochs),
        (Schedule::Buffered { size: 2 }, Until::Broadcast),
    ] {
        for method in ["ditto", "fedrod"] {
            extended(|| {
                case(&format!("name = \"{method}\""), DENSE).plan_with(|plan| {
                    timed(plan, schedule);
                    plan.protocol.personal.until = until;
                    plan.protocol.late = Late::Weigh { exponent: 0.5 };
                    plan.protocol.participation = 0.8;
                })
            });
        }
    }
}

#[test]
fn further_methods_and_more_rounds_at_once() {
    let all = ["name = \"local\"", "name = \"ditto\"", "name = \"fedavg\""];
    let whole = Folder::new();
    let long = of_rounds(plan_of(&all, DENSE), 5);
    whole.run(&long).unwrap();
    let folder = Folder::new();
    folder.run(&plan_of(&all[..1], DENSE)).unwrap();
    assert_eq!(extend(&folder, &plan_of(&all[..2], DENSE)).unwrap(), Outcome::Complete);
    // Killed at any batch: two sessions of the extension.
    for batch in [20, 40] {
        let mut plan = of_rounds(plan_of(&all, DENSE), 5);
        let wire = Tripwire::at(batch);
        wire.lay(&mut plan);
        let outcome = sim::extend(&plan, folder.path(), &Quiet, &wire.stop).unwrap();
        assert_eq!(outcome, Outcome::Interrupted);
    }
    assert_eq!(extend(&folder, &long).unwrap(), Outcome::Complete);
    assert_eq!(told(&folder, &long), told(&whole, &long));
}

/// Why an extension is refused.
fn refusal(first: &RunPlan, then: &RunPlan) -> String {
    let folder = Folder::new();
    folder.run(first).unwrap();
    let before = std::fs::read(folder.file(EVENTS_FILE)).unwrap();
    let refused = extend(&folder, then).unwrap_err();
    assert!(matches!(refused, RuntimeError::Changed { .. }), "{refused:?}");
    assert_eq!(std::fs::read(folder.file(EVENTS_FILE)).unwrap(), before, "nothing has changed");
    refused.to_string()
}

#[test]
fn what_would_be_another_run_is_refused() {
    let ditto = || case("name = \"ditto\"", DENSE);
    let (short, long) = (ditto().plan(), of_rounds(ditto().plan(), 6));
    assert!(refusal(&long, &short).contains("it has done 6 rounds, and 3 are fewer"));
    let cosine = |rounds| {
        let mut plan = of_rounds(ditto().plan(), rounds);
        plan.methods[0].shared.schedule.curve = Curve::Cosine { floor: 0.0 };
        plan
    };
    let told = refusal(&cosine(3), &cosine(6));
    assert!(told.contains("the number of rounds is part of how ditto trains"), "{told}");
    let warm = |rounds| of_rounds(case("name = \"scd\"\nwarm_up = 0.5", DENSE).plan(), rounds);
    assert!(refusal(&warm(4), &warm(8)).contains("part of how scd trains"));
    let unkept = ditto().plan_with(|plan| plan.keep = Keep::Generic);
    let told = refusal(&unkept, &long);
    assert!(told.contains("were not kept") && told.contains("hint: "), "{told}");
    let mut other = of_rounds(ditto().plan(), 6);
    other.header.seed += 1;
    assert!(refusal(&short, &other).contains("`seed` was 3 when it began and is 4 now"));
    let impatient = |rounds| {
        let mut plan = of_rounds(ditto().plan(), rounds);
        plan.evaluation.patience = Some(100);
        plan
    };
    assert!(refusal(&impatient(3), &impatient(6)).contains("evaluation.patience"));
}

#[test]
fn states_are_kept_for_more_rounds_only_where_everything_is() {
    let states = |keep, limit| {
        let plan = case("name = \"ditto\"", DENSE).plan_with(|plan| {
            plan.keep = keep;
            plan.keep_limit = limit;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let entries = std::fs::read_dir(folder.file("states")).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let all = states(Keep::All, 1 << 30);
    assert!(all > 0 && states(Keep::Generic, 1 << 30) == 0 && states(Keep::None, 1 << 30) == 0);
    let plan = case("name = \"ditto\"", DENSE).plan();
    let models: u64 = plan.kept().iter().map(|kept| kept.bytes).sum();
    assert_eq!(states(Keep::All, models), 0, "models come first");
}
