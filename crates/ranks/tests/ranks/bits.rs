//! Results do not depend on who computes what where.

use crate::party::{Party, Sees, TIMED, alone, experiment, named, plan_of};
use crate::standard::cases;
use formant_runtime::Quiet;
use formant_runtime::event::Event;
use formant_runtime::sim::Outcome;
use formant_testing::{AUGMENTED, DENSE, Fate, Folder, StopAfter, WITH_BUFFERS};
use std::sync::atomic::AtomicBool;

/// Ranks by number and threads, sight and unrest: all that may differ.
const PARTIES: [Party; 4] = [
    Party::of(2),
    Party { ranks: 3, threads: 2, sees: Sees::None, is_restless: true },
    Party { ranks: 3, threads: 1, sees: Sees::Some, is_restless: true },
    // More than there are clients.
    Party { ranks: 8, threads: 1, sees: Sees::All, is_restless: true },
];

fn compare(text: &str, parties: &[Party]) -> Fate {
    let alone = alone(text);
    for party in parties {
        assert_eq!(party.result(text), alone, "{party:?}: {text}");
    }
    assert!(!alone.0.models.is_empty() && !alone.0.evaluations.is_empty());
    alone.0
}

#[test]
fn every_method_gives_the_bits_of_one_process() {
    for network in [DENSE, WITH_BUFFERS, AUGMENTED] {
        let cases = cases().into_iter().filter(|case| case.network() == network);
        let methods: Vec<String> = cases.map(|case| case.method().to_owned()).collect();
        let fate = compare(&experiment(&methods, network, ""), &PARTIES);
        assert_eq!(fate.fingerprints.len(), methods.len());
    }
}

#[test]
fn every_schedule_gives_the_bits_of_one_process() {
    let methods = named(&["fedavg", "ditto", "scd", "fedrep", "fedbabu", "fedrod", "local"]);
    for rules in [
        "quorum = 0.6",
        "quorum = 0.6\nlate = \"weigh\"",
        "schedule = \"buffered\"\nbuffer = 2\nlate = \"weigh\"",
        "personal = \"everyone\"\npersonal_until = \"broadcast\"",
        "schedule = \"buffered\"\nbuffer = 3\npersonal_until = \"broadcast\"",
    ] {
        let text = experiment(&methods, DENSE, &format!("{TIMED}[federation]\n{rules}\n"));
        compare(&text, &PARTIES[1..3]);
    }
    let some = experiment(&methods, DENSE, "").replace("[train]", "[train]\nparticipation = 0.5");
    compare(&some, &PARTIES);
}

#[test]
fn metrics_guards_and_insights_are_those_of_one_process() {
    let all = "[evaluation]\nguard = \"blend\"\nsplit = \"validation\"\npatience = 1\nmetrics = [\"calibration_error\", \
        \"accuracy\", \"balanced_accuracy\", \"macro_f1\", \"auroc\"]\n";
    let text = experiment(&named(&["fedavg", "ditto", "fedrod", "scd"]), WITH_BUFFERS, all)
        .replace("clients = 5", "clients = 5\nvalidation_fraction = 0.2");
    let fate = compare(&text, &PARTIES);
    assert!(fate.evaluations.iter().any(|evaluated| evaluated.guard.is_some()));
    assert!(!fate.insights.is_empty(), "models were looked at more closely");
}

#[test]
fn newcomers_are_those_of_one_process() {
    let methods = named(&["fedavg", "ditto", "local", "fedrep", "fedrod", "pfedme", "scd"]);
    let text = experiment(&methods, DENSE, "[evaluation]\nadapt_epochs = 2\n")
        .replace("clients = 5", "clients = 5\nnew_clients = 3");
    let alone = alone(&text);
    let adapted = alone.1.iter().filter(|event| event["event"] == "adapted").count();
    assert_eq!(adapted, 7 + 6, "fine-tuning, and six rules of their own");
    for party in PARTIES {
        assert_eq!(party.result(&text), alone, "{party:?}");
    }
}

#[test]
fn robust_combination_privacy_and_attackers_are_those_of_one_process() {
    let attacked =
        "[federation]\ncombine = \"median\"\n[[attack]]\nkind = \"sign-flip\"\nclients = [1]\n";
    compare(&experiment(&named(&["fedavg", "ditto"]), DENSE, attacked), &PARTIES[1..3]);
    let private = "[privacy]\nnoise_multiplier = 1.0\nclip = 0.5\n";
    for place in ["server", "client"] {
        let private = format!("{private}where = \"{place}\"\n");
        compare(&experiment(&named(&["fedavg"]), DENSE, &private), &PARTIES[1..3]);
    }
}

