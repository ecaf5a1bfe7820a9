//! Schedules, stragglers and the virtual clock: who waits for whom changes the time, and the models
//! only where it must.

use crate::problem::{Case, DENSE, Fate, Folder, WITH_BUFFERS, cases, run};
use core::time::Duration;
use formant_federation::{Late, Refusal, Schedule, Until};
use formant_runtime::event::{Event, Phase, Ready};
use formant_runtime::sim::Outcome;
use formant_runtime::{Pacer, Profile, RunPlan, median_client};

/// Devices and links on which everything takes time, and for everybody another one.
const TIMED: Profile = Profile {
    samples_per_second: 40.0,
    device_spread: 0.7,
    up: 20_000.0,
    down: 50_000.0,
    link_spread: 0.4,
    latency: 0.05,
    jitter: 0.1,
    loss: 0.02,
};

fn timed(plan: &mut RunPlan, schedule: Schedule) {
    plan.profile = TIMED;
    plan.protocol.schedule = schedule;
}

/// A fate without its times, and its last time.
fn without_times(mut fate: Fate) -> (Fate, Ready) {
    let clocks: Vec<Ready> = fate.evaluations.iter_mut().map(|e| e.clock.take().unwrap()).collect();
    assert!(clocks.is_sorted_by(|a, b| a.gm < b.gm && a.pm < b.pm), "{clocks:?}");
    (fate, *clocks.last().unwrap())
}

#[test]
fn wait_free_gives_the_same_models_sooner() {
    for case in cases() {
        let plan = |schedule| case.plan_with(|plan| timed(plan, schedule));
        let instant = run(&case.plan());
        assert!(instant.evaluations.iter().all(|evaluation| evaluation.clock.is_none()));
        let (free, free_clock) = without_times(run(&plan(Schedule::WaitFree)));
        let (waiting, waiting_clock) = without_times(run(&plan(Schedule::ComputeAndWait)));
        assert_eq!(free, instant, "{case:?}: a clock changes no model");
        assert_eq!(waiting, instant, "{case:?}");
        let plan = case.plan();
        if plan.rules(&plan.methods[0]).personal.exists {
            assert!(
                free_clock.pm < waiting_clock.pm && free_clock.gm < waiting_clock.gm,
                "{case:?}"
            );
        } else {
            assert_eq!(free_clock, waiting_clock, "{case:?}: there is nothing to overlap");
        }
    }
}

#[test]
fn a_phase_does_the_work_that_its_method_announces() {
    for case in cases() {
        let plan = case.plan();
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        for event in folder.events() {
            if let Event::PhaseDone { round, client, phase, samples, .. } = event {
                let announced = plan.desk(&plan.methods[0], client).samples(round, phase);
                assert_eq!(samples, announced, "{case:?}, {phase:?}");
            }
        }
    }
}

