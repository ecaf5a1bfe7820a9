//! The command line of `formant audit`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant audit verify server-state                       has anybody changed it, or cut it off?
  formant audit verify server-state --head 4f6b…          is what was noted still in it?
  formant audit show server-state --client hospital-1     all that it did")]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that every line is as it was written, and that none is missing
    #[command(after_help = "\
The exit code is 0 only if the log is whole. Whoever can write the server's folder can forge the log and
the manifest together: note the chain that this prints, elsewhere, and compare later with --head.")]
    Verify(AuditVerifyArgs),
    /// Show the lines: who connected, what came, what was refused, what went into which round
    Show(AuditShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// The server's folder
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,
    /// A chain that was noted before: it must be that of one of the lines
    #[arg(long, value_name = "CHAIN")]
    pub(crate) head: Option<String>,
    /// Machine-readable
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// The server's folder
    #[arg(value_name = "STATE")]
    pub(crate) state: PathBuf,
    /// Only what is about this client
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,
    /// Machine-readable
    #[arg(long)]
    pub(crate) json: bool,
}
