//! The parameter values that turn one method into another give its models bit for bit.

use crate::standard::{FORMS, SCOPES, plan_of};
use formant_numerics::{Model, Part, Stream, Term, vector};
use formant_runtime::RunPlan;
use formant_testing::{ByHand, DENSE, Turn, WITH_BUFFERS, lend};

pub(crate) const FEDAVG: &str = "name = \"fedavg\"";
const LOCAL: &str = "name = \"local\"";

pub(crate) fn scd(form: &str, scope: &str, lambda_g: f64, lambda_p: f64, more: &str) -> String {
    format!(
        "name = \"scd\"\nform = \"{form}\"\nscope = \"{scope}\"\nlambda_g = {lambda_g}\nlambda_p = {lambda_p}\nallow_degenerate = true\n{more}"
    )
}

/// Asserts that two methods have the same generic model after every round.
pub(crate) fn same_gm(a: &str, b: &str, network: &str) {
    let plan = plan_of(&[a, b], network);
    let (mut a, mut b) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    for round in 1..=3 {
        a.round();
        b.round();
        assert_eq!(a.gm(), b.gm(), "round {round} on {network}");
        assert_ne!(a.gm(), a.init);
    }
}

/// Asserts that two methods have the same personal models after every round.
pub(crate) fn same_pms(a: &str, b: &str, network: &str) {
    let plan = plan_of(&[a, b], network);
    let (mut a, mut b) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    for round in 1..=3 {
        a.round();
        b.round();
        assert_eq!(a.pms(), b.pms(), "round {round} on {network}");
        assert_ne!(a.pm(0), a.init);
    }
}

#[test]
fn ditto_has_the_generic_model_of_fedavg() {
    for network in [DENSE, WITH_BUFFERS] {
        same_gm("name = \"ditto\"", FEDAVG, network);
    }
}

#[test]
fn ditto_without_a_pull_is_local() {
    for network in [DENSE, WITH_BUFFERS] {
        same_pms("name = \"ditto\"\nlambda = 0\nallow_degenerate = true", LOCAL, network);
    }
}

#[test]
fn without_what_each_adds_the_generic_model_is_that_of_fedavg() {
    for network in [DENSE, WITH_BUFFERS] {
        for method in [
            "name = \"fedprox\"\nmu = 0",
            "name = \"fedavgm\"\nbeta = 0",
            "name = \"fedgen\"\na = 0\nb = 0",
        ] {
            same_gm(&format!("{method}\nallow_degenerate = true"), FEDAVG, network);
        }
        same_gm("name = \"fedrod\"\ngamma = 0", FEDAVG, network);
        same_gm("name = \"fedrod\"\ngamma = 0\nhypernetwork = true", FEDAVG, network);
    }
}

/// What each adds is felt: otherwise the reduction above would say nothing.
#[test]
fn with_what_each_adds_it_is_another() {
    for method in [
        "name = \"fedprox\"",
        "name = \"fedavgm\"",
        "name = \"fedgen\"",
        "name = \"fedgen\"\na = 0",
        "name = \"fedgen\"\nb = 0",
        "name = \"fedrod\"",
        "name = \"fedbabu\"",
        "name = \"pfedme\"",
    ] {
        let plan = plan_of(&[method, FEDAVG], WITH_BUFFERS);
        let (mut own, mut fedavg) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
        // FedGen begins in the second round.
        (0..2).for_each(|_| (own.round(), fedavg.round()).1);
        assert_ne!(own.gm(), fedavg.gm(), "{method}");
    }
}

#[test]
fn feddyns_strength_is_felt() {
    let plan = plan_of(&["name = \"feddyn\"", "name = \"feddyn\"\nalpha = 0.1"], DENSE);
    let (mut weak, mut strong) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    (0..2).for_each(|_| (weak.round(), strong.round()).1);
    assert_ne!(weak.gm(), strong.gm());
}

#[test]
fn fedgens_first_round_is_fedavgs() {
    let plan = plan_of(&["name = \"fedgen\"", FEDAVG], DENSE);
    let (mut fedgen, mut fedavg) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    fedgen.round();
    fedavg.round();
    assert_eq!(fedgen.gm(), fedavg.gm());
}

#[test]
fn fedbabu_trains_and_averages_the_body_alone_and_fine_tunes_a_copy() {
    for network in [DENSE, WITH_BUFFERS] {
        let untuned = "name = \"fedbabu\"\nfinetune_epochs = 0\nallow_degenerate = true";
        let head_only = "name = \"fedbabu\"\nfinetune = \"head\"";
        let body_only = "name = \"fedbabu\"\nfinetune = \"body\"";
        let plan = plan_of(&["name = \"fedbabu\"", untuned, head_only, body_only], network);
        let mut runs: Vec<_> = (0..4).map(|i| ByHand::of(&plan, i)).collect();
        let layout = plan.engine.network().layout();
        let head = |model: &Model| model.parameters[layout.range(Part::Head)].to_vec();
        let body = |model: &Model| model.parameters[layout.range(Part::Body)].to_vec();
        for run in &mut runs {
            run.round();
            assert_eq!(head(&run.gm()), head(&run.init), "the head keeps its initial values");
            assert_ne!(body(&run.gm()), body(&run.init));
        }
        let gm = runs[0].gm();
        // How copies are tuned changes nothing that is trained.
        assert!(runs.iter().all(|run| run.gm() == gm));
        let tuned: Vec<Model> = runs.iter_mut().map(|run| run.pm(1)).collect();
        let moved = |model: &Model| (body(model) != body(&gm), head(model) != head(&gm));
        assert_eq!(tuned[1], gm);
        assert_eq!(
            [moved(&tuned[0]), moved(&tuned[2]), moved(&tuned[3])],
            [(true, true), (false, true), (true, false)]
        );
    }
}

