//! A real Fourier transform for long vectors, in plain arithmetic.
//!
//! The spectral term needs a spectrum and its inverse, in any order; it never needs bins in their
//! natural order. So this transform permutes nothing: the forward transform leaves bins where they
//! fall, the inverse starts from there, and both go over memory twice.
//!
//! `N = R·C`, and the vector is a matrix with `R` rows of `C`: `x[j·C + n]`. With `w_N = e^{−2πi/N}`
//! and `k = r + R·c` (the four-step method):
//!
//! - columns: `y_r[n] = Σ_j x[j·C + n] w_R^{rj}`. The input is real, so `r = 0..=R/2` is enough, and
//!   two columns go through one complex transform (`columns`)
//! - twiddle: `y_r[n] · w_N^{rn}`
//! - rows: `z_{r + R·c} = Σ_n y_r[n] w_C^{nc}` (`stages`)
//!
//! Entries of rows `0 < r < R/2` stand for themselves and for their mirror image `N − k`, which lies
//! in a row that is not computed. Rows `0` and `R/2` are their own mirror images: all of their
//! entries are there, so each stands for itself alone.
//!
//! The inverse needs `Re Σ_k a_k w_N^{kn}`. Its factors are those of the forward transform, and the
//! matrix of each step is symmetric: so it is the same steps in reverse order (`join` for `split`).
//!
//! Eight rows travel together as the lanes of a vector ([`Bins`]). Loops run over lanes in plain
//! arithmetic, which the compiler turns into vector instructions; the same sums in the same order
//! happen without them, so results are the same bits on every machine.

mod butterfly;
mod columns;
mod decimate;
mod filter;
mod halve;
mod kernel;
mod lanes;
mod resample;
mod stages;
mod weights;

pub(super) use columns::{Dimensions, Matrix, shape, smooth};
pub(super) use decimate::{Decimation, cut};
pub(super) use lanes::{Bins, LANES, Lanes};
pub(super) use resample::{Resampling, grid};
