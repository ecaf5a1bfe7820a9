//! The seams of this crate, each proved by a second implementation: an engine that follows the
//! definitions in `f64` beside the CPU's, samples of floats beside images of bytes.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]
#![expect(
    clippy::disallowed_macros,
    reason = "clippy.toml is about the library; its tests say how far they are"
)]

mod augmented;
mod closeness;
mod conformance;
pub mod floats;
mod networks;
mod objectives;
pub mod reference;
mod samples;
