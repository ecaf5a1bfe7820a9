//! The command line of `formant data` for data that are brought, fetched and looked at.

use super::{ExperimentArgs, OriginArgs};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A known dataset, or a file or folder of yours
    pub(crate) source: String,
    /// The file to write, such as photos.formant
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) origin: OriginArgs,
    /// Threads that decode pictures; the file does not depend on them [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = super::threads())]
    pub(crate) threads: Option<i64>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what was written as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// A file of `formant data import`
    pub(crate) file: PathBuf,
    /// Print what was found as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// mnist, fashion-mnist, cifar10, cifar100 or inat2017
    pub(crate) name: String,
    /// Folder of the datasets [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Fetch from this address, which has all files, in place of the published ones
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) mirror: Option<String>,
    /// Print what was fetched as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `formant data show` shows, and where to.
#[derive(Debug, Args)]
#[command(mut_arg("experiment", |arg| arg
    .value_name("EXPERIMENT|SOURCE")
    .help("An experiment file (.toml), a known dataset, or a file or folder of yours; without one, the built-in quickstart on embedded images")))]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Write a sheet of samples as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// What a row of the sheet is
    #[arg(long, value_enum, default_value = "class", requires = "png")]
    pub(crate) rows: Rows,
    /// Write the heat map of labels, with all clients, as a drawing
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Print everything as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rows {
    Class,
    Client,
}
