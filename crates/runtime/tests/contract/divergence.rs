//! A client whose training diverges is an event: its state stays, nothing of it is aggregated.

use crate::spoiler;
use crate::standard::plan_of;
use formant_methods::Zoo;
use formant_report::{RunLog, rows, table};
use formant_runtime::event::{Event, Phase};
use formant_runtime::{Checkpoint, EVENTS_FILE};
use formant_testing::{ByHand, DENSE, DIVERGES, Folder, plan_with_a_client_that_diverges};

/// A rate at which every client leaves the finite numbers.
const ABSURD: f32 = 1e30;

fn failures(events: &[Event]) -> Vec<(usize, usize, Phase)> {
    failures_by(events, "diverged at step")
}

/// All failures, each of which must name this cause.
fn failures_by(events: &[Event], cause: &str) -> Vec<(usize, usize, Phase)> {
    let failed = events.iter().filter_map(|event| match event {
        Event::ClientFailed { round, client, phase, error, .. } => {
            assert!(error.contains(cause), "{error}");
            Some((*round, *client, *phase))
        }
        _ => None,
    });
    failed.collect()
}

fn printed(folder: &Folder) -> String {
    table(&rows(&RunLog::read(&folder.file(EVENTS_FILE)).unwrap()), false)
}

#[test]
fn a_method_stops_with_a_reason_when_nobody_is_left() {
    let mut plan = plan_of(&["name = \"ditto\"", "name = \"fedavg\""], DENSE);
    plan.methods[0].shared.base.optimiser.learning_rate = ABSURD;
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let events = folder.events();
    let everybody: Vec<_> = (0..5).map(|client| (1, client, Phase::Shared)).collect();
    assert_eq!(failures(&events), everybody);
    let ends: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::MethodFinished { rounds, stopped, .. } => Some((*rounds, stopped.as_deref())),
            _ => None,
        })
        .collect();
    let reason = ends[0].1.unwrap();
    assert!(reason.starts_with("no client finished its shared phase in round 1: diverged"));
    // The next method is not its victim.
    assert_eq!((ends[0].0, ends[1]), (0, (3, None)));
    let text = printed(&folder);
    assert!(text.contains("5 client phases diverged or failed"), "{text}");
    assert!(text.contains("stopped after round 0 of 3"), "{text}");
}

#[test]
fn a_failed_shared_phase_takes_back_what_it_did_to_the_state() {
    for (memory, sends) in [(0, false), (u64::MAX, false), (0, true), (u64::MAX, true)] {
        let mut plan = plan_of(&["name = \"ditto\""], DENSE);
        plan.memory = memory;
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let after_one_round = by_hand.fingerprint();
        plan.methods[0].method = spoiler::from_round(2, sends);
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        // What could not be aggregated is its client's failure, and does not end the run.
        let cause = if sends { "values that are not finite" } else { "diverged at step" };
        assert_eq!(failures_by(&folder.events(), cause).len(), 5);
        assert_eq!(folder.result().fingerprints, [after_one_round]);
    }
}

#[test]
fn a_personal_phase_that_diverges_costs_only_the_personal_model() {
    let mut plan = plan_of(&["name = \"ditto\""], DENSE);
    plan.methods[0].personal.base.optimiser.learning_rate = ABSURD;
    plan.checkpoint_every = 1;
    let folder = Folder::new();
    folder.run_until(&plan, 0, 2);
    // After two failed phases every client is as it began.
    let checkpoint = Checkpoint::read(folder.path()).unwrap().unwrap();
    let init = ByHand::new(&plan);
    for (client, stored) in checkpoint.clients.iter().enumerate() {
        let stored = stored.as_ref().unwrap();
        let bytes = std::fs::read(folder.file("states").join(&stored.file)).unwrap();
        let from = usize::try_from(stored.offset).unwrap();
        let expected = init.clients[client].encode().unwrap();
        assert!(bytes[from..].starts_with(&expected), "client {client}");
    }
    folder.run(&plan).unwrap();
    assert_eq!(failures(&folder.events()).len(), 15);
    assert!(failures(&folder.events()).iter().all(|(_, _, phase)| *phase == Phase::Personal));
    // What was sent was sound: the generic model is FedAvg's.
    let fedavg = Folder::new();
    fedavg.run(&plan_of(&["name = \"fedavg\""], DENSE)).unwrap();
    let gm =
        |folder: &Folder| -> Vec<_> { folder.result().evaluations.iter().map(|e| e.gm).collect() };
    assert_eq!(gm(&folder), gm(&fedavg));
    let text = printed(&folder);
    assert!(text.contains("15 client phases diverged or failed"), "{text}");
}

/// Of these it is known that they diverge, every time.
#[test]
fn a_client_that_diverges_is_an_event_and_a_line_below_the_table() {
    for method in ["name = \"fedavg\"", "name = \"ditto\"", "name = \"scd\""] {
        let folder = Folder::new();
        folder.run(&plan_with_a_client_that_diverges(&Zoo::standard(), method)).unwrap();
        let expected: Vec<_> = (1..=3).map(|round| (round, DIVERGES, Phase::Shared)).collect();
        assert_eq!(failures(&folder.events()), expected, "{method}");
        assert!(!folder.events().iter().any(|event| {
            matches!(
                event,
                Event::Uploaded { client: DIVERGES, .. }
                    | Event::PhaseDone { client: DIVERGES, .. }
            )
        }));
        let text = printed(&folder);
        assert!(text.contains("3 client phases diverged or failed"), "{text}");
    }
}
