//! `formant evaluate`.

use crate::terminal::Terminal;
use crate::workshop::{DIGITS, digit_model, idx, network, write};
use formant_numerics::{Cpu, Detail, EVALUATION_BATCH, Engine, Tally};
use serde_json::Value;
use std::fs;

#[test]
fn help_text() {
    snapshot!(Terminal::new().succeed(&["evaluate", "--help"]).stdout);
}

fn scores(terminal: &Terminal, args: &[&str]) -> Value {
    let said = terminal.succeed(&[&["evaluate"], args, &["--json"]].concat());
    serde_json::from_str(&said.stdout).unwrap()
}

#[test]
fn the_accuracy_is_exactly_what_the_simulator_scores() {
    let terminal = Terminal::with_digits();
    let value = scores(&terminal, &["digits.safetensors", "--data", "mnist-small"]);
    let file = digit_model();
    let network = network(&file);
    let indices: Vec<u32> = (0..2_000).collect();
    let mut worker = Cpu::new(network).worker(EVALUATION_BATCH);
    let Tally { right, loss, .. } =
        worker.score(&file.model, &*DIGITS.test, &indices, Detail::PLAIN);
    assert!(right > 1_500, "{right}");
    let metrics = &value["metrics"];
    assert_eq!(metrics["accuracy"].as_f64().unwrap(), right as f64 / 2_000.0);
    assert!((metrics["log_loss"].as_f64().unwrap() - loss / 2_000.0).abs() < 1e-6);
    assert_eq!(metrics["samples"], 2_000);
    // Every class occurs 200 times.
    let balanced = metrics["balanced_accuracy"].as_f64().unwrap();
    assert!((balanced - right as f64 / 2_000.0).abs() < 1e-12);
    let diagonal: u64 = (0..10).map(|c| metrics["confusion"][c][c].as_u64().unwrap()).sum();
    assert_eq!(diagonal, right as u64);
    let one = ["digits.safetensors", "--data", "mnist-small", "--threads", "1"];
    assert_eq!(scores(&terminal, &one), value);
}

#[test]
fn tables_to_paste() {
    let terminal = Terminal::with_digits();
    let said = terminal.succeed(&["evaluate", "digits.safetensors", "--data", "mnist-small"]);
    snapshot!(format!("{}{}", said.stderr, said.stdout));
}

#[test]
fn many_classes_show_their_worst_mistakes() {
    let terminal = Terminal::new();
    let mut file = digit_model();
    // Twenty-one classes, of which the data has ten.
    file.card.classes = (0..21).map(|c| format!("kind {c}")).collect();
    let wide = file.card.network.build(file.card.input, 21).unwrap();
    file.model =
        wide.init(&mut formant_numerics::Rng::new(5, formant_numerics::Stream::Init, 0, 0));
    write(&file, &terminal.path("wide.safetensors"));
    let pixels: Vec<u8> = (0..200).flat_map(|i| DIGITS.test.bytes(i).unwrap().to_vec()).collect();
    let labels: Vec<u8> = DIGITS.test.labels()[..200].iter().map(|label| *label as u8).collect();
    fs::write(terminal.path("a-images"), idx(&[200, 28, 28], &pixels)).unwrap();
    fs::write(terminal.path("a-labels"), idx(&[200], &labels)).unwrap();
    let said = terminal.succeed(&["evaluate", "wide.safetensors", "--data", "a-images"]);
    assert!(said.stderr.contains("AUROC leaves out classes"), "{said:?}");
    assert!(said.stderr.contains("kind 20"), "{said:?}");
    assert!(said.stdout.contains("| most frequent mistakes: right |"), "{said:?}");
    assert!(!said.stdout.contains("right \\ predicted"), "{said:?}");
}

#[test]
fn class_folders_count_by_name_and_not_by_order() {
    let terminal = Terminal::new();
    let mut file = digit_model();
    let names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "Nine_9"];
    file.card.classes = names.map(String::from).to_vec();
    write(&file, &terminal.path("named.safetensors"));
    // Five of each class.
    let mut seen = [0; 10];
    for i in 0..DIGITS.test.len() {
        let label = DIGITS.test.label(i);
        if seen[label] < 5 {
            seen[label] += 1;
            let class = names[label].replace("Nine_9", "nine 9");
            terminal.save(i, &format!("photos/{class}/{i}.png"));
        }
    }
    let by_name = scores(&terminal, &["named.safetensors", "--data", "photos"]);
    assert_eq!(by_name["metrics"]["samples"], 50);
    assert!(by_name["metrics"]["accuracy"].as_f64().unwrap() > 0.7, "{by_name}");
    assert_eq!(by_name["data"]["format"], "image folder");
    terminal.save(0, "photos/ten/0.png");
    let answer = terminal.formant(&["evaluate", "named.safetensors", "--data", "photos", "-q"]);
    let expected = r#"no class of the model is called "ten"; it has "zero", "one", "two""#;
    assert!(answer.stderr.contains(expected), "{answer:?}");
    // Digits by name do not fit this model either.
    let answer = terminal.formant(&["evaluate", "named.safetensors", "--data", "mnist-small"]);
    assert!(answer.stderr.contains(r#"is called "0", "1""#), "{answer:?}");
}

#[test]
fn refusals() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "a.png");
    terminal.save(0, "flat/a.png");
    terminal.save(0, "mixed/letters/a.png");
    let image = &*DIGITS.test.bytes(0).unwrap();
    fs::write(terminal.path("alone-images-idx3-ubyte"), idx(&[1, 28, 28], image)).unwrap();
    fs::write(terminal.path("b-images-idx3-ubyte"), idx(&[1, 28, 28], image)).unwrap();
    fs::write(terminal.path("b-labels-idx1-ubyte"), idx(&[1], &[10])).unwrap();
    fs::write(terminal.path("c-images-idx3-ubyte"), idx(&[1, 28, 28], image)).unwrap();
    fs::write(terminal.path("c-labels-idx1-ubyte"), idx(&[2], &[1, 2])).unwrap();
    let evaluate = |data| vec!["evaluate", "digits.safetensors", "--data", data];
    let commands = [
        vec!["evaluate", "digits.safetensors"],
        evaluate("absent"),
        evaluate("a.png"),
        evaluate("flat"),
        evaluate("mixed"),
        evaluate("alone-images-idx3-ubyte"),
        evaluate("b-images-idx3-ubyte"),
        evaluate("c-images-idx3-ubyte"),
        evaluate("c-labels-idx1-ubyte"),
        evaluate("digits.safetensors"),
        [evaluate("mnist-small"), vec!["--split", "validation"]].concat(),
        [evaluate("alone-images-idx3-ubyte"), vec!["--labels", "absent"]].concat(),
    ];
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    snapshot!(crate::refusals::refusals(&terminal, &commands));
}
