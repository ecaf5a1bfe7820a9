//! What exists, as the program lists it.

use crate::terminal::Terminal;
use serde_json::Value;

/// Several commands and what they print.
fn transcript(commands: &[&[&str]]) -> String {
    let terminal = Terminal::new();
    let mut said = Vec::new();
    for args in commands {
        let answer = terminal.succeed(args);
        assert_eq!(answer.stderr, "", "{args:?}");
        said.push(format!("$ formant {}\n{}", args.join(" "), answer.stdout));
    }
    said.join("\n")
}

#[test]
fn help_texts() {
    snapshot!(transcript(&[
        &["--help"],
        &["run", "--help"],
        &["sweep", "--help"],
        &["report", "--help"],
        &["compare", "--help"],
        &["methods", "--help"],
        &["data", "show", "--help"],
        &["init", "--help"],
        &["serve", "--help"],
        &["audit", "--help"],
        &["audit", "verify", "--help"],
        &["audit", "show", "--help"],
    ]));
}

#[test]
fn methods_networks_and_datasets() {
    snapshot!(transcript(&[
        &["methods"],
        &["methods", "show", "local"],
        &["methods", "show", "scd"],
        &["methods", "show", "fedrod"],
        &["networks"],
        &["data", "list"],
    ]));
}

#[test]
fn the_page_of_the_methods_is_the_one_in_the_docs() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METHODS.md");
    let written = std::fs::read_to_string(page).unwrap_or_default();
    let made = Terminal::new().succeed(&["methods", "--markdown"]).stdout;
    assert!(
        made == written,
        "docs/METHODS.md is out of date: formant methods --markdown > docs/METHODS.md"
    );
}

#[test]
fn the_commented_experiment() {
    let terminal = Terminal::new();
    terminal.succeed(&["init"]);
    snapshot!(std::fs::read_to_string(terminal.path("experiment.toml")).unwrap());
}

#[test]
fn a_partition_as_a_table_and_a_heat_map() {
    let terminal = Terminal::with_tiny();
    let shown = terminal.succeed(&["data", "show", "tiny.toml"]).stdout;
    let again = terminal.succeed(&["data", "show", "tiny.toml"]).stdout;
    assert_eq!(shown, again);
    snapshot!(shown);
    // The examples of its help work on the built-in experiment.
    let two = ["--set", "data.partition=pathological", "--set", "data.classes_per_client=2"];
    let args: Vec<&str> = ["data", "show"].into_iter().chain(two).collect();
    assert!(terminal.succeed(&args).stdout.contains("20"));
}

#[test]
fn machine_readable_lists() {
    let terminal = Terminal::new();
    let json =
        |args: &[&str]| -> Value { serde_json::from_str(&terminal.succeed(args).stdout).unwrap() };
    let methods = json(&["methods", "--json"]);
    let names: Vec<_> = methods.as_array().unwrap().iter().map(|m| &m["name"]).collect();
    assert_eq!(names[..5], ["local", "fedavg", "fedavg-ft", "fedprox", "feddyn"]);
    assert_eq!(methods[3]["parameters"][0], "mu");
    let networks = json(&["networks", "--json"]);
    let lenet = networks.as_array().unwrap().iter().find(|n| n["name"] == "lenet5").unwrap();
    assert_eq!(lenet["parameters_28x28x1"], 44_426);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let terminal = Terminal::new();
    let mut child = terminal
        .command(&["methods", "show", "scd"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
