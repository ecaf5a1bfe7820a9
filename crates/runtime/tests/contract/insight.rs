//! What the log tells of models besides their scores agrees with the scores, costs training nothing, and is of
//! the models that are kept.

use crate::standard::{case, plan_of};
use formant_model::ModelFile;
use formant_model::folder::{GENERIC, MODELS};
use formant_numerics::{
    Differentiable as _, Form, Length, Scope, SpectralDivergence, Spectrum, vector,
};
use formant_runtime::RunPlan;
use formant_runtime::event::{Detailed, Errors, Evaluated, Event, Phase, Spectra};
use formant_testing::{DENSE, Folder, run};
use std::path::Path;
use std::sync::Arc;

const METHODS: [&str; 4] = ["fedavg", "ditto", "local", "scd"];

fn of_a_run(plan: &RunPlan) -> (Folder, Vec<Evaluated>, Vec<Spectra>, Vec<Detailed>) {
    let folder = Folder::new();
    folder.run(plan).unwrap();
    let (mut spectra, mut detailed) = (Vec::new(), Vec::new());
    let fate = folder.result();
    for event in fate.insights {
        match event {
            Event::Spectra(found) => spectra.push(found),
            Event::Detailed(found) => detailed.push(found),
            other => panic!("{other:?}"),
        }
    }
    (folder, fate.evaluations, spectra, detailed)
}

/// Right answers and all of them, by the matrix and by the bins.
fn counted(errors: &Errors) -> [(u64, u64); 2] {
    let rows = errors.confusion.as_ref().unwrap();
    let right = rows.iter().enumerate().map(|(class, row)| row[class]).sum();
    let bins = errors.reliability.iter();
    let by_bins = bins.fold((0, 0), |(r, n), bin| (r + bin.right, n + bin.samples));
    [(right, rows.iter().flatten().sum()), by_bins]
}

#[test]
fn answers_add_up_to_the_scores_of_the_table() {
    for method in METHODS {
        let plan = case(&format!("name = \"{method}\""), DENSE).plan();
        let (_, evaluations, _, detailed) = of_a_run(&plan);
        let [detailed] = &detailed[..] else { panic!("{method}: {detailed:?}") };
        let last = evaluations.last().unwrap();
        assert_eq!((detailed.round, &*detailed.method), (last.round, method));
        let [by_rows, by_bins] = counted(detailed.gm.as_ref().unwrap());
        assert_eq!(by_rows, by_bins);
        assert_eq!(by_rows.1, plan.header.global_test as u64);
        let accuracy = |(right, all): (u64, u64)| right as f64 / all as f64;
        assert_eq!(accuracy(by_rows), last.gm.as_ref().unwrap().accuracy);
        let [by_rows, by_bins] = counted(detailed.pm.as_ref().unwrap());
        assert_eq!(by_rows, by_bins);
        let sizes: Vec<usize> = (0..5).map(|client| plan.scored(client).len()).collect();
        assert_eq!(by_rows.1, sizes.iter().sum::<usize>() as u64);
        let pm = last.pm.as_ref().unwrap();
        assert!((accuracy(by_rows) - pm.weighted).abs() < 1e-12, "{method}");
        assert_eq!(detailed.gm_on_clients.len(), 5);
        // Without personal models, the generic one is scored in their place.
        assert_eq!(detailed.gm_on_clients == pm.per_client, method == "fedavg", "{method}");
        // A client's labels are its row sums, added up over clients.
        let rows = detailed.pm.as_ref().unwrap().confusion.as_ref().unwrap();
        let mut labels = vec![0; rows.len()];
        for index in (0..5).flat_map(|client| plan.scored(client).into_owned()) {
            labels[plan.federation.dataset.train.label(index as usize)] += 1;
        }
        let sums: Vec<u64> = rows.iter().map(|row| row.iter().sum()).collect();
        assert_eq!(sums, labels);
    }
}

#[test]
fn spectra_are_those_of_the_files_of_the_models() {
    for method in ["ditto", "local", "scd"] {
        let plan = case(&format!("name = \"{method}\""), DENSE).plan();
        let (folder, evaluations, spectra, _) = of_a_run(&plan);
        assert_eq!(
            spectra.iter().map(|s| s.round).collect::<Vec<_>>(),
            evaluations.iter().map(|e| e.round).collect::<Vec<_>>()
        );
        for (nth, found) in spectra.iter().enumerate() {
            assert_eq!(found.clients.iter().map(|c| c.client).collect::<Vec<_>>(), [0, 1, 2]);
            let at_an_end = nth == 0 || nth + 1 == spectra.len();
            assert_eq!(found.gm.is_some(), at_an_end);
            assert!(found.clients.iter().all(|c| c.layers.is_some() == at_an_end));
        }
        let last = spectra.last().unwrap();
        let place = folder.file(MODELS).join(method);
        let read = |file: &Path| ModelFile::read(&place.join(file)).unwrap().model.parameters;
        let generic = read(GENERIC.as_ref());
        let layout = plan.engine.network().layout();
        let plans = Arc::new(Spectrum::new(layout, Scope::Flat, Length::Fast));
        for client in &last.clients {
            let own = read(format!("personal/{}.safetensors", client.client).as_ref());
            let by_hand = |tau| {
                let form = Form::Normalized;
                let mut term = SpectralDivergence::new(plans.clone(), form, tau, &generic).unwrap();
                term.add(0.0, &own, &mut vec![0.0; own.len()])
            };
            assert!((client.divergence - by_hand(1.0)).abs() < 1e-9, "{method} {client:?}");
            assert!((client.low_divergence - by_hand(0.1)).abs() < 1e-9, "{method} {client:?}");
            let distance = vector::distance_squared(&own, &generic).sqrt() / vector::norm(&generic);
            assert!((client.distance - distance).abs() < 1e-9);
            assert!(client.divergence > 0.0 && client.distance > 0.0, "{method} {client:?}");
            // Parseval: the power of all bins is that of the tensor.
            let layers = client.layers.as_ref().unwrap();
            let names: Vec<&str> = layers.iter().map(|layer| &*layer.layer).collect();
            assert_eq!(names, layout.tensors().iter().map(|t| &*t.name).collect::<Vec<_>>());
            assert!(
                layers.iter().all(|l| l.bands.len() <= 24 && l.bands.iter().all(|x| *x >= 0.0))
            );
        }
    }
}

