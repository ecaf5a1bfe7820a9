//! Same seed, same bits: whatever the threads, the evaluations and the memory.

use crate::standard::case;
use formant_runtime::event::Event;
use formant_runtime::{Checkpoint, RunPlan};
use formant_testing::{DENSE, Folder, WITH_BUFFERS};

/// A plan of two of five clients a round.
fn partial(plan: &mut RunPlan) {
    plan.protocol.participation = 0.4;
}

#[test]
fn a_client_that_never_took_part_has_no_state_to_keep() {
    let case = case("name = \"ditto\"", DENSE);
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
    let case = case("name = \"local\"", WITH_BUFFERS);
    let plan = case.plan_with(|p| {
        p.memory = 0;
        p.rounds = 6;
        p.checkpoint_every = 2;
    });
    let folder = Folder::new();
    folder.run_until(&plan, 0, 5);
    // After the interruption: the server's file, its last broadcast's, the best generic model's, and one with five states
    // that the checkpoint names.
    // Between two checkpoints there are two for each client, and queues hold one or two more.
    let files = std::fs::read_dir(folder.file("states")).unwrap().count();
    assert_eq!(files, 4);
    let checkpoint = Checkpoint::read(folder.path()).unwrap().unwrap();
    let state = checkpoint.clients[0].as_ref().unwrap().bytes.next_multiple_of(4096);
    let length = std::fs::metadata(folder.file("states").join("values.bin")).unwrap().len();
    assert!(length <= 12 * state, "{length} bytes for five states of {state}");
}
