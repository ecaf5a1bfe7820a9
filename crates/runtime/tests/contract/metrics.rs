//! Metrics beside accuracy: those of `formant evaluate`, the same for any machine, and decisive if they
//! come first.

use crate::standard::{case, plan_of};
use formant_model::folder::{BEST, GENERIC, MODELS};
use formant_model::{Metrics, ModelFile};
use formant_numerics::{Cpu, EVALUATION_BATCH, Engine, Measures, Metric, probabilities};
use formant_report::{RunLog, rows};
use formant_runtime::event::Evaluated;
use formant_runtime::{EVENTS_FILE, RunPlan};
use formant_testing::{DENSE, Folder, run};

/// A plan that asks for metrics.
fn asking(plan: &mut RunPlan, metrics: &[Metric]) {
    plan.evaluation.metrics = Measures::new(metrics.to_vec()).unwrap();
    plan.header.metrics = plan.evaluation.metrics.clone();
}

/// What `formant evaluate` finds for a model file on some samples of the run.
fn evaluated(file: &ModelFile, plan: &RunPlan, indices: Option<&[u32]>) -> Metrics {
    let data = &plan.federation.dataset;
    let everything: Vec<u32> = (0..data.test.len() as u32).collect();
    let (samples, indices) = match indices {
        Some(indices) => (&*data.train, indices),
        None => (&*data.test, &everything[..]),
    };
    let mut worker = Cpu::new(file.card.build("a test's").unwrap()).worker(EVALUATION_BATCH);
    let (mut all, mut labels) = (Vec::new(), Vec::new());
    for batch in indices.chunks(EVALUATION_BATCH) {
        worker.load(samples, batch);
        let (output, of) = worker.look(&file.model);
        labels.extend(of.iter().map(|label| *label as u16));
        for row in output.logits.chunks_exact(data.classes) {
            let mut of_row = vec![0.0; data.classes];
            probabilities(row, &mut of_row);
            all.extend(of_row);
        }
    }
    Metrics::new(&all, &labels, data.classes)
}

/// Its figure, in the order of [`Metric::ALL`].
fn figures(metrics: &Metrics) -> [Option<f64>; 5] {
    let Metrics { accuracy, balanced_accuracy, macro_f1, auroc, calibration_error, .. } = *metrics;
    [Some(accuracy), Some(balanced_accuracy), Some(macro_f1), auroc, Some(calibration_error)]
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    a.zip(b).map_or(a == b, |(a, b)| (a - b).abs() < 1e-12)
}

#[test]
fn an_evaluation_finds_what_the_files_of_its_models_are_worth() {
    for method in ["ditto", "fedavg", "local"] {
        let case = case(&format!("name = \"{method}\""), DENSE);
        let plan = case.plan_with(|p| asking(p, &Metric::ALL));
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let last = folder.result().evaluations.pop().unwrap();
        let place = folder.file(MODELS).join(method);
        let generic = ModelFile::read(&place.join(GENERIC)).unwrap();
        let expected = figures(&evaluated(&generic, &plan, None));
        let gm = last.gm.unwrap();
        for (metric, expected) in Metric::ALL.into_iter().zip(expected) {
            assert!(close(gm.figure(metric), expected), "{method} {metric:?}: {gm:?} {expected:?}");
        }
        let pm = last.pm.unwrap();
        assert_eq!(pm.further.len(), 4);
        for client in 0..5 {
            let own = place.join(format!("personal/{client}.safetensors"));
            let file =
                if method == "fedavg" { generic.clone() } else { ModelFile::read(&own).unwrap() };
            let expected = figures(&evaluated(&file, &plan, Some(&plan.scored(client))));
            for (metric, expected) in Metric::ALL.into_iter().zip(expected) {
                let found = pm.by(metric).unwrap().per_client[client];
                assert!(close(found, expected), "{method} {client} {metric:?}");
            }
        }
    }
}

#[test]
fn metrics_cost_nothing_but_time_and_need_no_particular_machine() {
    for schedule in ["ditto", "fedrod", "local"] {
        let case = case(&format!("name = \"{schedule}\""), DENSE);
        let asked = |threads: usize| {
            case.plan_with(|p| {
                asking(p, &Metric::ALL);
                p.threads = threads;
            })
        };
        let reference = run(&asked(1));
        for threads in [2, 8] {
            assert_eq!(run(&asked(threads)), reference);
        }
        let folder = Folder::new();
        folder.run_until(&asked(2), 0, 2);
        folder.run(&asked(1)).unwrap();
        assert_eq!(folder.result(), reference);
        // The same models and the same accuracies as of a run that asks for nothing else.
        let plain = run(&case.plan());
        assert_eq!(plain.fingerprints, reference.fingerprints);
        assert_eq!(plain.models, reference.models);
        for (plain, asked) in plain.evaluations.into_iter().zip(reference.evaluations) {
            let mut gm = asked.gm.unwrap();
            assert_eq!((gm.further.len(), gm.further.contains_key(&Metric::Auroc)), (4, true));
            gm.further.clear();
            let mut pm = asked.pm.unwrap();
            pm.further.clear();
            assert_eq!((plain.gm, plain.pm), (Some(gm), Some(pm)));
        }
    }
}

#[test]
fn the_first_metric_decides_and_less_of_some_is_better() {
    for first in [Metric::CalibrationError, Metric::MacroF1] {
        let mut plan = plan_of(&["name = \"ditto\"", "name = \"local\""], DENSE);
        asking(&mut plan, &[first, Metric::Accuracy]);
        plan.rounds = 6;
        plan.header.rounds = 6;
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let (log, evaluations) =
            (RunLog::read(&folder.file(EVENTS_FILE)).unwrap(), folder.result().evaluations);
        for (row, method) in rows(&log).into_iter().zip(&plan.methods) {
            let own: Vec<&Evaluated> =
                evaluations.iter().filter(|e| e.method == method.label).collect();
            let best = |figure: fn(&Evaluated, Metric) -> f64| {
                let by = |a: &&&Evaluated, b: &&&Evaluated| {
                    first.order(figure(a, first), figure(b, first))
                };
                let found = own.iter().min_by(by).unwrap();
                (Some(figure(found, first)), Some(found.round))
            };
            let gm = best(|e, metric| e.gm.as_ref().unwrap().figure(metric).unwrap());
            let pm = best(|e, metric| e.pm.as_ref().unwrap().by(metric).unwrap().weighted);
            assert_eq!((row.metric, row.gm_best, row.best_round_gm), (first, gm.0, gm.1));
            assert_eq!((row.pm_best, row.best_round_pm), pm);
            let file = folder.file(MODELS).join(&method.label).join(BEST);
            assert_eq!(ModelFile::read(&file).unwrap().card.round as usize, gm.1.unwrap());
            // The other metric is that of the same models.
            let at_best = own.iter().find(|e| Some(e.round) == gm.1).unwrap();
            let [further] = &*row.further else { panic!("{row:?}") };
            let accuracy = at_best.gm.as_ref().unwrap().accuracy;
            assert_eq!((further.metric, further.gm_best), (Metric::Accuracy, Some(accuracy)));
        }
    }
}
