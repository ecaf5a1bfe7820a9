//! Whatever is wrong is refused before any work starts, with the remedy.

use crate::terminal::Terminal;

/// Runs every command, checks that it is refused without a trace, and writes down what it says.
pub(crate) fn refusals(terminal: &Terminal, commands: &[&[&str]]) -> String {
    let mut said = Vec::new();
    for args in commands {
        let before = terminal.listing();
        let answer = terminal.formant(args);
        assert_eq!(answer.stdout, "", "{args:?}");
        assert_eq!(terminal.listing(), before, "{args:?} left something behind");
        let by_parser = answer.stderr.contains("For more information, try '--help'.");
        assert_eq!(answer.code, Some(if by_parser { 2 } else { 1 }), "{args:?}: {answer:?}");
        assert!(by_parser || answer.stderr.contains("\n hint: "), "{args:?}: {answer:?}");
        let quoted: Vec<String> = args.iter().map(|a| quoted(a)).collect();
        said.push(format!("$ formant {}\n{}", quoted.join(" "), answer.stderr));
    }
    said.join("\n")
}

fn quoted(argument: &str) -> String {
    if argument.contains(' ') { format!("'{argument}'") } else { argument.to_owned() }
}

/// Methods with one key, with many and with none.
const SOME: &str = r#"
[[method]]
name = "fedavg"

[[method]]
name = "ditto"

[[method]]
name = "scd"
label = "SCD"
"#;

#[test]
fn keys_and_values() {
    let terminal = Terminal::new();
    terminal.write("some.toml", SOME);
    snapshot!(refusals(
        &terminal,
        &[
            &["run", "some.toml", "--set", "roundz=3"],
            &["run", "some.toml", "--set", "data.alfa=3"],
            &["run", "some.toml", "--set", "train.rate=0.1"],
            &["run", "some.toml", "--set", "method.lamda=3"],
            &["run", "some.toml", "--set", "method.gamma=3"],
            &["run", "some.toml", "--set", "method.sdc.tau=0.3"],
            &["run", "some.toml", "--set", "rounds=many"],
            &["run", "some.toml", "--set", "rounds=2.5"],
            &["run", "some.toml", "--set", "rounds=0"],
            &["run", "some.toml", "--set", "train.learning_rate=-0.1"],
            &["run", "some.toml", "--set", "train.learning_rate=nan"],
            &["run", "some.toml", "--set", "train.learning_rate=inf"],
            &["run", "some.toml", "--set", "method.tau=0"],
            &["run", "some.toml", "--set", "method.form=complexx"],
            &["run", "some.toml", "--set", "data.source=minst"],
            &["run", "some.toml", "--set", "network.name=lenet"],
            &["run", "some.toml", "--set", "runtime.memory=lots"],
            &["run", "some.toml", "--set", "data=3"],
            &["run", "some.toml", "--set", "method=3"],
            &["run", "some.toml", "--set", "rounds.x=3"],
            &["run", "some.toml", "--set", "rounds"],
            &["run", "some.toml", "--set", "=3"],
            &["run", "some.toml", "--method", "dito"],
            &["methods", "show", "sdc"],
        ],
    ));
}

#[test]
fn combinations() {
    let terminal = Terminal::with_tiny();
    let frozen = "network.name = \"logistic\"\n[[method]]\nname = \"scd\"\nhead = \"frozen\"\n";
    terminal.write("frozen.toml", frozen);
    snapshot!(refusals(
        &terminal,
        &[
            &["run", "frozen.toml"],
            &["run", "--set", "data.partition=iid", "--set", "data.alpha=0.1"],
            &["run", "tiny.toml", "--set", "data.classes_per_client=2"],
            &["run", "tiny.toml", "--set", "network.hidden=[64]"],
            &["run", "tiny.toml", "--set", "network.name=cnn", "--set", "network.hidden=[64]"],
            &["run", "tiny.toml", "--set", "network.name=lenet5", "--set", "network.norm=group"],
            &["run", "tiny.toml", "--set", "data.train_fraction=0.75"],
            &["run", "tiny.toml", "--set", "data.train_fraction=1"],
            &[
                "run",
                "tiny.toml",
                "--set",
                "data.validation_fraction=0",
                "--set",
                "evaluation.split=validation",
            ],
            &["run", "tiny.toml", "--set", "data.min_samples=100"],
            &["run", "tiny.toml", "--set", "data.samples=9000"],
            &[
                "run",
                "tiny.toml",
                "--set",
                "data.partition=pathological",
                "--set",
                "data.classes_per_client=11",
            ],
            &["data", "show", "tiny.toml", "--set", "data.clients=400"],
        ],
    ));
}

