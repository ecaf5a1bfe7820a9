//! A method that no longer becomes better ends, and leaves the models of its best evaluation.

use crate::standard::case;
use formant_federation::Schedule;
use formant_model::ModelFile;
use formant_model::folder::{GENERIC, MODELS, clients};
use formant_numerics::{Measures, Metric};
use formant_report::{RunLog, rows, table};
use formant_runtime::event::{Evaluated, Event};
use formant_runtime::sim::Outcome;
use formant_runtime::{EVENTS_FILE, Keep, RunPlan};
use formant_testing::{DENSE, Folder, timed};
use std::path::Path;

const ROUNDS: usize = 40;

fn patient(plan: &mut RunPlan, patience: usize) {
    plan.evaluation.patience = Some(patience);
    (plan.rounds, plan.header.rounds) = (ROUNDS, ROUNDS);
}

fn plan_of(method: &str, change: impl FnOnce(&mut RunPlan)) -> RunPlan {
    case(&format!("name = \"{method}\""), DENSE).plan_with(|p| {
        patient(p, 2);
        change(p);
    })
}

/// Rounds done, why they ended, the round that is kept.
type Finish = (usize, Option<String>, Option<usize>);

/// How the only method ended, and which models were said to be kept.
fn finish(folder: &Folder) -> (Finish, Vec<usize>) {
    let (mut end, mut kept) = (None, Vec::new());
    for event in folder.events() {
        match event {
            Event::MethodFinished { rounds, stopped, best_round, .. } => {
                end = Some((rounds, stopped, best_round));
            }
            Event::ModelsKept { round, .. } => kept.push(round),
            _ => {}
        }
    }
    (end.unwrap(), kept)
}

/// What the decision goes by.
fn figure(evaluated: &Evaluated, personal: bool) -> f64 {
    if personal {
        evaluated.pm.as_ref().unwrap().weighted
    } else {
        evaluated.gm.as_ref().unwrap().accuracy
    }
}

#[test]
fn a_method_ends_when_it_was_not_better_for_so_long_and_keeps_its_best() {
    for (method, personal) in [("ditto", true), ("fedavg", false), ("local", true)] {
        let folder = Folder::new();
        let plan = plan_of(method, |_| {});
        folder.run(&plan).unwrap();
        let ((rounds, stopped, best), kept) = finish(&folder);
        let best = best.unwrap();
        assert_eq!((rounds, kept), (best + 2, vec![best]), "{method}");
        assert!(rounds < ROUNDS, "{method} never stopped");
        let why = format!("2 evaluations in a row no better than that of round {best}");
        assert_eq!(stopped, Some(why));
        // The best is the first of the highest, and nothing before it was patient enough.
        let evaluations = folder.result().evaluations;
        assert_eq!(evaluations.len(), rounds);
        let (mut high, mut since) = ((0, f64::NEG_INFINITY), 0);
        for evaluated in &evaluations {
            assert!(since < 2, "{method} should have ended before round {}", evaluated.round);
            let figure = figure(evaluated, personal);
            (high, since) =
                if figure > high.1 { ((evaluated.round, figure), 0) } else { (high, since + 1) };
        }
        assert_eq!((high.0, since), (best, 2));
        let place = folder.file(MODELS).join(method);
        let round_of = |file: &Path| ModelFile::read(file).unwrap().card.round as usize;
        assert_eq!(round_of(&place.join(GENERIC)), best);
        let all = if personal { vec![0, 1, 2, 3, 4] } else { Vec::new() };
        assert_eq!(clients(&place), all);
        for client in all {
            assert_eq!(round_of(&place.join(format!("personal/{client}.safetensors"))), best);
        }
        // Nothing else is left, and the table speaks of no failure.
        assert_eq!(std::fs::read_dir(folder.file(MODELS)).unwrap().count(), 1);
        let log = RunLog::read(&folder.file(EVENTS_FILE)).unwrap();
        assert!(!rows(&log)[0].gave_up() && rows(&log)[0].kept_by_test);
        let table = table(&rows(&log), false);
        assert!(table.contains(&format!(", stopped after round {rounds} ")), "{table}");
        assert!(!table.contains('†') && table.contains("looked at the test set"), "{table}");
    }
}

