//! What a run comes to does not depend on the number of ranks.

use crate::party::{DIGITS, digits, leaked, unshares, zoo};
use crate::terminal::{Terminal, events, fate};

#[test]
fn two_three_and_eight_ranks_give_the_bits_of_one_process() {
    let terminal = Terminal::new();
    terminal.write("zoo.toml", &zoo(&terminal));
    terminal.succeed(&["run", "zoo.toml", "--quiet", "--out", "alone"]);
    let alone = fate(&terminal.path("alone"));
    assert!(alone.0.len() > 12);
    for (ranks, threads) in [(2, "2"), (3, "1"), (8, "1")] {
        let out = format!("of-{ranks}");
        let args = ["run", "zoo.toml", "--threads", threads, "--out", &out];
        let answer = terminal.together(ranks, &args);
        assert_eq!(fate(&terminal.path(&out)), alone, "{ranks} ranks");
        assert!(answer.stderr.contains(&format!("{ranks} ranks on one host")), "{answer:?}");
        let places = events(&terminal.path(&out)).into_iter().rfind(|e| e["event"] == "ranks");
        let places = places.unwrap();
        let clients = places["ranks"].as_array().unwrap().iter();
        assert_eq!(clients.clone().count(), ranks);
        assert_eq!(clients.map(|rank| rank["clients"].as_u64().unwrap()).sum::<u64>(), 6);
    }
    // The tables are the same but for times.
    let rows = |folder: &str| {
        let text = terminal.succeed(&["report", folder, "--json"]).stdout;
        let mut told: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = told["rows"].as_array_mut().unwrap();
        for row in &mut *rows {
            row.as_object_mut().unwrap().retain(|key, _| !key.contains("second"));
        }
        std::mem::take(rows)
    };
    assert!(
        rows("alone").iter().all(|row| row["gm_best"].is_number() || row["pm_best"].is_number())
    );
    assert_eq!(rows("of-3"), rows("alone"));
}

#[test]
fn a_party_of_one_is_a_run_like_any_other() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "alone"]);
    terminal.together(1, &["run", "tiny.toml", "--quiet", "--out", "one"]);
    assert_eq!(fate(&terminal.path("one")), fate(&terminal.path("alone")));
}

#[test]
fn ranks_may_stand_in_other_folders() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "alone"]);
    std::fs::create_dir(terminal.path("elsewhere")).unwrap();
    let formant = env!("CARGO_BIN_EXE_formant");
    let own = vec![formant, "run", "tiny.toml", "--out", "run"];
    let script = format!("cd elsewhere && exec {formant} run tiny.toml --out run");
    let theirs = vec!["sh", "-c", leaked(script)];
    let answer = terminal.answer(terminal.mpirun(&[(1, own), (2, theirs)]));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(fate(&terminal.path("run")), fate(&terminal.path("alone")));
    assert_eq!(std::fs::read_dir(terminal.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn ranks_that_do_not_see_the_run_folder_keep_states_on_a_disk_of_their_own() {
    let terminal = Terminal::new();
    if !unshares(&terminal) {
        return;
    }
    terminal.write("zoo.toml", &zoo(&terminal));
    terminal.succeed(&["run", "zoo.toml", "--quiet", "--out", "alone"]);
    let alone = fate(&terminal.path("alone"));
    // Rank 0 has a folder that others cannot see: the name leads elsewhere from where they stand.
    for place in ["here", "there"] {
        std::fs::create_dir(terminal.path(place)).unwrap();
        std::fs::copy(terminal.path("zoo.toml"), terminal.path(place).join("zoo.toml")).unwrap();
    }
    let formant = env!("CARGO_BIN_EXE_formant");
    let hidden = terminal.path("hidden");
    let run = |resume: bool| {
        let mut args = vec![formant, "run"];
        let folder: &[&str] = if resume {
            &["--resume", "run", "--set", "rounds=5"]
        } else {
            &["zoo.toml", "--out", "run"]
        };
        args.extend(folder);
        args.extend(["--threads", "1"]);
        // A mount namespace in which the run folder is an empty one.
        let script = format!(
            "mkdir -p {0} && mount -t tmpfs none {1} && exec {2}",
            hidden.display(),
            terminal.path("here").display(),
            args.join(" "),
        );
        let blind = vec!["unshare", "--mount", "sh", "-c", leaked(script)];
        let mut command = terminal.mpirun(&[(1, args), (2, blind)]);
        command.current_dir(terminal.path("here"));
        terminal.answer(command)
    };
    let answer = run(false);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stderr.contains("stay on a disk of its own"), "{answer:?}");
    assert_eq!(fate(&terminal.path("here").join("run")), alone);
    // What they held is in the run folder now, and they begin with nothing.
    let answer = run(true);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    terminal.succeed(&["run", "--resume", "alone", "--set", "rounds=5", "--quiet"]);
    assert_eq!(fate(&terminal.path("here").join("run")), fate(&terminal.path("alone")));
}

#[test]
fn states_stay_on_disks_of_hosts_where_that_is_wanted() {
    let terminal = Terminal::with_tiny();
    terminal.succeed(&["run", "tiny.toml", "--quiet", "--out", "alone"]);
    let own = vec![env!("CARGO_BIN_EXE_formant"), "run", "tiny.toml", "--out", "run"];
    let local = [vec!["env", "FORMANT_STATES=local"], own.clone()].concat();
    let answer = terminal.answer(terminal.mpirun(&[(2, own), (1, local)]));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let (sees, keeps) = ("note: states of rank 1 on ", "note: states of rank 2 on ");
    assert!(!answer.stderr.contains(sees) && answer.stderr.contains(keeps), "{answer:?}");
    assert_eq!(fate(&terminal.path("run")), fate(&terminal.path("alone")));
}

#[test]
fn data_may_lie_elsewhere_on_another_host() {
    let terminal = Terminal::new();
    for folder in ["here", "there"] {
        digits(&terminal.path(folder));
    }
    terminal.write("own.toml", DIGITS);
    let formant = env!("CARGO_BIN_EXE_formant");
    let run = |out| vec![formant, "run", "own.toml", "--data-dir", "here", "--out", out];
    terminal.succeed(&run("alone")[1..]);
    // The folder of the other one's own command line is not there.
    let elsewhere = ["cd elsewhere && FORMANT_DATA=../there exec", formant, "run"].join(" ");
    std::fs::create_dir(terminal.path("elsewhere")).unwrap();
    std::fs::copy(terminal.path("own.toml"), terminal.path("elsewhere").join("own.toml")).unwrap();
    let theirs = leaked(format!("{elsewhere} own.toml --data-dir here --out run"));
    let answer =
        terminal.answer(terminal.mpirun(&[(1, run("run")), (1, vec!["sh", "-c", theirs])]));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(fate(&terminal.path("run")), fate(&terminal.path("alone")));
}

#[test]
fn long_frames_go_in_parts() {
    let terminal = Terminal::new();
    // Everything that goes to all, every upload and every state takes three parts or more.
    terminal.write("zoo.toml", &zoo(&terminal));
    terminal.succeed(&["run", "zoo.toml", "--quiet", "--out", "alone"]);
    let mut party = terminal.party(3, &["run", "zoo.toml", "--threads", "1", "--out", "run"]);
    let answer = terminal.answer({
        party.env("FORMANT_MPI_PART", "20000").env("FORMANT_STATES", "local");
        party
    });
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(fate(&terminal.path("run")), fate(&terminal.path("alone")));
}
