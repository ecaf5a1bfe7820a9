//! `formant devices`.

use crate::terminal::Terminal;
use serde_json::Value;

const MEASURE: [&str; 7] =
    ["devices", "tiny.toml", "--method", "ditto", "--seconds", "0.01", "--quiet"];

#[test]
fn what_is_measured_can_be_pasted_into_an_experiment() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&[&MEASURE[..], &["--slowdown", "20"]].concat());
    assert_eq!(answer.stderr, "");
    assert!(answer.stdout.starts_with("| method "), "{}", answer.stdout);
    assert!(answer.stdout.contains("20 times slower than this core"), "{}", answer.stdout);
    let (_, sections) = answer.stdout.split_once("[devices]").unwrap();
    // Every line is a key that the experiment takes.
    let (devices, method) = sections.split_once("# in the [[method]]").unwrap();
    let mut set = vec!["run", "tiny.toml", "--method", "ditto", "--quiet"];
    let keys: Vec<String> = devices
        .lines()
        .map(|line| ("devices.", line))
        .chain(method.lines().map(|line| ("method.", line)))
        .filter_map(|(section, line)| {
            let (key, value) = line.split_once(" = ")?;
            Some(format!("{section}{key}={value}"))
        })
        .collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    for key in &keys {
        set.extend(["--set", key]);
    }
    terminal.succeed(&set);
}

#[test]
fn json_has_the_figures_and_nonsense_is_refused() {
    let terminal = Terminal::with_tiny();
    let answer = terminal.succeed(&[&MEASURE[..], &["--json"]].concat());
    let figures: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert!(figures["samples_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(figures["methods"][0]["method"], "ditto");
    assert!(figures["methods"][0]["personal_cost"].as_f64().unwrap() > 0.0);
    let refused = terminal.formant(&["devices", "tiny.toml", "--slowdown=-1"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--slowdown takes a number above 0"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: "), "{}", refused.stderr);
}
