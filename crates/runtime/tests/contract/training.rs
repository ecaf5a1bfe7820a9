//! What `[train]` says is felt: every optimiser, schedule and loss, by every method that trains.

use crate::standard::{plan_of, subjects};
use formant_runtime::event::Event;
use formant_testing::{DENSE, Folder, run};
use std::collections::BTreeMap;

/// The fingerprint of three rounds of a method with some training.
fn fingerprint(name: &str, train: &str) -> String {
    let plan = plan_of(&[&format!("name = \"{name}\"\ntrain = {{ {train} }}")], DENSE);
    run(&plan).fingerprints.remove(0)
}

#[test]
fn every_key_makes_a_difference_and_defaults_make_none() {
    let plain = fingerprint("fedavg", "");
    for same in [
        "optimiser = \"sgd\", momentum = 0, nesterov = false, weight_decay = 0",
        "schedule = \"constant\"",
        "schedule = \"exponential\", decay = 1",
        "schedule = \"step\", step_every = 9",
        "schedule = \"cosine\", floor = 1",
        "warmup = 0, label_smoothing = 0",
    ] {
        assert_eq!(fingerprint("fedavg", same), plain, "{same}");
    }
    let settings = [
        "momentum = 0.9",
        "momentum = 0.9, nesterov = true",
        "weight_decay = 0.1",
        "optimiser = \"adam\"",
        "optimiser = \"adam\", learning_rate = 0.001",
        "optimiser = \"adam\", beta1 = 0.5",
        "optimiser = \"adam\", beta2 = 0.5",
        "optimiser = \"adam\", epsilon = 0.1",
        "optimiser = \"adam\", weight_decay = 0.1",
        "optimiser = \"adam\", clip = 0.1",
        "optimiser = \"adamw\"",
        "optimiser = \"adamw\", weight_decay = 0.1",
        "schedule = \"step\", step_every = 1",
        "schedule = \"step\", step_every = 2",
        "schedule = \"cosine\"",
        "schedule = \"cosine\", floor = 0.5",
        "warmup = 1",
        "warmup = 2",
        "label_smoothing = 0.1",
        "class_weights = \"balanced\"",
        "class_weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
    ];
    let mut seen = BTreeMap::from([(plain, "nothing")]);
    for setting in settings {
        let found = fingerprint("fedavg", setting);
        if let Some(other) = seen.insert(found, setting) {
            panic!("{setting} gives what {other} gives");
        }
    }
}

/// AdamW with no decay is Adam, bit for bit.
#[test]
fn adamw_without_decay_is_adam() {
    let [adam, adamw] = ["adam", "adamw"]
        .map(|word| fingerprint("ditto", &format!("optimiser = \"{word}\", weight_decay = 0")));
    assert_eq!(adam, adamw);
}

/// No method drops what the experiment says of the optimiser or of the loss.
#[test]
fn every_method_trains_with_every_optimiser_and_loss() {
    for subject in subjects() {
        let name = subject.entry().name;
        let mut seen = BTreeMap::new();
        for train in [
            "momentum = 0",
            "optimiser = \"adam\", learning_rate = 0.002",
            "optimiser = \"adamw\", learning_rate = 0.002, weight_decay = 0.5",
            "label_smoothing = 0.2",
            "class_weights = \"balanced\"",
        ] {
            let plan = plan_of(&[&format!("name = \"{name}\"\ntrain = {{ {train} }}")], DENSE);
            let folder = Folder::new();
            folder.run(&plan).unwrap();
            let failed = |event: &Event| matches!(event, Event::ClientFailed { .. });
            assert!(!folder.events().iter().any(failed), "{name}, {train}");
            let found = folder.result().fingerprints.remove(0);
            if let Some(other) = seen.insert(found, train) {
                panic!("{name}: {train} gives what {other} gives");
            }
        }
    }
}
