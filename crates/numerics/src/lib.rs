//! Parameter vectors, their algebra and spectra; networks with hand-written gradients; SGD.
//!
//! No I/O, no clock, no threads: everything here is a pure function of its arguments.

mod rng;
mod shape;

pub use rng::{Rng, Stream};
pub use shape::Shape;
