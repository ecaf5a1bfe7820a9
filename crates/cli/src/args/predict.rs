//! The command line of what uses models: `formant predict` and `formant evaluate`.

use super::model::ModelChoice;
use clap::Args;
use formant_data::{SourceOptions, Split};
use formant_model::Card;
use std::path::PathBuf;

/// A model, in a file or in a folder of several.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model file, run folder, or state folder of `join` or `serve`
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) choice: ModelChoice,
}

/// What the files of images do not say themselves.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// The part to use of what has several
    #[arg(long, value_enum, default_value = "test")]
    split: Part,
    /// File of labels (IDX or .npy) of an IDX, .npy or .npz file
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Array of images in an .npz file [default: images, x, test_images, x_test, …]
    #[arg(long, value_name = "KEY")]
    images_key: Option<String>,
    /// Array of labels in an .npz file [default: labels, y, test_labels, y_test, …]
    #[arg(long, value_name = "KEY")]
    labels_key: Option<String>,
    /// Column of labels in a table [default: that of the data that the model was trained on]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Leave out image files that cannot be read, and say which
    #[arg(long)]
    skip_bad: bool,
    /// Worker threads; the result does not depend on them [default: one per core]
    #[arg(long, allow_negative_numbers = true, value_parser = super::threads())]
    threads: Option<i64>,
    /// No notes and no progress, only the result
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Part {
    Train,
    Validation,
    Test,
    All,
}

impl SourceArgs {
    pub(crate) fn split(&self) -> Split {
        match self.split {
            Part::Train => Split::Train,
            Part::Validation => Split::Validation,
            Part::Test => Split::Test,
            Part::All => Split::All,
        }
    }

    /// How inputs are read for a model.
    pub(crate) fn options(&self, card: &Card) -> SourceOptions {
        SourceOptions {
            split: self.split(),
            labels: self.labels.clone(),
            images_key: self.images_key.clone(),
            labels_key: self.labels_key.clone(),
            label: self.label.clone(),
            schema: card.schema.clone(),
            skip_bad: self.skip_bad,
            ..SourceOptions::default()
        }
    }

    pub(crate) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.and_then(|threads| usize::try_from(threads).ok()).unwrap_or_else(cores)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Inputs are image files (PNG, JPEG, WebP, BMP), folders of them, IDX files, .npz and .npy files, and
shares of `formant data export`. Images of another size are cropped in the middle and resized. A model
that was trained on a table takes tables (.csv, .parquet) with columns of the same names.

Examples:
  formant predict runs/quickstart-…/models/SCD/personal/3.safetensors some.png
  formant predict runs/quickstart-… --method SCD --client 3 photos/
  formant predict state photos/ --top 5            a client's own model, no server needed
  formant predict model.safetensors test.npz --csv > predictions.csv
  formant predict model.safetensors patients.csv   a model that was trained on a table")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Images or rows to predict
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// How many classes to show, the most probable first
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top: u16,
    /// Print JSON on standard output
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values on standard output
    #[arg(long)]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The data are labelled images: a folder with a folder for each class (CLASS/IMAGE.png, called like
the model's classes), an IDX file with its labels beside it, an .npz file of images and labels, a
share of `formant data export`, a table with a column of labels for a model that was trained on one,
or a dataset by name (see `formant data list`).

Examples:
  formant evaluate model.safetensors --data mnist-small
  formant evaluate runs/quickstart-… --method SCD --client 3 --data shares/client-003.safetensors
  formant evaluate model.safetensors --data photos/ --json > scores.json
  formant evaluate model.safetensors --data digits.idx --labels digit-labels.idx")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Labelled images or rows: a path, or the name of a dataset
    #[arg(long, value_name = "PATH|NAME")]
    pub(crate) data: PathBuf,
    /// Folder of the datasets that are known by name [env: FORMANT_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print everything as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}
