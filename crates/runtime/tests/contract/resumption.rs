//! Stopped and resumed, a run ends with the bits of an undisturbed one.

use crate::standard::{case, plan_of};
use formant_federation::{Late, Schedule, Until};
use formant_runtime::EVENTS_FILE;
use formant_runtime::event::Event;
use formant_runtime::sim::Outcome;
use formant_testing::contract::stopped_at_any_batch;
use formant_testing::{DENSE, Folder, run, timed};
use std::io::Write;

#[test]
fn a_torn_log_is_cut_back_to_the_checkpoint() {
    let case = case("name = \"scd\"", DENSE);
    let undisturbed = run(&case.plan());
    for tail in
        ["{\"event\":\"round_st", "{\"event\":\"method_started\",\"method\":\"x\"}\n\u{0}\u{0}"]
    {
        let folder = Folder::new();
        folder.run_until(&case.plan(), 0, 2);
        let mut log =
            std::fs::OpenOptions::new().append(true).open(folder.file(EVENTS_FILE)).unwrap();
        log.write_all(tail.as_bytes()).unwrap();
        folder.run(&case.plan()).unwrap();
        assert_eq!(folder.result(), undisturbed);
    }
}

#[test]
fn files_that_a_crash_left_behind_are_swept() {
    let case = case("name = \"ditto\"", DENSE);
    let undisturbed = run(&case.plan());
    let folder = Folder::new();
    folder.run_until(&case.plan(), 0, 1);
    for leftover in ["server-999.bin", "server-7.bin.tmp"] {
        std::fs::write(folder.file("states").join(leftover), b"half").unwrap();
    }
    let values = folder.file("states").join("values.bin");
    let mut grown = std::fs::OpenOptions::new().append(true).open(&values).unwrap();
    grown.write_all(&[7; 10_000]).unwrap();
    let kept = folder.file("states").join("notes.txt");
    std::fs::write(&kept, b"not ours").unwrap();
    folder.run(&case.plan()).unwrap();
    assert_eq!(folder.result(), undisturbed);
    let left: Vec<_> = std::fs::read_dir(folder.file("states")).unwrap().collect();
    let swept = |name: &str| !folder.file("states").join(name).exists();
    assert!(swept("server-999.bin") && swept("server-7.bin.tmp"), "{left:?}");
    // What more rounds would need, and no more.
    assert!(std::fs::metadata(&values).unwrap().len() < 10_000 * 5, "{left:?}");
    assert!(kept.exists());
}

#[test]
fn several_methods_are_stopped_anywhere_and_told_once() {
    let methods = ["name = \"local\"", "name = \"ditto\"", "name = \"fedavg\""];
    let plan = || plan_of(&methods, DENSE);
    let undisturbed = run(&plan());
    // In the last round of a method, in the middle of the next one, again a round later.
    let folder = Folder::new();
    for (method, round) in [(0, 3), (1, 2), (1, 3), (2, 1)] {
        assert_eq!(folder.run_until(&plan(), method, round), Outcome::Interrupted);
    }
    // Its very last round is done, but not yet scored.
    assert_eq!(folder.run_until(&plan(), 2, 3), Outcome::Interrupted);
    folder.run(&plan()).unwrap();
    assert_eq!(folder.result(), undisturbed);
    let (mut rounds, mut ends) = (Vec::new(), 0);
    for event in folder.events() {
        match event {
            Event::RoundStarted { method, round, .. } => rounds.push((method, round)),
            Event::RunFinished { .. } => ends += 1,
            _ => {}
        }
    }
    let labels = plan().methods.iter().map(|m| m.label.clone()).collect::<Vec<_>>();
    let expected: Vec<_> =
        labels.iter().flat_map(|label| (1..=3).map(|round| (label.clone(), round))).collect();
    assert_eq!((rounds, ends), (expected, 1));
}

#[test]
fn runs_by_the_virtual_clock_are_stopped_at_any_batch() {
    for method in ["scd", "pfedme", "fedrep"] {
        for (schedule, until) in [
            (Schedule::WaitFree, Until::Broadcast),
            (Schedule::ComputeAndWait, Until::Epochs),
            (Schedule::Buffered { size: 2 }, Until::Broadcast),
        ] {
            stopped_at_any_batch(|| {
                case(&format!("name = \"{method}\""), DENSE).plan_with(|plan| {
                    timed(plan, schedule);
                    plan.rounds = 4;
                    plan.checkpoint_every = 1;
                    plan.evaluation.every = 2;
                    plan.protocol.personal.until = until;
                    plan.protocol.late = Late::Weigh { exponent: 0.5 };
                })
            });
        }
    }
}
