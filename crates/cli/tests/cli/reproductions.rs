//! `formant reproduce` and `formant tables`.

use crate::terminal::{Answer, Terminal};
use image::RgbImage;
use serde_json::Value;
use std::fs;

/// Changes that make any preset a matter of a moment, on embedded images.
const MOMENT: [&str; 16] = [
    "--set",
    "data.source=mnist-small",
    "--set",
    "rounds=2",
    "--set",
    "data.samples=240",
    "--set",
    "data.clients=3",
    "--set",
    "data.min_samples=16",
    "--set",
    "network.name=logistic",
    "--set",
    "evaluation.every=1",
    "--set",
    "train.epochs=1",
];

fn tiny<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["reproduce", name, "--out", "out"], &MOMENT[..], more].concat()
}

fn refused(answer: &Answer, expected: &str) {
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stderr.contains(expected) && answer.stderr.contains("hint: "), "{answer:?}");
}

#[test]
fn everything_is_listed_with_the_data_that_it_needs() {
    let terminal = Terminal::new();
    let text = terminal.succeed(&["reproduce"]).stdout;
    for part in
        ["cifar10", "Table 1", "ablation", "sensitivity", "inat2017 (not there)", "data get"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = terminal.succeed(&["reproduce", "--json"]).stdout;
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    // Attackers are tried on the embedded digits.
    let is_embedded = |row: &Value| row["name"] == "poison";
    assert!(rows.len() >= 9 && rows.iter().all(|row| row["data_is_there"] == is_embedded(row)));
}

#[test]
fn wrong_uses_are_refused_before_anything_runs() {
    let terminal = Terminal::new();
    let before = terminal.listing();
    refused(&terminal.formant(&["reproduce", "cifar01"]), "did you mean `cifar10`?");
    for shard in ["3/2", "0/4", "x"] {
        let answer = terminal.formant(&["reproduce", "ablation", "--shard", shard]);
        refused(&answer, &format!("`--shard {shard}` is no share of the work"));
    }
    let nothing = terminal.formant(&["reproduce", "cifar100"]);
    refused(&nothing, "cifar100 is not in datasets");
    assert!(nothing.stderr.contains("formant data get cifar100"), "{}", nothing.stderr);
    let inat = terminal.formant(&["reproduce", "inat"]);
    refused(&inat, "formant data get inat2017");
    refused(&terminal.formant(&tiny("ablation", &["--only", "sdc"])), "did you mean `scd`?");
    let value = terminal.formant(&tiny("ablation", &["--only", "data.alpha=3"]));
    refused(&value, "data.alpha has the values 1, 0.1");
    let axis = terminal.formant(&tiny("ablation", &["--set", "data.alpha=3"]));
    refused(&axis, "choose some of them with --only data.alpha=VALUE");
    refused(&terminal.formant(&tiny("ablation", &["--set", "rounds=x"])), "`rounds = \"x\"`");
    refused(&terminal.formant(&tiny("ablation", &["--seeds", "1,1"])), "names 1 twice");
    refused(&terminal.formant(&tiny("ablation", &["--set", "seed=3"])), "--seeds 1,2,3");
    refused(
        &terminal.formant(&tiny("ablation", &["--collect"])),
        "no part of this table is in out",
    );
    refused(&terminal.formant(&["reproduce", "--collect"]), "which table?");
    assert_eq!(terminal.listing(), before, "nothing was written");
}

#[test]
fn parts_are_done_once_by_shards_and_collected() {
    let terminal = Terminal::new();
    let ablation = |more: &[&str]| terminal.succeed(&tiny("ablation", more));
    let dry = ablation(&["--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!((plan["parts"].as_u64(), plan["left"].as_u64()), (Some(24), Some(24)));
    assert!(plan["seconds"].as_f64().unwrap() > 0.0 && plan["disk_bytes"].as_u64().unwrap() > 0);
    assert!(!terminal.path("out").exists(), "a dry run writes nothing");
    let first = ablation(&["--shard", "1/2", "--seeds", "1,2"]);
    assert_eq!(first.stdout, "");
    assert!(first.stderr.contains("8 parts are left to others"), "{}", first.stderr);
    // What it says to type next is the same table.
    let told = first.stderr.split("When they are there: ").nth(1).unwrap();
    let told: Vec<&str> = told.split_whitespace().skip(1).collect();
    let found = terminal.succeed(&[&told[..], &["--json"]].concat()).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["runs"].as_array().unwrap().len(), 8);
    let some = ablation(&["--collect", "--seeds", "1,2"]);
    assert!(some.stdout.contains("Missing (8): α = "), "{}", some.stdout);
    let second = ablation(&["--shard", "2/2", "--seeds", "1,2", "--quiet"]);
    assert!(second.stdout.contains("| w/o SCD-GM"), "{}", second.stdout);
    // The paper's figures are of other images.
    assert!(!second.stdout.contains("85.35 ± 0.11") && second.stdout.contains("remarks are left"));
    for file in ["results.json", "table.md", "table.csv", "table.tex", "report.html"] {
        assert!(terminal.path("out").join(file).is_file(), "{file}");
    }
    // Nothing is left, and other threads change nothing.
    let before = terminal.listing();
    let again = ablation(&["--seeds", "1,2", "--quiet", "--threads", "1"]);
    assert_eq!((again.stdout, terminal.listing()), (second.stdout, before));
    // One more seed is one more seed.
    let dry = ablation(&["--seeds", "1,2,3", "--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!((plan["parts"].as_u64(), plan["left"].as_u64()), (Some(24), Some(8)));
}

#[test]
fn every_form_of_table_can_be_made() {
    for (name, only, expected) in [
        ("sensitivity", "method.lambda_p=30", "λ_p"),
        ("participation", "fedavg", "participation = 0.5"),
        ("communication", "ditto", "shared : personal : network"),
    ] {
        let terminal = Terminal::new();
        let text =
            terminal.succeed(&tiny(name, &["--seeds", "1", "--only", only, "--quiet"])).stdout;
        assert!(text.contains(expected), "{name}: {text}");
        let page = fs::read_to_string(terminal.path("out/report.html")).unwrap();
        assert!(page.contains("</html>") && !page.contains("NaN"), "{name}");
    }
}

#[test]
fn asynchronous_aggregation_is_timed() {
    let terminal = Terminal::new();
    // The preset's own rounds: those of the two schedules differ.
    let few = MOMENT.iter().copied().filter(|word| !word.starts_with("rounds"));
    let mut args = vec!["reproduce", "asynchronous", "--out", "out", "--seeds", "1", "--quiet"];
    let pairs: Vec<&str> = few.collect();
    for pair in pairs.windows(2).filter(|pair| pair[0] == "--set" && pair[1] != "--set") {
        args.extend(pair);
    }
    // As many as the buffer waits for, at least.
    args.extend(["--set", "data.clients=6", "--only", "fedavg"]);
    let text = terminal.succeed(&args).stdout;
    assert!(text.contains("schedule = buffered") && text.contains("whole time"), "{text}");
}

#[test]
fn the_share_of_the_term_is_measured() {
    let terminal = Terminal::new();
    let cost = ["--only", "network.name=lenet5", "--set", "data.source=mnist-small"];
    let args =
        [&["reproduce", "cost", "--out", "out", "--set", "data.samples=400", "--quiet"], &cost[..]];
    let text = terminal.succeed(&args.concat()).stdout;
    assert!(text.contains("| lenet5") && text.contains("SCD, complex"), "{text}");
}

/// CIFAR-100 as it is handed out: a coarse and a fine label, then the pixels.
fn cifar100(samples: usize) -> Vec<u8> {
    let record = |n: usize| {
        let pixels = (0..3_072).map(move |i| (i * 7 + n * 31) as u8);
        [(n % 20) as u8, (n % 100) as u8].into_iter().chain(pixels)
    };
    (0..samples).flat_map(record).collect()
}

#[test]
fn cifar_100_runs_end_to_end_on_files_in_its_format() {
    let terminal = Terminal::new();
    let folder = terminal.path("datasets/cifar-100-binary");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("train.bin"), cifar100(400)).unwrap();
    fs::write(folder.join("test.bin"), cifar100(100)).unwrap();
    let small = "--set rounds=1 --set data.samples=400 --set data.clients=3 --set data.min_samples=20 --seeds 1 --quiet";
    let mut args = vec!["reproduce", "cifar100", "--out", "out"];
    args.extend(small.split(' '));
    let text = terminal.succeed(&args).stdout;
    assert!(text.contains("α = 0.1") && text.contains("46.82 ± 0.23"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("| SCD")).count(), 2, "{text}");
}

#[test]
fn inaturalist_runs_end_to_end_on_files_in_its_format() {
    let terminal = Terminal::new();
    let folder = terminal.path("datasets/inat2017");
    for (part, count) in [("train", 120), ("val", 24)] {
        fs::create_dir_all(folder.join(part)).unwrap();
        let (mut images, mut annotations) = (Vec::new(), Vec::new());
        for id in 0..count {
            let name = format!("{part}/{id}.png");
            let shade = (id % 4 * 60) as u8;
            let picture =
                RgbImage::from_fn(40, 36, |x, y| image::Rgb([shade, x as u8 * 5, y as u8 * 7]));
            picture.save(folder.join(&name)).unwrap();
            images.push(format!(r#"{{"id": {id}, "file_name": "{name}"}}"#));
            annotations
                .push(format!(r#"{{"id": {id}, "image_id": {id}, "category_id": {}}}"#, id % 4));
        }
        let categories = (0..4)
            .map(|id| format!(r#"{{"id": {id}, "name": "species {id}"}}"#))
            .collect::<Vec<_>>();
        let listing = format!(
            r#"{{"images": [{}], "annotations": [{}], "categories": [{}]}}"#,
            images.join(","),
            annotations.join(","),
            categories.join(",")
        );
        fs::write(folder.join(format!("{part}2017.json")), listing).unwrap();
    }
    let small = "--set rounds=1 --set data.samples=120 --set data.clients=2 --set data.min_samples=20 --seeds 1 --quiet";
    let mut args = vec!["reproduce", "inat", "--out", "out"];
    args.extend(small.split(' '));
    let text = terminal.succeed(&args).stdout;
    assert!(text.contains("45.87 ± 0.21") && text.contains("| FedBABU"), "{text}");
    // Where the data lie is no part of what a part is.
    fs::rename(terminal.path("datasets"), terminal.path("elsewhere")).unwrap();
    let moved = [&args[..], &["--data-dir", "elsewhere", "--dry-run", "--json"]].concat();
    let plan: Value = serde_json::from_str(&terminal.succeed(&moved).stdout).unwrap();
    assert_eq!(plan["left"].as_u64(), Some(0));
}

#[test]
fn documents_take_their_tables_from_results() {
    let terminal = Terminal::with_tiny();
    for seed in ["1", "2"] {
        let out = format!("runs/seed-{seed}");
        terminal.succeed(&["run", "tiny.toml", "--seed", seed, "--out", &out, "--quiet"]);
    }
    let add = ["tables", "add", "runs/seed-1", "runs/seed-2", "--out", "docs/results/tiny.json"];
    terminal.succeed(&[&add[..], &["--command", "formant run tiny.toml"]].concat());
    refused(&terminal.formant(&add), "exists already");
    let other = ["--set", "method.ditto.lambda=7", "--out", "runs/other", "--quiet"];
    terminal.succeed(&[&["run", "tiny.toml", "--seed", "3"], &other[..]].concat());
    let rate =
        ["--set", "method.ditto.train.personal_learning_rate=0.3", "--out", "runs/rate", "--quiet"];
    terminal.succeed(&[&["run", "tiny.toml", "--seed", "4"], &rate[..]].concat());
    for (runs, expected) in [
        (["runs/seed-1", "runs/seed-1"], "both have local with seed 1"),
        (["runs/seed-1", "runs/other"], "ditto is not the same method in both"),
        (["runs/seed-1", "runs/rate"], "ditto is not the same method in both"),
    ] {
        let add = [&["tables", "add"], &runs[..], &["--out", "x.json"]].concat();
        refused(&terminal.formant(&add), expected);
    }
    terminal.write("docs/A.md", "# A\n<!-- table: results/tiny.json -->\n<!-- /table -->\n");
    let check = ["tables", "docs/A.md", "--check"];
    refused(&terminal.formant(&check), "docs/A.md, line 2: not what results/tiny.json says");
    terminal.succeed(&["tables", "docs/A.md"]);
    terminal.succeed(&check);
    let text = fs::read_to_string(terminal.path("docs/A.md")).unwrap();
    assert!(text.contains("| Ditto") && text.contains("over the seeds 1, 2"), "{text}");
    let cell = "<!-- table: results/tiny.json cell=\"α = 9\" -->\n<!-- /table -->\n";
    terminal.write("docs/C.md", cell);
    refused(&terminal.formant(&["tables", "docs/C.md"]), "has no cell \"α = 9\"");
    terminal.write("docs/B.md", "<!-- table: results/none.json -->\n<!-- /table -->\n");
    refused(&terminal.formant(&["tables", "docs/B.md"]), "none.json");
}
