//! What the workspace depends on: licences, sources and duplicates as deny.toml has them, and the walls between the
//! crates as docs/ARCHITECTURE.md has them. For whoever has no cargo-deny, which is no part of a
//! Rust toolchain.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use toml::Table;

fn read(file: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    std::fs::read_to_string(&path).unwrap().parse().unwrap()
}

/// The texts of a list in deny.toml.
fn list<'t>(deny: &'t Table, section: &str, key: &str) -> Vec<&'t str> {
    let values = deny[section][key].as_array().unwrap().iter();
    // Where a reason stands beside it, it is a table.
    values.map(|value| value.get("crate").unwrap_or(value).as_str().unwrap()).collect()
}

/// All packages that this machine needs, as cargo sees them.
fn metadata() -> Value {
    let version = Command::new("rustc").arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether a licence expression can be met with allowed licences alone. (`/` is how `OR` was once written.)
fn is_met(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut tokens = spaced.split_whitespace().peekable();
    let met = alternatives(&mut tokens, allowed);
    assert!(tokens.next().is_none(), "{expression} is no licence expression");
    met
}

type Tokens<'t> = std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn alternatives(tokens: &mut Tokens<'_>, allowed: &[&str]) -> bool {
    let mut met = all(tokens, allowed);
    while tokens.next_if_eq(&"OR").is_some() {
        met |= all(tokens, allowed);
    }
    met
}

fn all(tokens: &mut Tokens<'_>, allowed: &[&str]) -> bool {
    let mut met = one(tokens, allowed);
    while tokens.next_if_eq(&"AND").is_some() {
        met &= one(tokens, allowed);
    }
    met
}

fn one(tokens: &mut Tokens<'_>, allowed: &[&str]) -> bool {
    if tokens.next_if_eq(&"(").is_some() {
        let met = alternatives(tokens, allowed);
        assert_eq!(tokens.next(), Some(")"));
        return met;
    }
    let mut licence = tokens.next().unwrap().to_owned();
    if tokens.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", tokens.next().unwrap());
    }
    allowed.contains(&&*licence)
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "Apache-2.0"];
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND ISC", false),
        ("(MIT OR GPL-3.0) AND Apache-2.0", true),
        ("(MIT OR GPL-3.0) AND ISC", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("ISC AND MIT OR Apache-2.0", true),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn every_licence_is_allowed() {
    let deny = read("deny.toml");
    let allowed = list(&deny, "licenses", "allow");
    let metadata = metadata();
    for package in metadata["packages"].as_array().unwrap() {
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(
            is_met(licence, &allowed),
            "{} {} has the licence {licence}, which deny.toml does not allow",
            package["name"],
            package["version"]
        );
    }
}

#[test]
fn everything_comes_from_known_registries_and_once() {
    let (deny, lock) = (read("deny.toml"), read("Cargo.lock"));
    let registries = list(&deny, "sources", "allow-registry");
    let skipped = list(&deny, "bans", "skip");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let text = |key: &str| package.get(key).map(|value| value.as_str().unwrap());
        let (name, version) = (text("name").unwrap(), text("version").unwrap());
        if let Some(source) = text("source") {
            let registry = source.strip_prefix("registry+").unwrap_or(source);
            assert!(registries.contains(&registry), "{name} {version} comes from {source}");
        }
        if !skipped.contains(&&*format!("{name}@{version}")) {
            versions.entry(name).or_default().push(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert!(
        versions.is_empty(),
        "more than one version: {versions:?}; update what needs the older one, or name it in [bans] skip of deny.toml"
    );
}

/// Who may not be needed by whom: the column "may not" of docs/ARCHITECTURE.md, as far as it is about crates.
const WALLS: [(&str, &[&str]); 9] = [
    ("numerics", &["data", "methods", "model", "federation", "runtime"]),
    ("data", &["methods", "model", "federation", "runtime", "fetch"]),
    ("fetch", &["data", "methods", "model", "federation", "runtime"]),
    ("model", &["methods", "federation", "runtime"]),
    ("privacy", &["numerics", "data", "methods", "model", "federation", "runtime"]),
    ("federation", &["data", "methods", "model", "runtime"]),
    ("methods", &["data", "model", "federation", "runtime"]),
    ("ranks", &["data", "experiment", "network", "report", "study"]),
    ("report", &["experiment", "network", "study"]),
];

#[test]
fn no_crate_sees_over_its_wall() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let Some(room) = name.strip_prefix("formant-") else { continue };
        let needed: Vec<&str> = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().unwrap())
            .collect();
        let walls = WALLS.iter().find(|(of, _)| *of == room).map_or(&[][..], |(_, walls)| walls);
        for behind in walls.iter().chain(&["bench"]) {
            assert!(!needed.contains(&&*format!("formant-{behind}")), "{room} needs {behind}");
        }
        let is_front = ["cli", "bench"].contains(&room);
        for front in ["clap", "anyhow", "indicatif", "console"] {
            assert!(is_front || !needed.contains(&front), "{room} needs {front}");
        }
    }
}
