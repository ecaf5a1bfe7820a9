//! Schedules, stragglers and the virtual clock: who waits for whom changes the time, and the models
//! only where it must.

use crate::{Case, Fate, Folder, Subject, run, timed};
use core::time::Duration;
use formant_federation::{Late, Schedule, Until};
use formant_methods::Moment;
use formant_runtime::event::{Event, Phase, Ready};
use formant_runtime::sim::Outcome;
use formant_runtime::{Pacer, RunPlan, median_client};

/// A fate without its times, and its last time.
fn without_times(mut fate: Fate) -> (Fate, Ready) {
    let clocks: Vec<Ready> = fate.evaluations.iter_mut().map(|e| e.clock.take().unwrap()).collect();
    assert!(clocks.is_sorted_by(|a, b| a.gm < b.gm && a.pm < b.pm), "{clocks:?}");
    (fate, *clocks.last().unwrap())
}

/// Whether there is a personal phase, and whether uploads may be stale, is asked once for all rounds.
pub fn what_holds_for_a_whole_run_does_not_change_from_round_to_round(subject: &Subject) {
    for case in subject.cases() {
        let plan = case.plan();
        let hints = |round| plan.methods[0].method.hints(Moment { round, rounds: plan.rounds });
        let lasting = |round| (hints(round).personal_phase, hints(round).stale_uploads);
        for round in 2..=plan.rounds {
            assert_eq!(lasting(round), lasting(1), "{case:?}, round {round}");
        }
    }
}

/// Compute-and-wait, wait-free and no clock at all give the same models; with a personal phase, wait-free gives
/// them sooner.
pub fn wait_free_gives_the_same_models_sooner(subject: &Subject) {
    for case in subject.cases() {
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

/// The virtual clock believes what a method says of its work; so it has to be true.
pub fn a_phase_does_the_work_that_its_method_announces(subject: &Subject) {
    for case in subject.cases() {
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

/// `formant devices` finds a pace for every phase that has work, and none for another.
pub fn every_phase_can_be_measured(subject: &Subject) {
    for case in subject.cases() {
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

/// A rule by name, and what it changes.
struct Rule {
    name: &'static str,
    change: fn(&mut RunPlan),
}

/// All kinds of rules under which models depend on the clock.
const RULES: [Rule; 8] = [
    Rule { name: "quorum, late dropped", change: |p| p.protocol.quorum = 0.6 },
    Rule {
        name: "quorum, late weighed",
        change: |p| {
            p.protocol.quorum = 0.6;
            p.protocol.late = Late::Weigh { exponent: 0.5 };
        },
    },
    Rule { name: "deadline", change: |p| p.protocol.deadline = Some(Duration::from_secs(3)) },
    Rule {
        name: "buffer",
        change: |p| {
            p.protocol.schedule = Schedule::Buffered { size: 2 };
            p.protocol.late = Late::Weigh { exponent: 0.5 };
        },
    },
    Rule { name: "until the broadcast", change: |p| p.protocol.personal.until = Until::Broadcast },
    Rule {
        name: "everyone",
        change: |p| {
            p.protocol.participation = 0.4;
            p.protocol.personal.everyone = true;
        },
    },
    Rule {
        name: "everyone until the broadcast",
        change: |p| {
            p.protocol.participation = 0.4;
            p.protocol.personal.everyone = true;
            p.protocol.personal.until = Until::Broadcast;
        },
    },
    Rule {
        name: "buffer until the broadcast",
        change: |p| {
            p.protocol.schedule = Schedule::Buffered { size: 3 };
            p.protocol.personal.until = Until::Broadcast;
        },
    },
];

/// Under quorums, deadlines, buffers and personal phases that last until the next broadcast, threads, memory
/// and interruptions change nothing. Rules that an experiment refuses for a method, because its uploads may not
/// come late, are left out. With eight rules to try, only the first and the last of a subject's cases are run.
pub fn every_rule_is_deterministic_and_resumes_to_the_same_bits(subject: &Subject) {
    let [first, .., last] = subject.cases() else { unreachable!("there are two cases at least") };
    // The second default case is the first one on a larger network: no other rules apply to it.
    let cases = if subject.cases().len() > 2 { vec![first, last] } else { vec![first] };
    for case in cases {
        for rule in RULES.iter().filter(|rule| is_allowed(case, rule)) {
            check_rule(case, rule);
        }
    }
}

/// Whether the method takes uploads as late as the rule makes them.
fn is_allowed(case: &Case, rule: &Rule) -> bool {
    let plan = case.plan_with(rule.change);
    let at = Moment { round: 1, rounds: plan.rounds };
    plan.protocol.is_synchronous() || plan.methods[0].method.hints(at).stale_uploads
}

fn check_rule(case: &Case, rule: &Rule) {
    let name = rule.name;
    let plan = |more: fn(&mut RunPlan)| {
        case.plan_with(|plan| {
            timed(plan, Schedule::WaitFree);
            plan.rounds = 5;
            (rule.change)(plan);
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
        assert_eq!(outcome, Outcome::Interrupted, "{case:?}, {name}");
    }
    folder.run(&plan(|_| {})).unwrap();
    assert_eq!(folder.result(), undisturbed, "{case:?}, {name}");
}
