//! A server and its clients as processes of their own, killed without warning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(240);
const CLIENTS: usize = 3;

struct House {
    folder: tempfile::TempDir,
    address: String,
    ops: String,
}

impl House {
    fn new() -> Self {
        let house = Self {
            folder: tempfile::tempdir().unwrap(),
            address: free_address(),
            ops: free_address(),
        };
        let experiment = format!(
            r#"
            rounds = 10
            [data]
            dataset = "mnist-small"
            clients = {CLIENTS}
            samples = 150
            min_samples = 20
            [network]
            name = "mlp"
            hidden = [16]
            [train]
            batch = 5
            epochs = 2
            personal_epochs = 2
            [runtime]
            threads = 1
            [[method]]
            name = "scd"
            "#
        );
        let (address, ops) = (&house.address, &house.ops);
        let server =
            format!("[server]\nlisten = \"{address}\"\nops = \"{ops}\"\nlinger = \"60s\"\n");
        fs::write(house.path("experiment.toml"), &experiment).unwrap();
        fs::write(house.path("server.toml"), experiment + &server).unwrap();
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn formant(&self, log: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_formant"));
        let log = fs::File::options().create(true).append(true).open(self.path(log)).unwrap();
        command.current_dir(self.folder.path()).stdout(Stdio::piped()).stderr(log);
        command
    }

    fn serve(&self) -> Child {
        let mut command = self.formant("server.log");
        command.args(["serve", "server.toml", "--insecure", "--state", "server"]).spawn().unwrap()
    }

    fn join(&self, client: usize) -> Child {
        let name = format!("client-{client:03}");
        let mut command = self.formant(&format!("{name}.log"));
        command.args(["join", "--server", &self.address, "--insecure", "--rehearse", "--json"]);
        command.args(["--name", &name, "--state", &name]).spawn().unwrap()
    }

    /// Lines that all logs together have.
    fn events(&self) -> usize {
        let clients = (0..CLIENTS).map(|client| format!("client-{client:03}"));
        clients.chain(["server".to_owned()]).map(|name| lines(&self.path(&name))).sum()
    }

    fn logs(&self) -> String {
        let logs = (0..CLIENTS).map(|client| format!("client-{client:03}.log"));
        let read = |log: String| fs::read_to_string(self.path(&log)).unwrap_or_default();
        logs.chain(["server.log".to_owned()]).map(read).collect::<Vec<_>>().join("\n")
    }

    /// Waits until something more has happened.
    fn wait_for_events(&self, count: usize, until: Instant) {
        while self.events() < count {
            assert!(Instant::now() < until, "it hangs\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn simulated(&self) -> String {
        let run =
            self.formant("run.log").args(["run", "experiment.toml", "--out", "run", "-q"]).output();
        assert!(run.unwrap().status.success());
        let log = fs::read_to_string(self.path("run/events.jsonl")).unwrap();
        let line = log.lines().find(|line| line.contains("server_fingerprint")).unwrap();
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["server_fingerprint"].as_str().unwrap().to_owned()
    }
}

fn lines(folder: &Path) -> usize {
    fs::read_to_string(folder.join("events.jsonl")).map_or(0, |log| log.lines().count())
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Waits for a process; what it has printed.
fn end(mut child: Child, house: &House, until: Instant) -> String {
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            panic!("it hangs\n{}", house.logs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", house.logs());
    String::from_utf8(output.stdout).unwrap()
}

fn kill(mut child: Child) {
    // SIGKILL: nothing is said goodbye to.
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_whose_server_and_clients_are_killed_ends_with_the_same_bits() {
    let house = House::new();
    let until = Instant::now() + PATIENCE;
    let mut server = house.serve();
    let mut clients: Vec<Child> = (0..CLIENTS).map(|client| house.join(client)).collect();
    // Who is killed when a few more events have been logged, wherever everybody is then.
    for (events, victim) in [(12, 0), (21, 9), (33, 1), (42, 2), (51, 9), (60, 0), (71, 9), (85, 1)]
    {
        house.wait_for_events(events, until);
        if victim == 9 {
            kill(server);
            server = house.serve();
        } else {
            kill(clients.remove(victim));
            clients.insert(victim, house.join(victim));
        }
    }
    let printed = end(server, &house, until);
    for client in clients {
        let summary: serde_json::Value = serde_json::from_str(&end(client, &house, until)).unwrap();
        assert_eq!(summary["rounds"], 10);
    }
    let fingerprint = house.simulated();
    assert!(printed.contains(&fingerprint), "{printed}{fingerprint}\n{}", house.logs());
}

#[test]
fn a_run_is_taken_back_whenever_the_server_is_killed_meanwhile() {
    let house = House::new();
    let until = Instant::now() + PATIENCE;
    let serve = |more: &[&str]| {
        let mut command = house.formant("server.log");
        command.args(["serve", "server.toml", "--insecure", "--state", "server"]);
        command.args(more).spawn().unwrap()
    };
    let server = serve(&[]);
    let mut clients: Vec<Child> = (0..CLIENTS).map(|client| house.join(client)).collect();
    let rounds = || {
        let log = fs::read_to_string(house.path("server/events.jsonl")).unwrap_or_default();
        log.matches("\"round_finished\"").count()
    };
    while rounds() < 4 {
        assert!(Instant::now() < until, "it hangs\n{}", house.logs());
        std::thread::sleep(Duration::from_millis(2));
    }
    kill(server);
    let audit = |what: &str, more: &[&str]| {
        let mut command = house.formant("audit.log");
        let output = command.args(["audit", what, "server"]).args(more).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    // Before, in the middle of and after what `--rollback` does.
    for life in [0, 5, 10, 20, 40, 80, 400] {
        let server = serve(&["--rollback", "3", "--exclude", "client-002"]);
        std::thread::sleep(Duration::from_millis(life));
        kill(server);
        let (whole, said) = audit("verify", &[]);
        assert!(whole, "{said}");
    }
    let back = |said: &str| said.matches("rolled_back").count();
    while back(&audit("show", &[]).1) == 0 {
        assert!(Instant::now() < until, "it hangs\n{}", house.logs());
        let server = serve(&["--rollback", "3", "--exclude", "client-002"]);
        std::thread::sleep(Duration::from_millis(500));
        kill(server);
    }
    let server = house.serve();
    let mut excluded = clients.pop().unwrap();
    let printed = end(server, &house, until);
    assert!(printed.contains("rounds       10"), "{printed}");
    for client in clients {
        let summary: serde_json::Value = serde_json::from_str(&end(client, &house, until)).unwrap();
        assert_eq!(summary["rounds"], 10);
    }
    assert!(!excluded.wait().unwrap().success());
    let log = fs::read_to_string(house.path("client-002.log")).unwrap();
    assert!(log.contains("taken out of the run"), "{log}");
    let (whole, said) = audit("verify", &[]);
    assert!(whole && said.contains("whole "), "{said}");
    // Cut off at the end, it is noticed.
    let path = house.path("server/audit.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let cut: Vec<&str> = text.lines().collect();
    fs::write(&path, cut[..cut.len() - 1].join("\n") + "\n").unwrap();
    let (whole, said) = audit("verify", &["--json"]);
    assert!(!whole && said.contains("1 lines are missing at the end"), "{said}");
}

#[test]
fn status_of_a_running_server_and_a_clean_stop() {
    let house = House::new();
    let until = Instant::now() + PATIENCE;
    let server = house.serve();
    let status = || {
        let asked = house.formant("status.log").args(["status", "--ops", &house.ops]).output();
        let asked = asked.unwrap();
        asked.status.success().then(|| String::from_utf8(asked.stdout).unwrap())
    };
    let shown = loop {
        if let Some(shown) = status() {
            break shown;
        }
        assert!(Instant::now() < until, "it hangs\n{}", house.logs());
    };
    assert!(shown.contains("round     1 of 10") && shown.contains("0 of 3 present"), "{shown}");
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", house.logs());
    assert!(status().is_none());
}
