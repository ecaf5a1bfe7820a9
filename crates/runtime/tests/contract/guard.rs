//! What clients serve in place of their personal models, where it goes beyond what every method owes.

use crate::standard::{case, plan_of};
use formant_model::ModelFile;
use formant_model::folder::{GENERIC, MODELS, PERSONAL, personal};
use formant_runtime::event::Guarded;
use formant_runtime::{Choice, Guard, RunPlan, Scored};
use formant_testing::{DENSE, Folder, WITH_BUFFERS, federation, run};
use std::collections::BTreeSet;

fn guarded(guard: Guard) -> impl FnOnce(&mut RunPlan) {
    move |plan| plan.evaluation.guard = guard
}

#[test]
fn where_validation_samples_are_scored_one_half_chooses_and_the_other_scores() {
    let plan = case("name = \"ditto\"", DENSE).plan_with(|plan| {
        guarded(Guard::Best)(plan);
        plan.evaluation.split = Scored::Validation;
    });
    let samples = &*plan.federation.dataset.train;
    for (client, data) in plan.federation.clients.iter().enumerate() {
        let scored = plan.scored(client).into_owned();
        let chosen_on = plan.evaluation.guarding(data, samples).indices.into_owned();
        assert_eq!(plan.evaluation.scored_samples(data), scored.len());
        // One sample alone is scored: there is then nothing to choose by.
        assert_eq!(scored.len(), data.validation.len().div_ceil(2));
        assert!(scored.is_sorted() && chosen_on.is_sorted());
        let mut all = [&scored[..], &chosen_on[..]].concat();
        all.sort_unstable();
        assert_eq!(all, data.validation);
        for class in 0..10 {
            let count = |half: &[u32]| {
                half.iter().filter(|index| samples.label(**index as usize) == class).count()
            };
            assert!(count(&scored).abs_diff(count(&chosen_on)) <= 1, "class {class}");
        }
    }
    // Whoever scores on test samples chooses on all, and nobody is halved without a guard.
    for (guard, split) in [(Guard::Best, Scored::Test), (Guard::Off, Scored::Validation)] {
        let plan = case("name = \"ditto\"", DENSE).plan_with(|plan| {
            guarded(guard)(plan);
            plan.evaluation.split = split;
        });
        let data = &plan.federation.clients[0];
        assert_eq!(plan.evaluation.guarding(data, samples).indices, data.validation);
        assert_eq!(plan.scored(0), split.of(data));
        assert_eq!(plan.evaluation.scored_samples(data), split.of(data).len());
    }
    // Scores are of the half: what is chosen on may be anything.
    let mut other = case("name = \"fedavg\"", DENSE).plan();
    guarded(Guard::Best)(&mut other);
    other.evaluation.split = Scored::Validation;
    let last = run(&other).evaluations.pop().unwrap().pm.unwrap();
    let halves = federation().clients.iter().map(|data| data.validation.len().div_ceil(2) as f64);
    for (score, half) in last.per_client.iter().zip(halves) {
        let right = score.unwrap() * half;
        assert!((right - right.round()).abs() < 1e-9, "{score:?} of {half}");
    }
}

#[test]
fn a_client_without_validation_samples_serves_what_it_has_trained() {
    let empty = |plan: &mut RunPlan| {
        plan.federation.clients.iter_mut().for_each(|data| data.validation.clear());
    };
    let case = case("name = \"ditto\"", DENSE);
    let without = run(&case.plan_with(empty));
    let with = run(&case.plan_with(|plan| {
        empty(plan);
        guarded(Guard::Bands)(plan);
    }));
    assert_eq!(with, without);
    assert!(with.evaluations.iter().all(|evaluated| evaluated.guard.is_none()));
}

/// A learning rate at which personal phases leave nothing to serve.
const HOPELESS: &str = "name = \"ditto\"\ntrain = { personal_learning_rate = 0.000000001 }";

#[test]
fn clients_that_have_learnt_nothing_serve_the_generic_model() {
    for network in [DENSE, WITH_BUFFERS] {
        let folder = Folder::new();
        let mut plan = plan_of(&[HOPELESS], network);
        // The generic model has to have learnt something.
        (plan.rounds, plan.evaluation.every) = (12, 12);
        guarded(Guard::Best)(&mut plan);
        folder.run(&plan).unwrap();
        let told = folder.result().evaluations.pop().unwrap().guard.unwrap();
        assert!(told.generic >= 2, "{told:?}");
        assert_eq!((told.clients, told.personal + told.generic), (5, 5));
        let share = told.personal as f64 / 5.0;
        assert!((told.shares[0] - share).abs() < 1e-12);
        let place = folder.file(MODELS).join("ditto");
        let read = |file| ModelFile::read(&place.join(file)).unwrap();
        let generic = read(GENERIC.into());
        let same = (0..5).filter(|client| {
            let own = read(std::path::Path::new(PERSONAL).join(personal(*client)));
            own.model == generic.model
        });
        assert_eq!(same.count(), told.generic);
    }
}

#[test]
fn a_run_that_goes_on_serves_the_same() {
    let plan = plan_of(&["name = \"ditto\"", "name = \"scd\""], WITH_BUFFERS);
    let with = |mut plan: RunPlan| {
        guarded(Guard::Bands)(&mut plan);
        plan
    };
    let plan = with(plan);
    let undisturbed = run(&plan);
    let folder = Folder::new();
    folder.run_until(&plan, 0, 2);
    folder.run_until(&plan, 1, 1);
    folder.run(&plan).unwrap();
    assert_eq!(folder.result(), undisturbed);
    let shares =
        undisturbed.evaluations.iter().flat_map(|found| &found.guard.as_ref().unwrap().shares);
    let distinct: BTreeSet<String> = shares.map(ToString::to_string).collect();
    assert!(distinct.len() > 2, "something was chosen: {distinct:?}");
}

#[test]
fn the_log_counts_who_serves_what() {
    let choice = |shares: &[f32]| Some(Choice { shares: shares.to_vec() });
    let told = Guarded::of(&[choice(&[1.0]), None, choice(&[0.0]), choice(&[0.25])]).unwrap();
    assert_eq!((told.clients, told.personal, told.generic), (3, 1, 1));
    assert!((told.shares[0] - 1.25 / 3.0).abs() < 1e-12);
    let told = Guarded::of(&[choice(&[1.0, 0.0]), choice(&[0.0, 0.0])]).unwrap();
    assert_eq!((told.clients, told.personal, told.generic), (2, 0, 1));
    assert_eq!(told.shares, [0.5, 0.0]);
    assert_eq!(Guarded::of(&[None, None]), None);
}