#[test]
fn the_clock_is_what_the_units_say() {
    // One client: 100 samples a second, of which one costs 3 in the shared phase and a half in the
    // personal one; 1 kB/s up, 2 kB/s down, a quarter of a second of latency.
    let profile = Profile {
        samples_per_second: 100.0,
        device_spread: 0.0,
        up: 1e3,
        down: 2e3,
        link_spread: 0.0,
        latency: 0.25,
        jitter: 0.0,
        loss: 0.0,
    };
    let case = Case { method: "name = \"ditto\"".into(), network: DENSE };
    for schedule in [Schedule::WaitFree, Schedule::ComputeAndWait] {
        let plan = case.plan_with(|plan| {
            plan.profile = profile.clone();
            plan.protocol.schedule = schedule;
            (plan.methods[0].shared.cost, plan.methods[0].personal.cost) = (3.0, 0.5);
            plan.federation.clients.truncate(1);
            plan.rounds = 2;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let bytes = folder.events().iter().find_map(|event| match event {
            Event::Uploaded { bytes, .. } => Some(*bytes as f64),
            _ => None,
        });
        let (n, bytes) = (plan.federation.clients[0].train.len() as f64, bytes.unwrap());
        let (down, up) = (0.25 + bytes / 2e3, 0.25 + bytes / 1e3);
        let (shared, personal) = (3.0 * 2.0 * n / 100.0, 0.5 * n / 100.0);
        let waits = schedule == Schedule::ComputeAndWait;
        let round = if waits {
            down + shared + personal + up
        } else {
            // The next shared phase waits for the personal one, if that takes longer.
            assert!(personal < up + down, "the test wants a slow network");
            down + shared + up
        };
        let (_, clock) = without_times(folder.result());
        assert!((clock.gm - 2.0 * round).abs() < 1e-6, "{} instead of {}", clock.gm, 2.0 * round);
        let idle = folder.events().into_iter().find_map(|event| match event {
            Event::MethodFinished { clock, .. } => clock,
            _ => None,
        });
        let idle = idle.unwrap();
        let busy = 2.0 * (shared + personal);
        assert!((idle.idle[0] - (idle.seconds - busy)).abs() < 1e-6, "{idle:?}");
    }
}

#[test]
fn every_phase_can_be_measured() {
    for case in cases() {
        let plan = case.plan();
        let method = &plan.methods[0];
        let mut pacer = Pacer::new(&plan, method).unwrap();
        let (pace, last) = (pacer.lap().unwrap(), plan.rounds);
        let desk = plan.desk(method, median_client(&plan));
        for (phase, seconds) in [(Phase::Shared, pace.shared), (Phase::Personal, pace.personal)] {
            let works = desk.samples(last, phase) > 0;
            assert_eq!(seconds.is_some_and(|s| s > 0.0), works, "{case:?}, {phase:?}: {pace:?}");
        }
        let again = pacer.lap().unwrap();
        let faster = pace.or_faster(again);
        assert!(faster.shared <= pace.shared && faster.shared <= again.shared, "{case:?}");
    }
}

/// A name for some rules, and what they change.
type Rules = (&'static str, fn(&mut RunPlan));

/// All kinds of rules under which models depend on the clock.
fn rules() -> Vec<Rules> {
    vec![
        ("quorum, late dropped", |p| p.protocol.quorum = 0.6),
        ("quorum, late weighed", |p| {
            p.protocol.quorum = 0.6;
            p.protocol.late = Late::Weigh { exponent: 0.5 };
        }),
        ("deadline", |p| p.protocol.deadline = Some(Duration::from_secs(3))),
        ("buffer", |p| {
            p.protocol.schedule = Schedule::Buffered { size: 2 };
            p.protocol.late = Late::Weigh { exponent: 0.5 };
        }),
        ("until the broadcast", |p| p.protocol.personal.until = Until::Broadcast),
        ("everyone", |p| {
            p.protocol.participation = 0.4;
            p.protocol.personal.everyone = true;
        }),
        ("everyone until the broadcast", |p| {
            p.protocol.participation = 0.4;
            p.protocol.personal.everyone = true;
            p.protocol.personal.until = Until::Broadcast;
        }),
        ("buffer until the broadcast", |p| {
            p.protocol.schedule = Schedule::Buffered { size: 3 };
            p.protocol.personal.until = Until::Broadcast;
        }),
    ]
}

/// Methods with and without a personal phase, and with messages that are no plain models.
fn some_methods() -> Vec<Case> {
    ["fedavg", "ditto", "scd", "fedrep", "fedbabu", "fedgen", "local"]
        .map(|name| Case { method: format!("name = \"{name}\""), network: DENSE })
        .into_iter()
        .chain(
            ["", "\nhypernetwork = true"].map(|more| Case {
                method: format!("name = \"fedrod\"{more}"),
                network: WITH_BUFFERS,
            }),
        )
        .collect()
}

#[test]
fn every_rule_is_deterministic_and_resumes_to_the_same_bits() {
    for case in some_methods() {
        for (name, change) in rules() {
            let plan = |more: fn(&mut RunPlan)| {
                case.plan_with(|plan| {
                    timed(plan, Schedule::WaitFree);
                    plan.rounds = 5;
                    change(plan);
                    more(plan);
                })
            };
            let undisturbed = run(&plan(|_| {}));
            assert_eq!(undisturbed.evaluations.len(), 5, "{case:?}, {name}");
            let alone = plan(|plan| {
                plan.threads = 1;
                plan.memory = 0;
            });
            assert_eq!(run(&alone), undisturbed, "{case:?}, {name}");
            let folder = Folder::new();
            for round in [1, 3, 4] {
                let outcome = folder.run_until(&plan(|plan| plan.checkpoint_every = 2), 0, round);
                assert_eq!(outcome, Outcome::Interrupted);
            }
            folder.run(&plan(|_| {})).unwrap();
            assert_eq!(folder.result(), undisturbed, "{case:?}, {name}");
        }
    }
}

#[test]
fn a_buffer_as_large_as_the_federation_is_a_round() {
    for name in ["fedavg", "scd", "fedrod"] {
        let case = Case { method: format!("name = \"{name}\""), network: DENSE };
        let buffered = case.plan_with(|plan| timed(plan, Schedule::Buffered { size: 5 }));
        assert_eq!(without_times(run(&buffered)).0, run(&case.plan()), "{name}");
    }
}

#[test]
fn nobody_waits_for_a_straggler_and_the_late_are_told() {
    let case = Case { method: "name = \"fedavg\"".into(), network: DENSE };
    let refused = |late| {
        let plan = case.plan_with(|plan| {
            timed(plan, Schedule::WaitFree);
            plan.rounds = 6;
            plan.protocol.quorum = 0.4;
            plan.protocol.late = late;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let refused = |event: &Event| match event {
            Event::Refused { reason, bytes, detail, .. } => {
                assert!(bytes.is_some_and(|bytes| bytes > 0));
                let known =
                    Refusal::ALL.into_iter().find(|refusal| refusal.word() == reason).unwrap();
                assert_eq!(detail.as_deref(), Some(known.sentence()));
                known == Refusal::Late
            }
            _ => false,
        };
        let refused = folder.events().iter().filter(|event| refused(event)).count();
        (refused, folder.result().fingerprints)
    };
    let (dropped, without) = refused(Late::Drop);
    let (none, with) = refused(Late::Weigh { exponent: 0.5 });
    assert!(dropped > 0 && none == 0, "{dropped} {none}");
    assert_ne!(without, with, "weighed, they count");
}

#[test]
fn until_the_broadcast_fills_the_idle_time() {
    let case = Case { method: "name = \"ditto\"".into(), network: DENSE };
    let idle = |until| {
        let plan = case.plan_with(|plan| {
            timed(plan, Schedule::WaitFree);
            plan.rounds = 6;
            plan.protocol.personal.until = until;
        });
        let folder = Folder::new();
        folder.run(&plan).unwrap();
        let mut personal = 0;
        let mut share = 0.0;
        for event in folder.events() {
            match event {
                Event::PhaseDone { phase: Phase::Personal, samples, .. } => personal += samples,
                Event::MethodFinished { clock: Some(clock), .. } => {
                    share =
                        clock.idle.iter().sum::<f64>() / clock.seconds / clock.idle.len() as f64;
                }
                _ => {}
            }
        }
        (share, personal)
    };
    let (fixed, few) = idle(Until::Epochs);
    let (filled, many) = idle(Until::Broadcast);
    // What is left is the time until the first broadcast.
    assert!(fixed > 0.3 && filled < 0.1, "{fixed} {filled}");
    assert!(many > 2 * few, "{many} {few}");
}

#[test]
fn without_a_clock_a_quorum_prefers_nobody() {
    let case = Case { method: "name = \"fedavg\"".into(), network: DENSE };
    let plan = case.plan_with(|plan| {
        plan.rounds = 12;
        plan.protocol.quorum = 0.6;
    });
    let folder = Folder::new();
    folder.run(&plan).unwrap();
    let mut counted = [0; 5];
    for event in folder.events() {
        if let Event::Uploaded { client, .. } = event {
            counted[client] += 1;
        }
    }
    assert_eq!(counted.iter().sum::<usize>(), 12 * 3);
    assert!(counted.iter().all(|count| (1..12).contains(count)), "{counted:?}");
}
