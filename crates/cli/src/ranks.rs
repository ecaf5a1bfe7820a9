//! `formant run` in several processes at once, started by `mpirun` or `srun`.
//!
//! Rank 0 does what `formant run` does alone, with an executor that gives orders to all others. They are told what to
//! run, say whether they can, and follow.

#[cfg(feature = "mpi")]
mod team;

#[cfg(feature = "mpi")]
pub(crate) use team::Team;

#[cfg(not(feature = "mpi"))]
mod alone;

#[cfg(not(feature = "mpi"))]
pub(crate) use alone::Team;

use crate::args::Command;
use crate::program;
use formant_ranks::{Launched, launched};
use formant_study::Series;
use std::process::ExitCode;

/// Several processes that would all do the same, each for itself, are refused: whoever starts them wants something else.
/// Rank 0 says so; the others end without a word.
pub(crate) fn check_alone(command: &Command) -> Option<anyhow::Result<ExitCode>> {
    let Launched { rank, size, may_be_alone } = launched().filter(|launched| launched.size > 1)?;
    let is_shared = matches!(command, Command::Run(_)) && cfg!(feature = "mpi");
    if may_be_alone && !is_shared {
        return None;
    }
    let name = program::name();
    let error = match command {
        Command::Run(args) if args.series.seeds.is_some() => anyhow::anyhow!(
            "--seeds does not go with {size} processes: they share the clients of one run
hint: start a run for each seed (--seed 1, --seed 2, ...), then `{name} compare` their folders"
        ),
        Command::Run(args) if args.resume.as_ref().is_some_and(|folder| Series::is_one(folder)) => {
            anyhow::anyhow!(
                "a run of several seeds does not go with {size} processes: they share the clients of one run
hint: resume it in one process"
            )
        }
        Command::Run(_) if is_shared => return None,
        Command::Run(_) => anyhow::anyhow!(
            "{size} processes were started together, and this binary knows no MPI
hint: build one that does: `cargo install --path crates/cli --features mpi`, with an MPI library and libclang"
        ),
        _ => anyhow::anyhow!(
            "{size} processes were started together, and only `{name} run` shares its work among them
hint: start one process; `reproduce` and `tune` take --shard i/n to divide their parts"
        ),
    };
    Some(if rank == 0 { Err(error) } else { Ok(ExitCode::FAILURE) })
}
