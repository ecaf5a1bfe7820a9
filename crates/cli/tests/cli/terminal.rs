//! A terminal in a folder of its own.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Three methods on a few digits: done in a moment.
pub(crate) const TINY: &str = r#"
name = "tiny"
rounds = 3

[data]
samples = 300
clients = 4
train_fraction = 0.5
validation_fraction = 0.25

[network]
name = "logistic"

[[method]]
name = "local"

[[method]]
name = "fedavg"

[[method]]
name = "ditto"
lambda = 0.5
"#;

pub(crate) struct Terminal {
    folder: tempfile::TempDir,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Terminal {
    /// A terminal in an empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A terminal in a folder with `tiny.toml`.
    pub(crate) fn with_tiny() -> Self {
        let terminal = Self::new();
        terminal.write("tiny.toml", TINY);
        terminal
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// `formant` with its arguments, in this folder, in an environment that says nothing.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_formant"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for variable in ["NO_COLOR", "COLUMNS", "CLICOLOR_FORCE"] {
            command.env_remove(variable);
        }
        command.env("FORMANT_DATA", "datasets");
        command
    }

    pub(crate) fn formant(&self, args: &[&str]) -> Answer {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).unwrap().replace(self.folder.path().to_str().unwrap(), "[DIR]")
        };
        Answer {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// The same for a command that must succeed.
    pub(crate) fn succeed(&self, args: &[&str]) -> Answer {
        let answer = self.formant(args);
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
        answer
    }

    /// Everything in the folder, with sizes, in order.
    pub(crate) fn listing(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        list(self.folder.path(), &mut found);
        found.sort();
        found
    }
}

fn list(folder: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), 0));
            list(&path, found);
        } else {
            let size = std::fs::metadata(&path).unwrap().len();
            found.push((path, size));
        }
    }
}

/// Fingerprints and evaluations of a run folder, without times: what must not depend on how a run
/// was executed.
pub(crate) fn fate(run_dir: &Path) -> (Vec<String>, Vec<Value>) {
    let (mut fingerprints, mut evaluations) = (Vec::new(), Vec::new());
    for mut event in events(run_dir) {
        match event["event"].as_str().unwrap() {
            "method_finished" => fingerprints.push(event["fingerprint"].as_str().unwrap().into()),
            "evaluated" => {
                // A line's check says when it was written as well.
                for key in ["seconds", "check"] {
                    event[key] = Value::Null;
                }
                evaluations.push(event);
            }
            _ => {}
        }
    }
    (fingerprints, evaluations)
}

/// The whole lines of a log; a last one that is still being written is not there yet.
pub(crate) fn events(run_dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run_dir.join("events.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
