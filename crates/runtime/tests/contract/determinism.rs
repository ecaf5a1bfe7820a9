//! Same seed, same bits: whatever the threads, the evaluations and the memory.

use crate::by_hand::ByHand;
use crate::problem::{Case, DENSE, Folder, WITH_BUFFERS, cases, run};
use formant_runtime::event::{Event, Phase};
use formant_runtime::{Checkpoint, RunPlan};
use std::collections::BTreeSet;

#[test]
fn one_two_and_eight_threads_give_the_bits_of_a_run_by_hand() {
    for case in cases() {
        let mut by_hand_plan = case.plan();
        by_hand_plan.threads = 1;
        let mut by_hand = ByHand::new(&by_hand_plan);
        (0..3).for_each(|_| by_hand.round());
        let reference = run(&by_hand_plan);
        assert_eq!(reference.fingerprints, [by_hand.fingerprint()], "{case:?}");
        for threads in [2, 8] {
            assert_eq!(run(&case.plan_with(|p| p.threads = threads)), reference, "{case:?}");
        }
        let other = run(&case.plan_with(|p| p.seed += 1));
        assert_ne!(other.fingerprints, reference.fingerprints, "{case:?}");
    }
}

#[test]
fn evaluation_cannot_train() {
    for case in cases() {
        let each = run(&case.plan());
        let last = run(&case.plan_with(|p| p.evaluation.every = 100));
        assert_eq!(each.fingerprints, last.fingerprints, "{case:?}");
        assert_eq!((each.evaluations.len(), last.evaluations.len()), (3, 1));
        assert_eq!(each.evaluations.last(), last.evaluations.last(), "{case:?}");
        // Looking twice shows the same and changes nothing.
        let plan = case.plan();
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let before = by_hand.fingerprint();
        let (first, second) = (by_hand.pms(), by_hand.pms());
        assert_eq!(first, second, "{case:?}");
        assert_eq!(by_hand.fingerprint(), before, "{case:?}");
    }
}

#[test]
fn states_and_uploads_on_disk_give_the_bits_of_those_in_memory() {
    for case in cases() {
        let in_memory = run(&case.plan());
        let folder = Folder::new();
        folder.run(&case.plan_with(|p| p.memory = 0)).unwrap();
        assert_eq!(folder.result(), in_memory, "{case:?}");
        // Room for some of the states: which ones stay depends on who comes first, the bits do not.
        let some = case.plan_with(|p| {
            p.memory = 20_000;
            p.threads = 4;
        });
        assert_eq!(run(&some), in_memory, "{case:?}");
        let left = std::fs::read_dir(folder.file("states")).unwrap().count();
        assert_eq!(left, 0, "a finished run keeps no states: {case:?}");
    }
}

/// A plan of two of five clients a round.
fn partial(plan: &mut RunPlan) {
    plan.protocol.participation = 0.4;
}

#[test]
fn only_participants_train_and_the_draw_is_keyed_by_the_seed() {
    for case in cases() {
        let folder = Folder::new();
        let plan = case.plan_with(partial);
        folder.run(&plan).unwrap();
        let mut by_hand = ByHand::new(&plan);
        let mut draws = Vec::new();
        for event in folder.events() {
            match event {
                Event::RoundStarted { participants, .. } => {
                    assert_eq!(participants.len(), 2);
                    by_hand.round_of(&participants);
                    draws.push(participants);
                }
                Event::PhaseDone { client, phase, round, .. } => {
                    let personal = plan.rules(&plan.methods[0]).personal.exists;
                    assert!(phase == Phase::Shared || personal);
                    assert!(draws[round - 1].contains(&client), "{case:?}");
                }
                Event::Uploaded { client, round, .. } => {
                    assert!(draws[round - 1].contains(&client));
                }
                _ => {}
            }
        }
        assert_eq!(folder.result().fingerprints, [by_hand.fingerprint()], "{case:?}");
        assert_eq!(run(&case.plan_with(|p| (partial(p), p.threads = 8).1)), folder.result());
        let distinct: BTreeSet<_> = draws.iter().collect();
        assert!(distinct.len() > 1, "every round draws anew: {draws:?}");
    }
}

#[test]
fn a_client_that_never_took_part_has_no_state_to_keep() {
    let case = Case { method: "name = \"ditto\"".into(), network: DENSE };
    let plan = case.plan_with(|p| {
        partial(p);
        p.checkpoint_every = 1;
    });
    let folder = Folder::new();
    folder.run_until(&plan, 0, 1);
    let took_part = folder.events().into_iter().find_map(|event| match event {
        Event::RoundStarted { participants, .. } => Some(participants),
        _ => None,
    });
    // Every client was scored, but only two were trained.
    let checkpoint = Checkpoint::read(folder.path()).unwrap().unwrap();
    let stored: Vec<usize> =
        (0..5).filter(|client| checkpoint.clients[*client].is_some()).collect();
    assert_eq!(Some(stored), took_part);
}

#[test]
fn old_states_do_not_pile_up_between_checkpoints() {
    let case = Case { method: "name = \"local\"".into(), network: WITH_BUFFERS };
    let plan = case.plan_with(|p| {
        p.memory = 0;
        p.rounds = 6;
        p.checkpoint_every = 2;
    });
    let folder = Folder::new();
    folder.run_until(&plan, 0, 5);
    // After the interruption: the server's file, the best generic model's, and one with five states
    // that the checkpoint names.
    // Between two checkpoints there are two for each client, and queues hold one or two more.
    let files = std::fs::read_dir(folder.file("states")).unwrap().count();
    assert_eq!(files, 3);
    let checkpoint = Checkpoint::read(folder.path()).unwrap().unwrap();
    let state = checkpoint.clients[0].as_ref().unwrap().bytes.next_multiple_of(4096);
    let length = std::fs::metadata(folder.file("states").join("values.bin")).unwrap().len();
    assert!(length <= 12 * state, "{length} bytes for five states of {state}");
}
