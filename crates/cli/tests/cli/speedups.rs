//! `formant speedup`.

use crate::terminal::Terminal;
use serde_json::Value;

const CLOCK: [&str; 8] = [
    "--set",
    "devices.samples_per_second=100",
    "--set",
    "links.up=20kB",
    "--set",
    "links.down=50kB",
    "--set",
    "evaluation.every=1",
];

fn speedup<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["speedup", "tiny.toml", "--method", "ditto"], &CLOCK[..], &["--out", "speedup"], more]
        .concat()
}

#[test]
fn both_schedules_are_timed_and_the_table_says_what_is_saved() {
    let terminal = Terminal::with_tiny();
    let targets = ["--epochs", "1,3", "--targets", "0.05,1.0", "--quiet"];
    let first = terminal.succeed(&speedup(&targets));
    assert_eq!(first.stderr, "");
    assert!(first.stdout.starts_with("| method "), "{}", first.stdout);
    assert!(first.stdout.contains("wait-free, 1 personal epochs, round"), "{}", first.stdout);
    assert!(!first.stdout.contains('\u{1b}'), "no colour in a pipe");
    let svg = std::fs::read_to_string(terminal.path("speedup/timeline.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns") && svg.contains("class=\"personal\""));
    // A second time nothing has to run, and JSON says the same.
    let before = terminal.listing();
    let second = terminal.succeed(&speedup(&[&targets[..], &["--json"]].concat()));
    assert_eq!(terminal.listing(), before);
    let rows: Vec<Value> = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let seconds = |key: &str| row[key].as_f64();
        if row["target"] == 0.05 {
            let gain = seconds("compute_and_wait").unwrap() / seconds("wait_free").unwrap();
            assert_eq!(seconds("speedup"), Some(gain));
            // Overlap saves something, and never more than half.
            assert!(gain > 1.0 && gain <= 2.0, "{row}");
        } else {
            assert_eq!(seconds("speedup"), None, "nobody is always right: {row}");
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let terminal = Terminal::with_tiny();
    let refused = |args: &[&str], expected: &str| {
        let answer = terminal.formant(args);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(answer.stderr.contains(expected), "{}", answer.stderr);
        assert!(answer.stderr.contains("hint: "), "{}", answer.stderr);
    };
    let no_clock = ["speedup", "tiny.toml", "--method", "ditto", "--quiet"];
    refused(&no_clock, "nothing takes time in this experiment");
    let fedavg = [&["speedup", "tiny.toml", "--method", "fedavg", "--quiet"], &CLOCK[..]].concat();
    refused(&fedavg, "`fedavg` has no personal phase");
    refused(&speedup(&["--targets", "80"]), "--targets takes accuracies between 0 and 1");
    terminal.succeed(&speedup(&["--epochs", "1", "--quiet"]));
    refused(&speedup(&["--epochs", "1", "--seed", "9", "--quiet"]), "holds another run: `seed`");
}
