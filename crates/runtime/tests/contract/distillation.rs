//! What SCD's options turn it into, and what each of them changes.

use crate::reductions::{FEDAVG, distance, pulled_towards, same_gm, same_pms, scd};
use crate::standard::plan_of;
use formant_numerics::{Model, Part, Stream};
use formant_testing::{ByHand, DENSE, Turn, WITH_BUFFERS, lend};

/// Both methods after three rounds.
fn after_three(a: &str, b: &str, network: &str) -> [(Model, Vec<Model>); 2] {
    let plan = plan_of(&[a, b], network);
    [0, 1].map(|place| {
        let mut run = ByHand::of(&plan, place);
        (0..3).for_each(|_| run.round());
        (run.gm(), run.pms())
    })
}

#[test]
fn complex_scd_from_the_received_model_is_ditto() {
    for network in [DENSE, WITH_BUFFERS] {
        for blend in [0.0, 0.5] {
            let more = format!("tau_p = 1\nteacher = \"received\"\nblend = {blend}");
            let ditto = format!("name = \"ditto\"\nlambda = 0.5\nblend = {blend}");
            same_pms(&scd("complex", "flat", 0.0, 0.5, &more), &ditto, network);
        }
    }
}

#[test]
fn a_blend_of_one_starts_every_personal_phase_at_the_received_model() {
    let tuned = scd("normalized", "flat", 0.0, 0.0, "blend = 1");
    for network in [DENSE, WITH_BUFFERS] {
        let plan = plan_of(&[&tuned], network);
        let mut run = ByHand::new(&plan);
        for round in 1..=3 {
            let received = run.gm();
            run.round();
            let wanted = pulled_towards(&received, &received, (&plan, 1, round), 0.0);
            assert_eq!(run.pm(1), wanted, "round {round}");
        }
        same_gm(&tuned, FEDAVG, network);
    }
}

#[test]
fn a_blend_over_all_frequencies_is_plain_interpolation_and_over_some_it_is_not() {
    let of = |more: &str| scd("normalized", "flat", 0.0, 0.0, &format!("blend = 0.5\n{more}"));
    for network in [DENSE, WITH_BUFFERS] {
        same_pms(&of("blend_tau = 1"), &of(""), network);
        // As good as all of them, by way of the transform.
        let [nearly, all] = after_three(&of("blend_tau = 0.999999"), &of(""), network);
        let [low, _] = after_three(&of("blend_tau = 0.3"), &of(""), network);
        let apart = |run: &(Model, Vec<Model>)| distance(&run.1[1], &all.1[1]);
        assert!(apart(&nearly) < 1e-2 * apart(&low), "{} and {}", apart(&nearly), apart(&low));
    }
}

#[test]
fn a_blend_of_the_body_leaves_the_head() {
    let plan = plan_of(&[FEDAVG], WITH_BUFFERS);
    let mut worker = plan.engine.worker(64);
    let (stream, phase) = (Stream::PersonalPhase, plan.methods[0].personal.clone());
    let local = lend(&plan, &mut *worker, Turn { client: 0, round: 1, stream, phase });
    let layout = plan.engine.network().layout();
    let filled = |x: f32| Model {
        parameters: vec![x; layout.parameters()],
        buffers: vec![x; layout.buffer_values()],
    };
    for (part, moved) in
        [(Part::All, [2.5, 2.5]), (Part::Body, [2.5, 2.0]), (Part::Head, [2.0, 2.5])]
    {
        let mut model = filled(2.0);
        local.blend(&mut model, &filled(4.0), 0.25, part);
        let of = |part| &model.parameters[layout.range(part)];
        assert!(of(Part::Body).iter().all(|x| *x == moved[0]), "{part:?}");
        assert!(of(Part::Head).iter().all(|x| *x == moved[1]), "{part:?}");
        assert!(model.buffers.iter().all(|x| *x == 2.5), "statistics follow");
    }
}

#[test]
fn frozen_and_balanced_heads_give_the_generic_models_of_fedbabu_and_fedrod() {
    for network in [DENSE, WITH_BUFFERS] {
        for lambda_p in [0.0, 10.0] {
            let frozen = scd("normalized", "flat", 0.0, lambda_p, "head = \"frozen\"");
            same_gm(&frozen, "name = \"fedbabu\"", network);
            let balanced = scd("normalized", "flat", 0.0, lambda_p, "head = \"balanced\"");
            same_gm(&balanced, "name = \"fedrod\"", network);
        }
    }
}

