//! Threads and processes, compared.

use crate::executor::Processes;
use crate::standard::cases;
use formant_experiment::Experiment;
use formant_methods::Zoo;
use formant_runtime::event::Event;
use formant_runtime::executor::{Executor, Threads};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{Observer, Quiet, RunPlan, RuntimeError};
use formant_testing::{AUGMENTED, DENSE, Fate, Folder, StopAfter, WITH_BUFFERS, federation};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// Every test by its name.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("every_method_gives_the_bits_of_threads", every_method_gives_the_bits_of_threads),
    ("every_schedule_gives_the_bits_of_threads", every_schedule_gives_the_bits_of_threads),
    ("metrics_and_patience_are_those_of_threads", metrics_and_patience_are_those_of_threads),
    ("guards_choose_as_those_of_threads", guards_choose_as_those_of_threads),
    ("newcomers_are_those_of_threads", newcomers_are_those_of_threads),
    ("a_run_goes_on_with_either_executor", a_run_goes_on_with_either_executor),
    ("a_client_that_diverges_is_told_alike", a_client_that_diverges_is_told_alike),
    ("a_process_that_ends_early_is_named", a_process_that_ends_early_is_named),
    ("a_process_ends_with_its_input", a_process_ends_with_its_input),
];

/// Everything takes time, and for everybody another one.
const TIMED: &str = "[devices]\nsamples_per_second = 40.0\nspread = 0.7\n\
    [links]\nup = \"20kB\"\ndown = \"50kB\"\nspread = 0.4\nlatency = \"50ms\"\njitter = \"100ms\"\n";

/// The text of an experiment with some methods.
fn experiment(methods: &[String], network: &str, more: &str) -> String {
    let mut text = format!(
        "seed = 3\nrounds = 3\n[data]\nclients = 5\n[network]\n{network}\n\
         [train]\nbatch = 8\nepochs = 2\npersonal_epochs = 1\nlearning_rate = 0.05\n\
         [runtime]\nthreads = 2\ncheckpoint_every = 2\n{more}"
    );
    for (i, method) in methods.iter().enumerate() {
        writeln!(text, "[[method]]\nlabel = \"number {i}\"\n{method}").unwrap();
    }
    text
}

fn named(methods: &[&str]) -> Vec<String> {
    methods.iter().map(|name| format!("name = \"{name}\"")).collect()
}

/// The plan of an experiment over the tiny federation: the same here and in every child.
pub(crate) fn plan_of(experiment: &str) -> RunPlan {
    let experiment =
        Experiment::parse(&experiment.parse().unwrap(), &[], &Zoo::standard()).unwrap();
    let newcomers = experiment.data.new_clients.unwrap_or(0);
    experiment.plan_on(federation().clone().setting_aside(newcomers).unwrap()).unwrap()
}

/// Runs on threads or on processes.
fn run_in(
    folder: &Folder,
    text: &str,
    on: On,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    let plan = plan_of(text);
    let run = |executor: &mut dyn Executor| {
        sim::run_on(executor, &plan, folder.path(), observer, stop).unwrap()
    };
    match on {
        On::Threads => std::thread::scope(|scope| run(&mut Threads::new(&plan, scope))),
        On::Processes => run(&mut Processes::new(&plan, text)),
    }
}

#[derive(Clone, Copy)]
enum On {
    Threads,
    Processes,
}

/// What a run has left: its result, and its log without wall times.
fn run(text: &str, on: On) -> (Fate, Vec<Value>) {
    let folder = Folder::new();
    let outcome = run_in(&folder, text, on, &Quiet, &AtomicBool::new(false));
    assert_eq!(outcome, Outcome::Complete);
    let left = std::fs::read_dir(folder.file("states")).unwrap();
    let half =
        left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "tmp"));
    assert_eq!(half.count(), 0, "nothing half written is left");
    (folder.result(), told(&folder))
}

fn told(folder: &Folder) -> Vec<Value> {
    let mut told = Vec::new();
    for event in folder.events() {
        let mut event = serde_json::to_value(event).unwrap();
        event.as_object_mut().unwrap().remove("seconds");
        told.push(event);
    }
    told
}

fn compare(text: &str) -> Fate {
    let (threads, processes) = (run(text, On::Threads), run(text, On::Processes));
    assert_eq!(processes, threads, "{text}");
    assert!(!threads.0.models.is_empty() && !threads.0.evaluations.is_empty());
    threads.0
}

fn every_method_gives_the_bits_of_threads() {
    for network in [DENSE, WITH_BUFFERS, AUGMENTED] {
        let cases = cases().into_iter().filter(|case| case.network() == network);
        let methods: Vec<String> = cases.map(|case| case.method().to_owned()).collect();
        let fate = compare(&experiment(&methods, network, ""));
        assert_eq!(fate.fingerprints.len(), methods.len());
    }
}

