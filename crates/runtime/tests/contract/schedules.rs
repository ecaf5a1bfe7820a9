//! Schedules, stragglers and the virtual clock: who waits for whom changes the time, and the models
//! only where it must.

use crate::standard::case;
use formant_federation::{Late, Refusal, Schedule, Until};
use formant_runtime::Profile;
use formant_runtime::event::{Event, Phase, Ready};
use formant_testing::{DENSE, Fate, Folder, run, timed};

/// A fate without its times, and its last time.
fn without_times(mut fate: Fate) -> (Fate, Ready) {
    let clocks: Vec<Ready> = fate.evaluations.iter_mut().map(|e| e.clock.take().unwrap()).collect();
    assert!(clocks.is_sorted_by(|a, b| a.gm < b.gm && a.pm < b.pm), "{clocks:?}");
    (fate, *clocks.last().unwrap())
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
    let case = case("name = \"ditto\"", DENSE);
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
fn a_buffer_as_large_as_the_federation_is_a_round() {
    for name in ["fedavg", "scd", "fedrod"] {
        let case = case(&format!("name = \"{name}\""), DENSE);
        let buffered = case.plan_with(|plan| timed(plan, Schedule::Buffered { size: 5 }));
        assert_eq!(without_times(run(&buffered)).0, run(&case.plan()), "{name}");
    }
}

#[test]
fn nobody_waits_for_a_straggler_and_the_late_are_told() {
    let case = case("name = \"fedavg\"", DENSE);
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
    let case = case("name = \"ditto\"", DENSE);
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
    let case = case("name = \"fedavg\"", DENSE);
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
