//! The Gaussian mechanism, exactly.
//!
//! Balle and Wang, *Improving the Gaussian Mechanism for Differential Privacy: Analytical Calibration and
//! Optimal Denoising*, ICML 2018, Theorem 8: with noise of `z` times the sensitivity,
//!
//! `δ(ε) = Φ(1/(2z) − εz) − e^ε Φ(−1/(2z) − εz)`,
//!
//! and there is no smaller δ. It is what a privacy loss distribution of the mechanism comes to.

use crate::logarithm::normal;

/// The δ of an ε, with a noise multiplier.
pub fn delta(noise_multiplier: f64, epsilon: f64) -> f64 {
    let (half, shift) = (0.5 / noise_multiplier, epsilon * noise_multiplier);
    let (first, second) = (normal(half - shift), epsilon + normal(-half - shift));
    // Both may be far below one; what is left of them is no less than 0.
    (libm::exp(first) - libm::exp(second)).max(0.0)
}

/// The ε of a δ: no smaller than the true one by more than rounding. Infinite noise reveals nothing.
pub fn epsilon(noise_multiplier: f64, delta: f64) -> f64 {
    let suffices = |epsilon| self::delta(noise_multiplier, epsilon) <= delta;
    if noise_multiplier == f64::INFINITY || suffices(0.0) {
        return 0.0;
    }
    let (mut too_small, mut enough) = (0.0, 1.0);
    while !suffices(enough) {
        (too_small, enough) = (enough, 2.0 * enough);
        if enough > MOST {
            return f64::INFINITY;
        }
    }
    while enough - too_small > PRECISION * enough {
        let between = f64::midpoint(too_small, enough);
        if suffices(between) {
            enough = between;
        } else {
            too_small = between;
        }
    }
    enough
}

/// Beyond this ε nothing is promised.
const MOST: f64 = 1e300;

/// How near to the true ε one comes.
const PRECISION: f64 = 1e-12;
