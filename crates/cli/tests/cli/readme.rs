//! What the README says first.

use crate::terminal::Terminal;
use serde_json::Value;
use std::path::Path;
use toml::Table;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn two_commands_open_it_and_cargo_finds_what_they_mean() {
    let readme = read("README.md");
    let block = readme.split("```").nth(1).unwrap().trim_start_matches("sh\n");
    let commands: Vec<&str> =
        block.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    assert_eq!(commands, ["cargo run --release -- run", "cargo test --workspace"]);
    assert!(read(".ci/run").contains("cargo test --workspace"), "the same tests");
    // `cargo run` at the root has one package to choose from, and that has one binary.
    let root: Table = read("Cargo.toml").parse().unwrap();
    let default = root["workspace"]["default-members"].as_array().unwrap();
    assert_eq!(default.iter().map(|m| m.as_str().unwrap()).collect::<Vec<_>>(), ["crates/cli"]);
    let package: Table = read("crates/cli/Cargo.toml").parse().unwrap();
    let binaries = package["bin"].as_array().unwrap();
    assert_eq!(binaries.len(), 1);
    assert_eq!(binaries[0]["name"].as_str(), Some("formant"));
    assert!(!Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin").exists());
}

/// Documents take their tables from results in the repository; this compares them.
#[test]
fn tables_in_the_documents_are_what_the_results_say() {
    let terminal = Terminal::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for document in ["README.md", "docs/RESULTS.md"] {
        let path = root.join(document);
        let path = path.to_str().unwrap();
        assert!(read(document).contains("<!-- table: "), "{document} has no table");
        terminal.succeed(&["tables", path, "--check"]);
    }
}

/// The quickstart's results are those of this build: one method of it ends with the same bits and figures.
#[test]
fn the_quickstarts_results_are_of_this_build() {
    let results: Value = serde_json::from_str(&read("docs/results/quickstart.json")).unwrap();
    let terminal = Terminal::new();
    let run = ["run", "--method", "fedavg", "--quiet", "--json", "--out", "run"];
    let now: Value = serde_json::from_str(&terminal.succeed(&run).stdout).unwrap();
    let kept = results["runs"].as_array().unwrap();
    let kept = kept.iter().find(|run| run["label"] == "fedavg" && run["seed"] == 1).unwrap();
    assert_eq!(now["fingerprints"]["fedavg"], kept["fingerprint"]);
    let (row, scores) = (&now["rows"][0], &kept["scores"]);
    for figure in ["gm_best", "gm_last", "pm_best", "pm_last"] {
        let [a, b] = [row, scores].map(|of| of[figure].as_f64().unwrap());
        assert!((a - b).abs() < 1e-6, "{figure}: {a} {b}");
    }
}
