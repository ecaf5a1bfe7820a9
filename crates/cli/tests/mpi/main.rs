//! `mpirun -n N formant run`: the bits of one process, for any number of ranks, through kills and resumptions.
//!
//! `scripts/check-mpi` runs it; it needs an MPI library whose `mpirun` is found.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod bits;
mod kills;
mod party;
mod refusals;
#[path = "../cli/terminal.rs"]
#[expect(dead_code, reason = "there are more helpers than this suite needs")]
mod terminal;
