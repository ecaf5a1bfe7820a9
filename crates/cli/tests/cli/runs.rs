//! `formant run` from beginning to end.

use crate::terminal::{Answer, Terminal, events, fate};
use serde_json::Value;

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).unwrap()
}

#[test]
fn a_run_prints_a_table_and_says_where_everything_is() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&["run", "tiny.toml", "--out", "here"]);
    let headline = answer.stderr.lines().next().unwrap();
    assert!(headline.starts_with("tiny: 3 methods on mnist-small (7,850 parameters), 4 clients"));
    // Without a terminal, one line per finished method.
    for title in ["Local", "FedAvg", "Ditto"] {
        let line = answer.stderr.lines().find(|line| line.starts_with(title)).unwrap();
        assert!(line.contains("3/3  GM") && line.contains("PM"), "{line}");
        assert!(answer.stdout.contains(&format!("| {title}")), "{}", answer.stdout);
    }
    for place in [
        "run folder  here\n",
        "report      here/report.html\n",
        "next        formant data show here/experiment.toml",
    ] {
        assert!(answer.stdout.contains(place), "{}", answer.stdout);
    }
    for file in ["experiment.toml", "events.jsonl", "checkpoint.json", "report.md", "report.html"] {
        assert!(terminal.path("here").join(file).is_file(), "{file}");
    }
}

#[test]
fn quiet_means_only_the_result() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&["run", "tiny.toml", "--quiet", "--method", "fedavg"]);
    assert_eq!(answer.stderr, "");
    assert!(answer.stdout.starts_with("| method "), "{}", answer.stdout);
    assert!(!answer.stdout.contains("run folder"), "{}", answer.stdout);
    // Without --out, the folder is named after the experiment and the time.
    let runs: Vec<_> = std::fs::read_dir(terminal.path("runs")).unwrap().collect();
    let name = runs[0].as_ref().unwrap().file_name().into_string().unwrap();
    assert!(runs.len() == 1 && name.starts_with("tiny-20"), "{name}");
}

#[test]
fn json_holds_the_rows_and_the_fingerprints() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&["run", "tiny.toml", "--json", "--quiet", "--out", "a b"]);
    let result = json(&answer);
    assert_eq!((&result["run_dir"], &result["seed"]), (&"a b".into(), &1.into()));
    let rows = result["rows"].as_array().unwrap();
    let labels: Vec<_> = rows.iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["local", "fedavg", "ditto"]);
    let (fingerprints, evaluations) = fate(&terminal.path("a b"));
    for (label, fingerprint) in labels.iter().zip(&fingerprints) {
        assert_eq!(result["fingerprints"][label], Value::from(fingerprint.as_str()));
    }
    assert_eq!(rows[2]["pm_last"], evaluations.last().unwrap()["pm"]["weighted"]);
    // The report of the folder has the same rows.
    let report = terminal.succeed(&["report", "a b", "--json"]);
    assert_eq!(json(&report)["rows"], result["rows"]);
    let report = terminal.succeed(&["report", "a b"]);
    assert!(report.stdout.contains("| Ditto"), "{}", report.stdout);
    assert!(report.stdout.contains("wrote a b/report.html"), "{}", report.stdout);
}

#[test]
fn threads_do_not_matter_but_seeds_do() {
    let terminal = Terminal::with_tiny();
    let run = |out: &str, args: &[&str]| {
        let args = [&["run", "tiny.toml", "--quiet", "--out", out], args].concat();
        terminal.succeed(&args);
        fate(&terminal.path(out))
    };
    let one = run("one", &["--threads", "1"]);
    assert_eq!(run("two", &["--threads", "2"]), one);
    assert_eq!(run("eight", &["--threads", "8"]), one);
    assert_ne!(run("seed", &["--seed", "2"]).0, one.0);
}

#[test]
fn the_commented_experiment_runs_and_reduces() {
    let terminal = Terminal::new();
    let answer = terminal.succeed(&["init"]);
    assert_eq!(answer.stdout, "wrote experiment.toml\nrun it with: formant run experiment.toml\n");
    let small = [
        "run",
        "experiment.toml",
        "--quiet",
        "--out",
        "run",
        "--set",
        "rounds=2",
        "--set",
        "data.samples=300",
        "--set",
        "data.clients=4",
        "--set",
        "network.name=mlp",
    ];
    let reductions = [
        "--set",
        "method.lambda=0",
        "--set",
        "method.lambda_p=0",
        "--set",
        "method.scd.lambda_g=0",
        "--set",
        "method.allow_degenerate=true",
    ];
    terminal.succeed(&[&small[..], &reductions].concat());
    let scores = |method: &str, model: &str| -> Vec<Value> {
        let (_, evaluations) = fate(&terminal.path("run"));
        let own = evaluations.into_iter().filter(|e| e["method"] == method);
        own.map(|e| e[model].clone()).collect()
    };
    assert_eq!(scores("ditto", "pm"), scores("local", "pm"));
    assert_eq!(scores("scd", "pm"), scores("local", "pm"));
    assert_eq!(scores("ditto", "gm"), scores("fedavg", "gm"));
    assert_eq!(scores("scd", "gm"), scores("fedavg", "gm"));
    assert_ne!(scores("fedavg", "gm"), scores("local", "gm"));
    // The log opens with the experiment as it was resolved, down to what was left unset.
    let header = events(&terminal.path("run")).remove(0);
    assert_eq!(
        (&header["config"]["rounds"], &header["config"]["data"]["alpha"]),
        (&2.into(), &0.5.into())
    );
}

