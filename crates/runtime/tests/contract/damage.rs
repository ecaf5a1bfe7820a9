//! Files that were cut, changed, lost or taken by another process: the error names file and remedy.

use crate::digits::resealed;
use crate::standard::{case, plan_of};
use formant_runtime::event::Event;
use formant_runtime::{CHECKPOINT_FILE, EVENTS_FILE, Observer, RunPlan, sim};
use formant_testing::{DENSE, Folder};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

fn plan() -> RunPlan {
    case("name = \"ditto\"", DENSE).plan()
}

/// A run that was interrupted after its second round.
fn interrupted() -> Folder {
    let folder = Folder::new();
    folder.run_until(&plan(), 0, 2);
    folder
}

/// What going on says; nothing may have been changed by then.
fn refusal(folder: &Folder, plan: &RunPlan) -> String {
    let log = fs::read(folder.file(EVENTS_FILE)).ok();
    let error = folder.run(plan).unwrap_err().to_string();
    assert_eq!(fs::read(folder.file(EVENTS_FILE)).ok(), log, "the log was touched: {error}");
    let shown = error.replace(&folder.path().display().to_string(), "RUN");
    assert!(shown.contains("\nhint: "), "{shown}");
    shown
}

#[test]
fn a_damaged_checkpoint_is_named() {
    for (content, expected) in [
        ("{\"format\":1,", "RUN/checkpoint.json is damaged: EOF while parsing"),
        ("", "RUN/checkpoint.json is damaged: EOF while parsing"),
        ("{\"method\":0}", "RUN/checkpoint.json is damaged: missing field `format`"),
    ] {
        let folder = interrupted();
        fs::write(folder.file(CHECKPOINT_FILE), content).unwrap();
        let error = refusal(&folder, &plan());
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("start the run again in a new folder"), "{error}");
    }
}

