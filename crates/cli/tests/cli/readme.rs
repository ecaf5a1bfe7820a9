//! What the README says first.

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
