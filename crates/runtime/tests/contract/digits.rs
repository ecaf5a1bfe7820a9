//! One digit is enough to make another model or another table of a run: every one is guarded.

use crate::standard::plan_of;
use formant_report::RunLog;
use formant_runtime::seal::{Check, seal};
use formant_runtime::{CHECKPOINT_FILE, Checkpoint, EVENTS_FILE, RunPlan};
use formant_testing::{DENSE, Folder, run};
use serde_json::{Value, json};
use std::fs;

fn plan() -> RunPlan {
    plan_of(&["name = \"ditto\"", "name = \"fedavg\""], DENSE)
}

/// A run that was interrupted in its second method, behind a checkpoint.
fn interrupted() -> Folder {
    let folder = Folder::new();
    folder.run_until(&plan(), 1, 2);
    folder
}

/// A manifest that somebody has changed and sealed again.
pub(crate) fn resealed(text: &str) -> Vec<u8> {
    let end = text.rfind(",\"check\":").unwrap();
    let mut bytes = format!("{}}}", &text[..end]).into_bytes();
    seal(&mut bytes, Check::default());
    bytes
}

/// The places of the digits in a file, and what it is with one of them changed.
fn changes(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let digits = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit());
    digits.map(|at| {
        let mut changed = bytes.to_vec();
        changed[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
        (at, changed)
    })
}

/// What resuming says; it must be an error, with its remedy.
fn refusal(folder: &Folder, plan: &RunPlan) -> String {
    let error = folder.run(plan).unwrap_err().to_string();
    assert!(error.contains("\nhint: "), "{error}");
    error
}

#[test]
fn a_changed_digit_of_a_checkpoint_is_refused() {
    let (folder, plan) = (interrupted(), plan());
    let path = folder.file(CHECKPOINT_FILE);
    let (whole, log) = (fs::read(&path).unwrap(), fs::read(folder.file(EVENTS_FILE)).unwrap());
    let mut count = 0;
    for (at, changed) in changes(&whole) {
        fs::write(&path, &changed).unwrap();
        assert!(Checkpoint::read(folder.path()).is_err(), "digit at {at}");
        // The whole way for some.
        if count % 23 == 0 {
            let error = refusal(&folder, &plan);
            assert!(error.contains("checkpoint.json is damaged: "), "{error}");
        }
        count += 1;
    }
    assert!(count > 200, "{count} digits");
    assert_eq!(fs::read(folder.file(EVENTS_FILE)).unwrap(), log, "nothing was touched");
    // As it was written, it leads to the result of a run that nobody disturbed.
    fs::write(&path, &whole).unwrap();
    folder.run(&plan).unwrap();
    assert_eq!(folder.result(), run(&plan));
}

#[test]
fn a_changed_digit_of_a_log_is_refused() {
    let (folder, plan) = (interrupted(), plan());
    let path = folder.file(EVENTS_FILE);
    let whole = fs::read(&path).unwrap();
    let mut count = 0;
    for (at, changed) in changes(&whole) {
        let read = RunLog::from_reader(&path, &changed[..]);
        assert!(read.is_err(), "digit at {at}");
        if count % 97 == 0 {
            fs::write(&path, &changed).unwrap();
            let error = refusal(&folder, &plan);
            assert!(error.contains("events.jsonl is damaged: "), "{error}");
        }
        count += 1;
    }
    assert!(count > 2_000, "{count} digits");
    fs::write(&path, &whole).unwrap();
    folder.run(&plan).unwrap();
    assert_eq!(folder.result(), run(&plan));
    RunLog::read(&path).unwrap();
}

#[test]
fn lines_that_are_gone_moved_or_repeated_are_refused() {
    let (folder, plan) = (interrupted(), plan());
    let path = folder.file(EVENTS_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for at in [1, lines.len() / 2, lines.len() - 2] {
        let mut gone = lines.clone();
        gone.remove(at);
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at]);
        for changed in [gone, swapped, repeated] {
            fs::write(&path, changed.join("\n") + "\n").unwrap();
            let error = refusal(&folder, &plan);
            assert!(error.contains("events.jsonl is damaged: "), "{error}");
        }
    }
    // Without its last line, every line that is there is right.
    fs::write(&path, lines[..lines.len() - 1].join("\n") + "\n").unwrap();
    let error = refusal(&folder, &plan);
    assert!(error.contains("but the checkpoint was written after"), "{error}");
}

#[test]
fn a_checkpoint_belongs_to_one_log() {
    let (folder, plan) = (interrupted(), plan());
    let path = folder.file(CHECKPOINT_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let checkpoint: Value = serde_json::from_str(&text).unwrap();
    let own = checkpoint["log"]["check"].as_str().unwrap();
    fs::write(&path, resealed(&text.replace(own, "0123456789abcdef"))).unwrap();
    let error = refusal(&folder, &plan);
    assert!(error.contains("its lines are those of another run"), "{error}");
}

/// A value inside a manifest.
fn set(manifest: &mut Value, pointer: &str, value: Value) {
    *manifest.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
}

#[test]
fn a_checkpoint_with_a_right_check_and_wrong_contents_is_refused() {
    let plan = plan();
    let job = json!([{ "round": 1, "phase": "shared", "batches": null, "clock": null }]);
    for (pointer, value) in [
        ("/method", json!(2)),
        ("/method", json!(u64::MAX)),
        ("/round", json!(3_000)),
        ("/clients", json!([])),
        ("/server", json!(null)),
        ("/server/file", json!("server-0.bin")),
        ("/server/offset", json!(u64::MAX)),
        ("/server/bytes", json!(u64::MAX)),
        ("/situation", json!(null)),
        ("/situation/sessions", json!([])),
        ("/situation/busy", json!([])),
        ("/situation/links", json!([])),
        ("/situation/jobs", json!({ "77": job })),
        ("/situation/computed", json!({ "77": 5 })),
        ("/situation/failures", json!({ "77": "it fell asleep" })),
        ("/situation/on_their_way", json!({ "77": {} })),
        ("/situation/server/asked", json!([0, 77])),
        ("/situation/server/accepted", json!([[77, 2]])),
        ("/situation/server/members", json!([])),
        ("/situation/server/round", json!(u64::MAX)),
        ("/situation/server/protocol/clients", json!(6)),
        ("/kept/sent", json!({ "77": { "file": "x", "offset": 0, "bytes": 0, "hash": 0 } })),
        ("/log/bytes", json!(1)),
    ] {
        let folder = interrupted();
        let path = folder.file(CHECKPOINT_FILE);
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        set(&mut manifest, pointer, value);
        fs::write(&path, resealed(&manifest.to_string())).unwrap();
        refusal(&folder, &plan);
    }
}
