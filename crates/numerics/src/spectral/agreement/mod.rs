//! How far two models agree, frequency by frequency: for looking at, not for training.
//!
//! A spectrum is a list of orthonormal coefficients (`Σ |z|² = ‖w‖²`), ordered from low to high within every
//! tensor, and cut into [`BANDS`] by shares of the entries. Agreement is measured in ways that do not reward
//! size: a large component is no better than a small one. Everything is in `f64`.

mod lens;
mod pair;

pub use lens::{AgreementLens, Bands};
pub use pair::{Agreement, SpectralPair};

use serde::{Deserialize, Serialize};

/// What is called a spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpectrumKind {
    /// One transform of all parameters in the order in which they are stored: the paper's.
    Flat,
    /// One transform of each tensor.
    PerLayer,
    /// A two-dimensional transform over `(out, in)` for each position of the kernel; of vectors, one over their
    /// length. Low is a small radial frequency.
    #[serde(rename = "two-d")]
    TwoD,
    /// A two-dimensional transform over the kernel for each `(out, in)`; of matrices as [`SpectrumKind::TwoD`].
    Kernel,
    /// Singular values of each `(out, in · kernel)` matrix with their vectors; low is large.
    Singular,
}

impl SpectrumKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Flat, Self::PerLayer, Self::TwoD, Self::Kernel, Self::Singular];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::PerLayer => "per-layer",
            Self::TwoD => "two-d",
            Self::Kernel => "kernel",
            Self::Singular => "singular",
        }
    }
}

/// Where bands begin and the last one ends, as shares of the entries from low to high. The first `⌈τd⌉` entries of
/// the full, mirrored vector are the lowest `2τ` of the frequencies.
pub const BANDS: [f64; 9] = [0.0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];

#[cfg(test)]
mod tests;