fn every_schedule_gives_the_bits_of_threads() {
    let methods = named(&["fedavg", "ditto", "scd", "fedrep", "fedbabu", "fedrod", "local"]);
    for rules in [
        "quorum = 0.6",
        "quorum = 0.6\nlate = \"weigh\"",
        "schedule = \"buffered\"\nbuffer = 2\nlate = \"weigh\"",
        "personal = \"everyone\"\npersonal_until = \"broadcast\"",
        "schedule = \"buffered\"\nbuffer = 3\npersonal_until = \"broadcast\"",
    ] {
        compare(&experiment(&methods, DENSE, &format!("{TIMED}[federation]\n{rules}\n")));
    }
}

fn metrics_and_patience_are_those_of_threads() {
    let all = "[evaluation]\npatience = 1\nmetrics = [\"calibration_error\", \"accuracy\", \
               \"balanced_accuracy\", \"macro_f1\", \"auroc\"]\n";
    let methods = named(&["fedavg", "ditto", "local", "fedrod"]);
    let fate = compare(&experiment(&methods, DENSE, all).replace("rounds = 3", "rounds = 8"));
    assert!(fate.evaluations.iter().all(|e| e.gm.as_ref().unwrap().further.len() == 4));
    assert!(fate.evaluations.len() < 4 * 8, "nobody has stopped");
}

fn guards_choose_as_those_of_threads() {
    let methods = named(&["fedavg", "ditto", "fedrod", "scd"]);
    for (guard, split) in [("best", "test"), ("blend", "validation"), ("bands", "test")] {
        let more = format!("[evaluation]\nguard = \"{guard}\"\nsplit = \"{split}\"\n");
        let text = experiment(&methods, WITH_BUFFERS, &more)
            .replace("clients = 5", "clients = 5\nvalidation_fraction = 0.2");
        let fate = compare(&text);
        assert!(fate.evaluations.iter().any(|evaluated| evaluated.guard.is_some()));
    }
}

fn newcomers_are_those_of_threads() {
    let methods = named(&["fedavg", "ditto", "local", "fedrep", "fedrod", "pfedme", "scd"]);
    let text = experiment(&methods, DENSE, "[evaluation]\nadapt_epochs = 2\n")
        .replace("clients = 5", "clients = 5\nnew_clients = 3");
    let adapted = |on| {
        let mut told = run(&text, on).1;
        told.retain(|event| event["event"] == "adapted");
        told
    };
    let threads = adapted(On::Threads);
    assert_eq!(threads.len(), 7 + 6, "fine-tuning, and six rules of their own");
    assert_eq!(adapted(On::Processes), threads);
}

fn a_run_goes_on_with_either_executor() {
    // Uploads wait at the server, copies of them and states at the clients.
    let rules = "[data.augment]\ncrop = 2\nflip = 0.5\n[federation]\nschedule = \"buffered\"\nbuffer = 2\npersonal_until = \"broadcast\"\n";
    let text = experiment(&named(&["scd", "fedrod"]), DENSE, &format!("{TIMED}{rules}"));
    let (undisturbed, _) = run(&text, On::Threads);
    for sessions in [
        [On::Processes, On::Processes, On::Processes],
        [On::Threads, On::Processes, On::Threads],
        [On::Processes, On::Threads, On::Processes],
    ] {
        let folder = Folder::new();
        for (session, round) in sessions.into_iter().zip([1, 2]) {
            let stop = AtomicBool::new(false);
            let observer = StopAfter { label: "number 0".into(), round, stop: &stop };
            let outcome = run_in(&folder, &text, session, &observer, &stop);
            assert_eq!(outcome, Outcome::Interrupted);
        }
        let never = AtomicBool::new(false);
        assert_eq!(run_in(&folder, &text, sessions[2], &Quiet, &never), Outcome::Complete);
        assert_eq!(folder.result(), undisturbed);
    }
}

fn a_client_that_diverges_is_told_alike() {
    // A pull so strong that every step overshoots: where there are many, the personal phase fails.
    let text = experiment(&["name = \"ditto\"\nlambda = 1000000.0".into()], DENSE, "");
    let (fate, told) = run(&text, On::Processes);
    let failed = told.iter().filter(|event| event["event"] == "client_failed").count();
    assert!((1..15).contains(&failed), "{failed} of 15 personal phases");
    assert_eq!((fate, told), run(&text, On::Threads));
}

fn a_process_that_ends_early_is_named() {
    let text = experiment(&named(&["ditto"]), DENSE, "");
    let (plan, folder) = (plan_of(&text), Folder::new());
    let mut processes = Processes::new(&plan, &text);
    processes.kill(3);
    let never = AtomicBool::new(false);
    let error = sim::run_on(&mut processes, &plan, folder.path(), &Quiet, &never).unwrap_err();
    assert!(matches!(error, RuntimeError::Executor { .. }), "{error:?}");
    assert!(error.to_string().starts_with("the process of client 3 failed: "), "{error}");
    let finished = |event: &Event| matches!(event, Event::RoundFinished { .. });
    assert!(!folder.events().iter().any(finished));
}

fn a_process_ends_with_its_input() {
    let text = experiment(&named(&["ditto"]), DENSE, "");
    let plan = plan_of(&text);
    assert_eq!(Processes::new(&plan, &text).hang_up(), [true; 5]);
}