/// With a head that nobody sends, the personal model still learns from a whole model.
#[test]
fn the_teacher_of_a_frozen_head_is_whole() {
    for part in ["all", "body"] {
        let more = format!("head = \"frozen\"\npart = \"{part}\"\nblend = 0.5\nwarm_up = 0.34");
        let with = scd("complex", "flat", 0.1, 0.5, &more);
        let without = scd("complex", "flat", 0.0, 0.0, &more);
        let [a, b] = after_three(&with, &without, WITH_BUFFERS);
        assert_ne!(a.0, b.0, "{part}: the generic model");
        assert_ne!(a.1, b.1, "{part}: the personal ones");
    }
}

#[test]
fn a_complex_pull_to_the_received_model_is_fedprox() {
    for network in [DENSE, WITH_BUFFERS] {
        let more = "tau = 1\nteacher_g = \"received\"";
        same_gm(&scd("complex", "flat", 0.3, 0.1, more), "name = \"fedprox\"\nmu = 0.3", network);
    }
}

/// `λ/2 ‖w‖²` beside the loss is a weight decay of `λ`, within rounding.
#[test]
fn a_complex_pull_to_zero_is_weight_decay() {
    let more = "tau = 1\nteacher_g = \"origin\"";
    let pulled = scd("complex", "flat", 0.05, 0.1, more);
    let decayed = "name = \"fedavg\"\ntrain = { weight_decay = 0.05 }";
    let [a, b] = after_three(&pulled, decayed, DENSE);
    let [plain, _] = after_three(FEDAVG, decayed, DENSE);
    assert!(distance(&a.0, &b.0) < 1e-4 * distance(&plain.0, &b.0));
}

#[test]
fn all_bands_and_no_transform_are_one_over_the_whole_of_a_complex_spectrum() {
    let base = scd("complex", "flat", 0.1, 0.1, "tau = 1");
    for (scope, band) in
        [("flat", "high"), ("flat", "random"), ("per-layer", "low"), ("plain", "random")]
    {
        let other = scd("complex", scope, 0.1, 0.1, &format!("tau = 1\nband = \"{band}\""));
        same_gm(&base, &other, DENSE);
        same_pms(&base, &other, DENSE);
    }
}

#[test]
fn bands_parts_teachers_and_shares_are_felt() {
    let base = scd("normalized", "flat", 10.0, 10.0, "tau = 0.3\nblend = 0.5");
    for more in [
        "band = \"high\"",
        "band = \"random\"",
        "band = \"random\"\nband_seed = 2",
        "part = \"body\"",
        "teacher = \"received\"",
        "teacher_g = \"received\"",
        "warm_up = 0.34",
        "warm_up = 0.34\nwarm_up_to = \"received\"",
    ] {
        let other =
            scd("normalized", "flat", 10.0, 10.0, &format!("tau = 0.3\nblend = 0.5\n{more}"));
        let [a, b] = after_three(&base, &other, DENSE);
        assert_ne!(a.1, b.1, "{more}");
    }
    let shares =
        |g: f64, p: f64| format!("name = \"scd\"\nstrength_g = {g}\nstrength_p = {p}\nblend = 0.5");
    let [weak, strong] = after_three(&shares(0.1, 0.1), &shares(0.3, 0.3), DENSE);
    assert!(weak.0 != strong.0 && weak.1 != strong.1);
    let none = scd("normalized", "flat", 0.0, 0.0, "blend = 0.5");
    let [a, b] = after_three(&shares(0.0, 0.0), &none, DENSE);
    assert_eq!(a, b, "a share of nothing is no term");
}

#[test]
fn a_warm_up_may_end_at_the_received_model() {
    let warm = scd("normalized", "flat", 1.0, 1.0, "warm_up = 0.667\nwarm_up_to = \"received\"");
    let plan = plan_of(&[&warm], WITH_BUFFERS);
    let mut run = ByHand::new(&plan);
    for _ in 1..=2 {
        let received = run.gm();
        run.round();
        assert_eq!(run.pm(1), received);
    }
}

#[test]
fn fine_tuned_copies_leave_fedavg_as_it_is() {
    for network in [DENSE, WITH_BUFFERS] {
        same_gm("name = \"fedavg-ft\"", FEDAVG, network);
        let untuned = "name = \"fedavg-ft\"\nfinetune_epochs = 0\nallow_degenerate = true";
        let plan = plan_of(&[untuned, "name = \"fedavg-ft\"\nfinetune = \"head\""], network);
        let (mut untuned, mut head) = (ByHand::of(&plan, 0), ByHand::of(&plan, 1));
        untuned.round();
        head.round();
        assert_eq!(untuned.pm(1), untuned.gm());
        let layout = plan.engine.network().layout();
        let (tuned, gm) = (head.pm(1), head.gm());
        let of = |model: &Model, part| model.parameters[layout.range(part)].to_vec();
        assert_eq!(of(&tuned, Part::Body), of(&gm, Part::Body));
        assert_ne!(of(&tuned, Part::Head), of(&gm, Part::Head));
    }
}
