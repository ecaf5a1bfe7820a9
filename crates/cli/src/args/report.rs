//! The arguments of `formant report`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Everything that the report shows can be taken: docs/REPORTS.md has the files and their columns. Folders are made,
other files in them are left alone, and what is there already is replaced with --force alone.

Examples:
  formant report runs/quickstart-…
  formant report runs/quickstart-… --csv csv --latex table.tex --svg figures
  formant report runs/quickstart-… --json | jq '.methods[0].pm_last'
  formant report runs/quickstart-… --tensorboard logs && tensorboard --logdir logs
  formant report runs/quickstart-… --mlflow mlruns
  MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri mlruns")]
pub(crate) struct ReportArgs {
    /// Run folder, or folder of `formant run --seeds`
    pub(crate) run_dir: PathBuf,
    #[command(flatten)]
    pub(crate) exports: ExportArgs,
    /// Print rows, evaluations, figures of every client and details as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to write besides the report.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Write every table and every curve as CSV files into a folder
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the table of results for LaTeX (booktabs)
    #[arg(long, value_name = "FILE")]
    pub(crate) latex: Option<PathBuf>,
    /// Write every figure as SVG into a folder
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Write every figure as PNG into a folder
    #[arg(long, value_name = "DIR")]
    pub(crate) png: Option<PathBuf>,
    /// Write event files for TensorBoard into a folder, which may hold those of other runs
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Write runs for MLflow into the folder of a file store, which may hold others
    #[arg(long, value_name = "DIR")]
    pub(crate) mlflow: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}
