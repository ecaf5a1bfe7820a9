//! Clients that join when training is over.

use crate::standard::{case, cases, plan_of};
use formant_data::Newcomers;
use formant_methods::Newcomer;
use formant_numerics::{Model, Part, Pulse};
use formant_runtime::event::{Adapted, Approach, Event};
use formant_runtime::executor::{Adaptation, Adapting, Executor, Held, Start, Threads};
use formant_runtime::sim::Outcome;
use formant_runtime::{Legacy, Room, RunPlan};
use formant_testing::{DENSE, Folder, WITH_BUFFERS, plan_with_a_client_that_diverges};
use std::sync::Arc;

/// Of five clients, the last two join later.
fn joined(plan: &mut RunPlan) {
    plan.federation = plan.federation.clone().setting_aside(2).unwrap();
    plan.evaluation.adapt_epochs = 2;
}

fn adapted(folder: &Folder) -> Vec<Adapted> {
    let events = folder.events().into_iter();
    let adapted = events.filter_map(|event| match event {
        Event::Adapted(adapted) => Some(Adapted { seconds: 0.0, ..adapted }),
        _ => None,
    });
    adapted.collect()
}

fn by(all: &[Adapted], approach: Approach) -> Option<&Adapted> {
    all.iter().find(|adapted| adapted.approach == approach)
}

/// What newcomers make of what a folder has left.
fn again(folder: &Folder, plan: &RunPlan, epochs: usize, keep: bool) -> Vec<Adaptation> {
    let Legacy { model, broadcast, .. } = Legacy::read(plan, 0, folder.path()).unwrap();
    let (model, broadcast, done) = (&model, broadcast.as_ref(), &|| {});
    let pulse = Pulse::NONE;
    let asked = Adapting { method: 0, model, broadcast, epochs, keep, done, pulse };
    std::thread::scope(|scope| Threads::new(plan, scope).adapt(&asked)).unwrap()
}

