//! GM and PM are separate storage: what trains one cannot touch the other.

use crate::{ByHand, Subject};
use formant_numerics::Model;
use formant_runtime::RunPlan;

/// Both models after a round.
struct Models {
    generic: Model,
    personal: Vec<Model>,
}

fn models(plan: &RunPlan) -> Vec<Models> {
    let mut by_hand = ByHand::new(plan);
    let rounds = (0..3).map(|_| {
        by_hand.round();
        Models { generic: by_hand.gm(), personal: by_hand.pms() }
    });
    rounds.collect()
}

/// For a method with both models: a personal phase with another learning rate gives other personal models and
/// the same generic one. Where the generic model is meant to learn from the personal ones,
/// [`Subject::separate_with`] names the setting in which it does not, or [`Subject::never_separate`] says that
/// there is none.
pub fn the_personal_phase_leaves_the_generic_model_alone(subject: &Subject) {
    if !(subject.entry().generic && subject.entry().personal) {
        return;
    }
    for case in subject.separate() {
        let plan = case.plan();
        let slow = models(&plan);
        let fast = models(&case.plan_with(|p| {
            p.methods[0].personal.base.optimiser.learning_rate *= 2.0;
        }));
        for (slow, fast) in slow.iter().zip(&fast) {
            assert_eq!(slow.generic, fast.generic, "{case:?}");
            if plan.rules(&plan.methods[0]).personal.exists {
                let moved = slow.personal.iter().zip(&fast.personal).all(|(a, b)| a != b);
                assert!(moved, "{case:?}: the personal phase does not feel its learning rate");
            }
        }
    }
}
