//! The log is enough: it opens with the resolved experiment, and every table follows from it.

use crate::standard::{case, cases, experiment, plan_of};
use formant_report::{Row, RunLog, rows};
use formant_runtime::event::{Evaluated, Event, Phase};
use formant_runtime::{EVENTS_FILE, RunPlan, Scored};
use formant_testing::{DENSE, Folder, federation};

fn table(folder: &Folder) -> Vec<Row> {
    rows(&RunLog::read(&folder.file(EVENTS_FILE)).unwrap())
}

#[test]
fn the_log_opens_with_everything_needed_to_run_it_again() {
    let methods = ["name = \"local\"", "name = \"scd\"\nform = \"complex\""];
    let folder = Folder::new();
    folder.run(&plan_of(&methods, DENSE)).unwrap();
    let Event::RunStarted(header) = folder.events().remove(0) else {
        panic!("the log opens with another event")
    };
    let resolved = experiment(&methods, DENSE).to_table();
    assert_eq!(header.config, serde_json::to_value(&resolved).unwrap());
    assert_eq!((header.seed, header.rounds, header.parameters), (3, 3, 14 * 14 * 6 + 6 + 70));
    assert_eq!(header.methods[1].hyper_parameters["form"], "complex");
    // Run again from what the header says, it is the same run.
    let text = toml::to_string(&header.config).unwrap();
    let again = formant_experiment::Experiment::parse(
        &text.parse().unwrap(),
        &[],
        &formant_methods::Zoo::standard(),
    )
    .unwrap();
    let repeated = Folder::new();
    repeated.run(&again.plan_on(federation().clone()).unwrap()).unwrap();
    assert_eq!(repeated.result(), folder.result());
}

#[test]
fn events_come_in_the_order_of_a_round() {
    for case in cases() {
        let folder = Folder::new();
        let plan = case.plan();
        folder.run(&plan).unwrap();
        let personal = plan.rules(&plan.methods[0]).personal.exists;
        let phases = if personal { 2 } else { 1 };
        let has_models = plan.methods[0].method.entry().personal;
        let mut expected = vec!["run_started", "method_started"];
        for _ in 0..3 {
            expected.push("round_started");
            expected.extend(["phase_done"].repeat(5 * phases));
            expected.extend(["uploaded"; 5]);
            expected.extend(["round_finished", "evaluated"]);
            expected.extend(has_models.then_some("spectra"));
        }
        expected.extend(["detailed", "models_kept", "method_finished", "run_finished"]);
        let kinds: Vec<String> = folder
            .events()
            .iter()
            .map(|e| serde_json::to_value(e).unwrap()["event"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(kinds, expected, "{case:?}");
    }
}

fn evaluations(folder: &Folder) -> Vec<Evaluated> {
    folder.result().evaluations
}

/// Weighted mean, plain mean and worst client of five, from the per-client vector alone.
fn check_means(evaluated: &Evaluated, sizes: &[f64]) {
    let pm = evaluated.pm.as_ref().unwrap();
    let each: Vec<f64> = pm.per_client.iter().map(|accuracy| accuracy.unwrap()).collect();
    let total: f64 = sizes.iter().sum();
    let weighted = each.iter().zip(sizes).map(|(a, n)| a * n).sum::<f64>() / total;
    assert!((pm.weighted - weighted).abs() < 1e-12);
    assert!((pm.mean - each.iter().sum::<f64>() / each.len() as f64).abs() < 1e-12);
    let worst = each.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(pm.worst_decile, worst);
    // An accuracy is a count over a size.
    for (accuracy, n) in each.iter().zip(sizes) {
        assert!((accuracy * n - (accuracy * n).round()).abs() < 1e-9, "{accuracy} of {n}");
    }
}

#[test]
fn every_figure_of_a_table_follows_from_the_events() {
    for case in cases() {
        let folder = Folder::new();
        let plan = case.plan();
        folder.run(&plan).unwrap();
        let sizes: Vec<f64> = (0..5).map(|client| plan.scored(client).len() as f64).collect();
        let evaluations = evaluations(&folder);
        for evaluated in &evaluations {
            check_means(evaluated, &sizes);
        }
        let best = |figure: fn(&Evaluated) -> f64| evaluations.iter().map(figure).reduce(f64::max);
        let last = evaluations.last().unwrap();
        let row = table(&folder).remove(0);
        assert_eq!(row.gm_best, best(|e| e.gm.as_ref().unwrap().accuracy));
        assert_eq!(row.pm_best, best(|e| e.pm.as_ref().unwrap().weighted));
        assert_eq!(row.gm_last, Some(last.gm.as_ref().unwrap().accuracy));
        let personal = last.pm.as_ref().unwrap();
        assert_eq!(row.pm_last, Some(personal.weighted));
        assert_eq!(row.worst_decile_last, Some(personal.worst_decile));
        let uploaded: u64 = folder
            .events()
            .iter()
            .map(|event| if let Event::Uploaded { bytes, .. } = event { *bytes } else { 0 })
            .sum();
        assert_eq!((row.uploaded_bytes, row.rounds, row.planned), (uploaded, 3, 3));
        check_work(&folder, &plan);
    }
}

/// Work is counted in whole epochs over the client's samples, in steps of eight.
fn check_work(folder: &Folder, plan: &RunPlan) {
    for event in folder.events() {
        if let Event::PhaseDone { method, client, phase, samples, steps, loss, .. } = event {
            let n = plan.federation.clients[client].train.len() as u64;
            let epochs = samples / n;
            assert_eq!((samples, steps), (epochs * n, epochs * n.div_ceil(8)), "{method}");
            assert_eq!(loss.is_some(), epochs > 0);
            match (method.as_str(), phase) {
                ("fedavg" | "ditto" | "scd", Phase::Shared) => assert_eq!(epochs, 2),
                ("local", Phase::Shared) => assert_eq!(epochs, 0),
                ("local" | "ditto", Phase::Personal) => assert_eq!(epochs, 1),
                _ => {}
            }
        }
    }
}

#[test]
fn the_validation_split_never_sees_a_test_sample() {
    let case = case("name = \"ditto\"", DENSE);
    let plan = case.plan_with(|p| p.evaluation.split = Scored::Validation);
    let validation: Vec<f64> =
        federation().clients.iter().map(|c| c.validation.len() as f64).collect();
    assert_eq!(plan.scored_globally() as f64, validation.iter().sum::<f64>());
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let tested = Folder::new();
    tested.run(&case.plan()).unwrap();
    // The same training, other scores.
    assert_eq!(folder.result().fingerprints, tested.result().fingerprints);
    assert_ne!(evaluations(&folder), evaluations(&tested));
    for evaluated in &evaluations(&folder) {
        check_means(evaluated, &validation);
    }
    // Change every test image and label: on the validation split nothing changes.
    let mut scrambled = case.plan_with(|p| p.evaluation.split = Scored::Validation);
    for client in &mut scrambled.federation.clients {
        client.test = vec![0];
    }
    let again = Folder::new();
    again.run(&scrambled).unwrap();
    assert_eq!(again.result(), folder.result());
}
