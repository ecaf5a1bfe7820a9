//! `formant report` with what it writes for other programs.

use crate::terminal::Terminal;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

/// A terminal in a folder with the run `tiny`.
fn with_run() -> Terminal {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "tiny"]);
    terminal
}

#[test]
fn everything_shown_can_be_taken() {
    let terminal = with_run();
    let all = [
        "report",
        "tiny",
        "--csv",
        "c",
        "--latex",
        "t/table.tex",
        "--svg",
        "f",
        "--png",
        "f",
        "--tensorboard",
        "tb",
        "--mlflow",
        "ml runs",
    ];
    let said = terminal.succeed(&all);
    for words in [
        "wrote tiny/report.html",
        "wrote c: table.csv, ",
        "history.csv",
        "wrote t/table.tex",
        "wrote f: ",
        "wrote tb: 3 event files; look at them with tensorboard --logdir tb",
        "wrote ml runs: 3 runs; look at them with MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri 'ml runs'",
    ] {
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
    }
    let said = terminal.succeed(&["report", "tiny", "--json"]);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    let history = fs::read_to_string(terminal.path("c/history.csv")).unwrap();
    let evaluations = json["methods"].as_array().unwrap().iter();
    let evaluations: usize = evaluations.map(|m| m["evaluations"].as_array().unwrap().len()).sum();
    assert_eq!(history.lines().count(), 1 + evaluations);
    let ditto = &json["methods"][2];
    assert_eq!(ditto["pm_last"].as_array().unwrap().len(), 4);
    // Taking the same again changes nothing, and needs no --force.
    let before = terminal.listing();
    terminal.succeed(&all);
    assert_eq!(terminal.listing(), before);
    // Another run goes beside it where that is usual.
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--seed", "2", "--out", "other"]);
    let said = terminal.succeed(&[
        "report",
        "other",
        "--tensorboard",
        "tb",
        "--mlflow",
        "ml runs",
        "--json",
    ]);
    assert!(said.stderr.contains("wrote tb: 3 event files"), "{}", said.stderr);
    assert!(terminal.path("tb/tiny-seed-2/local").is_dir());
}

#[test]
fn wrong_uses_say_what_to_do_and_write_nothing() {
    let terminal = with_run();
    terminal.succeed(&["report", "tiny", "--csv", "taken", "--latex", "taken.tex"]);
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--seed", "2", "--out", "other"]);
    terminal.write("file", "mine");
    let before = terminal.listing();
    let mut text = String::new();
    for command in [
        &["report", "other", "--csv", "taken"][..],
        &["report", "other", "--svg", "new", "--latex", "taken.tex"],
        &["report", "other", "--png", "file"],
        &["report", "other", "--latex", "taken"],
        &["report", "other", "--mlflow", "file/deep"],
        &["report", "absent", "--csv", "new"],
        &["report", "other", "--csv"],
    ] {
        let answer = terminal.formant(command);
        assert_ne!(answer.code, Some(0), "{command:?}");
        assert!(answer.stdout.is_empty(), "{answer:?}");
        writeln!(text, "$ formant {}\n{}", command.join(" "), answer.stderr).unwrap();
    }
    snapshot!(text);
    assert_eq!(terminal.listing(), before);
    terminal.succeed(&["report", "other", "--csv", "taken", "--latex", "taken.tex", "--force"]);
    let table = fs::read_to_string(terminal.path("taken/table.csv")).unwrap();
    assert!(table.lines().skip(1).all(|line| line.starts_with("2,")), "{table}");
}
