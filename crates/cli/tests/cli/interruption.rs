//! Runs that are killed or interrupted in the middle, and resumed.
#![cfg(unix)]

use crate::terminal::{Terminal, events, fate};
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

/// Long enough to be caught in the middle.
const LONG: &str = r#"
name = "long"
rounds = 24

[data]
samples = 320
clients = 8
min_samples = 20

[network]
name = "lenet5"

[train]
epochs = 1
personal_epochs = 1

[evaluation]
every = 8

[runtime]
threads = 2
checkpoint_every = 4

[[method]]
name = "fedavg"

[[method]]
name = "scd"
form = "complex"
lambda_g = 0.1
lambda_p = 0.1
"#;

/// What an undisturbed run comes to.
static UNDISTURBED: LazyLock<(Vec<String>, Vec<Value>)> = LazyLock::new(|| {
    let terminal = Terminal::new();
    terminal.write("long.toml", LONG);
    terminal.succeed(&["run", "long.toml", "--quiet", "--out", "run"]);
    fate(&terminal.path("run"))
});

fn start(terminal: &Terminal, args: &[&str]) -> Child {
    terminal.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Looks at the run folder again and again until it shows something.
fn wait_until(child: &mut Child, mut shown: impl FnMut() -> bool) {
    while !shown() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it could be caught");
        std::thread::yield_now();
    }
}

/// Rounds that the log says are finished.
fn finished_rounds(run_dir: &std::path::Path) -> usize {
    events(run_dir).iter().filter(|e| e["event"] == "round_finished").count()
}

/// Index of the method under way and its rounds so far, as the last checkpoint has them.
fn checkpoint(run_dir: &std::path::Path) -> (u64, u64) {
    let text = std::fs::read(run_dir.join("checkpoint.json")).unwrap_or_default();
    // The file is replaced in one go: if it is there, it is whole.
    let checkpoint: Value = serde_json::from_slice(&text).unwrap_or_default();
    let number = |key: &str| checkpoint[key].as_u64().unwrap_or(0);
    (number("method"), number("round"))
}

#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    killed_and_resumed("1GiB");
}

#[test]
fn a_run_killed_while_states_come_from_disk_and_go_there_resumes_to_the_same_bits() {
    // Room for one state of eight.
    killed_and_resumed("200KB");
}

