//! One experiment with several seeds.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct SeriesArgs {
    /// Run several seeds, each in a folder seed-N of the run folder: how many from the experiment's own on, or which
    #[arg(long, value_name = "N or S1,S2,…", conflicts_with_all = ["seed", "resume"], allow_hyphen_values = true)]
    pub(crate) seeds: Option<String>,
    /// Divide the data anew for every seed, so that ± covers the division too
    #[arg(long, requires = "seeds")]
    pub(crate) redivide: bool,
}