#[test]
fn a_rate_for_all_is_that_of_fine_tuning_alone() {
    let found = |personal: f32, adapt: Option<f32>| {
        let plan = case("name = \"ditto\"", DENSE).plan_with(|plan| {
            joined(plan);
            plan.methods[0].personal.base.optimiser.learning_rate = personal;
            plan.evaluation.adapt_learning_rate = adapt;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let found = again(&folder, &plan, 1, true).swap_remove(0);
        (found.fine_tuned.model.unwrap(), found.own.unwrap().model.unwrap())
    };
    // Ditto's generic model knows nothing of the personal phase.
    let ((slow, own), (told, same)) = (found(0.01, None), found(0.01, Some(0.05)));
    let (fast, other) = found(0.05, None);
    assert!(told == fast && told != slow, "the rate that was told");
    assert!(own == same && own != other, "its own rule has its own rate");
}

#[test]
fn threads_resumption_and_the_folder_give_the_same_newcomers() {
    for case in cases() {
        let plan = |threads: usize| {
            case.plan_with(|plan| {
                joined(plan);
                plan.threads = threads;
            })
        };
        let folder = Folder::new();
        folder.run(&plan(1)).unwrap();
        let reference = adapted(&folder);
        let fine_tuned = by(&reference, Approach::FineTuning).unwrap();
        assert_eq!((fine_tuned.epochs.len(), fine_tuned.round), (3, 3), "{case:?}");
        assert!(fine_tuned.epochs.iter().all(|score| score.per_client.len() == 2));
        let resumed = Folder::new();
        assert_eq!(resumed.run_until(&plan(2), 0, 2), Outcome::Interrupted, "{case:?}");
        assert!(adapted(&resumed).is_empty());
        resumed.run(&plan(2)).unwrap();
        assert_eq!(adapted(&resumed), reference, "{case:?}");
        assert_eq!(resumed.result(), folder.result(), "{case:?}");
        // From the files alone: the same, as far as the epochs go.
        let plan = plan(2);
        let found = again(&folder, &plan, 1, false);
        let found = plan.adapted(0, 3, &found);
        assert_eq!(found.len(), reference.len(), "{case:?}");
        for (found, reference) in found.iter().zip(&reference) {
            assert_eq!(found.epochs, reference.epochs[..2], "{case:?}");
        }
    }
}

#[test]
fn newcomers_change_nothing_for_the_others() {
    for method in ["name = \"ditto\"", "name = \"fedrep\""] {
        let with = case(method, DENSE).plan_with(joined);
        let mut without = case(method, DENSE).plan_with(joined);
        without.federation.newcomers = Newcomers::default();
        let (first, second) = (Folder::new(), Folder::new());
        first.run(&with).unwrap();
        second.run(&without).unwrap();
        assert_eq!(first.result(), second.result());
        assert!(adapted(&second).is_empty() && !adapted(&first).is_empty());
        assert_eq!(without.federation.clients.len(), 3);
    }
}

#[test]
fn after_no_epoch_fine_tuning_is_the_generic_model() {
    let plan = case("name = \"fedavg\"", WITH_BUFFERS).plan_with(joined);
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let found = adapted(&folder);
    assert!(by(&found, Approach::Own).is_none(), "FedAvg has no rule of its own");
    // The newcomers as the clients of a plan: what it would score of the same model.
    let mut swapped = case("name = \"fedavg\"", WITH_BUFFERS).plan_with(joined);
    swapped.federation.clients = std::mem::take(&mut swapped.federation.newcomers.clients);
    let model = Legacy::read(&plan, 0, folder.path()).unwrap().model;
    let figures = std::thread::scope(|scope| {
        let (room, held) = (Arc::new(Room::new(1 << 20)), Held::default());
        let (folder, named) = (folder.path(), &[][..]);
        let mut threads = Threads::new(&swapped, scope);
        threads.begin(&Start { method: 0, folder, room: &room, held: &held, named }).unwrap();
        threads.score_own(&model, false, Pulse::NONE).unwrap().clients
    });
    let accuracies: Vec<_> = figures.iter().map(|f| f.values().next().copied()).collect();
    assert_eq!(found[0].epochs[0].per_client, accuracies);
    for (epochs, same) in [(0, true), (2, false)] {
        for newcomer in again(&folder, &plan, epochs, true) {
            assert_eq!(newcomer.fine_tuned.model.as_ref() == Some(&model), same, "{epochs} epochs");
        }
    }
}

/// The models of a method's newcomers after some epochs: fine-tuned, and by its own rule.
fn models(method: &str, epochs: usize) -> Vec<(Model, Model)> {
    let plan = case(method, DENSE).plan_with(joined);
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let models = again(&folder, &plan, epochs, true).into_iter();
    models.map(|of| (of.fine_tuned.model.unwrap(), of.own.unwrap().model.unwrap())).collect()
}

#[test]
fn a_rule_that_comes_to_the_same_gives_the_same() {
    // Without a pull, Ditto's newcomers fine-tune, and so do SCD's.
    for method in [
        "name = \"ditto\"\nlambda = 0\nallow_degenerate = true",
        "name = \"scd\"\nlambda_p = 0\nlambda_g = 0\nallow_degenerate = true",
    ] {
        for (fine_tuned, own) in models(method, 2) {
            assert_eq!(own, fine_tuned, "{method}");
        }
    }
    for method in ["name = \"ditto\"\nlambda = 0.5", "name = \"scd\""] {
        assert!(models(method, 0).iter().all(|(tuned, own)| tuned == own), "both begin with w");
        assert!(models(method, 1).iter().all(|(tuned, own)| tuned != own), "{method}");
    }
}

#[test]
fn a_newcomer_of_local_trains_alone() {
    let plan = case("name = \"local\"", DENSE).plan_with(joined);
    for (mean, own) in models("name = \"local\"", 0) {
        assert_eq!(own, plan.init());
        assert_ne!(mean, own);
    }
    // Whatever the others hold: it is not theirs.
    let fewer = case("name = \"local\"", DENSE).plan_with(|plan| {
        joined(plan);
        plan.federation.clients[0].train.truncate(3);
    });
    let folder = Folder::new();
    folder.run(&fewer).unwrap();
    let own = again(&folder, &fewer, 2, true).into_iter().map(|of| of.own.unwrap().model.unwrap());
    assert!(own.eq(models("name = \"local\"", 2).into_iter().map(|(_, own)| own)));
}

#[test]
fn each_method_has_the_rule_that_its_file_says() {
    let rules = |method: &str| {
        let plan = plan_of(&[method], DENSE);
        let erased = &*plan.methods[0].method;
        let got = erased.broadcast(&erased.start_server(&plan.init())).unwrap();
        match erased.newcomer(&got).unwrap() {
            Newcomer::FineTuning => "fine-tuning".to_owned(),
            Newcomer::Phases => "phases".to_owned(),
            Newcomer::Part { part, .. } => format!("{part:?}"),
            Newcomer::AtOnce => "at once".to_owned(),
        }
    };
    for (method, expected) in [
        ("name = \"fedavg\"", "fine-tuning"),
        ("name = \"fedprox\"", "fine-tuning"),
        ("name = \"feddyn\"", "fine-tuning"),
        ("name = \"fedgen\"", "fine-tuning"),
        ("name = \"fedavgm\"", "fine-tuning"),
        ("name = \"fedbabu\"", "fine-tuning"),
        ("name = \"fedbabu\"\nfinetune = \"head\"", "Head"),
        ("name = \"fedrep\"", "Head"),
        ("name = \"local\"", "phases"),
        ("name = \"ditto\"", "phases"),
        ("name = \"pfedme\"", "phases"),
        ("name = \"scd\"", "phases"),
        ("name = \"fedrod\"", "phases"),
        ("name = \"fedrod\"\nhypernetwork = true", "at once"),
    ] {
        assert_eq!(rules(method), expected, "{method}");
    }
}

#[test]
fn a_part_leaves_the_rest_as_it_came() {
    let plan = case("name = \"fedrep\"", DENSE).plan_with(joined);
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let network = plan.engine.network();
    let head = network.layout().range(Part::Head);
    let got = Legacy::read(&plan, 0, folder.path()).unwrap().broadcast.unwrap();
    let got = plan.methods[0].method.broadcast_vectors(&got).unwrap()[0].to_vec();
    for newcomer in again(&folder, &plan, 2, true) {
        let own = newcomer.own.unwrap().model.unwrap().parameters;
        assert_eq!(own[..head.start], got[..head.start]);
        assert_ne!(own[head.clone()], got[head.clone()]);
        let tuned = newcomer.fine_tuned.model.unwrap().parameters;
        assert_ne!(tuned[..head.start], got[..head.start]);
    }
}

#[test]
fn a_newcomer_that_diverges_is_counted_and_keeps_what_it_had() {
    let zoo = formant_methods::Zoo::standard();
    let mut plan = plan_with_a_client_that_diverges(&zoo, "name = \"ditto\"");
    // The bright client comes last.
    let bright = plan.federation.clients.remove(formant_testing::DIVERGES);
    plan.federation.newcomers.clients = vec![plan.federation.clients[0].clone(), bright];
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let found = adapted(&folder);
    assert_eq!(found.len(), 2);
    for adapted in found {
        assert_eq!(adapted.failed, 1);
        let of_bright: Vec<_> = adapted.epochs.iter().map(|score| score.per_client[1]).collect();
        assert!(of_bright.iter().all(|figure| *figure == of_bright[0]), "{of_bright:?}");
    }
}

#[test]
fn a_method_that_was_stopped_has_nothing_to_give() {
    let plan = case("name = \"fedavg\"", DENSE).plan_with(|plan| {
        joined(plan);
        plan.methods[0].shared.base.optimiser.learning_rate = 1e30;
    });
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    assert!(adapted(&folder).is_empty());
}
