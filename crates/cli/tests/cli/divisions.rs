//! Who holds what: every rule of division, and divisions that come from files.

use crate::terminal::Terminal;
use serde_json::Value;

fn fingerprints(terminal: &Terminal, args: &[&str]) -> Value {
    let args: Vec<&str> =
        ["run", "tiny.toml", "--json", "--quiet"].iter().chain(args).copied().collect();
    let said: Value = serde_json::from_str(&terminal.succeed(&args).stdout).unwrap();
    assert_eq!(said["fingerprints"].as_object().unwrap().len(), 3);
    said["fingerprints"].clone()
}

#[test]
fn a_division_that_was_written_gives_the_same_models() {
    let terminal = Terminal::with_tiny();
    let said = terminal.succeed(&["data", "split", "tiny.toml", "--out", "split.json"]);
    assert_eq!(said.stdout, "wrote the samples of 4 clients to split.json\n");
    let unsampled = terminal.path("tiny.toml");
    let drawn = fingerprints(&terminal, &["--out", "drawn"]);
    // A file says itself which samples are used.
    let text = std::fs::read_to_string(&unsampled).unwrap();
    std::fs::write(&unsampled, text.replace("samples = 300\n", "")).unwrap();
    let replay = ["--set", "data.partition=file", "--set", "data.partition_file=split.json"];
    let replayed = fingerprints(&terminal, &[&replay[..], &["--out", "replayed"]].concat());
    assert_eq!(drawn, replayed);
    // What has been written may be replayed with other images, and gives other models.
    let skew = ["--set", "data.skew=rotation", "--out", "skewed"];
    assert_ne!(fingerprints(&terminal, &[&replay[..], &skew].concat()), drawn);

    let again = terminal.formant(&["data", "split", "tiny.toml", "--out", "split.json"]);
    assert!(again.stderr.contains("split.json exists already"), "{again:?}");
    terminal.succeed(&["data", "split", "tiny.toml", "--out", "split.json", "--force"]);
}

