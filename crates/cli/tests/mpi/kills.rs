//! Ranks that are killed, and the run that goes on with another number of them.

use crate::party::{ranks_of, zoo};
use crate::terminal::{Terminal, events, fate};
use std::process::{Child, Command, Stdio};

/// Keyed by nothing but the try: the same kills in every run of the test.
fn draw(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (n << 31);
    x ^= x >> 30;
    x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Kills one rank at random again and again, each time when some more lines have been logged, and goes on with
/// another number of ranks. A run that has come to its end meanwhile is compared with that of one process, and another one begins.
fn kill_and_go_on(kills: u64) {
    let terminal = Terminal::new();
    let text = zoo(&terminal).replace("rounds = 3", "rounds = 6");
    terminal.write("zoo.toml", &text);
    terminal.succeed(&["run", "zoo.toml", "--quiet", "--out", "alone"]);
    let alone = fate(&terminal.path("alone"));
    let (mut done, mut whole, mut ranks) = (0, 0, 2);
    for n in 0.. {
        // The last run comes to its end, too.
        let name = format!("run-{whole}");
        let out = terminal.path(&name);
        // Never as many as before.
        ranks = 2 + (ranks - 2 + 1 + (draw(n) % 3) as usize) % 4;
        let begun = out.join("experiment.toml").exists();
        let args: &[&str] = if begun {
            &["run", "--resume", &name, "--threads", "1"]
        } else {
            &["run", "zoo.toml", "--threads", "1", "--out", &name]
        };
        let before = events(&out).len();
        let mut party = start(terminal.party(ranks, args));
        let wanted = before + 2 + (draw(n + 1_000) % 40) as usize;
        while done < kills && events(&out).len() < wanted && party.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let ids = if done < kills { ranks_of(&party) } else { Vec::new() };
        let victim = (draw(n + 2_000) % ranks as u64) as usize;
        if let Some(id) = ids.get(victim) {
            Command::new("kill").args(["-9", &id.to_string()]).status().unwrap();
        }
        let output = party.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            assert_eq!(fate(&out), alone, "{name}, after {done} kills");
            whole += 1;
            if done == kills {
                break;
            }
            continue;
        }
        assert!(!ids.is_empty(), "nobody has killed anybody: {said}");
        done += 1;
        // As MPI tells it. The number alone would be that of rank 0 in what it says of any failure.
        let lost = format!("noticed that process rank {victim} with PID");
        assert!(said.contains(&lost), "kill {n}: {lost}: {said}");
        assert!(said.contains("run --resume"), "kill {n}: {said}");
    }
    println!("{done} kills, {whole} whole runs");
}

#[test]
fn a_killed_rank_ends_the_job_and_it_goes_on_with_any_number_of_ranks() {
    let kills = std::env::var("FORMANT_KILLS").ok().and_then(|kills| kills.parse().ok());
    kill_and_go_on(kills.unwrap_or(5));
}

#[test]
fn a_party_that_is_interrupted_goes_on_with_another_number_of_ranks() {
    let terminal = Terminal::new();
    let text = zoo(&terminal).replace("rounds = 3", "rounds = 6");
    terminal.write("zoo.toml", &text);
    terminal.succeed(&["run", "zoo.toml", "--quiet", "--out", "alone"]);
    let out = terminal.path("run");
    let mut party =
        start(terminal.party(3, &["run", "zoo.toml", "--threads", "1", "--out", "run"]));
    while events(&out).len() < 30 {
        assert!(party.try_wait().unwrap().is_none(), "it ended before it could be caught");
        std::thread::yield_now();
    }
    // What a scheduler does before the time is over, and `mpirun` at Ctrl-C: all ranks are told, and rank 0 stops for all.
    let ranks: Vec<String> = ranks_of(&party).iter().map(ToString::to_string).collect();
    assert_eq!(ranks.len(), 3);
    Command::new("kill").arg("-TERM").args(ranks).status().unwrap();
    let output = party.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("run --resume"), "{said}");
    let half = fate(&out).0.len();
    let whole = fate(&terminal.path("alone")).0.len();
    assert!(half < whole, "it was interrupted");
    terminal.together(2, &["run", "--resume", "run", "--threads", "1"]);
    assert_eq!(fate(&out), fate(&terminal.path("alone")));
}
