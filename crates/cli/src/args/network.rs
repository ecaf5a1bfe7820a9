//! The command line of the real network: `serve`, `join` and `status`.

use clap::{Args, ValueEnum};
use formant_network::client::POLICY;
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
The file is an experiment with one [[method]] and a section [server]; examples/deploy/server.toml
explains its keys. The state folder survives a crash: the same command goes on where it stopped.

Examples:
  formant serve server.toml
  formant serve server.toml --insecure        on loopback, without certificates
  formant serve server.toml --rollback 12 --exclude hospital-3
                                              back to the state after round 12, without a client")]
pub(crate) struct ServeArgs {
    /// The server's file
    pub(crate) file: PathBuf,
    /// Folder of the run, instead of server.state
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Without TLS: clients say who they are. Only on loopback
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Take the run back to its state after so many rounds, and go on from there. To be said once: the
    /// next start is without it. server.keep_states says how far back it can go
    #[arg(long, value_name = "ROUND")]
    pub(crate) rollback: Option<u64>,
    /// With --rollback: this client takes no part from there on (repeatable)
    #[arg(long, value_name = "NAME", requires = "rollback")]
    pub(crate) exclude: Vec<String>,
    /// Form of the log on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log: LogForm,
}

/// What the help of `join` ends with: the rules derive from their table.
fn join_help() -> String {
    let mut text = String::from(JOIN);
    for key in POLICY {
        let value = key.default_value().map_or_else(|| "unset".into(), |value| value.to_string());
        let _ = write!(text, "\n  {} = {value}\n      {}", key.name, key.help);
    }
    text
}

const JOIN: &str = "\
The first join of an experiment shows what would run here and ends with exit code 3; --accept HASH
approves it, once for this state folder. Compare the hash with what the server's operator sees
(`formant status`). What goes beyond the rules below is refused before anything is trained.

The state folder survives a crash: the same command goes on where it stopped. After every round it
holds the newest models, personal.safetensors and generic.safetensors, for `formant predict STATE`.
Neither the samples nor the personal model leave this machine; what is sent was made of the samples,
and docs/SECURITY.md says what it may tell of them.

Examples:
  formant join --server fl.example.org:7700 --identity alice.bundle.pem --data alice.safetensors --state alice
  formant join --server fl.example.org:7700 --identity alice.bundle.pem --data alice.safetensors --state alice --accept sha256:…
  formant join --server fl.example.org:7700 --identity bob.bundle.pem --data photos/ --state bob
  formant join --server 127.0.0.1:7700 --insecure --name client-000 --rehearse --state c0

Keys of --policy, and what they are without it:";

#[derive(Debug, Args)]
#[command(after_help = join_help())]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct JoinArgs {
    /// Where the server listens
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) server: String,
    /// This client's samples: a folder of images, a table, or any other format (docs/DATA.md)
    #[arg(long, value_name = "PATH", required_unless_present = "rehearse")]
    pub(crate) data: Option<PathBuf>,
    /// The column or array of --data that holds the labels
    #[arg(long, value_name = "NAME", requires = "data")]
    pub(crate) label: Option<String>,
    /// The array of --data that holds the samples, in an .npz file
    #[arg(long, value_name = "NAME", requires = "data")]
    pub(crate) features: Option<String>,
    /// Leave out pictures of --data that cannot be read
    #[arg(long, requires = "data")]
    pub(crate) skip_bad: bool,
    /// Take this client's share of the experiment's own dataset, as the simulator divides it
    #[arg(long, conflicts_with = "data")]
    pub(crate) rehearse: bool,
    /// Folder of the datasets, for --rehearse [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR", requires = "rehearse")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Folder of this client, which holds its personal model
    #[arg(long, value_name = "DIR")]
    pub(crate) state: PathBuf,
    /// What the server may have this client do: a file of rules, in place of the safe defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Approve the experiment with this hash, as the first join has shown it
    #[arg(long, value_name = "HASH")]
    pub(crate) accept: Option<String>,
    /// Where the folder's run is over and the server has a new one: move the old one into
    /// STATE/archive and take part in the new one
    #[arg(long)]
    pub(crate) again: bool,
    /// This client's certificate and key, as `formant cert client NAME` writes them
    #[arg(long, value_name = "BUNDLE", required_unless_present = "insecure")]
    pub(crate) identity: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host
    #[arg(long, value_name = "NAME", conflicts_with = "insecure")]
    pub(crate) server_name: Option<String>,
    /// Without TLS, under the name given by --name. Only on loopback
    #[arg(long, conflicts_with = "identity", requires = "name")]
    pub(crate) insecure: bool,
    /// This client's name, where no certificate says it
    #[arg(long, requires = "insecure")]
    pub(crate) name: Option<String>,
    /// Most bytes per second in each direction, such as 2MB
    #[arg(long, value_name = "BYTES")]
    pub(crate) rate_limit: Option<String>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Form of the log on standard error
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) log: LogForm,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The server's ops address
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7701")]
    pub(crate) ops: String,
    /// Machine-readable
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    Text,
    Json,
}