#[test]
fn a_checkpoint_of_a_later_format_or_without_its_states_is_refused() {
    for (from, to, expected) in [
        ("\"format\": 5", "\"format\": 9", "format 9 where this version reads 5"),
        ("\"round\": 2", "\"round\": 0", "does not name a state for round 0"),
        ("\"round\": 2", "\"round\": 70", "does not name a state for round 70"),
    ] {
        let folder = interrupted();
        let text = fs::read_to_string(folder.file(CHECKPOINT_FILE)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(folder.file(CHECKPOINT_FILE), resealed(&text.replace(from, to))).unwrap();
        let error = refusal(&folder, &plan());
        assert!(
            error.contains("checkpoint.json is damaged") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn a_lost_checkpoint_does_not_start_over_silently() {
    let folder = interrupted();
    fs::remove_file(folder.file(CHECKPOINT_FILE)).unwrap();
    let error = refusal(&folder, &plan());
    assert!(error.starts_with("RUN/checkpoint.json is damaged: it is missing"), "{error}");
}

fn state_file(folder: &Folder, kind: &str) -> PathBuf {
    let names = fs::read_dir(folder.file("states")).unwrap().map(|e| e.unwrap().path());
    names.into_iter().find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(kind)).unwrap()
}

#[test]
fn a_damaged_or_missing_state_is_named() {
    for kind in ["server-", "values"] {
        let folder = interrupted();
        let path = state_file(&folder, kind);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let error = folder.run(&plan()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("is damaged"), "{error}");
        assert!(error.contains("start the run again in a new folder"), "{error}");
        fs::write(&path, &bytes[..middle]).unwrap();
        let error = folder.run(&plan()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("is damaged"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = folder.run(&plan()).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains(name), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
    }
}

/// Takes the folder of the states away when a round is over.
struct Thief<'f>(&'f Folder);

impl Observer for Thief<'_> {
    fn event(&self, event: &Event) {
        if matches!(event, Event::RoundFinished { .. }) {
            fs::rename(self.0.file("states"), self.0.file("taken")).unwrap();
        }
    }
}

#[test]
fn what_fails_in_the_background_is_the_error_of_the_run() {
    // With no memory to speak of, every state is written and read by the background threads.
    for threads in [1, 4] {
        let folder = Folder::new();
        let mut plan = plan();
        plan.memory = 1;
        plan.threads = threads;
        let outcome = sim::run(&plan, folder.path(), &Thief(&folder), &AtomicBool::new(false));
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("/states/") && error.contains(".bin"), "{error}");
        assert!(error.starts_with("cannot ") && error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn a_shortened_or_foreign_log_is_refused() {
    let folder = interrupted();
    let whole = fs::read(folder.file(EVENTS_FILE)).unwrap();
    fs::write(folder.file(EVENTS_FILE), &whole[..whole.len() - 10]).unwrap();
    let error = refusal(&folder, &plan());
    assert!(error.starts_with("RUN/events.jsonl is damaged:"), "{error}");
    assert!(error.contains("but the checkpoint was written after"), "{error}");
    fs::write(folder.file(EVENTS_FILE), [b"{}\n".as_slice(), &whole].concat()).unwrap();
    let error = refusal(&folder, &plan());
    assert!(error.contains("its first line does not open a run"), "{error}");
    fs::remove_file(folder.file(EVENTS_FILE)).unwrap();
    let error = refusal(&folder, &plan());
    assert!(error.starts_with("RUN/events.jsonl is damaged: it is missing"), "{error}");
    // With the log restored, nothing is lost.
    fs::write(folder.file(EVENTS_FILE), &whole).unwrap();
    folder.run(&plan()).unwrap();
}

#[test]
fn a_second_process_is_kept_out() {
    let folder = interrupted();
    let held = formant_runtime::files::lock(folder.path()).unwrap();
    let error = refusal(&folder, &plan());
    assert!(error.starts_with("RUN is in use by another formant process"), "{error}");
    drop(held);
    folder.run(&plan()).unwrap();
}

#[test]
fn a_run_goes_on_only_as_it_began() {
    let folder = interrupted();
    for (method, expected) in [
        ("name = \"ditto\"\nlambda = 2", "`method.0.lambda` was 1.0 when it began and is 2.0 now"),
        ("name = \"fedavg\"", "`method.0.name` was \"ditto\" when it began and is \"fedavg\" now"),
        (
            "name = \"ditto\"\nlabel = \"mine\"",
            "`method.0.label` was \"ditto\" when it began and is \"mine\" now",
        ),
    ] {
        let error = refusal(&folder, &plan_of(&[method], DENSE));
        assert!(error.starts_with("the run in RUN cannot go on: "), "{error}");
        assert!(error.contains(expected) && error.contains("undo the change"), "{error}");
    }
    let two = plan_of(&["name = \"ditto\"", "name = \"local\""], DENSE);
    assert!(refusal(&folder, &two).contains("`method` was a list of 1"));
    let mut other_version = plan();
    other_version.header.formant = "9.9.9".into();
    assert!(refusal(&folder, &other_version).contains("and this is 9.9.9"));
    let mut other_format = plan();
    other_format.header.format += 1;
    let refused = refusal(&folder, &other_format);
    assert!(refused.contains("its log has format") && refused.contains("the build that began it"));
    let mut other_data = plan();
    other_data.header.clients[1].as_mut().unwrap().train += 1;
    assert!(refusal(&folder, &other_data).contains("`clients.1.train` was"));
    folder.run(&plan()).unwrap();
}

#[test]
fn a_complete_run_has_nothing_to_resume() {
    let folder = Folder::new();
    folder.run(&plan()).unwrap();
    let error = refusal(&folder, &plan());
    assert_eq!(
        error,
        "the run in RUN is complete: there is nothing to resume\nhint: `formant report RUN` prints its table; --set rounds=N and --add-method NAME extend it"
    );
}