/// A run that was not disturbed has these models: those of a run that ends after the best round.
#[test]
fn what_is_kept_are_the_bits_of_the_best_round() {
    let folder = Folder::new();
    folder.run(&plan_of("ditto", |_| {})).unwrap();
    let ((_, _, best), _) = finish(&folder);
    let short = Folder::new();
    let plan = case("name = \"ditto\"", DENSE).plan_with(|p| p.rounds = best.unwrap());
    short.run(&plan).unwrap();
    let models = |folder: &Folder| {
        let mut models = folder.result().models;
        models.retain(|(file, _)| !file.ends_with(formant_model::folder::BEST));
        models
    };
    assert_eq!(models(&folder), models(&short));
    assert_eq!(models(&folder).len(), 6);
}

#[test]
fn stopped_and_resumed_anywhere_it_ends_in_the_same_round_with_the_same_bits() {
    for schedule in [Schedule::ComputeAndWait, Schedule::Buffered { size: 2 }] {
        let plan = |every: usize, threads: usize| {
            plan_of("scd", |p| {
                timed(p, schedule);
                (p.checkpoint_every, p.threads) = (every, threads);
            })
        };
        let undisturbed = Folder::new();
        undisturbed.run(&plan(3, 2)).unwrap();
        let expected = finish(&undisturbed);
        let rounds = expected.0.0;
        assert!((3..ROUNDS).contains(&rounds), "{schedule:?}: {expected:?}");
        for round in 1..rounds {
            let folder = Folder::new();
            let (every, threads) = if round % 2 == 0 { (1, 1) } else { (100, 8) };
            assert_eq!(folder.run_until(&plan(every, threads), 0, round), Outcome::Interrupted);
            folder.run(&plan(1, 2)).unwrap();
            assert_eq!(finish(&folder), expected, "{schedule:?} after round {round}");
            assert_eq!(folder.result(), undisturbed.result(), "{schedule:?} after round {round}");
        }
    }
}

/// A session that was killed has put models by, or has even put them in their place, that the checkpoint
/// does not know of.
#[test]
fn a_session_that_was_killed_leaves_models_that_do_no_harm() {
    let plan = || plan_of("ditto", |p| p.checkpoint_every = 1);
    let undisturbed = Folder::new();
    undisturbed.run(&plan()).unwrap();
    let ((rounds, ..), _) = finish(&undisturbed);
    for round in 1..rounds {
        let folder = Folder::new();
        folder.run_until(&plan(), 0, round);
        let before = copied(folder.path());
        folder.run(&plan()).unwrap();
        // All but the models goes back to the checkpoint.
        for (name, files) in [("", &["checkpoint.json", "events.jsonl"][..]), ("states", &[])] {
            let (from, to) = (before.path().join(name), folder.file(name));
            for entry in std::fs::read_dir(from).unwrap() {
                let file = entry.unwrap().path();
                let name = file.file_name().unwrap();
                if file.is_file() && (files.is_empty() || files.iter().any(|f| *f == name)) {
                    std::fs::copy(&file, to.join(name)).unwrap();
                }
            }
        }
        folder.run(&plan()).unwrap();
        assert_eq!(folder.result(), undisturbed.result(), "after round {round}");
        assert_eq!(finish(&folder), finish(&undisturbed));
    }
}

/// A copy of a folder.
fn copied(folder: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy(&path, &to);
            } else {
                std::fs::copy(&path, &to).unwrap();
            }
        }
    }
    let copied = tempfile::tempdir().unwrap();
    copy(folder, copied.path());
    copied
}

#[test]
fn without_models_to_keep_it_ends_all_the_same_and_the_first_metric_decides() {
    let folder = Folder::new();
    folder.run(&plan_of("ditto", |p| p.keep = Keep::None)).unwrap();
    let kept = Folder::new();
    kept.run(&plan_of("ditto", |_| {})).unwrap();
    assert_eq!(finish(&folder).0, finish(&kept).0);
    assert!(folder.result().models.is_empty() && finish(&folder).1.is_empty());
    // Patience that outlasts the run: all rounds, and the models of the best.
    let folder = Folder::new();
    let plan = plan_of("fedavg", |p| {
        p.evaluation.patience = Some(100);
        p.evaluation.metrics = Measures::new(vec![Metric::CalibrationError]).unwrap();
        p.rounds = 6;
    });
    folder.run(&plan).unwrap();
    let ((rounds, stopped, best), kept) = finish(&folder);
    let error = |e: &Evaluated| e.gm.as_ref().unwrap().further[&Metric::CalibrationError];
    let evaluations = folder.result().evaluations;
    let least = evaluations.iter().min_by(|a, b| error(a).total_cmp(&error(b))).unwrap();
    assert_eq!((rounds, stopped, best, kept), (6, None, Some(least.round), vec![least.round]));
}