#[test]
fn fedrep_shares_the_body_and_keeps_the_head() {
    for network in [DENSE, WITH_BUFFERS] {
        let plan = plan_of(&["name = \"fedrep\""], network);
        let mut run = ByHand::new(&plan);
        let layout = plan.engine.network().layout();
        let (body, head) = (layout.range(Part::Body), layout.range(Part::Head));
        run.round();
        let pms = run.pms();
        for (client, pm) in pms.iter().enumerate() {
            assert_eq!(pm.parameters[body.clone()], pms[0].parameters[body.clone()]);
            assert_eq!(pm.buffers, pms[0].buffers);
            assert_ne!(pm.parameters[body.clone()], run.init.parameters[body.clone()]);
            assert_ne!(pm.parameters[head.clone()], run.init.parameters[head.clone()]);
            // No head was sent.
            assert_eq!(run.sent_model(client).parameters.len(), body.len());
        }
        assert_ne!(pms[0].parameters[head.clone()], pms[1].parameters[head.clone()]);
        // The next round goes on with the heads as they are.
        let before = run.pm(2).parameters[head.clone()].to_vec();
        run.round_of(&[0, 1]);
        assert_eq!(run.pm(2).parameters[head.clone()], before);
        assert_ne!(run.pm(1).parameters[head.clone()], pms[1].parameters[head.clone()]);
    }
}

#[test]
fn pfedmes_personal_models_are_neither_the_generic_one_nor_their_start() {
    for network in [DENSE, WITH_BUFFERS] {
        let plan = plan_of(&["name = \"pfedme\""], network);
        let mut run = ByHand::new(&plan);
        for _ in 0..3 {
            let before = run.pms();
            run.round();
            let pms = run.pms();
            for (client, pm) in pms.iter().enumerate() {
                assert_ne!(*pm, run.gm());
                assert_ne!(*pm, run.sent_model(client));
                assert_ne!(*pm, before[client]);
            }
            assert_ne!(run.gm(), run.init, "β = 1 does not freeze the server");
        }
        // θ stays with a client that is away.
        let away = run.pm(3);
        run.round_of(&[0, 1]);
        assert_eq!(run.pm(3), away);
    }
}

/// A hypernetwork gives a head to a client that never trained; without one such a client has the
/// generic model.
#[test]
fn fedrods_unseen_client_gets_a_head_from_its_labels() {
    let hyper = "name = \"fedrod\"\nhypernetwork = true";
    let plan = plan_of(&[hyper, "name = \"fedrod\""], DENSE);
    let (mut with, mut without) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    for run in [&mut with, &mut without] {
        run.round_of(&[0, 1, 2]);
    }
    assert_eq!(with.gm(), without.gm());
    assert_eq!(without.pm(4), without.gm());
    assert_ne!(with.pm(4), with.gm());
    // Different labels, different heads, on one body.
    assert_ne!(with.pm(4), with.pm(3));
    let body = plan.engine.network().layout().range(Part::Body);
    assert_eq!(with.pm(4).parameters[body.clone()], with.gm().parameters[body.clone()]);
    assert_eq!(without.pm(0).parameters[body.clone()], without.gm().parameters[body]);
    assert_ne!(without.pm(0), without.gm());
}

#[test]
fn scd_without_its_generic_term_has_the_generic_model_of_fedavg() {
    for network in [DENSE, WITH_BUFFERS] {
        same_gm(&scd("normalized", "flat", 0.0, 10.0, ""), FEDAVG, network);
    }
    for (form, lambda) in FORMS {
        for scope in SCOPES {
            same_gm(&scd(form, scope, 0.0, lambda, ""), FEDAVG, DENSE);
        }
    }
}

#[test]
fn scd_without_its_personal_term_is_local() {
    for network in [DENSE, WITH_BUFFERS] {
        same_pms(&scd("normalized", "flat", 1.0, 0.0, ""), LOCAL, network);
    }
    for (form, lambda) in FORMS {
        for scope in SCOPES {
            same_pms(&scd(form, scope, lambda, 0.0, ""), LOCAL, DENSE);
        }
    }
}

