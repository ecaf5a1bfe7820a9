//! `formant export`: models in the formats of others.

use crate::terminal::Terminal;
use formant_data::Normalisation;
use formant_model::{Card, Format, MethodName, ModelFile, Role, encode, export};
use formant_numerics::{NetworkSpec, Rng, Shape, Stream};
use std::fmt::Write as _;
use std::path::Path;

/// A model of a small network.
fn model(label: &str, role: Role) -> ModelFile {
    let spec = NetworkSpec::named("logistic");
    let network = spec.build(Shape::new(1, 2, 2), 2).unwrap();
    let client = if let Role::Personal { client, .. } = role { client as u64 } else { 99 };
    let model = network.init(&mut Rng::new(1, Stream::Test, 0, client));
    let card = Card {
        network: spec,
        input: network.input(),
        normalisation: vec![Normalisation::NONE],
        classes: vec!["even".into(), "odd".into()],
        dataset: "parity".into(),
        experiment: "tiny".into(),
        method: MethodName { label: label.into(), name: label.to_lowercase() },
        role,
        round: 3,
        seed: 1,
        ..Card::default()
    };
    ModelFile { card, model }
}

fn write(path: &Path, file: &ModelFile) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let network = file.card.build("test").unwrap();
    std::fs::write(path, encode(network.layout(), &file.card, &file.model).unwrap()).unwrap();
}

/// A run folder with two methods, one of which has personal models.
fn with_run() -> Terminal {
    let terminal = Terminal::new();
    let put = |name: &str, file: &ModelFile| write(&terminal.path(&format!("run/{name}")), file);
    put("models/FedAvg/generic.safetensors", &model("FedAvg", Role::Generic));
    put("models/SCD/generic.safetensors", &model("SCD", Role::Generic));
    put("models/SCD/generic-best.safetensors", &model("SCD", Role::Generic));
    for client in 0..3 {
        let role = Role::Personal { client, name: None };
        put(&format!("models/SCD/personal/{client}.safetensors"), &model("SCD", role));
    }
    terminal
}

#[test]
fn one_model_in_every_format() {
    let terminal = with_run();
    let chosen = ["export", "run", "--method", "SCD", "--client", "2", "--format"];
    let expected = model("SCD", Role::Personal { client: 2, name: None });
    for format in Format::ALL {
        let said = terminal.succeed(&[&chosen[..], &[format.name()]].concat());
        assert_eq!(said.stderr, "");
        let name = format!("SCD-personal-2.{}", format.name());
        assert!(said.stdout.contains(&name), "{said:?}");
        let bytes = std::fs::read(terminal.path(&name)).unwrap();
        assert!(bytes == export(&expected, format).unwrap(), "{name} is another model");
    }
    // A model file can be exported by itself, and what was exported is a model file, too.
    terminal.succeed(&[
        "export",
        "SCD-personal-2.safetensors",
        "--format",
        "npz",
        "--out",
        "again.npz",
    ]);
    let bytes = |name: &str| std::fs::read(terminal.path(name)).unwrap();
    assert!(bytes("again.npz") == bytes("SCD-personal-2.npz"));
}

#[test]
fn all_models_of_a_run() {
    let terminal = with_run();
    snapshot!(terminal.succeed(&["export", "run", "--all", "--format", "onnx"]).stdout);
    let said = terminal.succeed(&[
        "export", "run", "--all", "--method", "FedAvg", "--format", "npz", "--out", "a", "--json",
    ]);
    let list: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["model"], "generic");
    let path = terminal.path(list[0]["path"].as_str().unwrap());
    assert_eq!(list[0]["bytes"], std::fs::metadata(path).unwrap().len());
}

#[test]
fn nothing_is_replaced_unasked() {
    let terminal = with_run();
    let all = ["export", "run", "--all", "--method", "FedAvg", "--format", "onnx"];
    let one = ["export", "run", "--method", "FedAvg", "--format", "npz"];
    terminal.succeed(&all);
    terminal.succeed(&one);
    let before = terminal.listing();
    let mut text = String::new();
    for command in [
        &all[..],
        &one,
        &["export", "run", "--format", "npz"],
        &["export", "run", "--method", "SCD", "--client", "7", "--format", "npz"],
        &["export", "run", "--method", "SCD", "--client", "1", "--all", "--format", "npz"],
        &["export", "run", "--method", "SCD", "--best", "--format", "npz", "--out", "export"],
        &["export", "nothing.safetensors", "--format", "npz"],
        &[
            "export",
            "run/models/SCD/generic.safetensors",
            "--format",
            "safetensors",
            "--out",
            "run/models/SCD/generic.safetensors",
            "--force",
        ],
    ] {
        let answer = terminal.formant(command);
        assert_ne!(answer.code, Some(0), "{command:?}");
        assert!(answer.stdout.is_empty(), "{answer:?}");
        writeln!(text, "$ formant {}\n{}", command.join(" "), answer.stderr).unwrap();
    }
    snapshot!(text);
    assert_eq!(terminal.listing(), before);
    terminal.succeed(&[&all[..], &["--force"]].concat());
    terminal.succeed(&[&one[..], &["--force"]].concat());
    assert_eq!(terminal.listing(), before);
}

#[test]
fn a_label_leads_nowhere_else() {
    let terminal = Terminal::new();
    write(&terminal.path("deep/m.safetensors"), &model("../up", Role::Generic));
    let said = terminal.succeed(&["export", "deep/m.safetensors", "--format", "npz"]);
    assert!(terminal.path("..-up-generic.npz").is_file(), "{said:?}");
}

#[test]
fn help_text() {
    snapshot!(Terminal::new().succeed(&["export", "--help"]).stdout);
}