#[test]
fn states_that_do_not_fit_into_memory_change_nothing() {
    let text = experiment(&named(&["ditto", "scd"]), DENSE, "memory = \"1kB\"\n");
    compare(&text, &PARTIES);
}

#[test]
fn a_client_that_diverges_is_told_alike() {
    // A pull so strong that every step overshoots: where there are many, the personal phase fails.
    let text = experiment(&["name = \"ditto\"\nlambda = 1000000.0".into()], DENSE, "");
    let alone = alone(&text);
    let failed = alone.1.iter().filter(|event| event["event"] == "client_failed").count();
    assert!((1..15).contains(&failed), "{failed} of 15 personal phases");
    for party in PARTIES {
        assert_eq!(party.result(&text), alone, "{party:?}");
    }
}

#[test]
fn a_run_goes_on_with_any_number_of_ranks() {
    // Uploads wait at the server, copies of them and states at the clients.
    let rules = "[data.augment]\ncrop = 2\nflip = 0.5\n[federation]\nschedule = \"buffered\"\nbuffer = 2\npersonal_until = \"broadcast\"\n";
    let text = experiment(&named(&["scd", "fedrod"]), DENSE, &format!("{TIMED}{rules}"));
    let (undisturbed, _) = alone(&text);
    let one = Party::of(1);
    let [two, blind, some, eight] = PARTIES;
    for sessions in [[two, eight, one], [blind, some, blind], [one, blind, two], [eight, one, some]]
    {
        let folder = Folder::new();
        for (session, round) in sessions.into_iter().zip([1, 2]) {
            let stop = AtomicBool::new(false);
            let observer = StopAfter { label: "number 0".into(), round, stop: &stop };
            let outcome = session.run(&text, &folder, (&observer, &stop)).unwrap();
            assert_eq!(outcome, Outcome::Interrupted, "{session:?}");
        }
        let never = AtomicBool::new(false);
        let outcome = sessions[2].run(&text, &folder, (&Quiet, &never)).unwrap();
        assert_eq!(outcome, Outcome::Complete);
        assert_eq!(folder.result(), undisturbed, "{sessions:?}");
    }
}

#[test]
fn ended_runs_go_on_to_more_rounds_and_methods() {
    let short = experiment(&named(&["ditto"]), DENSE, "");
    let long = experiment(&named(&["ditto", "scd"]), DENSE, "").replace("rounds = 3", "rounds = 5");
    for [first, second] in [[PARTIES[0], PARTIES[1]], [PARTIES[1], Party::of(1)]] {
        let (folder, never) = (Folder::new(), AtomicBool::new(false));
        assert_eq!(first.run(&short, &folder, (&Quiet, &never)).unwrap(), Outcome::Complete);
        assert_eq!(second.run(&long, &folder, (&Quiet, &never)).unwrap(), Outcome::Complete);
        let (expected, found) = (alone(&long).0, folder.result());
        assert_eq!(found.fingerprints.last(), expected.fingerprints.last());
        assert_eq!(found.models, expected.models);
    }
}

#[test]
fn the_log_says_where_work_was_done() {
    let text = experiment(&named(&["ditto"]), DENSE, "");
    let (folder, never) = (Folder::new(), AtomicBool::new(false));
    Party::of(3).run(&text, &folder, (&Quiet, &never)).unwrap();
    let places = folder.events().into_iter().find_map(|event| match event {
        Event::Ranks(ranks) => Some(ranks.ranks),
        _ => None,
    });
    let places = places.unwrap();
    assert_eq!(places.len(), 3);
    assert_eq!(places.iter().map(|place| place.clients).sum::<usize>(), 5);
    let busy = places.iter().filter(|place| place.clients > 0);
    assert!(busy.clone().count() > 1, "{places:?}");
    assert!(busy.clone().all(|place| place.busy > 0.0), "{places:?}");
    let bytes = plan_of(&text).init().parameters.len() as u64 * 4;
    // Three rounds of uploads from those that are elsewhere, and what all of them get.
    let elsewhere: usize = places[1..].iter().map(|place| place.clients).sum();
    assert!(places[0].received > 3 * elsewhere as u64 * bytes, "{places:?}");
    assert!(places[1].received > 3 * bytes, "{places:?}");
}
