//! `formant spectra`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
For every kind of spectrum, and for bands from low to high frequencies, how far personal models agree with the
generic one: their weights, and what they have learnt since the common start (updates). Beside it the controls:
random bands of the same size, hidden units in another order in both models or in one, all parameters in another
order, and units matched with the GM's. docs/SPECTRAL.md reads such a table.

Examples:
  formant spectra runs/quickstart-20260101-120000 --method SCD
  formant spectra runs/mine --kind two-d --measure distance
  formant spectra runs/mine --json > spectra.json")]
pub(crate) struct SpectraArgs {
    /// Run folder that keeps its models
    pub(crate) run_dir: PathBuf,
    /// The method's label [default: all that train personal models]
    #[arg(long, value_name = "LABEL")]
    pub(crate) method: Option<String>,
    /// Kind of spectrum (repeatable) [default: all]
    #[arg(long = "kind", value_name = "KIND", value_enum)]
    pub(crate) kinds: Vec<Kind>,
    /// How agreement is measured in the table
    #[arg(long, value_enum, default_value = "cosine")]
    pub(crate) measure: Measure,
    /// Clients at most, the first by number
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) clients: u32,
    /// Random orders of units and of parameters
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) orders: u32,
    /// Random bands
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) bands: u32,
    /// Print all measures and intervals as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// One transform of all parameters: the paper's
    Flat,
    /// One transform of each tensor
    PerLayer,
    /// Over (out, in) for each kernel position
    TwoD,
    /// Over the kernel for each (out, in)
    Kernel,
    /// Singular values and vectors of each weight matrix
    Singular,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// Cosine of the two spectra, phase included: 1 is agreement
    Cosine,
    /// Squared distance over the GM's squared norm: 0 is agreement
    Distance,
    /// Correlation of log-magnitudes: 1 is agreement
    Magnitudes,
    /// KL divergence of normalised magnitudes: 0 is agreement
    Divergence,
}
