//! What a run has trained is in its folder, and is what its table scores.

use crate::{Folder, Subject};
use formant_model::folder::{BEST, GENERIC, MODELS, Which, clients, locate};
use formant_model::{ModelFile, Role};
use formant_numerics::{Cpu, Detail, EVALUATION_BATCH, Engine};
use formant_runtime::RunPlan;
use std::path::Path;

/// The share of samples that a model file gets right, with the network that its card builds.
pub(super) fn accuracy(file: &Path, plan: &RunPlan, indices: Option<&[u32]>) -> f64 {
    let ModelFile { card, model } = ModelFile::read(file).unwrap();
    let network = card.build("a test's").unwrap();
    assert_eq!(card.normalisation, plan.federation.dataset.test.normalisation());
    assert_eq!(card.classes, plan.federation.dataset.class_names);
    let everything: Vec<u32> = (0..plan.federation.dataset.test.len() as u32).collect();
    let (samples, indices) = match indices {
        Some(indices) => (&*plan.federation.dataset.train, indices),
        None => (&*plan.federation.dataset.test, &everything[..]),
    };
    let mut worker = Cpu::new(network).worker(EVALUATION_BATCH);
    worker.score(&model, samples, indices, Detail::PLAIN).right as f64 / indices.len() as f64
}

/// The generic model, the best one and every personal one are files that give the accuracies of the log; a
/// method has files for the models that its entry names.
pub fn every_model_that_a_table_scores_is_a_file_that_scores_the_same(subject: &Subject) {
    let entry = subject.entry();
    for case in subject.cases() {
        let (plan, folder) = (case.plan(), Folder::new());
        folder.run(&plan).unwrap();
        let (method, evaluated) = (&plan.methods[0], folder.result().evaluations);
        let place = folder.file(MODELS).join(&method.label);
        let last = evaluated.last().unwrap();
        assert_eq!(
            accuracy(&place.join(GENERIC), &plan, None),
            last.gm.as_ref().unwrap().accuracy,
            "{case:?}"
        );
        let best = evaluated.iter().map(|e| e.gm.as_ref().unwrap().accuracy).fold(0.0, f64::max);
        let first =
            evaluated.iter().find(|e| e.gm.as_ref().unwrap().accuracy == best).unwrap().round;
        assert_eq!(accuracy(&place.join(BEST), &plan, None), best, "{case:?}");
        assert_eq!(ModelFile::read(&place.join(BEST)).unwrap().card.round, first as u64);
        let expected = if entry.personal { vec![0, 1, 2, 3, 4] } else { Vec::new() };
        assert_eq!(clients(&place), expected, "{case:?}");
        for client in expected {
            let file = locate(folder.path(), Some(&method.label), Which::Client(client)).unwrap();
            let found = accuracy(&file, &plan, Some(&plan.scored(client)));
            let scores = &last.pm.as_ref().unwrap().per_client;
            assert_eq!(Some(found), scores[client], "{case:?}");
            let card = ModelFile::read(&file).unwrap().card;
            assert_eq!(card.role, Role::Personal { client, name: None });
            assert_eq!((card.round, card.seed, &*card.method.name), (3, 3, entry.name));
        }
        let role = ModelFile::read(&place.join(GENERIC)).unwrap().card.role;
        assert_eq!(role == Role::Generic, entry.generic, "{case:?}");
    }
}
