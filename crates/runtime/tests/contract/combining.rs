//! Other ways to combine uploads take the place of the mean, in whole runs, and attackers take part in them.

use crate::standard::{ZOO, case};
use formant_runtime::event::Event;
use formant_runtime::{Attack, AttackKind, Attacks, Combination, Rule, RunPlan};
use formant_testing::{ByHand, DENSE, Folder, WITH_BUFFERS, run};
use std::sync::Arc;

const RULES: [Rule; 5] = [
    Rule::Clipped { clip: 0.5 },
    Rule::Median,
    Rule::TrimmedMean { trim: 0.2 },
    Rule::Krum { attackers: 1, selected: 1 },
    Rule::GeometricMedian { steps: 3 },
];

/// By a rule, with no memory for more than a small network.
fn by(plan: &mut RunPlan, rule: Rule) {
    plan.combine = Arc::new(Combination { rule, max_share: 0.5, memory: 10_000 });
}

/// Two of the five clients attack from the second round on.
fn attacked(plan: &mut RunPlan, kind: AttackKind) {
    let attack = Attack { kind, clients: vec![1, 3], samples: None, from: 2 };
    let dataset = &plan.federation.dataset;
    plan.attacks = Attacks::new(vec![attack], &dataset.train, dataset.classes);
}

#[test]
fn every_method_that_averages_takes_every_rule() {
    for (place, entry) in ZOO.entries().iter().enumerate() {
        for (number, rule) in RULES.into_iter().enumerate() {
            let network = if (place + number) % 4 == 0 { WITH_BUFFERS } else { DENSE };
            let case = case(&format!("name = \"{}\"", entry.name), network);
            let one = run(&case.plan_with(|plan| {
                by(plan, rule);
                plan.threads = 1;
            }));
            let plan = case.plan_with(|plan| by(plan, rule));
            assert_eq!(run(&plan), one, "{case:?}, {rule:?}: threads");
            let is_used = one.fingerprints != run(&case.plan()).fingerprints;
            assert_eq!(is_used, plan.methods[0].method.combines(), "{case:?}, {rule:?}");
            let folder = Folder::new();
            folder.run_until(&plan, 0, 1);
            folder.run(&plan).unwrap();
            assert_eq!(folder.result(), one, "{case:?}, {rule:?}: resumed");
        }
    }
}

#[test]
fn a_rule_is_what_it_is_on_foot() {
    for rule in RULES {
        for network in [DENSE, WITH_BUFFERS] {
            let case = case("name = \"ditto\"", network);
            let plan = case.plan_with(|plan| by(plan, rule));
            let mut on_foot = ByHand::new(&plan);
            (0..3).for_each(|_| on_foot.round());
            assert_eq!(run(&plan).fingerprints, [on_foot.fingerprint()], "{case:?}, {rule:?}");
        }
    }
}

#[test]
fn attacks_are_the_same_for_any_number_of_threads_and_after_a_resume() {
    for kind in [
        AttackKind::LabelFlip,
        AttackKind::SignFlip { strength: 10.0 },
        AttackKind::Noise { strength: 1.0 },
        AttackKind::LittleIsEnough { strength: 1.5 },
        AttackKind::Zeros,
    ] {
        let case = case("name = \"scd\"", DENSE);
        let plan = case.plan_with(|plan| attacked(plan, kind));
        let one = run(&case.plan_with(|plan| {
            attacked(plan, kind);
            plan.threads = 1;
        }));
        assert_eq!(run(&plan), one, "{kind:?}");
        assert_ne!(one.fingerprints, run(&case.plan()).fingerprints, "{kind:?}: it is felt");
        let folder = Folder::new();
        folder.run_until(&plan, 0, 1);
        folder.run(&plan).unwrap();
        assert_eq!(folder.result(), one, "{kind:?}: resumed");
    }
}

#[test]
fn attackers_who_send_what_they_trained_change_nothing_but_whose_scores_are_told() {
    let case = case("name = \"ditto\"", DENSE);
    let plan = case.plan_with(|plan| attacked(plan, AttackKind::None));
    let (honest, folder) = (run(&case.plan()), Folder::new());
    folder.run(&plan).unwrap();
    assert_eq!(folder.result().fingerprints, honest.fingerprints);
    let mut evaluations = 0;
    for event in folder.events() {
        let Event::Evaluated(found) = event else { continue };
        let (pm, apart) = (found.pm.unwrap(), found.attackers.unwrap());
        for client in 0..5 {
            let attacks = [1, 3].contains(&client);
            assert_eq!(pm.per_client[client].is_none(), attacks, "client {client}");
            assert_eq!(apart.per_client[client].is_some(), attacks, "client {client}");
        }
        evaluations += 1;
    }
    assert!(evaluations > 0);
}

#[test]
fn a_median_holds_where_a_mean_is_lost() {
    let gm = |rule: Rule, kind: Option<AttackKind>| {
        let plan = case("name = \"fedavg\"", DENSE).plan_with(|plan| {
            plan.combine = Arc::new(Combination { rule, max_share: 0.5, memory: 1 << 20 });
            if let Some(kind) = kind {
                attacked(plan, kind);
            }
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let mut scores = folder.events().into_iter().filter_map(|event| match event {
            Event::Evaluated(found) => found.gm.and_then(|gm| gm.loss),
            _ => None,
        });
        scores.next_back().unwrap()
    };
    let attack = AttackKind::SignFlip { strength: 30.0 };
    let (honest, lost) = (gm(Rule::Mean, None), gm(Rule::Mean, Some(attack)));
    assert!(lost > 2.0 * honest, "{lost} where {honest} is honest");
    for rule in [Rule::Median, Rule::TrimmedMean { trim: 0.4 }, Rule::GeometricMedian { steps: 20 }]
    {
        let held = gm(rule, Some(attack));
        assert!(held < 1.3 * honest, "{rule:?}: {held} where {honest} is honest and {lost} lost");
    }
}
