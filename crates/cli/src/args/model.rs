//! The command line of everything that uses a trained model.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};
use formant_model::Format;
use formant_model::folder::Which;
use std::path::PathBuf;

/// Which model of a folder is meant.
#[derive(Debug, Args, Clone)]
#[command(group = ArgGroup::new("whose").multiple(false))]
pub(crate) struct ModelChoice {
    /// The method's label, in a run folder with several
    #[arg(long, value_name = "LABEL")]
    pub(crate) method: Option<String>,
    /// The personal model of this client
    #[arg(long, value_name = "K", group = "whose")]
    pub(crate) client: Option<usize>,
    /// The generic model, also where a personal one lies beside it
    #[arg(long, group = "whose")]
    pub(crate) generic: bool,
    /// The generic model of the evaluation in which it scored best
    #[arg(long, group = "whose")]
    pub(crate) best: bool,
}

impl ModelChoice {
    pub(crate) fn which(&self) -> Which {
        match self {
            Self { client: Some(client), .. } => Which::Client(*client),
            Self { generic: true, .. } => Which::Generic,
            Self { best: true, .. } => Which::Best,
            _ => Which::Obvious,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
safetensors  tensors with PyTorch's names, and in the header all that is known of the model
onnx         a graph that takes raw pixels, for onnxruntime and others
npz          an archive of NumPy arrays
docs/MODELS.md has programs that read each of them.

Examples:
  formant export runs/quickstart-20260101-120000 --method SCD --client 3 --format onnx
  formant export runs/quickstart-20260101-120000 --all --format npz --out arrays
  formant export state --format onnx --out mine.onnx     on the host of a client
  formant export model.safetensors --format npz")]
pub(crate) struct ExportArgs {
    /// A run folder, the state folder of `join` or `serve`, or a model file
    #[arg(value_name = "RUN|STATE|MODEL")]
    pub(crate) source: PathBuf,
    #[command(flatten)]
    pub(crate) choice: ModelChoice,
    /// Every model of the folder, or of --method
    #[arg(long, group = "whose")]
    pub(crate) all: bool,
    /// What to write
    #[arg(long, value_parser = format())]
    pub(crate) format: Format,
    /// File to write, or folder with --all [default: METHOD-MODEL.FORMAT, with --all export]
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what was written as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .try_map(|name| Format::named(&name).ok_or("no such format"))
}
