//! Several ranks give the bits of one process. Here they are threads, and what lies between them is a mesh of
//! channels; `scripts/check-mpi` does the same with processes and MPI.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod bits;
mod faults;
mod muster;
mod party;
#[path = "../../../runtime/tests/contract/standard.rs"]
#[expect(dead_code, reason = "there are more helpers than this suite needs")]
mod standard;
