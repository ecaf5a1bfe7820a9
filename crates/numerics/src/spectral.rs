//! The spectrum of a model and the divergence between two of them.
//!
//! - Spectrum vector: `s(w) = |DFT(w)|`, unnormalised, over all trainable parameters.
//! - Length: `d`, or, with zeros behind the parameters, a length `N ≥ d` that is quick ([`Length`]).
//! - Truncation: the first `⌈τN⌉` entries of the full, mirrored vector of length `N`.
//! - Divergence: `D(p‖q)` of student `p` from teacher `q`, in one of four [`Form`]s.
//! - Gradient: `∂D/∂w_n = Re Σ_k g_k (z_k/|z_k|) e^{+2πikn/N}` with `g_k = ∂D/∂s_k`: one forward and
//!   one inverse real transform. In terms of coefficients `a_k = conj(g_k z_k/|z_k|)` it is
//!   `Re Σ_k a_k e^{−2πikn/N}`, which is how it is computed.
//!
//! Only half of the bins are computed, because `w` is real. A bin stands for its own entry of the
//! full vector and for the mirror image `N − k`; how many of the two the truncation keeps is its
//! *count* (0, 1 or 2). Where both are computed, each stands for itself alone.

mod agreement;
mod blend;
mod comparison;
mod divergence;
mod fft;
mod plan;
mod planar;
mod planes;
mod pointwise;
mod singular;
mod svd;
mod term;
mod transform;
mod truncation;

pub use agreement::{Agreement, AgreementLens, BANDS, Bands, SpectralPair, SpectrumKind};
pub use blend::SpectralBlend;
pub use comparison::{SpectralBands, SpectralComparison};
pub use divergence::{Form, SpectralDivergence};
pub use plan::{Length, Scope, Spectrum};
pub use term::{SpectralPlans, SpectralTerm};
pub use truncation::Band;
