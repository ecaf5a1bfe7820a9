//! A client whose training diverges is an event: its state stays, nothing of it is aggregated.

use crate::problem::{DIVERGES, plan_with_a_client_that_diverges};
use crate::{ByHand, Case, DENSE, Folder, Subject};
use formant_model::ModelFile;
use formant_runtime::event::{Event, Phase};

/// A rate at which every client leaves the finite numbers.
const ABSURD: f32 = 1e30;

/// A phase that failed.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    round: usize,
    client: usize,
    phase: Phase,
}

/// All phases that failed, each of which has to say that it diverged.
fn failures(folder: &Folder, case: &Case) -> Vec<Failure> {
    let failed = folder.events().into_iter().filter_map(|event| match event {
        Event::ClientFailed { round, client, phase, error, .. } => {
            assert!(error.contains("diverged at step"), "{case:?}: {error}");
            Some(Failure { round, client, phase })
        }
        _ => None,
    });
    failed.collect()
}

/// At an absurd learning rate a run still comes to its end, says what happened, and leaves models that are
/// finite.
pub fn training_that_diverges_is_an_event(subject: &Subject) {
    for case in subject.cases() {
        let plan = case.plan_with(|p| {
            p.methods[0].shared.base.optimiser.learning_rate = ABSURD;
            p.methods[0].personal.base.optimiser.learning_rate = ABSURD;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        failures(&folder, case);
        for file in formant_model::folder::all(folder.path(), None).unwrap_or_default() {
            let model = ModelFile::read(&file).unwrap().model;
            let mut values = model.parameters.iter().chain(&model.buffers);
            assert!(values.all(|x| x.is_finite()), "{case:?}: {}", file.display());
        }
    }
}

/// A client that diverges in its shared phase is to the others as if it had stayed at home that round. (Tested on
/// a linear classifier, which cannot hide from enormous inputs behind a ReLU; not for methods that need a body.)
pub fn one_diverging_client_is_left_out_and_the_others_go_on(subject: &Subject) {
    if subject.entry().needs_body {
        return;
    }
    for case in subject.cases().iter().filter(|case| case.network() == DENSE) {
        let plan = plan_with_a_client_that_diverges(case.zoo(), case.method());
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let failures = failures(&folder, case);
        let only_one = failures.iter().all(|failure| failure.client == DIVERGES);
        assert!(only_one, "{case:?}: {failures:?}");
        if failures.iter().any(|failure| failure.phase == Phase::Personal) {
            // It took part with what it sent; by hand there are no phases that fail.
            continue;
        }
        let mut by_hand = ByHand::new(&plan);
        for round in 1..=plan.rounds {
            let is_left_out = failures.iter().any(|failure| failure.round == round);
            let everybody = 0..plan.federation.clients.len();
            let took_part = everybody.filter(|client| !(is_left_out && *client == DIVERGES));
            by_hand.round_of(&took_part.collect::<Vec<_>>());
        }
        assert_eq!(folder.result().fingerprints, [by_hand.fingerprint()], "{case:?}");
        for event in folder.events() {
            if let Event::Uploaded { client, round, .. } = event {
                let failed = failures.iter().any(|f| (f.client, f.round) == (client, round));
                assert!(!failed, "{case:?}: what diverged in round {round} was sent");
            }
        }
    }
}
