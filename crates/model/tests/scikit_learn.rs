//! Scores against those of scikit-learn: `fixtures/make.py`.

use formant_model::{ClassMetrics, Metrics};
use formant_numerics::{Detail, Measures, Metric, Tally};
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    samples: usize,
    classes: usize,
    occurring: usize,
    steps: f64,
    accuracy: f64,
    balanced_accuracy: f64,
    macro_f1: f64,
    auroc: Option<f64>,
    calibration_error: f64,
    log_loss: f64,
    confusion: Vec<Vec<u64>>,
    support: Vec<u64>,
    precision: Vec<f64>,
    recall: Vec<f64>,
    f1: Vec<f64>,
    aurocs: Vec<Option<f64>>,
}

/// The probabilities and labels of `make.py`.
fn recipe(case: &Case) -> (Vec<f64>, Vec<u16>) {
    let labels: Vec<u16> =
        (0..case.samples).map(|i| ((i * i + i / 3) % case.occurring) as u16).collect();
    let mut probabilities = Vec::new();
    for (i, label) in labels.iter().enumerate() {
        let raw = (0..case.classes).map(|c| {
            let own = if c == usize::from(*label) { 1.2 } else { 0.0 };
            let x = 1.5 * (0.7 * i as f64 + 2.3 * (c * c) as f64).sin() + own;
            if case.steps > 0.0 { (x * case.steps).floor() / case.steps } else { x }
        });
        let raw: Vec<f64> = raw.collect();
        let peak = raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = raw.iter().map(|x| (x - peak).exp()).collect();
        let sum: f64 = powers.iter().sum();
        probabilities.extend(powers.iter().map(|p| p / sum));
    }
    (probabilities, labels)
}

#[test]
fn every_score_is_that_of_scikit_learn() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/metrics.json")).unwrap();
    assert_eq!(fixture.cases.len(), 5);
    for case in fixture.cases {
        let (probabilities, labels) = recipe(&case);
        let found = Metrics::new(&probabilities, &labels, case.classes);
        let close = |what: &str, a: f64, b: f64| {
            assert!((a - b).abs() < 1e-12, "{}: {what} {a} {b}", case.name);
        };
        close("accuracy", found.accuracy, case.accuracy);
        close("balanced accuracy", found.balanced_accuracy, case.balanced_accuracy);
        close("macro-F1", found.macro_f1, case.macro_f1);
        close("calibration error", found.calibration_error, case.calibration_error);
        close("log loss", found.log_loss, case.log_loss);
        assert_eq!(found.auroc.is_some(), case.auroc.is_some(), "{}", case.name);
        close("AUROC", found.auroc.unwrap_or(0.0), case.auroc.unwrap_or(0.0));
        assert_eq!(found.confusion, case.confusion, "{}", case.name);
        for (c, ClassMetrics { support, precision, recall, f1, auroc, .. }) in
            found.classes.iter().enumerate()
        {
            assert_eq!(*support, case.support[c], "{}", case.name);
            close("precision", *precision, case.precision[c]);
            close("recall", *recall, case.recall[c]);
            close("F1", *f1, case.f1[c]);
            assert_eq!(auroc.is_some(), case.aurocs[c].is_some(), "{}: class {c}", case.name);
            close("AUROC", auroc.unwrap_or(0.0), case.aurocs[c].unwrap_or(0.0));
        }
    }
}

/// What is counted batch by batch while models are trained gives the same figures.
#[test]
fn every_score_of_an_evaluation_is_that_of_scikit_learn() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/metrics.json")).unwrap();
    let detail = Detail::of(&Measures::new(Metric::ALL.to_vec()).unwrap());
    for case in fixture.cases {
        let (probabilities, labels) = recipe(&case);
        // Logits of these probabilities, in single precision as a network gives them.
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
        let labels: Vec<u32> = labels.into_iter().map(u32::from).collect();
        let mut tally = Tally::default();
        for (logits, labels) in logits.chunks(7 * case.classes).zip(labels.chunks(7)) {
            let mut part = Tally::default();
            part.count(logits, labels, detail);
            tally.add(part);
        }
        for (metric, expected) in [
            (Metric::Accuracy, Some(case.accuracy)),
            (Metric::BalancedAccuracy, Some(case.balanced_accuracy)),
            (Metric::MacroF1, Some(case.macro_f1)),
            (Metric::Auroc, case.auroc),
            (Metric::CalibrationError, Some(case.calibration_error)),
        ] {
            let found = tally.figure(metric);
            assert_eq!(found.is_some(), expected.is_some(), "{}: {metric:?}", case.name);
            let (found, expected) = (found.unwrap_or(0.0), expected.unwrap_or(0.0));
            let error = (found - expected).abs();
            // Probabilities that are equal are no longer so when logits in single precision stand for them.
            let breaks_ties = metric == Metric::Auroc && case.name == "ties";
            let most = if breaks_ties { 1e-3 } else { 1e-6 };
            assert!(error < most, "{}: {metric:?} {found} {expected}", case.name);
        }
        assert_eq!(tally.samples, case.samples);
        assert!((tally.loss / case.samples as f64 - case.log_loss).abs() < 1e-5, "{}", case.name);
    }
}
