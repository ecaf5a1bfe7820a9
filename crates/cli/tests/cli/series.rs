//! One experiment with several seeds, runs side by side, and what runs there are.

use crate::terminal::{Terminal, events, fate};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A terminal with a series of two seeds in `s`.
fn with_two_seeds() -> Terminal {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--seeds", "2", "--out", "s"]);
    terminal
}

#[test]
fn all_seeds_run_in_one_go_each_as_a_run_of_its_own() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&["run", "tiny.toml", "--seeds", "2", "--out", "s"]);
    for part in ["tiny: 3 methods on", "seed 1 (1 of 2)", "seed 2 (2 of 2)"] {
        assert!(answer.stderr.contains(part), "{}", answer.stderr);
    }
    for part in [
        "| Ditto",
        "±",
        "over the seeds 1, 2: initial values and batches; one division of the data (data.seed = 1).",
        "| difference ",
        "report      s/report.html",
    ] {
        assert!(answer.stdout.contains(part), "{part}\n{}", answer.stdout);
    }
    for file in ["series.json", "experiment.toml", "report.md", "report.html"] {
        assert!(terminal.path("s").join(file).is_file(), "{file}");
        assert!(file == "series.json" || terminal.path("s/seed-2").join(file).is_file(), "{file}");
    }
    // The division is the first seed's, and seed 1 is what a run without a series gives.
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "alone"]);
    assert_eq!(fate(&terminal.path("s/seed-1")), fate(&terminal.path("alone")));
    let clients = |run: &str| events(&terminal.path(run))[0]["clients"].clone();
    assert_eq!(clients("s/seed-1"), clients("s/seed-2"));
    assert_ne!(fate(&terminal.path("s/seed-1")).0, fate(&terminal.path("s/seed-2")).0);

    let report = terminal.succeed(&["report", "s"]).stdout;
    assert!(report.contains("wrote s/report.html") && report.contains("| Ditto"), "{report}");
    let report = json(&terminal.succeed(&["report", "s", "--json"]).stdout);
    assert_eq!(report["runs"][1]["seed"], 2);
    assert_eq!(report["rows"][2]["label"], "ditto");
    assert_eq!(report["significance"]["contests"][3]["baseline"], "local");
    let compared = terminal.succeed(&["compare", "s"]).stdout;
    assert!(compared.contains("| Ditto") && !compared.contains("| runs"), "{compared}");
}

