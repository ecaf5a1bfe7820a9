//! Models that were trained on tables.

use crate::terminal::Terminal;
use crate::workshop::write;
use formant_data::{Dataset, Reading, SourceOptions};
use formant_model::{Card, MethodName, ModelFile};
use formant_numerics::{
    Cpu, Descent, Engine, NetworkSpec, Objective, Optimiser, Part, Rng, Stream,
};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

/// Fruits whose kind follows from weight and colour; every tenth weight is missing.
fn fruits(count: usize) -> String {
    let mut text = "id,weight,colour,kind\n".to_owned();
    for i in 0..count {
        let (weight, colour, kind) = match i % 3 {
            0 => (150 + i % 20, "green", "apple"),
            1 => (20 + i % 7, "red", "cherry"),
            _ => (160 + i % 25, "yellow", "lemon"),
        };
        let weight = if i % 10 == 9 { String::new() } else { weight.to_string() };
        writeln!(text, "{i},{weight},{colour},{kind}").unwrap();
    }
    text
}

/// A terminal in a folder with `fruits.csv` and the model `fruits.safetensors`.
fn with_fruits() -> Terminal {
    let terminal = Terminal::new();
    let path = terminal.path("fruits.csv");
    fs::write(&path, fruits(300)).unwrap();
    let options = SourceOptions {
        label: Some("kind".into()),
        exclude: vec!["id".into()],
        ..SourceOptions::default()
    };
    let reading = Reading { options, ..Reading::default() };
    let dataset = Dataset::read(&path, &reading, &mut |_, _| {}).unwrap();
    let spec = NetworkSpec::named("logistic");
    let network = spec.build(dataset.shape, dataset.classes).unwrap();
    let mut model = network.init(&mut Rng::new(1, Stream::Init, 0, 0));
    let mut worker = Cpu::new(network).worker(240);
    worker.begin();
    let indices: Vec<u32> = (0..dataset.train.len() as u32).collect();
    for _ in 0..60 {
        worker.load(&*dataset.train, &indices);
        let descent = Descent { optimiser: Optimiser::sgd(0.5), part: Part::All };
        worker.step(&mut model, descent, &Objective::CROSS_ENTROPY).unwrap();
    }
    let card = Card {
        network: spec,
        input: dataset.shape,
        normalisation: dataset.train.normalisation().to_vec(),
        values: dataset.values,
        schema: dataset.schema.clone(),
        classes: dataset.class_names.clone(),
        dataset: dataset.name.clone(),
        experiment: "workshop".into(),
        method: MethodName { label: "FedAvg".into(), name: "fedavg".into() },
        ..Card::default()
    };
    write(&ModelFile { card, model }, &terminal.path("fruits.safetensors"));
    terminal
}

#[test]
fn rows_are_predicted_with_and_without_labels() {
    let terminal = with_fruits();
    // Another order of columns, and no labels.
    fs::write(terminal.path("new.csv"), "colour;weight\nred;22\nyellow;\ngreen;155\n").unwrap();
    let said = terminal.succeed(&[
        "predict",
        "fruits.safetensors",
        "new.csv",
        "--csv",
        "--top",
        "1",
        "-q",
    ]);
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[0], "input,class,probability");
    for (line, expected) in
        lines[1..].iter().zip(["new.csv:1,cherry,", "new.csv:2,lemon,", "new.csv:3,apple,"])
    {
        assert!(line.starts_with(expected), "{line}");
    }
    let said = terminal.succeed(&["predict", "fruits.safetensors", "fruits.csv", "-q", "--json"]);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["model"]["format"], 2);
    assert_eq!(json["predictions"][1]["true_class"], "cherry");
    assert_eq!(json["predictions"].as_array().unwrap().len(), 300);
    let said = terminal.formant(&["predict", "fruits.safetensors", "absent.csv"]);
    assert!(said.stderr.contains("absent.csv"), "{}", said.stderr);
    fs::write(terminal.path("half.csv"), "colour\nred\n").unwrap();
    let said = terminal.formant(&["predict", "fruits.safetensors", "half.csv"]);
    assert!(
        said.stderr.contains("no column \"weight\"") && said.stderr.contains("hint:"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_table_is_evaluated_and_its_model_exported() {
    let terminal = with_fruits();
    let said = terminal.succeed(&[
        "evaluate",
        "fruits.safetensors",
        "--data",
        "fruits.csv",
        "--json",
        "-q",
    ]);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["data"]["format"], "CSV");
    assert!(json["metrics"]["accuracy"].as_f64().unwrap() > 0.95, "{}", json["metrics"]);
    for format in ["onnx", "npz"] {
        let file = format!("fruits.{format}");
        terminal.succeed(&["export", "fruits.safetensors", "--format", format, "--out", &file]);
        assert!(fs::metadata(terminal.path(&file)).unwrap().len() > 100);
    }
    // Encoded rows may also come as an array.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }\n";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend([22.0_f32, 0.0, 1.0, 0.0].iter().flat_map(|value| value.to_le_bytes()));
    fs::write(terminal.path("rows.npy"), npy).unwrap();
    let said = terminal.succeed(&["predict", "fruits.safetensors", "rows.npy", "--csv", "-q"]);
    assert!(said.stdout.contains("cherry,0.9"), "{}", said.stdout);
}
