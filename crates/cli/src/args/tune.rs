//! The command line of `formant tune`.

use super::Rank;
use super::reproduce::ScaleWord;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
The section [tune] of the experiment says where to look: for each method its keys, each with a start and a
factor, or a list of values.

  [tune]
  budget = 15
  [tune.set]
  data.part = \"1/5\"                               # other images than those that are scored later
  [tune.space.ditto]
  lambda = { start = 1.0, times = 3.0 }           # 1, 3, 9, … and 0.33, 0.11, …, as far as it takes
  train.personal_learning_rate = { start = 0.01, times = 2.0, max = 0.1 }
  [tune.space.scd]
  tau = [0.02, 0.1, 0.3, 1.0]
  lambda_g = { values = [0.0, 1.0], start = 1.0, times = 3.0 }

From the start, neighbours are tried key by key and the better one is moved to, until the best is inside (all
its neighbours were tried and are worse) or the budget is spent. What is left goes into half steps. The budget is
the same for every method in every cell. No test image is seen. What is finished is kept: the same command goes
on where it stopped.

Examples:
  formant tune                                                      the quickstart
  formant tune experiment.toml --cell data.alpha=1,0.5,0.1          winners for each α
  formant tune duel --cell data.alpha=0.5 --method ditto --budget 15
  formant tune duel --shard 2/4                                     a share of the searches
  formant tune duel --collect --write experiments/tuned/duel.toml   what is there, into a preset
  formant run experiment.toml --tuned runs/tune/experiment/tuned.toml")]
pub(crate) struct TuneArgs {
    /// An experiment's or a preset's file, or the name of a preset; without one, the quickstart
    pub(crate) experiment: Option<String>,
    /// Search for the settings of this method alone (repeatable)
    #[arg(long = "method", value_name = "NAME")]
    pub(crate) methods: Vec<String>,
    /// Search in these cells: some of what a preset varies, or a key with values of its own (repeatable)
    #[arg(long = "cell", value_name = "KEY=V1,V2,…")]
    pub(crate) cells: Vec<String>,
    /// Settings that each method may try in each cell [default: the file's, or 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) budget: Option<u32>,
    /// Seeds over which each setting is averaged [default: the file's]
    #[arg(long, value_delimiter = ',', value_name = "S1,S2,…", value_parser = super::seed())]
    pub(crate) seeds: Vec<i64>,
    /// What counts: the GM, the PM, or the mean of the two; a method without one of them is
    /// scored by the other [default: the file's, or both]
    #[arg(long, value_enum)]
    pub(crate) score: Option<Rank>,
    /// Change one key of the experiment (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The size of a preset
    #[arg(long, value_enum)]
    pub(crate) scale: Option<ScaleWord>,
    /// Folder of the datasets, laid out as torchvision does [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Do a share of the searches, such as 2/8; shards may run at once in a shared folder
    #[arg(long, value_name = "I/N", conflicts_with = "collect")]
    pub(crate) shard: Option<String>,
    /// Run nothing: show the winners of what is there
    #[arg(long)]
    pub(crate) collect: bool,
    /// Folder of the searches and of tuned.toml [default: runs/tune/NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the winners into this file too, beside those of other methods and cells that it holds
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) write: Option<PathBuf>,
    /// Worker threads; the result does not depend on them [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = super::threads())]
    pub(crate) threads: Option<i64>,
    /// Print the winners as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress, only the winners
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
