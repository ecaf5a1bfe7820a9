//! GM and PM are separate storage: what trains one cannot touch the other.

use crate::standard::plan_of;
use formant_runtime::RunPlan;
use formant_testing::{ByHand, WITH_BUFFERS};

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

#[test]
fn the_shared_phase_leaves_the_personal_models_alone() {
    let shared_rate = |method: &str, factor: f32| {
        let mut plan = plan_of(&[method], WITH_BUFFERS);
        plan.methods[0].shared.base.optimiser.learning_rate *= factor;
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
