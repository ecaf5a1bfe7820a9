//! What every method of the zoo owes: a new one is covered the moment it is registered.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod by_hand;
mod codec;
mod damage;
mod determinism;
mod digits;
mod divergence;
mod keeping;
mod learning;
mod log;
mod problem;
mod reductions;
mod resumption;
mod schedules;
mod separation;
mod sgd;
mod spoiler;