fn killed_and_resumed(memory: &str) {
    let terminal = Terminal::new();
    terminal.write("long.toml", LONG);
    let run_dir = terminal.path("run");
    let memory = format!("runtime.memory={memory}");
    let run = ["run", "long.toml", "--quiet", "--out", "run", "--set", &memory];
    let mut child = start(&terminal, &run);
    // In the second method, behind a checkpoint and some rounds further.
    wait_until(&mut child, || {
        let (method, round) = checkpoint(&run_dir);
        (method, round) >= (1, 4) && finished_rounds(&run_dir) > 24 + round as usize
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (method, round) = checkpoint(&run_dir);
    assert!(method == 1 && (4..24).contains(&round), "caught at {method}, {round}");
    let answer = terminal.succeed(&["run", "--resume", "run", "--threads", "1"]);
    assert!(answer.stdout.contains("| SCD"), "{}", answer.stdout);
    assert_eq!(fate(&run_dir), *UNDISTURBED);
}

/// Asks a process to stop as a terminal does.
fn interrupt(child: &Child) {
    signal(child, "INT");
}

fn signal(child: &Child, name: &str) {
    let kill = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_says_how_to_go_on_and_does() {
    let terminal = Terminal::new();
    terminal.write("long.toml", LONG);
    let run_dir = terminal.path("my run");
    let mut child = start(&terminal, &["run", "long.toml", "--out", "my run"]);
    wait_until(&mut child, || finished_rounds(&run_dir) >= 6);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("stopping with the batches under way"), "{told}");
    let command = told.lines().last().unwrap().strip_prefix("interrupted; go on with: ").unwrap();
    assert_eq!(command, "formant run --resume 'my run'");
    // Rounds were done since the last checkpoint, and the one under way is dropped: they come again.
    let (method, round) = checkpoint(&run_dir);
    let lost = finished_rounds(&run_dir) - (24 * method + round) as usize;
    assert!(lost < 4, "{lost} rounds behind a checkpoint of every fourth");
    terminal.succeed(&["run", "--resume", "my run", "--quiet"]);
    assert_eq!(fate(&run_dir), *UNDISTURBED);
}

#[test]
fn a_second_process_in_the_same_folder_is_refused() {
    let terminal = Terminal::new();
    terminal.write("long.toml", LONG);
    let run_dir = terminal.path("run");
    let mut child = start(&terminal, &["run", "long.toml", "--quiet", "--out", "run"]);
    wait_until(&mut child, || finished_rounds(&run_dir) >= 1);
    let answer = terminal.formant(&["run", "--resume", "run", "--quiet"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.code, Some(1));
    assert_eq!(
        answer.stderr,
        "error: run is in use by another formant process\n hint: wait for it to finish, or choose another folder with --out\n"
    );
}

#[test]
fn an_interrupted_sweep_keeps_what_is_finished() {
    let terminal = Terminal::new();
    terminal.write(
        "long.toml",
        &LONG.replace("min_samples = 20", "min_samples = 20\nvalidation_fraction = 0.1"),
    );
    // The first combination is done at once, the second lasts.
    let grid = ["--grid", "rounds=1,60", "--quiet", "--out", "sweep"];
    let args = [&["sweep", "long.toml", "--method", "fedavg"], &grid[..]].concat();
    let mut child = start(&terminal, &args);
    let results = terminal.path("sweep/results.jsonl");
    wait_until(&mut child, || {
        std::fs::read_to_string(&results).is_ok_and(|text| text.ends_with('\n'))
    });
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.ends_with("interrupted; the same command goes on where it stopped\n"), "{told}");
    assert_eq!(std::fs::read_to_string(&results).unwrap().lines().count(), 1);
    terminal.succeed(&args);
    assert_eq!(std::fs::read_to_string(&results).unwrap().lines().count(), 2);
}

#[test]
fn a_round_that_would_last_for_hours_ends_at_a_batch() {
    let terminal = Terminal::new();
    terminal.write("long.toml", &LONG.replace("\nepochs = 1\n", "\nepochs = 10000\n"));
    let run_dir = terminal.path("run");
    let mut child = start(&terminal, &["run", "long.toml", "--out", "run", "--quiet"]);
    wait_until(&mut child, || run_dir.join("checkpoint.json").exists());
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!((finished_rounds(&run_dir), checkpoint(&run_dir)), (0, (0, 0)));
}

#[test]
fn a_finished_run_is_extended_by_rounds_and_methods() {
    let terminal = Terminal::new();
    let long = LONG.replace("rounds = 24", "rounds = 9");
    terminal.write("long.toml", &long);
    let only = ["--method", "fedavg", "--quiet", "--out", "run"];
    terminal.succeed(&[&["run", "long.toml", "--set", "rounds=4"], &only[..]].concat());
    let refused = terminal.formant(&["run", "--resume", "run", "--set", "seed=7"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("hint: use --set rounds=N"), "{}", refused.stderr);
    let fewer = terminal.formant(&["run", "--resume", "run", "--set", "rounds=2"]);
    assert!(fewer.stderr.contains("and 2 are fewer"), "{}", fewer.stderr);
    let kept = std::fs::read_to_string(terminal.path("run/experiment.toml")).unwrap();
    assert!(kept.contains("rounds = 4"), "what is refused changes nothing: {kept}");
    // Killed in the middle, it goes on without being told again.
    let more = ["run", "--resume", "run", "--set", "rounds=9", "--add-method", "ditto"];
    let mut child = start(&terminal, &[&more[..], &["--quiet"]].concat());
    let run_dir = terminal.path("run");
    wait_until(&mut child, || finished_rounds(&run_dir) >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    let answer = terminal.succeed(&["run", "--resume", "run", "--quiet"]);
    assert!(answer.stdout.contains("| FedAvg") && answer.stdout.contains("| Ditto"));
    terminal.write("both.toml", &format!("{long}\n[[method]]\nname = \"ditto\"\n"));
    let both = ["run", "both.toml", "--method", "fedavg", "--method", "ditto"];
    terminal.succeed(&[&both[..], &["--quiet", "--out", "whole"]].concat());
    let last = |folder: &str| {
        let (fingerprints, _) = fate(&terminal.path(folder));
        fingerprints[fingerprints.len() - 2..].to_vec()
    };
    assert_eq!(last("run"), last("whole"));
}

#[test]
fn an_interrupted_series_goes_on_with_what_is_not_finished() {
    let terminal = Terminal::new();
    terminal.write("long.toml", LONG);
    let run = ["run", "long.toml", "--quiet", "--seeds", "3", "--out", "series"];
    let mut child = start(&terminal, &run);
    let second = terminal.path("series/seed-2");
    wait_until(&mut child, || finished_rounds(&second) > 4);
    let listed = terminal.succeed(&["runs", "."]).stdout;
    assert!(listed.contains("running: seed 2 of 3: round "), "{listed}");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("1 of 3 seeds are finished; go on with: formant run --resume series"));
    let listed = terminal.succeed(&["runs", "."]).stdout;
    assert!(listed.contains("interrupted: seed 2 of 3: round "), "{listed}");
    let first = std::fs::read(terminal.path("series/seed-1/events.jsonl")).unwrap();
    let partial = terminal.succeed(&["report", "series"]).stdout;
    assert!(partial.contains("1 of 3 seeds are finished"), "{partial}");
    terminal.succeed(&["run", "--resume", "series", "--quiet"]);
    assert_eq!(std::fs::read(terminal.path("series/seed-1/events.jsonl")).unwrap(), first);
    assert_eq!(fate(&terminal.path("series/seed-1")).0, UNDISTURBED.0, "as a run of its own");
    let listed = terminal.succeed(&["runs", "."]).stdout;
    assert!(listed.contains("finished, 3 seeds"), "{listed}");
}
