//! The spectrum of a model and the divergence between two of them.
//!
//! - Spectrum vector: `s(w) = |DFT(w)|`, unnormalised, over all trainable parameters.
//! - Truncation: the first `⌈τd⌉` entries of the full, mirrored vector of length `d`.
//! - Divergence: `D(p‖q)` of student `p` from teacher `q`, in one of four [`Form`]s.
//! - Gradient: `∂D/∂w_n = Re Σ_k g_k (z_k/|z_k|) e^{+2πikn/d}` with `g_k = ∂D/∂s_k`: one forward and
//!   one inverse real transform.
//!
//! Only half of the bins are computed, because `w` is real. Bin `k` of the half stands for entries
//! `k` and `d − k` of the full vector; how many of the two the truncation keeps is its *count* (0,
//! 1 or 2), and how many exist is its *multiplicity* (1 for bin 0 and bin `d/2`, else 2).

mod divergence;
mod plan;

pub use divergence::{Form, SpectralDivergence};
pub use plan::{Scope, Spectrum};
