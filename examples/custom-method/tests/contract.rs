//! What every method owes, and what this one owes besides: its reductions.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use custom_method::zoo;
use formant_testing::{ByHand, DENSE, WITH_BUFFERS, plan};
use std::path::Path;
use std::process::{Command, Output};

// One `#[test]` for each contract: threads, spilling, resumption, encodings, schedules, …
formant_testing::contract_suite!(zoo(), "apfl");

/// With `α = 0` a client's mixture is the generic model, which is FedAvg's.
#[test]
fn without_a_part_of_its_own_it_is_fedavg() {
    for network in [DENSE, WITH_BUFFERS] {
        let none = "name = \"apfl\"\nalpha = 0\nallow_degenerate = true";
        let plan = plan(&zoo(), &[none, "name = \"fedavg\"", "name = \"apfl\""], network);
        let [mut none, mut fedavg, mut half] = [0, 1, 2].map(|method| ByHand::of(&plan, method));
        for _ in 0..3 {
            none.round();
            fedavg.round();
            half.round();
            assert_eq!(none.gm(), fedavg.gm());
            assert_eq!(half.gm(), fedavg.gm(), "v never reaches the server");
            for client in 0..5 {
                assert_eq!(none.pm(client), none.gm());
                assert_ne!(half.pm(client), half.gm());
            }
        }
    }
}

/// With `α = 1` a client's own part is trained alone, up to the rounding of `v + (v̄ − v)`.
#[test]
fn without_the_generic_model_it_is_local() {
    let alone = "name = \"apfl\"\nalpha = 1\nallow_degenerate = true";
    let plan = plan(&zoo(), &[alone, "name = \"local\""], DENSE);
    let [mut alone, mut local] = [0, 1].map(|method| ByHand::of(&plan, method));
    for _ in 0..3 {
        alone.round();
        local.round();
        for client in 0..5 {
            let (a, b) = (alone.pm(client), local.pm(client));
            let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
            assert!(a.parameters.iter().zip(&b.parameters).all(close), "client {client}");
        }
    }
}

fn formant(folder: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_custom-method");
    Command::new(program).args(args).current_dir(folder).output().unwrap()
}

/// The whole command line knows the method: help, errors, a run, its report and its models.
#[test]
fn the_command_line_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = formant(folder.path(), args);
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), said, String::from_utf8(output.stderr).unwrap())
    };
    let (_, listed, _) = run(&["methods"]);
    assert!(listed.contains("apfl       GM PM"), "{listed}");
    let (_, shown, _) = run(&["methods", "show", "apfl"]);
    assert!(shown.contains("arXiv:2003.13461") && shown.contains("= 0.5\n"), "{shown}");
    run(&["init"]);
    let experiment = std::fs::read_to_string(folder.path().join("experiment.toml")).unwrap();
    assert!(experiment.contains("\n[[method]]\nname = \"apfl\"\n"), "{experiment}");
    let (succeeded, _, error) = run(&["run", "--method", "apfel"]);
    assert!(!succeeded && error.contains("did you mean `apfl`?"), "{error}");
    let (_, _, error) = run(&["run", "--method", "apfl", "--set", "method.alpha=0"]);
    assert!(error.contains("`alpha = 0` turns APFL into FedAvg"), "{error}");
    let small = ["--set", "rounds=2", "--set", "data.samples=600", "--set", "data.clients=4"];
    let args = [&["run", "--method", "apfl", "--out", "out", "--quiet"], &small[..]].concat();
    let (succeeded, table, error) = run(&args);
    assert!(succeeded && table.contains("| APFL "), "{table}{error}");
    assert!(folder.path().join("out/models/apfl/personal/3.safetensors").is_file());
    assert!(folder.path().join("out/report.html").is_file());
}

/// A run of it that is interrupted goes on by the same program, and ends with the same bits.
#[cfg(unix)]
#[test]
fn it_is_interrupted_and_resumed_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "--method", "apfl", "--json", "--quiet", "--set", "rounds=60"];
    let small = ["--set", "data.samples=1000", "--set", "data.clients=4", "--out"];
    let args = |out: &'static str| [&run[..], &small[..], &[out]].concat();
    let whole = formant(folder.path(), &args("whole"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_custom-method"))
        .args(args("cut"))
        .current_dir(folder.path())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let log = folder.path().join("cut/events.jsonl");
    let begun = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("round_finished"));
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let code = child.wait().unwrap().code();
    assert_eq!(code, Some(130), "interrupted before its last round");
    let resumed = formant(folder.path(), &["run", "--resume", "cut", "--json", "--quiet"]);
    let fingerprint = |output: &Output| {
        let said = String::from_utf8(output.stdout.clone()).unwrap();
        let at = said.find("\"apfl\": \"").unwrap_or_else(|| panic!("{output:?}"));
        said[at..].split('"').nth(3).unwrap().to_owned()
    };
    assert_eq!(fingerprint(&resumed), fingerprint(&whole));
}