#[test]
fn a_personal_model_that_equals_the_generic_one_has_no_distance() {
    // Both begin with the same values, and nothing moves.
    let plan = case("name = \"ditto\"", DENSE).plan_with(|p| {
        p.rounds = 1;
        let method = &mut p.methods[0];
        for phase in [&mut method.shared, &mut method.personal] {
            phase.base.optimiser.learning_rate = 0.0;
        }
    });
    let (_, _, spectra, _) = of_a_run(&plan);
    for client in spectra.iter().flat_map(|found| &found.clients) {
        assert!(client.divergence < 1e-6 && client.low_divergence < 1e-6, "{client:?}");
        assert!(client.distance < 1e-6, "{client:?}");
    }
    assert_eq!(spectra.len(), 1);
}

#[test]
fn looking_changes_no_model_and_nobody_has_to_look() {
    let methods = METHODS.map(|method| format!("name = \"{method}\""));
    let methods: Vec<&str> = methods.iter().map(|method| &**method).collect();
    let looked = |spectra: usize, threads: usize| {
        let mut plan = plan_of(&methods, DENSE);
        (plan.evaluation.spectra, plan.threads) = (spectra, threads);
        run(&plan)
    };
    let (usual, none, all) = (looked(3, 2), looked(0, 2), looked(1_000, 1));
    assert_eq!((&usual.fingerprints, &usual.models), (&none.fingerprints, &none.models));
    assert_eq!((&usual.evaluations, &usual.evaluations), (&none.evaluations, &all.evaluations));
    assert_eq!(none.insights.len(), METHODS.len());
    let most = all.insights.iter().filter_map(|event| match event {
        Event::Spectra(found) => Some(found.clients.len()),
        _ => None,
    });
    assert_eq!(most.collect::<Vec<_>>(), [5; 9]);
}

#[test]
fn with_patience_it_is_told_of_the_models_that_are_kept() {
    for method in ["ditto", "fedavg"] {
        let patient = |rounds: usize| {
            case(&format!("name = \"{method}\""), DENSE).plan_with(|p| {
                p.evaluation.patience = Some(2);
                (p.rounds, p.header.rounds, p.checkpoint_every) = (rounds, rounds, 1);
            })
        };
        let (folder, evaluations, spectra, detailed) = of_a_run(&patient(40));
        let [detailed] = &detailed[..] else { panic!("{detailed:?}") };
        let best = folder.events().into_iter().find_map(|event| match event {
            Event::MethodFinished { best_round, .. } => best_round,
            _ => None,
        });
        assert_eq!(Some(detailed.round), best);
        assert!(detailed.round < evaluations.last().unwrap().round, "nobody has stopped");
        let kept = evaluations.iter().find(|e| Some(e.round) == best).unwrap();
        let [(right, all), _] = counted(detailed.gm.as_ref().unwrap());
        assert_eq!(right as f64 / all as f64, kept.gm.as_ref().unwrap().accuracy);
        // The last evaluation shows its tensors, though nobody knew before that it would be.
        assert!(spectra.last().is_none_or(|last| last.gm.is_some()));
        // It survives a session.
        for round in [detailed.round, detailed.round + 1] {
            let resumed = Folder::new();
            resumed.run_until(&patient(40), 0, round);
            resumed.run(&patient(40)).unwrap();
            assert_eq!(resumed.result(), folder.result(), "{method} after round {round}");
        }
    }
}

#[test]
fn a_phase_tells_what_its_terms_have_added() {
    for (method, expected) in [("fedavg", [false; 2]), ("ditto", [false, true]), ("scd", [true; 2])]
    {
        let text = if method == "scd" { "\nlambda_p = 0.1\nlambda_g = 0.1" } else { "" };
        let plan = case(&format!("name = \"{method}\"{text}"), DENSE).plan();
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let mut seen = [false; 2];
        for event in folder.events() {
            let Event::PhaseDone { phase, loss, terms, .. } = event else { continue };
            let place = usize::from(phase == Phase::Personal);
            seen[place] |= terms.is_some();
            assert!(terms.is_none() || expected[place], "{method} {phase:?}: {terms:?}");
            if let Some(terms) = terms {
                assert!(terms >= 0.0 && terms <= loss.unwrap(), "{terms} of {loss:?}");
            }
        }
        assert_eq!(seen, expected, "{method}");
    }
}

#[test]
fn the_first_line_says_who_holds_what() {
    let plan = case("name = \"fedavg\"", DENSE).plan();
    let division = plan.header.division.as_ref().unwrap();
    let counts = division.counts.as_ref().unwrap();
    assert_eq!(division.classes, plan.federation.dataset.class_names);
    let sizes: Vec<usize> = counts.iter().map(|of| of.iter().sum::<u32>() as usize).collect();
    let clients = plan.header.clients.iter().flatten();
    assert_eq!(sizes, clients.map(|client| client.train).collect::<Vec<_>>());
    assert!(division.divided > sizes.iter().sum());
    assert!((0.1..=1.0).contains(&division.concentration), "{division:?}");
    assert_eq!(division.moved > 0, division.drawn_concentration.is_some());
}
