//! Simulations on many machines: an [`Executor`](formant_runtime::executor::Executor) whose clients live in several
//! processes, called ranks.
//!
//! Rank 0 has the simulator's driver, the server, the log and a share of the clients ([`Leader`]); every other rank has
//! a share and does what it is told ([`follow`]). In each of them, threads do what they do for a simulation in one
//! process ([`Threads`](formant_runtime::executor::Threads)). Whatever is summed comes to rank 0 in client order, so
//! there are the same bits for any number of ranks, and for any placement of clients.
//!
//! Between ranks lies a [`Fabric`], which carries bytes: MPI in a cluster (the feature `mpi`), and a [`Mesh`] of threads
//! in tests. One thread in every rank serves it ([`Link`]), so that what comes and goes does so while others compute.
//!
//! What is on its way to rank 0 is bounded: a rank sends what it was asked for, and rank 0 asks in client order for a
//! little more than it needs. What has to wait does so where it was made, on disk if there is no room.

mod carry;
mod clock;
mod codec;
mod error;
mod fabric;
mod follower;
mod launch;
mod leader;
mod link;
mod mesh;
mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod muster;
mod placement;
mod stream;

pub use error::RanksError;
pub use fabric::{Fabric, Frame, Served, To};
pub use follower::{Place, follow};
pub use launch::{Launched, launched};
pub use leader::Leader;
pub use link::{Link, Traffic};
pub use mesh::Mesh;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use muster::{Call, Card, Greeting, Spot, answer, call, check_of, dismiss, gather, settle};
