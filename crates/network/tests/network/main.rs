//! A server and its clients over real sockets, in one process.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod approval;
mod attack;
mod bits;
mod digits;
mod faults;
mod flips;
mod hostile;
mod house;
mod lines;
mod models;
mod privacy;
mod records;
mod trust;
