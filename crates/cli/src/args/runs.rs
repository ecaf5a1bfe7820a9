//! `formant runs`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  formant runs
  formant runs runs/zoo --json")]
pub(crate) struct RunsArgs {
    /// Folder of the run folders
    #[arg(default_value = "runs")]
    pub(crate) dir: PathBuf,
    /// Print the list as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
