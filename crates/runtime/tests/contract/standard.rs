//! The standard zoo on the tiny problem.

use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_runtime::RunPlan;
use formant_testing::{AUGMENTED, Case, DENSE, Subject, WITH_BUFFERS};
use std::sync::LazyLock;

/// Strengths at which each form of SCD is felt and yet trains.
pub(crate) const FORMS: [(&str, f64); 4] =
    [("normalized", 10.0), ("raw", 1e-5), ("generalized", 1e-4), ("complex", 0.1)];
pub(crate) const SCOPES: [&str; 2] = ["flat", "per-layer"];

/// Strengths that suit few steps; what is not named learns with its defaults.
const LEARNS_WITH: [(&str, &str); 5] = [
    ("fedgen", "a = 1\nb = 1"),
    ("fedavgm", "beta = 0.5"),
    ("pfedme", "eta = 0.03\neta_p = 0.05"),
    ("ditto", "lambda = 0.5"),
    ("scd", "warm_up = 0.5"),
];

/// SCD with all that it has beyond the paper.
const OPTIONS: &str = "strength_g = 0.2\nstrength_p = 0.1\ntau = 0.3\nband = \"random\"\nteacher = \"received\"\n\
    blend = 0.5\npart = \"body\"\nhead = \"frozen\"\nwarm_up = 0.34\nwarm_up_to = \"received\"";

pub(crate) static ZOO: LazyLock<Zoo> = LazyLock::new(Zoo::standard);

/// Every method with its defaults on both networks, SCD in all its forms and scopes and with a
/// warm-up that ends in the middle, FedRoD with its hypernetwork, and some methods on augmented samples.
pub(crate) fn subjects() -> Vec<Subject> {
    ZOO.entries().iter().map(|entry| subject(entry.name)).collect()
}

fn subject(name: &str) -> Subject {
    let mut subject = Subject::of(&ZOO, name);
    if let Some((_, setting)) = LEARNS_WITH.iter().find(|(of, _)| *of == name) {
        subject = subject.learns_with(setting);
    }
    match name {
        // Its generic model is meant to learn from the personal ones.
        "scd" => with_forms(subject)
            .with_setting(WITH_BUFFERS, "warm_up = 0.34")
            .with_setting(WITH_BUFFERS, OPTIONS)
            .separate_with("lambda_g = 0"),
        "fedrod" => subject.with_setting(WITH_BUFFERS, "hypernetwork = true"),
        // Two phases; several stretches of training in one phase; training where models are scored.
        "ditto" | "fedrep" | "fedbabu" => subject.with_setting(AUGMENTED, ""),
        _ => subject,
    }
}

fn with_forms(mut scd: Subject) -> Subject {
    for (form, lambda) in FORMS {
        for scope in SCOPES {
            let strengths = format!("lambda_p = {lambda}\nlambda_g = {lambda}");
            let setting = format!("form = \"{form}\"\nscope = \"{scope}\"\n{strengths}");
            scd = scd.with_setting(DENSE, &setting);
        }
    }
    scd
}

/// All settings of all methods.
pub(crate) fn cases() -> Vec<Case> {
    subjects().iter().flat_map(|subject| subject.cases().to_vec()).collect()
}

/// One method with its hyper-parameters, as in a file, on one network.
pub(crate) fn case(method: &str, network: &'static str) -> Case {
    Case::new(&ZOO, method, network)
}

/// The experiment of some methods that share a network, over three rounds.
pub(crate) fn experiment(methods: &[&str], network: &str) -> Experiment {
    formant_testing::experiment(&ZOO, methods, network)
}

/// A plan for several methods on one network, over the tiny federation.
pub(crate) fn plan_of(methods: &[&str], network: &str) -> RunPlan {
    formant_testing::plan(&ZOO, methods, network)
}
