//! `formant adapt`, and runs with clients that join later.

use crate::refusals::refusals;
use crate::terminal::{Terminal, events, fate};
use serde_json::Value;

const NEWCOMERS: [&str; 4] = ["--set", "data.new_clients=1", "--set", "evaluation.adapt_epochs=2"];

/// A terminal with a finished run in `here`, one of whose four clients joins later.
fn with_newcomer() -> (Terminal, String) {
    let terminal = Terminal::with_tiny();
    let args = [&["run", "tiny.toml", "--out", "here"][..], &NEWCOMERS].concat();
    let said = terminal.succeed(&args).stdout;
    (terminal, said)
}

fn json(terminal: &Terminal, args: &[&str]) -> Value {
    let answer = terminal.succeed(&[&["adapt"], args, &["--json"]].concat());
    serde_json::from_str(&answer.stdout).unwrap()
}

#[test]
fn newcomers_stand_under_the_table_and_come_again() {
    let (terminal, said) = with_newcomer();
    for row in ["| Ditto", "fine-tuning", "own rule", "| newcomers' accuracy "] {
        assert!(said.contains(row), "{said}");
    }
    assert!(said.contains("In parentheses: without a generic model"), "{said}");
    let page = std::fs::read_to_string(terminal.path("here/report.html")).unwrap();
    assert!(page.contains(">Newcomers</h2>") && page.contains(">epoch</text>"));
    let told = events(&terminal.path("here"));
    let mut told = told.iter().filter(|event| event["event"] == "adapted");
    // The same epochs again, and one more.
    let before = terminal.listing();
    let again = json(&terminal, &["here", "--epochs", "3", "--threads", "1"]);
    assert_eq!(terminal.listing(), before, "the run folder stays as it is");
    assert_eq!(again["epochs"], 3);
    for method in again["methods"].as_array().unwrap() {
        for row in method["newcomers"].as_array().unwrap() {
            let told = told.next().unwrap();
            assert_eq!((&told["method"], &told["approach"]), (&row["label"], &row["approach"]));
            let scores = told["epochs"].as_array().unwrap();
            assert_eq!((scores.len(), row["epochs"].as_array().unwrap().len()), (3, 4));
            for (epoch, score) in scores.iter().enumerate() {
                assert_eq!(score, &row["epochs"][epoch], "{row}");
            }
        }
    }
    assert!(told.next().is_none());
    // `report --json` has them too.
    let report = terminal.succeed(&["report", "here", "--json"]).stdout;
    let rows: Value = serde_json::from_str(&report).unwrap();
    let rows = &rows["rows"];
    assert_eq!(rows[2]["newcomers"].as_array().unwrap().len(), 2, "{rows}");
    assert_eq!(rows[1]["newcomers"][0]["newcomers"], 1);
    let shown = terminal.succeed(&["data", "show", "here/experiment.toml"]).stdout;
    assert!(shown.contains("newcomers: client 3 joins when training is over"), "{shown}");
}

#[test]
fn a_newcomer_brings_data_and_takes_a_model_away() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--out", "here"]);
    terminal.succeed(&["data", "export", "tiny.toml", "--out", "shares", "--seed", "9"]);
    let args = ["here", "--method", "DITTO", "--data", "shares/client-000.safetensors"];
    let more = ["--save", "mine.safetensors", "--svg", "mine.svg", "--epochs", "2"];
    let found = json(&terminal, &[&args[..], &more].concat());
    let rows = found["methods"][0]["newcomers"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{found}");
    let svg = std::fs::read_to_string(terminal.path("mine.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns") && svg.contains("own rule") && svg.contains("Ditto"));
    let card = terminal.succeed(&["evaluate", "mine.safetensors", "--data", args[4], "--json"]);
    let card: Value = serde_json::from_str(&card.stdout).unwrap();
    assert_eq!(card["metrics"]["accuracy"], rows[1]["epochs"][2]["weighted"], "{card}\n{found}");
    // Nothing is replaced unasked.
    let refused = terminal.formant(&[&["adapt"], &args[..], &more].concat());
    assert!(refused.stderr.contains("exists already"), "{refused:?}");
    let (before, _) = fate(&terminal.path("here"));
    assert_eq!(before.len(), 3);
}

#[test]
fn wrong_uses() {
    let (terminal, _) = with_newcomer();
    terminal.succeed(&["run", "tiny.toml", "--out", "plain", "--method", "fedavg"]);
    terminal.succeed(&[
        "run",
        "tiny.toml",
        "--out",
        "kept",
        "--method",
        "fedavg",
        "--set",
        "runtime.keep=none",
    ]);
    std::fs::create_dir(terminal.path("empty")).unwrap();
    std::fs::create_dir_all(terminal.path("half")).unwrap();
    let experiment = terminal.path("plain/experiment.toml");
    std::fs::copy(experiment, terminal.path("half/experiment.toml")).unwrap();
    let said = refusals(
        &terminal,
        &[
            &["adapt", "nowhere"],
            &["adapt", "empty"],
            &["adapt", "half"],
            &["adapt", "plain"],
            &["adapt", "plain", "--data", "nothing"],
            &["adapt", "kept", "--data", "tiny.toml"],
            &["adapt", "here", "--method", "dito"],
            &["adapt", "here", "--save", "x.safetensors"],
            &["adapt", "here", "--data", "tiny.toml", "--save", "x.safetensors"],
            &["adapt", "here", "--epochs", "-1"],
            &["run", "tiny.toml", "--set", "data.new_clients=4"],
            &["run", "tiny.toml", "--set", "evaluation.adapt_epochs=4"],
        ],
    );
    for expected in [
        "nowhere is not a run folder",
        "the run in half has not ended",
        "the run in plain had no new clients",
        "nothing is not there",
        "the run has not kept it",
        "did you mean `ditto`?",
        "one model can be saved",
        "`data.new_clients = 4` leaves nobody to train of `data.clients = 4`",
        "`evaluation.adapt_epochs = 4` does nothing: there are no new clients",
    ] {
        assert!(said.contains(expected), "{expected} is missing in\n{said}");
    }
}