/// A share of the rounds: two of three are FedAvg, with the upload as personal model.
#[test]
fn scd_that_warms_up_is_fedavg_until_it_has() {
    let warm = scd("complex", "flat", 0.1, 0.1, "warm_up = 0.667");
    let plan = plan_of(&[&warm, FEDAVG], WITH_BUFFERS);
    let (mut warm, mut fedavg) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
    for round in 1..=3 {
        warm.round();
        fedavg.round();
        let warming_up = round <= 2;
        // In the third round the personal model teaches; it was the client's own last upload.
        assert_eq!(warm.gm() == fedavg.gm(), warming_up, "round {round}");
        assert_eq!(warm.pm(1) == warm.sent_model(1), warming_up, "round {round}");
    }
}

/// A personal phase written out: SGD on cross-entropy and `λ/2 ‖w − anchor‖²`, from `start`.
pub(crate) fn pulled_towards(
    anchor: &Model,
    start: &Model,
    (plan, client, round): (&RunPlan, usize, usize),
    lambda: f32,
) -> Model {
    let mut worker = plan.engine.worker(64);
    let (stream, phase) = (Stream::PersonalPhase, plan.methods[0].personal.clone());
    let mut local = lend(plan, &mut *worker, Turn { client, round, stream, phase });
    let mut w_p = start.clone();
    local.sgd(&mut w_p, &[lambda * Term::Proximal { anchor: &anchor.parameters }]).unwrap();
    w_p
}

pub(crate) fn distance(a: &Model, b: &Model) -> f64 {
    vector::distance_squared(&a.parameters, &b.parameters).sqrt()
}

/// By Parseval, the complex form over the whole spectrum is the proximal term. Its anchor is the
/// client's own fresh upload: with the received model as anchor the result is another one.
#[test]
fn complex_scd_over_the_whole_spectrum_pulls_towards_the_clients_own_upload() {
    let lambda = 0.5;
    for scope in SCOPES {
        let plan = plan_of(&[&scd("complex", scope, 0.0, lambda, "tau_p = 1")], DENSE);
        let mut by_hand = ByHand::new(&plan);
        for round in 1..=3 {
            let (received, before) = (by_hand.gm(), by_hand.pms());
            by_hand.round();
            let (client, at) = (2, (&plan, 2, round));
            let theta = by_hand.pm(client);
            let own =
                pulled_towards(&by_hand.sent_model(client), &before[client], at, lambda as f32);
            let other = pulled_towards(&received, &before[client], at, lambda as f32);
            let moved = distance(&theta, &before[client]);
            assert!(distance(&theta, &own) < 1e-4 * moved, "{scope}, round {round}");
            assert!(distance(&theta, &other) > 1e-2 * moved, "{scope}, round {round}");
        }
    }
}

/// Ditto's anchor, in contrast, is the received model.
#[test]
fn ditto_pulls_towards_the_received_model() {
    let plan = plan_of(&["name = \"ditto\"\nlambda = 0.5"], DENSE);
    let mut by_hand = ByHand::new(&plan);
    for round in 1..=3 {
        let (received, before) = (by_hand.gm(), by_hand.pms());
        by_hand.round();
        let own = pulled_towards(&received, &before[4], (&plan, 4, round), 0.5);
        assert_eq!(by_hand.pm(4), own, "round {round}");
    }
}

/// In the first round of SCD both models are the same; from the second on the generic one must feel
/// the personal one, in every form and scope, and the personal one the generic one.
#[test]
fn both_spectral_terms_have_an_effect() {
    for (form, lambda) in FORMS {
        for scope in SCOPES {
            let with = scd(form, scope, lambda, lambda, "tau = 0.3");
            let without = scd(form, scope, 0.0, 0.0, "tau = 0.3");
            let plan = plan_of(&[&with, &without], DENSE);
            let (mut with, mut without) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
            for _ in 0..2 {
                with.round();
                without.round();
            }
            let moved = distance(&without.gm(), &without.init);
            let felt = distance(&with.gm(), &without.gm());
            assert!(felt > 1e-5 * moved, "GM, {form} {scope}: {felt} of {moved}");
            let felt = distance(&with.pm(0), &without.pm(0));
            assert!(felt > 1e-5 * moved, "PM, {form} {scope}: {felt} of {moved}");
        }
    }
}

/// The truncation decides what is felt: another share of the spectrum, another generic model.
#[test]
fn the_truncation_has_an_effect_on_each_side_alone() {
    for (form, lambda) in FORMS {
        let base = scd(form, "flat", lambda, lambda, "tau = 0.3\ntau_p = 1");
        let wider = scd(form, "flat", lambda, lambda, "tau = 0.9\ntau_p = 1");
        let narrower = scd(form, "flat", lambda, lambda, "tau = 0.3\ntau_p = 0.2");
        let plan = plan_of(&[&base, &wider, &narrower], DENSE);
        let mut runs: Vec<_> = (0..3).map(|i| ByHand::of(&plan, i)).collect();
        for run in &mut runs {
            run.round();
            run.round();
        }
        let (gms, pms): (Vec<_>, Vec<_>) = runs.iter_mut().map(|r| (r.gm(), r.pm(1))).unzip();
        assert_ne!(gms[0], gms[1], "{form}");
        assert_ne!(pms[0], pms[2], "{form}");
    }
}
