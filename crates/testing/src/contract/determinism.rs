//! Same seed, same bits: whatever the threads, the evaluations and the memory.

use crate::{ByHand, Folder, Subject, run};
use formant_runtime::RunPlan;
use formant_runtime::event::{Event, Phase};
use std::collections::BTreeSet;

/// However many threads there are, the result is that of one client after the other; with another seed it is
/// another one.
pub fn one_two_and_eight_threads_give_the_bits_of_a_run_by_hand(subject: &Subject) {
    for case in subject.cases() {
        let by_hand_plan = case.plan_with(|p| p.threads = 1);
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

/// Scored after every round or once at the end, a run ends with the same models.
pub fn evaluation_cannot_train(subject: &Subject) {
    for case in subject.cases() {
        let each = run(&case.plan());
        let last = run(&case.plan_with(|p| p.evaluation.every = 100));
        assert_eq!(each.fingerprints, last.fingerprints, "{case:?}");
        assert_eq!((each.evaluations.len(), last.evaluations.len()), (3, 1), "{case:?}");
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

/// With no memory for states, and with memory for some of them, the result is the same.
pub fn states_and_uploads_on_disk_give_the_bits_of_those_in_memory(subject: &Subject) {
    for case in subject.cases() {
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
    }
}

/// A plan of two of five clients a round.
fn partial(plan: &mut RunPlan) {
    plan.protocol.participation = 0.4;
}

/// Clients that are not drawn do nothing; who is drawn depends on the seed alone.
pub fn only_participants_train_and_the_draw_is_keyed_by_the_seed(subject: &Subject) {
    for case in subject.cases() {
        let folder = Folder::new();
        let plan = case.plan_with(partial);
        folder.run(&plan).unwrap();
        let mut by_hand = ByHand::new(&plan);
        let mut draws = Vec::new();
        for event in folder.events() {
            match event {
                Event::RoundStarted { participants, .. } => {
                    assert_eq!(participants.len(), 2, "{case:?}");
                    by_hand.round_of(&participants);
                    draws.push(participants);
                }
                Event::PhaseDone { client, phase, round, .. } => {
                    let personal = plan.rules(&plan.methods[0]).personal.exists;
                    assert!(phase == Phase::Shared || personal, "{case:?}");
                    assert!(draws[round - 1].contains(&client), "{case:?}");
                }
                Event::Uploaded { client, round, .. } => {
                    assert!(draws[round - 1].contains(&client), "{case:?}");
                }
                _ => {}
            }
        }
        assert_eq!(folder.result().fingerprints, [by_hand.fingerprint()], "{case:?}");
        let crowded = case.plan_with(|p| {
            partial(p);
            p.threads = 8;
        });
        assert_eq!(run(&crowded), folder.result(), "{case:?}");
        let distinct: BTreeSet<_> = draws.iter().collect();
        assert!(distinct.len() > 1, "every round draws anew: {draws:?}");
    }
}