#[test]
fn a_run_goes_on_with_the_file_it_began_with_alone() {
    let terminal = Terminal::with_tiny();
    terminal.write("split.json", "{\"ann\": [0, 1, 2, 3, 4, 5], \"bob\": [9, 8, 7, 6, 10]}");
    let text = std::fs::read_to_string(terminal.path("tiny.toml")).unwrap();
    let text = text.replace(
        "samples = 300\nclients = 4\n",
        "partition = \"file\"\npartition_file = \"split.json\"\n",
    );
    terminal.write("tiny.toml", &text);
    let shown = terminal.succeed(&["data", "show", "tiny.toml"]).stdout;
    assert!(shown.contains("11 of 8000 training samples over 2 clients"), "{shown}");
    assert!(shown.contains("  bob\n"), "{shown}");
    terminal.succeed(&["run", "tiny.toml", "--out", "run", "--quiet"]);
    let resolved = std::fs::read_to_string(terminal.path("run/experiment.toml")).unwrap();
    assert!(
        resolved.contains("split.json\"") && resolved.contains("partition_hash = \""),
        "{resolved}"
    );
    // As if it had been interrupted before its first checkpoint.
    std::fs::create_dir(terminal.path("begun")).unwrap();
    terminal.write("begun/experiment.toml", &resolved);
    terminal.write("split.json", "{\"ann\": [0, 1, 2, 3, 4, 5], \"bob\": [9, 8, 7, 6, 11]}");
    let refused = terminal.formant(&["run", "--resume", "begun"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("split.json: its hash is"), "{refused:?}");
    assert!(refused.stderr.contains("hint: bring back the file as it was"), "{refused:?}");
    terminal.write("split.json", "{\"ann\": [0, 1, 2, 3, 4, 5], \"bob\": [9, 8, 7, 6, 10]}");
    terminal.succeed(&["run", "--resume", "begun", "--quiet"]);
}

#[test]
fn every_rule_of_division_runs_and_is_shown() {
    let terminal = Terminal::with_tiny();
    for partition in ["iid", "pathological", "shards", "bernoulli", "quantity"] {
        for skew in ["none", "rotation", "noise", "colour"] {
            let sets = [format!("data.partition={partition}"), format!("data.skew={skew}")];
            let set = ["--set", &sets[0], "--set", &sets[1]];
            let shown = terminal.succeed(&[&["data", "show", "tiny.toml"], &set[..]].concat());
            assert!(shown.stdout.contains("over 4 clients"), "{shown:?}");
            assert_eq!(shown.stdout.contains("note: every client's"), skew != "none", "{shown:?}");
        }
        let name = format!("data.partition={partition}");
        let run = ["run", "tiny.toml", "--method", "fedavg", "--quiet", "--out", partition];
        terminal.succeed(&[&run[..], &["--set", &name, "--set", "data.skew=colour"]].concat());
    }
    let report = std::fs::read_to_string(terminal.path("bernoulli/report.md")).unwrap();
    assert!(report.contains("bernoulli, class probability 0.7, alpha 10"), "{report}");
    assert!(report.contains("colour up to 0.5"), "{report}");
}

#[test]
fn samples_that_were_moved_are_told_in_a_line() {
    let terminal = Terminal::with_tiny();
    let few = ["--set", "data.clients=10", "--set", "data.alpha=0.05"];
    let notes = |said: &str| {
        let notes = said.lines().filter(|line| line.contains("min_samples = 20"));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = terminal.succeed(&[&["data", "show", "tiny.toml"], &few[..]].concat());
    let [note] = &notes(&shown.stdout)[..] else { panic!("{shown:?}") };
    let run = ["run", "tiny.toml", "--method", "local", "--out", "moved"];
    let ran = terminal.succeed(&[&run[..], &few].concat());
    assert_eq!(&notes(&ran.stderr), std::slice::from_ref(note));
    // The figures are those of the log.
    let log = std::fs::read_to_string(terminal.path("moved/events.jsonl")).unwrap();
    let first: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let division = &first["division"];
    let (moved, divided) = (&division["moved"], &division["divided"]);
    let (now, drawn) = (&division["concentration"], &division["drawn_concentration"]);
    let (now, drawn) = (now.as_f64().unwrap(), drawn.as_f64().unwrap());
    assert!(drawn > now && moved.as_u64().unwrap() > 0 && divided == 300, "{division}");
    assert_eq!(
        *note,
        format!(
            "note: {moved} of 300 samples were moved to give each client min_samples = 20: mean Σp² of \
             labels {now:.3}, drawn {drawn:.3}; data.repair = \"redraw\" keeps the mix"
        )
    );
    // Nothing is said where nothing was moved, and the default is nowhere written.
    assert_eq!(notes(&terminal.succeed(&["data", "show", "tiny.toml"]).stdout), [""; 0]);
    let resolved = std::fs::read_to_string(terminal.path("moved/experiment.toml")).unwrap();
    assert!(!resolved.contains("repair") && !resolved.contains("spectra"), "{resolved}");
    let again = ["--set", "data.repair=redraw", "--set", "data.min_samples=10"];
    let shown = terminal.succeed(&[&["data", "show", "tiny.toml"], &few[..], &again].concat());
    assert!(shown.stdout.contains(" of 10 clients were drawn again to give each"), "{shown:?}");
}

#[test]
fn what_cannot_be_divided_says_why() {
    let terminal = Terminal::with_tiny();
    let refusal = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["data", "show", "tiny.toml"].into_iter().chain(sets).collect();
        let said = terminal.formant(&args);
        assert_eq!(said.code, Some(1), "{said:?}");
        format!("$ {}\n{}", args[2..].join(" "), said.stderr)
    };
    terminal.write("twice.json", "[[1, 2],\n [3, 4, 1]]");
    let cases: [&[&str]; 8] = [
        &["data.partition=natural"],
        &["data.partition=file"],
        &["data.partition=file", "data.partition_file=none.json", "data.samples="],
        &["data.partition=file", "data.partition_file=twice.json", "data.samples="],
        &["data.partition=shards", "data.shards_per_client=100"],
        &["data.partition=bernoulli", "data.class_probability=2"],
        &["data.skew=noise", "data.skew_strength=45"],
        &["data.partition=shards", "data.alpha=1"],
    ];
    snapshot!(cases.map(refusal).join("\n"));
}