#[test]
fn seeds_may_be_named_and_divide_anew() {
    let terminal = Terminal::with_tiny();
    let run = ["run", "tiny.toml", "--quiet", "--json", "--seeds", "7,3", "--redivide"];
    let found = json(&terminal.succeed(&[&run[..], &["--out", "s"]].concat()).stdout);
    assert_eq!(found["significance"]["seeds"], serde_json::json!([7, 3]));
    assert_eq!(found["significance"]["covers"], "initial values, batches and the division");
    let first = |run: &str| events(&terminal.path(run))[0].clone();
    let (three, seven) = (first("s/seed-3"), first("s/seed-7"));
    assert_ne!(three["clients"], seven["clients"]);
    assert_eq!(three["config"]["data"]["seed"], Value::Null);
    assert_eq!(found["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_finished_is_never_done_again() {
    let terminal = with_two_seeds();
    let answer = terminal.formant(&["run", "--resume", "s"]);
    assert!(answer.code == Some(1) && answer.stderr.contains("complete"), "{answer:?}");
    let (first, second) = (terminal.path("s/seed-1"), terminal.path("s/seed-2"));
    let log = std::fs::read(first.join("events.jsonl")).unwrap();
    let expected = fate(&second);
    std::fs::remove_dir_all(&second).unwrap();
    let listed = terminal.succeed(&["runs", "."]).stdout;
    assert!(listed.contains("interrupted: 1 of 2 seeds done"), "{listed}");
    let answer = terminal.succeed(&["run", "--resume", "s"]);
    assert!(!answer.stderr.contains("seed 1 (1 of 2)"), "{}", answer.stderr);
    assert!(answer.stderr.contains("seed 2 (2 of 2)"), "{}", answer.stderr);
    assert_eq!(std::fs::read(first.join("events.jsonl")).unwrap(), log);
    assert_eq!(fate(&second), expected);
}

#[test]
fn a_series_is_extended_as_a_whole() {
    let terminal = with_two_seeds();
    let before = terminal.listing();
    for (args, part) in [
        (&["run", "--resume", "s/seed-1", "--set", "rounds=9"][..], "is one of several seeds"),
        (&["run", "--resume", "s", "--set", "rounds=1"], "are fewer"),
        (&["run", "--resume", "s", "--add-method", "ditto"], "has it already"),
        (&["run", "--resume", "s", "--add-method", "dito"], "did you mean `ditto`?"),
        (&["adapt", "s"], "s holds several seeds"),
    ] {
        let answer = terminal.formant(args);
        assert_eq!(answer.code, Some(1), "{args:?}: {answer:?}");
        assert!(answer.stderr.contains(part) && answer.stderr.contains("hint:"), "{answer:?}");
    }
    assert_eq!(terminal.listing(), before, "nothing that is refused leaves anything");
    let more = ["--set", "rounds=5", "--add-method", "scd"];
    let answer = terminal.succeed(&[&["run", "--resume", "s"], &more[..]].concat());
    assert!(answer.stdout.contains("| SCD") && answer.stdout.contains("±"), "{}", answer.stdout);
    let text = std::fs::read_to_string(terminal.path("tiny.toml")).unwrap();
    terminal.write("longer.toml", &format!("{text}\n[[method]]\nname = \"scd\"\n"));
    let whole = ["run", "longer.toml", "--set", "rounds=5", "--seeds", "2", "--out", "whole"];
    terminal.succeed(&[&whole[..], &["--quiet"]].concat());
    for seed in ["seed-1", "seed-2"] {
        let last = |folder: &str| {
            let (all, _) = fate(&terminal.path(folder).join(seed));
            all[all.len() - 4..].to_vec()
        };
        assert_eq!(last("s"), last("whole"), "{seed}");
    }
    terminal.succeed(&["report", "s"]);
}

#[test]
fn wrong_seeds_and_folders_are_refused_with_a_remedy() {
    let terminal = with_two_seeds();
    let before = terminal.listing();
    for (args, part) in [
        (&["--seeds", "0"][..], "`--seeds 0`: no seed is no run"),
        (&["--seeds", "-1"], "no whole number"),
        (&["--seeds", "1,2,1"], "1 is there twice"),
        (&["--seeds", "one"], "\"one\" is no whole number"),
        (&["--seeds", "2", "--seed", "3"], "cannot be used with"),
        (&["--redivide"], "--seeds"),
        (&["--seeds", "2", "--out", "s"], "holds a run already"),
        (&["--seeds", "2", "--set", "rounds=-1"], "rounds = -1"),
    ] {
        let answer = terminal.formant(&[&["run", "tiny.toml"], args].concat());
        assert_ne!(answer.code, Some(0), "{args:?}");
        assert!(answer.stderr.contains(part), "{args:?}: {}", answer.stderr);
        let is_helpful = answer.stderr.contains("hint:") || answer.stderr.contains("--help");
        assert!(is_helpful, "{args:?}: {}", answer.stderr);
    }
    for (args, part) in [
        (&["run", "--resume", "nowhere"][..], "is not a run folder"),
        (&["run", "--resume", "s", "--seeds", "3"], "cannot be used with"),
        (&["compare", "s", "--baseline", "x"], "no method \"x\""),
        (&["compare", "nowhere"], "no event log"),
        (&["runs", "nowhere"], "nowhere is no folder"),
        (&["runs", "tiny.toml"], "tiny.toml is no folder"),
    ] {
        let answer = terminal.formant(args);
        assert_ne!(answer.code, Some(0), "{args:?}");
        assert!(answer.stderr.contains(part), "{args:?}: {}", answer.stderr);
    }
    assert_eq!(terminal.listing(), before, "nothing that is refused leaves anything");
    terminal.write("s/series.json", "{");
    let answer = terminal.formant(&["run", "--resume", "s"]);
    assert!(
        answer.stderr.contains("s/series.json cannot be read") && answer.stderr.contains("hint:")
    );
}

#[test]
fn different_experiments_are_compared_by_what_differs() {
    let terminal = with_two_seeds();
    let run = ["run", "tiny.toml", "--quiet", "--seeds", "2", "--out", "t"];
    terminal.succeed(&[&run[..], &["--set", "method.ditto.lambda=2"]].concat());
    let text = terminal.succeed(&["compare", "s", "t", "--baseline", "ditto"]).stdout;
    assert!(text.contains("| method.lambda |"), "{text}");
    let widest = text.lines().filter(|l| l.starts_with('|')).map(|l| l.chars().count()).max();
    assert!(widest.unwrap() <= 130, "{text}");
    let found = json(&terminal.succeed(&["compare", "t", "s", "--json"]).stdout);
    assert_eq!(found["keys"], serde_json::json!(["method.lambda"]));
    assert_eq!(found["run_dirs"].as_array().unwrap().len(), 4);
    assert_eq!(found["groups"][0]["rows"][2]["values"]["method.lambda"], "2.0");
    let entry = &found["problems"][0]["contests"][3]["entries"][5];
    assert_eq!(entry["to_baseline"]["paired"], true);
    // FedAvg is the same in both, bit for bit: neither is ahead.
    let fedavg = &found["groups"][1]["rows"][1];
    assert_ne!(fedavg["standing"]["gm_last"], "ahead");
}

#[test]
fn runs_are_listed_with_state_and_best_figures() {
    let terminal = with_two_seeds();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "deep/er/one", "--method", "ditto"]);
    std::fs::create_dir_all(terminal.path("deep/broken")).unwrap();
    let log = std::fs::read_to_string(terminal.path("deep/er/one/events.jsonl")).unwrap();
    terminal.write("deep/broken/events.jsonl", &log.replacen("\"round\":1", "\"round\":2", 1));
    std::fs::create_dir_all(terminal.path("deep/fresh")).unwrap();
    terminal.write("deep/fresh/experiment.toml", "");
    let text = terminal.succeed(&["runs", "."]).stdout;
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| {name} ")));
        line.unwrap_or_else(|| panic!("{name}\n{text}"))
    };
    assert!(line("s").contains("finished, 2 seeds") && line("s").contains("Local, … (3)"));
    assert!(line("deep/er/one").contains("finished") && line("deep/er/one").contains(" Ditto |"));
    assert!(line("deep/er/one").contains("mnist-small"), "{text}");
    assert!(line("deep/broken").contains("damaged: line "), "{text}");
    assert!(line("deep/fresh").contains("not started"), "{text}");
    let list = json(&terminal.succeed(&["runs", ".", "--json"]).stdout);
    let entries = list.as_array().unwrap();
    assert_eq!(entries.len(), 4);
    let one = entries.iter().find(|entry| entry["name"] == "deep/er/one").unwrap();
    assert_eq!((&one["state"], &one["kind"]), (&"finished".into(), &"run".into()));
    let rows = json(&terminal.succeed(&["report", "deep/er/one", "--json"]).stdout);
    let row = &rows["rows"][0];
    assert_eq!(one["gm"]["figure"], row["gm_best"]);
    assert_eq!(one["pm"]["figure"], row["pm_best"]);
    assert!(one["date"].as_str().unwrap().ends_with('Z'));
    let series = entries.iter().find(|entry| entry["kind"] == "series").unwrap();
    assert_eq!(series["seeds"], serde_json::json!([1, 2]));
    // A folder that is a run is listed alone, and one without runs is empty.
    assert_eq!(terminal.succeed(&["runs", "deep/er/one"]).stdout.lines().count(), 3);
    std::fs::create_dir(terminal.path("empty")).unwrap();
    assert_eq!(terminal.succeed(&["runs", "empty"]).stdout, "no runs in empty\n");
}
