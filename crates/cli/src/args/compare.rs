//! `formant compare`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Runs that differ in their seeds alone are one group: mean ± standard deviation. What else differs between the runs is
a column. Methods compete where the data are the same; differences are paired where seeds and clients are.

Examples:
  formant run --seeds 3 --out runs/three && formant compare runs/three
  formant compare runs/lambda-0.1 runs/lambda-1 --baseline ditto
  formant compare runs/seed-1 runs/seed-2 runs/seed-3 --json
  formant compare runs/* --csv all.csv --latex table.tex")]
pub(crate) struct CompareArgs {
    /// Run folders, or folders of `formant run --seeds`
    #[arg(required = true)]
    pub(crate) run_dirs: Vec<PathBuf>,
    /// The method that all are compared with, by label or title [default: the first that trains the model]
    #[arg(long, value_name = "METHOD")]
    pub(crate) baseline: Option<String>,
    /// Write every figure, difference and interval into a file of comma-separated values
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the table for LaTeX (booktabs)
    #[arg(long, value_name = "FILE")]
    pub(crate) latex: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    pub(crate) force: bool,
    /// Print groups, rows and differences as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}
