//! `formant tune`.

use crate::terminal::Terminal;
use serde_json::Value;

const SPACE: &str = "
[tune]
budget = 4
[tune.space.ditto]
lambda = { start = 0.3, times = 3.0 }
[tune.space.fedavg]
train.learning_rate = { start = 0.05, times = 2.0 }
";

fn with_space() -> Terminal {
    let terminal = Terminal::with_tiny();
    let tiny = std::fs::read_to_string(terminal.path("tiny.toml")).unwrap();
    terminal.write("tiny.toml", &format!("{tiny}{SPACE}"));
    terminal
}

#[test]
fn winners_are_shown_kept_and_taken_by_a_run() {
    let terminal = with_space();
    let tune =
        ["tune", "tiny.toml", "--method", "ditto", "--cell", "data.alpha=1,0.2", "--out", "t"];
    let first = terminal.succeed(&[&tune[..], &["--quiet"]].concat());
    assert_eq!(first.stderr, "");
    let mut lines = first.stdout.lines();
    let heading = lines.next().unwrap();
    for word in ["cell", "method", "score", "GM", "PM", "setting", "tried", "winner"] {
        assert!(heading.contains(word), "{heading}");
    }
    assert_eq!(
        lines.clone().filter(|line| line.contains(" of 4 |")).count(),
        2,
        "{}",
        first.stdout
    );
    assert!(first.stdout.contains("data.alpha=0.2") && first.stdout.contains("lambda="));
    // The same again runs nothing, and so does --collect.
    for more in [&["--json"][..], &["--json", "--collect"]] {
        let again = terminal.succeed(&[&tune[..], more, &["--quiet"]].concat());
        let winners: Vec<Value> = serde_json::from_str(&again.stdout).unwrap();
        assert_eq!(winners.len(), 2);
        assert!(winners.iter().all(|w| w["method"] == "ditto" && w["budget"] == 4));
    }
    let text = std::fs::read_to_string(terminal.path("t/tuned.toml")).unwrap();
    let other = |line: &str| {
        if line.starts_with("set = ") {
            "set = { lambda = 0.77 }\n".into()
        } else {
            format!("{line}\n")
        }
    };
    terminal.write("mine.toml", &text.lines().map(other).collect::<String>());
    let run = ["run", "tiny.toml", "--method", "ditto", "--tuned", "mine.toml", "--quiet"];
    terminal.succeed(&[&run[..], &["--set", "data.alpha=0.2", "--out", "r"]].concat());
    let resolved = std::fs::read_to_string(terminal.path("r/experiment.toml")).unwrap();
    assert!(resolved.contains("lambda = 0.77"), "{text}\n{resolved}");
}

#[test]
fn what_cannot_be_tuned_is_refused_with_a_hint() {
    let terminal = with_space();
    terminal.write("bad.toml", "[[winner]]\nnobody = 1\n");
    for (args, expected) in [
        (&["tune", "tiny.toml", "--method", "scd"][..], "unknown method `scd`"),
        (&["tune", "nothing"], "there is no preset `nothing`"),
        (&["tune", "tiny.toml", "--cell", "data.alpha"], "`--cell data.alpha` is no cell"),
        (&["tune", "tiny.toml", "--shard", "3/2"], "`--shard 3/2` is no share"),
        (&["run", "tiny.toml", "--tuned", "bad.toml"], "bad.toml is no file of winners"),
    ] {
        let answer = terminal.formant(args);
        assert!(answer.stderr.contains(expected), "{args:?}: {}", answer.stderr);
        assert!(answer.stderr.contains("hint: "), "{args:?}: {}", answer.stderr);
    }
}
