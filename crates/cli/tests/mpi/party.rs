//! Ranks under `mpirun`.

use crate::terminal::{Answer, Terminal};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// All methods of the zoo on a few digits, and what runs of many clients use.
pub(crate) const ZOO: &str = r#"
name = "zoo"
rounds = 3

[data]
samples = 300
clients = 6
min_samples = 10
train_fraction = 0.6
validation_fraction = 0.2

[network]
name = "mlp"
hidden = [16]

[train]
participation = 0.7
epochs = 1
personal_epochs = 1

[runtime]
checkpoint_every = 1
"#;

/// The experiment with every method that there is.
pub(crate) fn zoo(terminal: &Terminal) -> String {
    let listed = terminal.succeed(&["methods", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names = listed.as_array().unwrap().iter().map(|method| method["name"].as_str().unwrap());
    let methods: Vec<String> =
        names.map(|name| format!("\n[[method]]\nname = \"{name}\"\n")).collect();
    assert!(methods.len() > 12, "{listed}");
    ZOO.to_owned() + &methods.concat()
}

impl Terminal {
    /// `mpirun` with so many ranks, before what each of them does.
    pub(crate) fn mpirun(&self, groups: &[(usize, Vec<&str>)]) -> Command {
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "--bind-to", "none"]);
        for (i, (ranks, program)) in groups.iter().enumerate() {
            if i > 0 {
                command.arg(":");
            }
            command.args(["-n", &ranks.to_string()]).args(program);
        }
        command.current_dir(self.path("")).stdin(Stdio::null()).env("FORMANT_DATA", "datasets");
        // Containers have nobody else.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Ranks that wait for each other on few cores must not hold them.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command
    }

    /// The same program in all ranks.
    pub(crate) fn party(&self, ranks: usize, args: &[&str]) -> Command {
        let program = [&[env!("CARGO_BIN_EXE_formant")], args].concat();
        self.mpirun(&[(ranks, program)])
    }

    pub(crate) fn answer(&self, mut command: Command) -> Answer {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| {
            String::from_utf8_lossy(&bytes).replace(self.path("").to_str().unwrap(), "[DIR]/")
        };
        Answer {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// A party that must succeed.
    pub(crate) fn together(&self, ranks: usize, args: &[&str]) -> Answer {
        let answer = self.answer(self.party(ranks, args));
        assert_eq!(answer.code, Some(0), "{ranks} ranks: {args:?}: {answer:?}");
        answer
    }
}

/// An experiment on data that are no part of the program.
pub(crate) const DIGITS: &str = r#"
rounds = 2

[data]
source = "mnist"
clients = 3

[network]
name = "logistic"

[[method]]
name = "ditto"
"#;

/// A data folder with some of what might be digits.
pub(crate) fn digits(folder: &Path) {
    let folder = folder.join("MNIST/raw");
    std::fs::create_dir_all(&folder).unwrap();
    for (part, count) in [("train", 60), ("t10k", 15)] {
        let write = |what: &str, bytes: Vec<u8>| {
            std::fs::write(folder.join(format!("{part}-{what}-ubyte")), bytes).unwrap();
        };
        let pixels = (0..count * 784).map(|i| (i % 251) as u8).collect();
        write("images-idx3", idx(&[count, 28, 28], pixels));
        write("labels-idx1", idx(&[count], (0..count).map(|i| (i % 10) as u8).collect()));
    }
}

/// What IDX files hold: a magic number, sizes, bytes.
fn idx(sizes: &[u32], bytes: Vec<u8>) -> Vec<u8> {
    let magic = [0, 0, 8, sizes.len() as u8];
    let sizes = sizes.iter().flat_map(|size| size.to_be_bytes());
    magic.into_iter().chain(sizes).chain(bytes).collect()
}

/// A script as the argument of a command.
pub(crate) fn leaked(script: String) -> &'static str {
    Box::leak(script.into_boxed_str())
}

/// Whether a process may have mounts of its own, by which it sees less than others. A test that needs that is left out
/// where it is not so; `scripts/check-mpi` says which, and insists on it where it has found that it is.
pub(crate) fn unshares(terminal: &Terminal) -> bool {
    let place = terminal.path("probe");
    std::fs::create_dir(&place).unwrap();
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "mount", "-t", "tmpfs", "none"]).arg(&place);
    let is_so = probe.output().is_ok_and(|output| output.status.success());
    std::fs::remove_dir(&place).unwrap();
    let is_sure = std::env::var_os("FORMANT_NAMESPACES").is_some();
    assert!(is_so || !is_sure, "there are mount namespaces here, and now there are none");
    is_so
}

/// The processes that `mpirun` has started, by rank.
pub(crate) fn ranks_of(mpirun: &Child) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", mpirun.id())).into_iter().flatten();
    let children = tasks.flatten().map(|task| task.path().join("children"));
    let children: String =
        children.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
    let rank = |id: &u32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).ok()?;
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let mut variables = environment.split('\0');
        variables.find_map(|v| v.strip_prefix("OMPI_COMM_WORLD_RANK=")?.parse::<usize>().ok())
    };
    let mut ranks: Vec<(usize, u32)> = (children.split_whitespace())
        .filter_map(|id| id.parse().ok())
        .filter_map(|id| Some((rank(&id)?, id)))
        .collect();
    ranks.sort_unstable();
    ranks.into_iter().map(|(_, id)| id).collect()
}
