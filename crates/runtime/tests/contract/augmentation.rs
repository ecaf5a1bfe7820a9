//! Augmentation reaches whatever trains and nothing else, and what cannot be augmented is refused.

use crate::standard::{case, experiment};
use formant_numerics::Augmentation;
use formant_testing::{AUGMENTED, ByHand, DENSE, federation, run};

#[test]
fn it_reaches_both_phases_and_draws_anew_in_each() {
    for method in ["name = \"ditto\"", "name = \"fedavg\"", "name = \"pfedme\""] {
        let (plain, augmented) = (case(method, DENSE).plan(), case(method, AUGMENTED).plan());
        let (mut a, mut b) = (ByHand::new(&plain), ByHand::new(&augmented));
        assert_eq!(a.init, b.init);
        a.round();
        b.round();
        assert_ne!(a.gm(), b.gm(), "{method}");
        assert_ne!(a.pms(), b.pms(), "{method}");
        // Only the personal phase: the generic model is the plain one's.
        let mut half = case(method, AUGMENTED).plan();
        half.methods[0].shared.base.augment = Augmentation::NONE;
        let mut c = ByHand::new(&half);
        c.round();
        assert_eq!(a.gm(), c.gm(), "{method}");
    }
}

#[test]
fn what_is_scored_is_not_augmented() {
    // Nobody trains, so nothing can differ but what scores see.
    let still = |network| {
        case("name = \"fedavg\"", network).plan_with(|plan| {
            for method in &mut plan.methods {
                method.shared.base.optimiser.learning_rate = 0.0;
            }
        })
    };
    assert_eq!(run(&still(DENSE)).evaluations, run(&still(AUGMENTED)).evaluations);
}

#[test]
fn an_experiment_without_it_says_nothing_of_it() {
    let fedavg = experiment(&["name = \"fedavg\""], DENSE);
    let empty = experiment(&["name = \"fedavg\""], "name = \"mlp\"\nhidden = [6]\n[data.augment]");
    assert_eq!(fedavg.to_table(), empty.to_table());
    assert!(!fedavg.to_table()["data"].as_table().unwrap().contains_key("augment"));
}

#[test]
fn what_these_images_cannot_follow_is_refused_with_its_key() {
    for (setting, expected) in [
        ("saturation = 0.5", "`data.augment.saturation = 0.5` does nothing on grey images"),
        ("crop = 14", "`data.augment.crop = 14` could leave nothing"),
        ("cutout = 15", "`data.augment.cutout = 15` is larger than an image"),
    ] {
        let network = format!("name = \"mlp\"\n[data.augment]\n{setting}");
        let refused = experiment(&["name = \"fedavg\""], &network).plan_on(federation().clone());
        let error = refused.err().unwrap().to_string();
        assert!(error.starts_with(expected) && error.contains("\nhint: "), "{error}");
    }
}
