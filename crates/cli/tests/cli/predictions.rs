//! `formant predict`.

use crate::terminal::Terminal;
use crate::workshop::{DIGITS, digit_model, idx, write};
use formant_data::{Portion, Share};
use formant_model::{MethodName, Role};
use serde_json::Value;
use std::fs;

#[test]
fn help_text() {
    snapshot!(Terminal::new().succeed(&["predict", "--help"]).stdout);
}

#[test]
fn pictures_as_a_table() {
    let terminal = Terminal::with_digits();
    for i in 0..5 {
        terminal.save(i, &format!("digits/{i}.png"));
    }
    let said = terminal.succeed(&["predict", "digits.safetensors", "digits"]);
    snapshot!(format!("{}{}", said.stderr, said.stdout));
    let quiet = terminal.succeed(&["predict", "digits.safetensors", "digits", "-q"]);
    assert_eq!((quiet.stderr.as_str(), quiet.stdout), ("", said.stdout.clone()));
    // Threads do not matter, and neither does it how the files are named.
    let files: Vec<String> = (0..5).map(|i| format!("digits/{i}.png")).collect();
    let mut args = vec!["predict", "digits.safetensors", "--threads", "1"];
    args.extend(files.iter().map(String::as_str));
    assert_eq!(terminal.succeed(&args).stdout, said.stdout);
}

#[test]
fn folders_called_like_classes_show_the_true_class() {
    let terminal = Terminal::with_digits();
    for i in 0..4 {
        terminal.save(i, &format!("digits/{}/{i}.png", DIGITS.test.label(i)));
    }
    terminal.save(4, "digits/unsure/4.png");
    let said = terminal.succeed(&["predict", "digits.safetensors", "digits", "--top", "1"]);
    snapshot!(format!("{}{}", said.stderr, said.stdout));
}

/// The same images in every format give the same numbers.
#[test]
fn every_format_says_the_same() {
    let terminal = Terminal::with_digits();
    let count = 30;
    let pixels: Vec<u8> = (0..count).flat_map(|i| DIGITS.test.bytes(i).unwrap().to_vec()).collect();
    let labels = DIGITS.test.labels()[..count].to_vec();
    for i in 0..count {
        terminal.save(i, &format!("folder/{i:02}.png"));
    }
    fs::write(terminal.path("t-images-idx3-ubyte"), idx(&[30, 28, 28], &pixels)).unwrap();
    let bytes: Vec<u8> = labels.iter().map(|label| *label as u8).collect();
    fs::write(terminal.path("t-labels-idx1-ubyte"), idx(&[30], &bytes)).unwrap();
    let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (30, 28, 28), }\n";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((header.len() as u16).to_le_bytes());
    npy.extend(header.as_bytes());
    npy.extend(&pixels);
    fs::write(terminal.path("t.npy"), npy).unwrap();
    let part = Portion { pixels, labels };
    let share = Share::new(DIGITS.shape, part.clone(), Portion::default(), part).unwrap();
    fs::write(terminal.path("share.safetensors"), share.to_bytes().unwrap()).unwrap();
    let mut first: Option<Vec<Value>> = None;
    for input in ["folder", "t-images-idx3-ubyte", "t.npy", "share.safetensors"] {
        let said = terminal.succeed(&["predict", "digits.safetensors", input, "--json"]);
        let value: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(value["model"]["method"]["label"], "Ditto");
        assert_eq!(value["model"]["client"], 3);
        let predictions = value["predictions"].as_array().unwrap();
        assert_eq!(predictions.len(), count);
        for (i, prediction) in predictions.iter().enumerate() {
            let labelled = matches!(input, "t-images-idx3-ubyte" | "share.safetensors");
            let label = DIGITS.test.label(i).to_string();
            assert_eq!(prediction["true_class"].as_str(), labelled.then_some(label.as_str()));
        }
        let tops: Vec<Value> = predictions.iter().map(|p| p["top"].clone()).collect();
        assert_eq!(tops[0].as_array().unwrap().len(), 3);
        match &first {
            None => first = Some(tops),
            Some(first) => assert_eq!(*first, tops, "{input}"),
        }
    }
}

#[test]
fn comma_separated_values_keep_every_digit() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "a, b.png");
    terminal.save(1, "c.png");
    let inputs = ["a, b.png", "c.png"];
    let args = ["predict", "digits.safetensors", inputs[0], inputs[1], "--top", "2"];
    let csv = terminal.succeed(&[&args[..], &["--csv"]].concat()).stdout;
    let json = terminal.succeed(&[&args[..], &["--json"]].concat()).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], "input,class,probability,class_2,probability_2");
    assert!(lines[1].starts_with("\"a, b.png\","), "{csv}");
    let cells: Vec<&str> = lines[2].split(',').collect();
    let top = &json["predictions"][1]["top"];
    assert_eq!(cells[1], top[0]["class"].as_str().unwrap());
    assert_eq!(cells[2].parse::<f64>().unwrap(), top[0]["probability"].as_f64().unwrap());
    assert_eq!(cells[4].parse::<f64>().unwrap(), top[1]["probability"].as_f64().unwrap());
}