#[test]
fn files_and_folders() {
    let terminal = Terminal::with_tiny();
    terminal.write("torn.toml", "rounds = = 3\n");
    terminal.write("typo.toml", "[[method]]\nname = \"ditto\"\nlamda = 3\n");
    terminal.write("nameless.toml", "[[method]]\nlambda = 3\n");
    terminal.write("twins.toml", "[[method]]\nname = \"scd\"\n[[method]]\nname = \"scd\"\n");
    terminal.write("empty.toml", "");
    terminal.write("notes.txt", "a file");
    std::fs::create_dir(terminal.path("full")).unwrap();
    terminal.write("full/notes.txt", "not a run");
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "done"]);
    snapshot!(refusals(
        &terminal,
        &[
            &["run", "absent.toml"],
            &["run", "torn.toml"],
            &["run", "typo.toml"],
            &["run", "nameless.toml"],
            &["run", "twins.toml"],
            &["run", "empty.toml"],
            &["run", "tiny.toml", "--out", "done"],
            &["run", "tiny.toml", "--out", "full"],
            &["run", "tiny.toml", "--out", "notes.txt/run"],
            &["run", "--resume", "absent"],
            &["run", "--resume", "full"],
            &["run", "--resume", "done"],
            &["run", "tiny.toml", "--set", "data.source=mnist"],
            &["run", "tiny.toml", "--set", "data.source=cifar10", "--data-dir", "my data"],
            &["report", "absent"],
            &["report", "full"],
            &["spectra", "absent"],
            &["spectra", "full"],
            &["init", "tiny.toml"],
            &["init", "absent/experiment.toml"],
        ],
    ));
}

#[test]
fn networks_that_do_not_fit() {
    let terminal = Terminal::with_tiny();
    let told = |name: &str, key: &str, value: &str| {
        let (name, value) = (format!("network.name={name}"), format!("{key}={value}"));
        refusals(&terminal, &[&["run", "tiny.toml", "--set", &name, "--set", &value]])
    };
    // How much memory there is depends on the machine, so this is no snapshot.
    let large = told("mlp", "network.hidden", "[1000000,100000]");
    for part in ["a run of `mlp` with 100,786,", " parameters (375.", "are free", "network.hidden"]
    {
        assert!(large.contains(part), "{part} in {large}");
    }
    assert!(told("resnet18", "network.width", "20000").contains("network.width"));
    for (name, key, value) in [
        ("mlp", "network.hidden", "[9000000000000000]"),
        ("mlp", "network.hidden", "[9000000000000000,9000000000000000]"),
        ("resnet50", "network.width", "9000000000000000000"),
    ] {
        let said = told(name, key, value);
        assert!(said.contains("parameters, which no machine can hold"), "{said}");
    }
    let batch = refusals(&terminal, &[&["run", "tiny.toml", "--set", "train.batch=1000000000"]]);
    assert!(batch.contains("train.batch"), "{batch}");
}

#[test]
fn arguments() {
    let terminal = Terminal::with_tiny();
    snapshot!(refusals(
        &terminal,
        &[
            &["runn"],
            &["run", "--thread", "2"],
            &["run", "--threads", "0"],
            &["run", "--threads", "-2"],
            &["run", "--threads", "two"],
            &["run", "--seed", "-1"],
            &["run", "--resume", "done", "--seed", "3"],
            &["sweep"],
            &["sweep", "--grid", "method.lambda"],
            &["sweep", "--grid", "method.lambda="],
            &["sweep", "--grid", "method.lambda=1,1"],
            &["sweep", "tiny.toml", "--grid", "method.lamda=1,2"],
            &["sweep", "tiny.toml", "--grid", "method.lambda=1,-2"],
            &["sweep", "tiny.toml", "--grid", "data.clients=4,400"],
            &["sweep", "tiny.toml", "--grid", "rounds=1", "--rank", "best"],
        ],
    ));
}
