//! A client whose training diverges is an event: its state stays, nothing of it is aggregated.

use crate::by_hand::ByHand;
use crate::problem::{DENSE, FEDERATION, Folder, experiment, plan_of};
use crate::spoiler;
use formant_data::{Dataset, Federation, Images, Normalisation, Samples};
use formant_numerics::Shape;
use formant_report::{RunLog, rows, table};
use formant_runtime::event::{Event, Phase};
use formant_runtime::{Checkpoint, EVENTS_FILE, RunPlan};
use std::sync::Arc;

/// A rate at which every client leaves the finite numbers.
const ABSURD: f32 = 1e30;

fn failures(events: &[Event]) -> Vec<(usize, usize, Phase)> {
    let failed = events.iter().filter_map(|event| match event {
        Event::ClientFailed { round, client, phase, error, .. } => {
            assert!(error.contains("diverged at step"), "{error}");
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
    plan.methods[0].shared.first.sgd.learning_rate = ABSURD;
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
    for memory in [0, u64::MAX] {
        let mut plan = plan_of(&["name = \"ditto\""], DENSE);
        plan.memory = memory;
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let after_one_round = by_hand.fingerprint();
        plan.methods[0].method = spoiler::from_round(2);
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        assert_eq!(failures(&folder.events()).len(), 5);
        assert_eq!(folder.result().fingerprints, [after_one_round]);
    }
}

#[test]
fn a_personal_phase_that_diverges_costs_only_the_personal_model() {
    let mut plan = plan_of(&["name = \"ditto\""], DENSE);
    plan.methods[0].personal.first.sgd.learning_rate = ABSURD;
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

/// The tiny federation with one more client, whose pixels are so bright that it diverges alone.
fn with_a_bright_client(method: &str) -> RunPlan {
    let clean = &FEDERATION.dataset;
    let bright_count = 12;
    let shape = Shape::new(2, 14, 14);
    // Two channels: the digit, and one that is lit only on the bright client's images. Its
    // normalisation turns a lit pixel into an enormous number.
    let lifted = |images: &dyn Samples, lit: std::ops::Range<usize>| {
        let mut pixels = Vec::new();
        for i in 0..images.len() {
            pixels.extend_from_slice(images.bytes(i).unwrap());
            pixels.extend([if lit.contains(&i) { 255 } else { 0 }; 196]);
        }
        let normalisation = [Normalisation::NONE, Normalisation::new(0.0, 1e-20)];
        Images::new(shape, pixels, images.labels(), &normalisation).unwrap()
    };
    let total = clean.train.len();
    let train = lifted(&*clean.train, total - bright_count..total);
    let test = lifted(&*clean.test, 0..0);
    let dataset = Dataset::from_parts("bright", clean.class_names.clone(), train, test).unwrap();
    let bright = |i: &u32| (*i as usize) >= total - bright_count;
    let mut clients = FEDERATION.clients.clone();
    for client in &mut clients {
        client.train.retain(|i| !bright(i));
        client.validation.retain(|i| !bright(i));
        client.test.retain(|i| !bright(i));
    }
    let mut odd = clients[0].clone();
    odd.train = (total - bright_count..total).map(|i| i as u32).collect();
    clients.insert(2, odd);
    let federation = Federation { dataset: Arc::new(dataset), clients };
    experiment(&[method], "name = \"logistic\"").plan_on(federation).unwrap()
}

#[test]
fn one_diverging_client_is_left_out_and_the_others_go_on() {
    for method in ["name = \"fedavg\"", "name = \"ditto\"", "name = \"scd\""] {
        let plan = with_a_bright_client(method);
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let expected: Vec<_> = (1..=3).map(|round| (round, 2, Phase::Shared)).collect();
        assert_eq!(failures(&folder.events()), expected, "{method}");
        assert!(!folder.events().iter().any(|event| {
            matches!(event, Event::Uploaded { client: 2, .. } | Event::PhaseDone { client: 2, .. })
        }));
        // The same as if it had stayed at home every time.
        let mut by_hand = ByHand::new(&plan);
        (0..3).for_each(|_| by_hand.round_of(&[0, 1, 3, 4, 5]));
        assert_eq!(folder.result().fingerprints, [by_hand.fingerprint()], "{method}");
        let text = printed(&folder);
        assert!(text.contains("3 client phases diverged or failed"), "{text}");
    }
}
