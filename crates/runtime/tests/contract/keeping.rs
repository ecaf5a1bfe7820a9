//! What a run has trained is in its folder, and is what its table scores.

use crate::standard::plan_of;
use formant_model::ModelFile;
use formant_model::folder::{BEST, GENERIC, MODELS, PERSONAL, all, clients};
use formant_runtime::event::{Evaluated, Event};
use formant_runtime::{Keep, RunPlan};
use formant_testing::{ByHand, DENSE, Folder, WITH_BUFFERS};

fn evaluations(folder: &Folder) -> Vec<Evaluated> {
    let events = folder.events().into_iter();
    let evaluated = events.filter_map(|event| match event {
        Event::Evaluated(evaluated) => Some(evaluated),
        _ => None,
    });
    evaluated.collect()
}

#[test]
fn less_is_kept_where_less_is_asked_for_or_fits() {
    let methods = ["name = \"ditto\"", "name = \"fedavg\"", "name = \"scd\""];
    let kept = |change: &dyn Fn(&mut RunPlan)| {
        let mut plan = plan_of(&methods, WITH_BUFFERS);
        change(&mut plan);
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let files = all(folder.path(), None).map_or(0, |files| files.len());
        let bytes: u64 = plan.kept().iter().map(|kept| kept.bytes).sum();
        let told: u64 = plan.kept().iter().map(|kept| kept.beyond).sum();
        let recorded: u64 = folder
            .events()
            .iter()
            .map(|event| match event {
                Event::ModelsKept { bytes, .. } => *bytes,
                _ => 0,
            })
            .sum();
        assert!(recorded <= bytes, "{recorded} were written where {bytes} were announced");
        assert!(recorded * 5 >= bytes * 4, "{recorded} of {bytes}: a poor estimate");
        (files, told)
    };
    assert_eq!(kept(&|_| {}), (3 * 2 + 2 * 5, 0));
    assert_eq!(kept(&|plan| plan.keep = Keep::Generic), (3 * 2, 0));
    assert_eq!(kept(&|plan| plan.keep = Keep::None), (0, 0));
    // Room for the generic models and the personal ones of one method.
    let one = plan_of(&methods, WITH_BUFFERS).kept()[1].bytes / 2;
    assert_eq!(kept(&|plan| plan.keep_limit = 11 * one), (3 * 2 + 5, 5 * one));
    assert_eq!(kept(&|plan| plan.keep_limit = 6 * one), (3 * 2, 10 * one));
    assert_eq!(kept(&|plan| plan.keep_limit = 2 * one), (2, 14 * one));
    assert_eq!(kept(&|plan| plan.keep_limit = 0), (0, 16 * one));
}

#[test]
fn a_method_that_was_stopped_keeps_what_it_had() {
    let mut plan = plan_of(&["name = \"ditto\""], DENSE);
    plan.methods[0].shared.base.optimiser.learning_rate = 1e30;
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let place = folder.file(MODELS).join("ditto");
    let by_hand = ByHand::new(&plan);
    assert_eq!(ModelFile::read(&place.join(GENERIC)).unwrap().model, by_hand.init);
    assert_eq!(clients(&place).len(), 5);
    assert!(!place.join(BEST).exists(), "nothing was scored");
    assert!(evaluations(&folder).is_empty());
}

#[test]
fn models_of_an_earlier_session_do_not_stay() {
    let plan = plan_of(&["name = \"ditto\""], DENSE);
    let folder = Folder::new();
    folder.run_until(&plan, 0, 1);
    let place = folder.file(MODELS).join("ditto");
    std::fs::create_dir_all(place.join(PERSONAL)).unwrap();
    std::fs::write(place.join(PERSONAL).join("99.safetensors"), b"stale").unwrap();
    std::fs::create_dir_all(folder.file(MODELS).join("~ditto")).unwrap();
    folder.run(&plan).unwrap();
    assert_eq!(clients(&place), [0, 1, 2, 3, 4]);
    assert!(!folder.file(MODELS).join("~ditto").exists());
}
