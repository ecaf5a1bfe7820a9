//! What every method of the zoo owes: a new one is covered the moment it is registered. The contracts are those
//! that `formant-testing` has for everybody; the modules are about single methods, and about the runtime.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod augmentation;
mod codec;
mod combining;
mod damage;
mod determinism;
mod digits;
mod distillation;
mod divergence;
mod extension;
mod faults;
mod flips;
mod guard;
mod insight;
mod keeping;
mod log;
mod metrics;
mod newcomers;
mod patience;
mod privacy;
mod reductions;
mod resumption;
mod schedules;
mod separation;
mod sgd;
mod spoiler;
mod standard;
mod training;

formant_testing::contract_suite!(standard::subjects());
