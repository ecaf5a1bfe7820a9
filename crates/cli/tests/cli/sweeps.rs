//! `formant sweep`.

use crate::terminal::Terminal;
use serde_json::Value;

const GRID: [&str; 10] = [
    "sweep",
    "tiny.toml",
    "--method",
    "ditto",
    "--grid",
    "method.lambda=0.1,0.5",
    "--grid",
    "train.learning_rate=0.01,0.1",
    "--out",
    "sweep",
];

#[test]
fn a_grid_is_ranked_and_its_results_are_kept() {
    let terminal = Terminal::with_tiny();
    let first = terminal.succeed(&[&GRID[..], &["--seeds", "1,2", "--quiet"]].concat());
    assert_eq!(first.stderr, "");
    let mut lines = first.stdout.lines();
    assert_eq!(lines.next().unwrap(), "| score |    GM |    PM | method | setting |");
    let settings: Vec<&str> = lines
        .skip(1)
        .map(|line| line.trim_end_matches(" |").rsplit(" | ").next().unwrap())
        .collect();
    assert_eq!(settings.len(), 4);
    assert!(settings.contains(&"method.lambda=0.5 train.learning_rate=0.01"), "{settings:?}");
    // Two seeds of four combinations, each on a line of its own.
    let results = std::fs::read_to_string(terminal.path("sweep/results.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 8);
    // No test sample was seen.
    let log = std::fs::read_to_string(terminal.path("sweep/run/events.jsonl")).unwrap();
    let header: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(header["split"], "validation");

    // A second time there is nothing to do: not even the folder of the last run is touched.
    std::fs::remove_dir_all(terminal.path("sweep/run")).unwrap();
    let second = terminal.succeed(&[&GRID[..], &["--seeds", "1,2", "--threads", "1"]].concat());
    assert_eq!(second.stdout, first.stdout);
    assert!(!terminal.path("sweep/run").exists());

    // A larger grid runs only what is new; a torn line is run again.
    let torn = &results[..results.len() - 20];
    std::fs::write(terminal.path("sweep/results.jsonl"), torn.to_owned() + "\n").unwrap();
    let third = terminal.succeed(&[&GRID[..], &["--seeds", "1,2,3", "--json", "--quiet"]].concat());
    let ranking: Vec<Value> = serde_json::from_str(&third.stdout).unwrap();
    assert_eq!(ranking.len(), 4);
    assert!(ranking.iter().all(|row| row["seeds"] == 3 && row["failed"] == 0));
    let scores: Vec<f64> = ranking.iter().map(|row| row["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    let results = std::fs::read_to_string(terminal.path("sweep/results.jsonl")).unwrap();
    let whole = results.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok());
    assert_eq!((whole.count(), results.lines().count()), (12, 13));
}

#[test]
fn a_setting_that_diverges_comes_last() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&[
        "sweep",
        "tiny.toml",
        "--method",
        "fedavg",
        "--grid",
        "train.learning_rate=1000,0.01",
        "--set",
        "train.weight_decay=1",
        "--set",
        "train.epochs=20",
        "--out",
        "sweep",
        "--quiet",
    ]);
    // At a rate of 1000 the decay alone multiplies the weights by −999 a step.
    let last = answer.stdout.lines().last().unwrap();
    assert!(
        last.contains("learning_rate=1000") && last.contains("seeds failed"),
        "{}",
        answer.stdout
    );
}

#[test]
fn a_sweep_touches_nothing_that_is_not_its_own() {
    let terminal = Terminal::with_tiny();
    std::fs::create_dir_all(terminal.path("sweep/run")).unwrap();
    terminal.write("sweep/run/thesis.txt", "precious");
    let answer = terminal.formant(&[&GRID[..], &["--quiet"]].concat());
    assert_eq!(answer.code, Some(1));
    assert_eq!(
        answer.stderr,
        "error: sweep/run is in the way: it is not a run of a sweep\n hint: choose another folder with --out\n"
    );
    assert!(terminal.path("sweep/run/thesis.txt").exists());
}
