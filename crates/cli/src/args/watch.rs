//! The command line of `formant watch`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
The page is served on the loopback interface alone and can only be read. From another machine, go
through SSH: ssh -L 7702:127.0.0.1:7702 HOST.

Examples:
  formant watch                              the newest run below runs/
  formant watch runs/quickstart-…            a run, under way or over
  formant watch server-state                 a server's folder: figures, and who is there
  formant watch 127.0.0.1:7701               a server by its ops address alone")]
pub(crate) struct WatchArgs {
    /// A run folder, the state folder of a server or client, or a server's ops address [default: the
    /// newest run below runs/]
    pub(crate) target: Option<PathBuf>,
    /// Where the server of a state folder says who is there (server.ops)
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7701")]
    pub(crate) ops: String,
    /// Port of the page; 0 for any [default: 7702, or any if that is taken]
    #[arg(long)]
    pub(crate) port: Option<u16>,
}
