//! The command line of `formant reproduce` and `formant tables`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
A table is divided into parts: one method in one cell with one seed. Parts that are finished are found by
the hash of their resolved experiment and never done again; the same command goes on where it stopped.
Before it starts, a short calibration says how long it will take here.

Examples:
  formant reproduce                                      what there is, and which data it needs
  formant reproduce cifar10 --dry-run                    how long, and how much disk
  formant reproduce cifar10                              Table 1 at desk scale
  formant reproduce ablation --data-dir datasets
  formant reproduce cifar10 --scale paper --shard 3/16   one of 16 jobs on a cluster
  formant reproduce cifar10 --scale paper --collect      the table of what is there
  formant reproduce cifar10 --only ditto --only data.alpha=0.1 --seeds 1")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ReproduceArgs {
    /// Which table or figure; without one, all are listed
    pub(crate) name: Option<String>,
    /// desk: small enough for two cores; paper: the paper's setting
    #[arg(long, value_enum, default_value = "desk")]
    pub(crate) scale: ScaleWord,
    /// Folder of the datasets, laid out as torchvision does [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Folder of the parts and the table [default: runs/reproduce/NAME-SCALE]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Do a fair share of the parts, such as 2/8; shards may run at once in a shared folder
    #[arg(long, value_name = "I/N", conflicts_with = "collect")]
    pub(crate) shard: Option<String>,
    /// Run nothing: make the table of what is there, and name what is missing
    #[arg(long)]
    pub(crate) collect: bool,
    /// Only this row by its label, all rows of a method by its name, or a value of an axis as KEY=VALUE (repeatable)
    #[arg(long, value_name = "METHOD|KEY=VALUE")]
    pub(crate) only: Vec<String>,
    /// Change one key of the experiment, to try a preset out; parts with and without it are
    /// kept apart (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Take the settings that `formant tune` wrote into this file, in place of the preset's own
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) tuned: Option<PathBuf>,
    /// Seeds in place of the preset's
    #[arg(long, value_delimiter = ',', value_name = "S1,S2,…", value_parser = super::seed())]
    pub(crate) seeds: Vec<i64>,
    /// Only say how long it would take and how much disk
    #[arg(long, conflicts_with = "collect")]
    pub(crate) dry_run: bool,
    /// Worker threads; the result does not depend on them [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = super::threads())]
    pub(crate) threads: Option<i64>,
    /// Print the results as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no notes, only the table
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScaleWord {
    Desk,
    Paper,
}

impl From<ScaleWord> for formant_study::Scale {
    fn from(scale: ScaleWord) -> Self {
        match scale {
            ScaleWord::Desk => Self::Desk,
            ScaleWord::Paper => Self::Paper,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
In a document, what stands between these two comments is made from a file of results, whose path is
relative to the document:

  <!-- table: results/cifar10.json -->
  <!-- /table -->

Behind the file may stand: layout=overview (best GM and PM of every cell in one table), over=SCD (by how
much SCD is above each other method, paired by seeds, with intervals), cell=\"α = 0.5\" (that cell
alone), notes=brief (without the settings that the paper does not give), notes=none.

Examples:
  formant tables README.md docs/RESULTS.md             write them anew
  formant tables README.md docs/RESULTS.md --check     fail if one is not what its results say
  formant tables add runs/seed-1 runs/seed-2 --out docs/results/quickstart.json"
)]
pub(crate) struct TablesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TablesCommand>,
    /// Documents in Markdown
    #[arg(required = true, value_name = "FILE.md")]
    pub(crate) documents: Vec<PathBuf>,
    /// Change nothing, and fail if a table is not what its results say
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// Write the results of runs into a file that documents take tables from
    #[command(after_help = "\
Runs that differ in their seeds alone are averaged; what else differs is a table of its own.

Example:
  formant tables add runs/seed-1 runs/seed-2 runs/seed-3 --out docs/results/quickstart.json")]
    Add(TablesAddArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TablesAddArgs {
    /// Run folders
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: PathBuf,
    /// What to type for the same runs, for the reader (repeatable)
    #[arg(long = "command", value_name = "TEXT")]
    pub(crate) commands: Vec<String>,
    /// A remark below the table (repeatable)
    #[arg(long = "note", value_name = "TEXT")]
    pub(crate) notes: Vec<String>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}
