//! Parties that cannot be: every refusal names the rank and what to do, and leaves no run folder.

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
    let terminal = Terminal::with_tiny();
    std::fs::create_dir(terminal.path("data")).unwrap();
    for (class, shade) in [("dark", 10), ("light", 200)] {
        for i in 0..30 {
            let picture = image::GrayImage::from_fn(8, 8, |x, y| {
                image::Luma([shade + ((x * 7 + y * 3 + i) % 40) as u8])
            });
            let folder = terminal.path("data").join(class);
            std::fs::create_dir_all(&folder).unwrap();
            picture.save(folder.join(format!("{i}.png"))).unwrap();
        }
    }
    let text = "rounds = 1\n[data]\nsource = \"data\"\nclients = 2\n[network]\nname = \"logistic\"\n\
                [[method]]\nname = \"fedavg\"\n";
    terminal.write("own.toml", text);
    let there = terminal.path("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::copy(terminal.path("own.toml"), there.join("own.toml")).unwrap();
    let run = vec![FORMANT, "run", "own.toml", "--out", "run"];
    let elsewhere: &'static str =
        Box::leak(format!("cd there && exec {FORMANT} run own.toml --out run").into_boxed_str());
    let said = refused(&terminal, &[(1, run), (1, vec!["sh", "-c", elsewhere])]);
    assert!(said.contains("rank 1 on "), "{said}");
    assert!(said.contains("data"), "{said}");
}

#[test]
fn a_rank_without_a_disk_is_refused() {
    let terminal = Terminal::with_tiny();
    let run = vec![FORMANT, "run", "tiny.toml", "--out", "run"];
    let blind: &'static str = Box::leak(
        format!(
            "mount -t tmpfs none {} && exec {FORMANT} run tiny.toml",
            terminal.path("").display()
        )
        .into_boxed_str(),
    );
    let theirs = vec!["env", "TMPDIR=/nowhere", "unshare", "--mount", "sh", "-c", blind];
    let answer = terminal.answer(terminal.mpirun(&[(1, run), (1, theirs)]));
    if answer.stderr.contains("unshare failed") || answer.stderr.contains("permission denied") {
        eprintln!("LEFT OUT: no mount namespaces here");
        return;
    }
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stderr.contains("rank 1 on "), "{answer:?}");
    assert!(answer.stderr.contains("name another disk by TMPDIR"), "{answer:?}");
    assert!(!terminal.path("run").exists(), "the same command can be given again: {answer:?}");
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
