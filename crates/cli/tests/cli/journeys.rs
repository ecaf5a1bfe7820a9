//! Every format, from files to a personal model: looked at, trained on, killed, resumed, exported, used.
#![cfg(unix)]

#[expect(dead_code, reason = "of the examples, only what makes files is used here")]
#[path = "../../../data/tests/broken/examples.rs"]
mod examples;

use crate::terminal::{Terminal, fate};
use examples::{idx, leaf, listing, meta, npy, npz, parquet, pickle, picture, put};
use image::ImageFormat;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use zip::CompressionMethod;

/// Data of a kind, and how they are spoken of.
struct Journey {
    /// What is given to `init --data`.
    source: &'static str,
    /// Further arguments of it.
    more: &'static [&'static str],
    /// What is predicted in the end.
    asked: &'static str,
}

const fn journey(source: &'static str, asked: &'static str) -> Journey {
    Journey { source, more: &[], asked }
}

/// The bytes of small images that get brighter with their class.
fn shades(count: usize, size: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|i| (0..size).map(move |k| (80 * (i % 3) + (i * 7 + k * 3) % 40) as u8))
        .collect()
}

fn classes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i % 3) as u8).collect()
}

fn make(folder: &Path) {
    let (train, test) = (60, 15);
    for i in 0..train {
        let class = ["ash", "beech", "cedar"][i % 3];
        let format = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP][i / 3 % 3];
        let name = format!("pictures/{class}/{i:03}.{}", format.extensions_str()[0]);
        put(folder, &name, &picture(format, (80 * (i % 3) + i % 9) as u8));
        let owner = ["ann", "bob", "cleo"][i / 3 % 3];
        let name = format!("owned/{owner}/{class}/{i:03}.png");
        put(folder, &name, &picture(ImageFormat::Png, (80 * (i % 3) + i % 9) as u8));
    }
    for (part, count) in [("train", train), ("t10k", test)] {
        let images = idx(&[count as u32, 5, 4], &shades(count, 20));
        put(folder, &format!("idx/{part}-images-idx3-ubyte"), &images);
        put(
            folder,
            &format!("idx/{part}-labels-idx1-ubyte"),
            &idx(&[count as u32], &classes(count)),
        );
    }
    let floats: Vec<u8> =
        shades(train, 6).iter().flat_map(|&x| (f32::from(x) / 50.0).to_le_bytes()).collect();
    let (x, y) = (npy("<f4", &[train, 6], &floats), npy("|u1", &[train], &classes(train)));
    put(folder, "x.npy", &x);
    put(folder, "y.npy", &y);
    let images = npy("|u1", &[train, 5, 5, 3], &shades(train, 75));
    put(
        folder,
        "images.npz",
        &npz(&[("images", images), ("labels", y)], CompressionMethod::Deflated),
    );
    let mut table = String::from("id,height,colour,site,kind\n");
    for i in 0..90 {
        let (height, colour) = (10.0 * (i % 3) as f64 + (i % 7) as f64, ["red", "blue", ""][i % 3]);
        let (site, kind) = (["north", "south"][i / 3 % 2], ["ash", "beech", "cedar"][i % 3]);
        writeln!(table, "{i},{height},{colour},{site},{kind}").unwrap();
    }
    put(folder, "trees.csv", table.as_bytes());
    put(folder, "trees.parquet", &parquet(60));
    for batch in 1..=5_u8 {
        put(folder, &format!("cifar/data_batch_{batch}"), &pickle("labels", &classes(12)));
    }
    put(folder, "cifar/test_batch", &pickle("labels", &classes(9)));
    let names: Vec<String> = (0..10).map(|i| format!("class {i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    put(folder, "cifar/batches.meta", &meta("label_names", &names));
    put(folder, "leaf/train/a.json", &leaf(&[("u1", 30), ("u2", 24)], 16));
    put(folder, "leaf/test/a.json", &leaf(&[("u1", 6), ("u2", 6)], 16));
    let pictures: Vec<String> = (0..40).map(|i| format!("train_val_images/a/{i}.jpg")).collect();
    for (i, name) in pictures.iter().enumerate() {
        put(folder, &format!("inat/{name}"), &picture(ImageFormat::Jpeg, (120 * (i % 2)) as u8));
    }
    let pictures: Vec<&str> = pictures.iter().map(String::as_str).collect();
    put(folder, "inat/train2017.json", &listing(&pictures));
}

/// Runs what `init` has written, once undisturbed and once killed and resumed: the same bits.
fn train(terminal: &Terminal) {
    let short = [
        "run",
        "it.toml",
        "--quiet",
        "--method",
        "fedavg",
        "--method",
        "ditto",
        "--set",
        "network.name=logistic",
        "--set",
        "rounds=30",
        "--set",
        "runtime.checkpoint_every=1",
        "--set",
        "data.min_samples=4",
    ];
    let with = |out: &'static str| [&short[..], &["--out", out]].concat();
    terminal.succeed(&with("whole"));
    let mut child =
        terminal.command(&with("cut")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let checkpoint = terminal.path("cut/checkpoint.json");
    while !checkpoint.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    terminal.succeed(&["run", "--quiet", "--resume", "cut"]);
    assert_eq!(fate(&terminal.path("whole")), fate(&terminal.path("cut")));
}

#[test]
fn every_format_goes_all_the_way() {
    let journeys = [
        journey("pictures", "pictures/ash/000.png"),
        Journey { more: &["--client", "folder"], ..journey("owned", "owned/ann/ash/000.png") },
        Journey { more: &["--size", "8x8"], ..journey("pictures", "pictures") },
        journey("idx", "idx/t10k-images-idx3-ubyte"),
        journey("idx/train-images-idx3-ubyte", "idx"),
        journey("x.npy", "x.npy"),
        journey("images.npz", "images.npz"),
        Journey {
            more: &["--label", "kind", "--client", "site", "--exclude", "id"],
            ..journey("trees.csv", "trees.csv")
        },
        journey("trees.parquet", "trees.parquet"),
        journey("cifar", "cifar"),
        journey("leaf", "leaf"),
        journey("inat", "inat"),
        journey("shares", "shares/client-000.safetensors"),
        journey("pictures.formant", "pictures.formant"),
    ];
    let made = Terminal::new();
    make(&made.path("."));
    made.succeed(&["data", "import", "pictures", "pictures.formant"]);
    made.write("small.toml", "[data]\nsamples = 240\nclients = 3\n[[method]]\nname = \"fedavg\"\n");
    made.succeed(&["data", "export", "small.toml", "--out", "shares"]);
    for Journey { source, more, asked } in journeys {
        for old in ["it.toml", "whole", "cut", "model.onnx"] {
            let path = made.path(old);
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
        made.succeed(&[&["init", "it.toml", "--data", source], more].concat());
        made.succeed(&["data", "show", "it.toml"]);
        train(&made);
        let of_client = ["whole", "--method", "ditto", "--client", "0"];
        made.succeed(
            &[&["export"], &of_client[..], &["--format", "onnx", "--out", "model.onnx"]].concat(),
        );
        let answer = made.succeed(&[&["predict"], &of_client[..], &[asked]].concat());
        assert!(answer.stdout.lines().count() > 1, "{source}: {}", answer.stdout);
    }
}
