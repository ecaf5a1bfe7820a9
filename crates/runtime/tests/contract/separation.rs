//! GM and PM are separate storage: what trains one cannot touch the other.

use crate::by_hand::ByHand;
use crate::problem::{Case, DENSE, WITH_BUFFERS, plan_of};
use formant_methods::Zoo;
use formant_runtime::RunPlan;

/// The GM after each round, and all PMs.
fn models(plan: &RunPlan) -> Vec<(formant_numerics::Model, Vec<formant_numerics::Model>)> {
    let mut by_hand = ByHand::new(plan);
    (0..3)
        .map(|_| {
            by_hand.round();
            (by_hand.gm(), by_hand.pms())
        })
        .collect()
}

/// Of every method with both models; SCD's generic model is meant to learn from the personal ones, so
/// without that term.
#[test]
fn the_personal_phase_leaves_the_generic_model_alone() {
    for entry in Zoo::standard().entries().iter().filter(|entry| entry.generic && entry.personal) {
        let alone = if entry.name == "scd" { "\nlambda_g = 0" } else { "" };
        for network in [DENSE, WITH_BUFFERS] {
            let case = Case { method: format!("name = \"{}\"{alone}", entry.name), network };
            let slow = models(&case.plan());
            let fast = models(&case.plan_with(|p| {
                p.methods[0].personal.first.sgd.learning_rate *= 2.0;
            }));
            // pFedMe has no personal phase, and learning rates of its own.
            let felt = entry.name != "pfedme";
            for ((gm, pms), (other_gm, other_pms)) in slow.iter().zip(&fast) {
                assert_eq!(gm, other_gm, "{case:?}");
                assert!(pms.iter().zip(other_pms).all(|(a, b)| (a != b) == felt), "{case:?}");
            }
        }
    }
}

#[test]
fn the_shared_phase_leaves_the_personal_models_alone() {
    let shared_rate = |method: &str, factor: f32| {
        let mut plan = plan_of(&[method], WITH_BUFFERS);
        plan.methods[0].shared.first.sgd.learning_rate *= factor;
        models(&plan)
    };
    // In the first round no personal model has heard of an aggregate yet: Ditto pulls towards the
    // common initial model and SCD without its personal term towards nothing.
    for (method, rounds) in [("name = \"ditto\"", 1), ("name = \"scd\"\nlambda_p = 0", 3)] {
        let pairs = shared_rate(method, 1.0).into_iter().zip(shared_rate(method, 2.0));
        for ((gm, pms), (other_gm, other_pms)) in pairs.take(rounds) {
            assert_ne!(gm, other_gm);
            assert_eq!(pms, other_pms);
        }
    }
}

#[test]
fn every_client_has_a_model_of_its_own() {
    for method in ["name = \"local\"", "name = \"ditto\"", "name = \"scd\""] {
        let plan = plan_of(&[method], WITH_BUFFERS);
        let mut by_hand = ByHand::new(&plan);
        let untouched = by_hand.pm(3);
        by_hand.round_of(&[0, 2]);
        let pms = by_hand.pms();
        assert_eq!(pms[3], untouched, "client 3 stayed at home: {method}");
        assert!(pms[0] != untouched && pms[2] != untouched && pms[0] != pms[2]);
        assert!(pms[0].buffers != untouched.buffers, "statistics are personal too: {method}");
    }
}
