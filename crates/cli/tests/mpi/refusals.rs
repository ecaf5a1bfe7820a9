//! Parties that cannot be: every refusal names the rank and what to do, and leaves no run folder.

use crate::party::{DIGITS, digits, leaked, unshares, zoo};
use crate::terminal::Terminal;

const FORMANT: &str = env!("CARGO_BIN_EXE_formant");

fn refused(terminal: &Terminal, groups: &[(usize, Vec<&str>)]) -> String {
    let answer = terminal.answer(terminal.mpirun(groups));
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert!(!terminal.path("run").exists(), "nothing was begun: {answer:?}");
    answer.stderr
}

#[test]
fn another_experiment_is_refused() {
    let terminal = Terminal::with_tiny();
    let run = vec![FORMANT, "run", "tiny.toml", "--out", "run"];
    let other = [run.clone(), vec!["--seed", "9"]].concat();
    let said = refused(&terminal, &[(2, run), (1, other)]);
    assert!(said.contains("not all ranks can take part"), "{said}");
    assert!(said.contains("rank 2 on "), "{said}");
    assert!(said.contains("seed is 9 and not 1 as at rank 0"), "{said}");
}

#[test]
fn another_binary_is_refused() {
    let terminal = Terminal::with_tiny();
    let other = terminal.path("other");
    std::fs::copy(FORMANT, &other).unwrap();
    let mut bytes = std::fs::read(&other).unwrap();
    bytes.push(0);
    std::fs::write(&other, bytes).unwrap();
    let run = vec![FORMANT, "run", "tiny.toml", "--out", "run"];
    let mut theirs = run.clone();
    theirs[0] = other.to_str().unwrap();
    let said = refused(&terminal, &[(1, run), (1, theirs)]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("its binary is another one"), "{said}");
}

#[test]
fn a_rank_without_the_data_is_refused() {
    let terminal = Terminal::new();
    digits(&terminal.path("here"));
    terminal.write("own.toml", DIGITS);
    let there = terminal.path("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::copy(terminal.path("own.toml"), there.join("own.toml")).unwrap();
    let more = "own.toml --data-dir here --out run";
    let run = [vec![FORMANT, "run"], more.split(' ').collect()].concat();
    let elsewhere = format!("cd there && FORMANT_DATA=nowhere exec {FORMANT} run {more}");
    let said = refused(&terminal, &[(1, run), (1, vec!["sh", "-c", leaked(elsewhere)])]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("nowhere/MNIST/raw") && said.contains("FORMANT_DATA"), "{said}");
}

#[test]
fn a_rank_whose_command_line_is_wrong_is_refused_by_name() {
    let terminal = Terminal::with_tiny();
    let run = vec![FORMANT, "run", "tiny.toml", "--out", "run"];
    let other = [run.clone(), vec!["--set", "rounds=none"]].concat();
    let said = refused(&terminal, &[(1, run), (1, other)]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("its own command line: ") && said.contains("rounds"), "{said}");
}

#[test]
fn a_rank_without_a_disk_is_refused() {
    let terminal = Terminal::with_tiny();
    if !unshares(&terminal) {
        return;
    }
    let run = vec![FORMANT, "run", "tiny.toml", "--out", "run"];
    let hidden = terminal.path("").display().to_string();
    let blind = leaked(format!("mount -t tmpfs none {hidden} && exec {FORMANT} run tiny.toml"));
    let theirs = vec!["env", "TMPDIR=/nowhere", "unshare", "--mount", "sh", "-c", blind];
    let said = refused(&terminal, &[(1, run), (1, theirs)]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("name another disk by TMPDIR"), "{said}");
}

#[test]
fn a_rank_whose_disk_is_full_is_refused() {
    let terminal = Terminal::new();
    if !unshares(&terminal) {
        return;
    }
    terminal.write("zoo.toml", &zoo(&terminal).replace("hidden = [16]", "hidden = [64]"));
    let run = vec![FORMANT, "run", "zoo.toml", "--out", "run"];
    let small = terminal.path("small");
    std::fs::create_dir(&small).unwrap();
    let mount = format!("mount -t tmpfs -o size=64k none {}", small.display());
    let local = format!("TMPDIR={} FORMANT_STATES=local", small.display());
    let script = leaked(format!("{mount} && {local} exec {FORMANT} run zoo.toml --out run"));
    let theirs = vec!["unshare", "--mount", "sh", "-c", script];
    let said = refused(&terminal, &[(1, run), (1, theirs)]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("has room for ") && said.contains("one model takes 203560"), "{said}");
    assert!(said.contains("name another disk by TMPDIR"), "{said}");
}

#[test]
fn what_cannot_be_shared_is_refused_once() {
    let terminal = Terminal::with_tiny();
    let said = refused(&terminal, &[(3, vec![FORMANT, "reproduce", "cifar10"])]);
    assert_eq!(said.matches("3 processes were started together").count(), 1, "{said}");
    assert!(said.contains("--shard i/n"), "{said}");
    terminal.succeed(&["run", "tiny.toml", "--seeds", "2", "--out", "series", "--quiet"]);
    let series = terminal.answer(terminal.party(2, &["run", "--resume", "series"]));
    assert_eq!(series.stderr.matches("several seeds does not go with 2 processes").count(), 1);
    let seeds = vec![FORMANT, "run", "tiny.toml", "--seeds", "2", "--out", "run"];
    let said = refused(&terminal, &[(2, seeds)]);
    assert_eq!(said.matches("--seeds does not go with 2 processes").count(), 1, "{said}");
}

#[test]
fn an_error_of_the_experiment_is_said_once() {
    let terminal = Terminal::with_tiny();
    let run = vec![FORMANT, "run", "tiny.toml", "--set", "rounds=none", "--out", "run"];
    let said = refused(&terminal, &[(3, run)]);
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(said.contains("rounds"), "{said}");
}
