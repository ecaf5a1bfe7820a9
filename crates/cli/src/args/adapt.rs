//! The command line of `formant adapt`.

use clap::{Args, ValueEnum};
use formant_data::SourceOptions;
use formant_runtime::event::Approach;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
A client that took no part in training gets a personal model from what a finished run has left: by
fine-tuning the generic model, and by the method's own rule where it has another one. The run folder
stays as it is.

Without --data, the newcomers are those of the run's experiment (data.new_clients). With --data, there
is one: yours. Data that have no test part are divided as the run divides those of a client.

Examples:
  formant run --set data.new_clients=5              five of the clients join when training is over
  formant adapt runs/quickstart-… --epochs 20       the same newcomers, for longer
  formant adapt runs/quickstart-… --method SCD --data photos --save mine.safetensors
  formant adapt runs/quickstart-… --svg newcomers.svg --json > newcomers.json")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct AdaptArgs {
    /// Folder of a finished run
    #[arg(value_name = "RUN")]
    pub(crate) run_dir: PathBuf,
    /// Only this method's models, by its label (repeatable) [default: all methods]
    #[arg(long = "method", value_name = "LABEL")]
    pub(crate) methods: Vec<String>,
    /// Epochs to train for [default: evaluation.adapt_epochs of the run, or 5]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(0..=1_000))]
    pub(crate) epochs: Option<u16>,
    /// Labelled data of one new client: a folder with a folder for each class, an .npz file, a table, a
    /// share of `formant data export`
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Option<PathBuf>,
    /// Column of labels in a table, or array of labels in an .npz file
    #[arg(long, value_name = "NAME", requires = "data")]
    pub(crate) label: Option<String>,
    /// Leave out pictures that cannot be read
    #[arg(long, requires = "data")]
    pub(crate) skip_bad: bool,
    /// Write the personal model of the new client into a file
    #[arg(long, value_name = "FILE", requires = "data")]
    pub(crate) save: Option<PathBuf>,
    /// Which of the two models to save [default: own where there is one]
    #[arg(long, value_enum, requires = "save")]
    pub(crate) by: Option<By>,
    /// Draw accuracy over epochs into a file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Worker threads; the result does not depend on them [default: those of the run]
    #[arg(long, allow_negative_numbers = true, value_parser = super::threads())]
    pub(crate) threads: Option<i64>,
    /// Print everything as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// No notes and no progress, only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A way to a personal model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Plain training from the generic model
    FineTuning,
    /// The method's own rule
    Own,
}

impl By {
    pub(crate) fn approach(self) -> Approach {
        match self {
            Self::FineTuning => Approach::FineTuning,
            Self::Own => Approach::Own,
        }
    }
}

impl AdaptArgs {
    /// How the data of the new client are read.
    pub(crate) fn options(&self) -> SourceOptions {
        SourceOptions {
            label: self.label.clone(),
            skip_bad: self.skip_bad,
            ..SourceOptions::default()
        }
    }
}