#[test]
fn a_diverging_method_is_told_and_spoils_nothing() {
    let terminal = Terminal::with_tiny();
    let absurd = "method.fedavg.train.learning_rate=1000";
    let scale = "method.fedavg.train.weight_decay=1000";
    let answer = terminal.succeed(&[
        "run",
        "tiny.toml",
        "--set",
        absurd,
        "--set",
        scale,
        "--set",
        "method.fedavg.train.epochs=50",
    ]);
    assert!(answer.stderr.contains("0/3  0:00  stopped early"), "{}", answer.stderr);
    assert!(
        answer.stdout.contains("† FedAvg: 4 client phases diverged or failed"),
        "{}",
        answer.stdout
    );
    assert!(answer.stdout.contains("lower the learning rate"), "{}", answer.stdout);
}

#[test]
fn an_edited_experiment_is_not_resumed() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "run"]);
    let path = terminal.path("run/experiment.toml");
    let kept = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, kept.replace("rounds = 3", "rounds = 8")).unwrap();
    let answer = terminal.formant(&["run", "--resume", "run"]);
    let expected = "error: run/experiment.toml has changed since Formant wrote it: the check in its last line does not match\n hint: put it back as it was; or, if the change is meant, take its last line out\n";
    assert_eq!((answer.code, &*answer.stderr), (Some(1), expected));
    let (text, _) = kept.split_once("# check ").unwrap();
    // Take the run back to its beginning, as if it had been stopped there.
    let checkpoint = terminal.path("run/checkpoint.json");
    let end = std::fs::read_to_string(&checkpoint).unwrap();
    let begun = end.replace("\"method\": 3", "\"method\": 0");
    let mut begun = format!("{}}}", &begun[..begun.rfind(",\"check\"").unwrap()]).into_bytes();
    formant_runtime::seal::seal(&mut begun, formant_runtime::seal::Check::default());
    std::fs::write(&checkpoint, begun).unwrap();
    std::fs::write(&path, text.replace("rounds = 3", "rounds = 30")).unwrap();
    let answer = terminal.formant(&["run", "--resume", "run"]);
    assert_eq!(answer.code, Some(1));
    let expected = "error: the run in run cannot go on: `rounds` was 3 when it began and is 30 now\n hint: undo the change in experiment.toml, or start a new run with it\n";
    assert!(answer.stderr.ends_with(expected), "{}", answer.stderr);
    std::fs::write(&path, text.replace("rounds", "roundz")).unwrap();
    let answer = terminal.formant(&["run", "--resume", "run"]);
    assert!(answer.stderr.starts_with("error: run/experiment.toml: unknown key `roundz`"));
}

#[test]
fn runs_that_differ_in_their_seeds_are_averaged() {
    let terminal = Terminal::with_tiny();
    for seed in ["1", "2", "3"] {
        terminal.succeed(&["run", "tiny.toml", "--quiet", "--seed", seed, "--out", seed]);
    }
    let said = terminal.succeed(&["compare", "1", "2", "3"]).stdout;
    assert!(said.contains("over the seeds 1, 2, 3") && said.contains(" ± "), "{said}");
    assert!(said.contains("| Ditto "), "{said}");
    let found = json(&terminal.succeed(&["compare", "1", "2", "3", "--json"]));
    let rows = &found["groups"][0]["rows"];
    let last = |seed: &str| fate(&terminal.path(seed)).1.last().unwrap()["pm"]["weighted"].as_f64();
    let mean = ["1", "2", "3"].iter().map(|seed| last(seed).unwrap()).sum::<f64>() / 3.0;
    assert!((rows[2]["pm_last"]["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
    // Anything else than seeds makes it another experiment.
    let other = ["run", "tiny.toml", "--quiet", "--seed", "4", "--out", "4", "--set", "rounds=2"];
    terminal.succeed(&other);
    let said = terminal.succeed(&["compare", "1", "4"]).stdout;
    assert!(said.contains("| rounds |"), "{said}");
    let refused = terminal.formant(&["compare", "1", "1"]);
    assert!(refused.stderr.contains("have the seed 1\n hint: "), "{}", refused.stderr);
}

#[test]
fn a_log_that_has_lost_its_end_makes_no_table() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--out", "here"]);
    let log = terminal.path("here").join("events.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&log, lines[..lines.len() - 4].join("\n") + "\n").unwrap();
    let answer = terminal.formant(&["report", "here"]);
    assert!(answer.stderr.contains("its end is missing"), "{}", answer.stderr);
}