#[test]
fn other_sizes_and_colours_are_said() {
    let terminal = Terminal::with_digits();
    let large = image::RgbImage::from_fn(640, 480, |x, _| image::Rgb([(x % 256) as u8, 0, 9]));
    large.save(terminal.path("photo.jpg")).unwrap();
    terminal.save(0, "digit.png");
    let said = terminal.succeed(&["predict", "digits.safetensors", "photo.jpg", "digit.png"]);
    let notes: Vec<&str> = said.stderr.lines().skip(1).collect();
    assert_eq!(
        notes,
        [
            "note: 1 of 2 images were cropped and resized, from 640x480 to 28x28 pixels",
            "note: 1 of 2 images were in colour and were made grey as the model needs them"
        ]
    );
}

#[test]
fn bad_images_are_named_or_left_out() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "d/a.png");
    let whole = fs::read(terminal.save(1, "d/b.png")).unwrap();
    fs::write(terminal.path("d/b.png"), &whole[..60]).unwrap();
    let answer = terminal.formant(&["predict", "digits.safetensors", "d"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
    assert!(answer.stderr.contains("error: d/b.png: it is not a complete image"), "{answer:?}");
    assert!(answer.stderr.contains("\n hint: "), "{answer:?}");
    let said = terminal.succeed(&["predict", "digits.safetensors", "d", "--skip-bad"]);
    assert!(said.stderr.contains("note: left out d/b.png: it is not a complete image"), "{said:?}");
    assert_eq!(said.stdout.lines().count(), 2, "{said:?}");
}

#[test]
fn run_and_state_folders() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "a.png");
    let mut file = digit_model();
    write(&file, &terminal.path("run/models/Ditto/personal/3.safetensors"));
    write(&file, &terminal.path("state/personal.safetensors"));
    file.card.role = Role::Generic;
    file.card.method = MethodName { label: "SCD".into(), name: "scd".into() };
    write(&file, &terminal.path("run/models/SCD/generic.safetensors"));
    write(&file, &terminal.path("state/generic.safetensors"));
    let model = |args: &[&str]| {
        let said = terminal.succeed(&[&["predict"], args, &["a.png"]].concat());
        said.stderr.split(" after").next().unwrap().to_owned()
    };
    assert_eq!(model(&["run", "--method", "SCD"]), "model: generic model of SCD");
    let personal = "model: client 3's personal model of Ditto";
    assert_eq!(model(&["run", "--method", "ditto", "--client", "3"]), personal);
    assert_eq!(model(&["state"]), personal);
    assert_eq!(model(&["state", "--generic"]), "model: generic model of SCD");
    let several = terminal.formant(&["predict", "run", "a.png"]);
    assert!(several.stderr.contains("Ditto, SCD\n hint: choose one with --method"), "{several:?}");
}

#[test]
fn refusals() {
    let terminal = Terminal::with_digits();
    terminal.save(0, "a.png");
    let mut damaged = fs::read(terminal.path("digits.safetensors")).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(terminal.path("damaged.safetensors"), &damaged).unwrap();
    fs::write(terminal.path("cut.safetensors"), &damaged[..middle]).unwrap();
    let mut cells = digit_model();
    cells.card.input.channels = 2;
    cells.card.normalisation = vec![cells.card.normalisation[0]; 2];
    let spec = &cells.card.network;
    cells.model = spec.build(cells.card.input, 10).unwrap().init(&mut formant_numerics::Rng::new(
        1,
        formant_numerics::Stream::Init,
        0,
        0,
    ));
    write(&cells, &terminal.path("two-channels.safetensors"));
    terminal.write("notes.txt", "no image");
    fs::create_dir(terminal.path("empty")).unwrap();
    snapshot!(crate::refusals::refusals(
        &terminal,
        &[
            &["predict"],
            &["predict", "digits.safetensors"],
            &["predict", "digits.safetensors", "a.png", "--top", "0"],
            &["predict", "digits.safetensors", "a.png", "--json", "--csv"],
            &["predict", "digits.safetensors", "absent.png"],
            &["predict", "digits.safetensors", "notes.txt"],
            &["predict", "digits.safetensors", "empty"],
            &["predict", "digits.safetensors", "a.png", "--client", "3"],
            &["predict", "absent.safetensors", "a.png"],
            &["predict", "damaged.safetensors", "a.png"],
            &["predict", "cut.safetensors", "a.png"],
            &["predict", "a.png", "digits.safetensors"],
            &["predict", "two-channels.safetensors", "a.png"],
            &["predict", "empty", "a.png"],
        ],
    ));
}
