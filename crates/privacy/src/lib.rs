//! The accountant: what so many noisy sums reveal of one who took part in them, as (ε, δ).
//!
//! One release is `s + N(0, (zC)² I)`, where one participant moves `s` by no more than `C`; `z` is the
//! noise multiplier. If nobody but the one who sums knows who took part, and everybody does so with
//! probability `q` by a toss of its own (Poisson sampling), a release reveals less.
//!
//! - `q = 1`: releases compose to one Gaussian mechanism, whose ε is known exactly ([`gaussian`]).
//! - `q < 1`: Rényi differential privacy ([`renyi`]) of each, added up and converted; no worse than if
//!   `q` were 1, since sampling hides and never shows.
//!
//! Everything is deterministic, with logarithms of a software library: the same bits on every machine.

pub mod gaussian;
mod logarithm;
pub mod renyi;

use renyi::ORDERS;

/// What releases of one kind cost.
///
/// ```
/// use formant_privacy::{Accountant, noise_multiplier_for};
///
/// let all = Accountant::new(4.0, 1.0);
/// assert!(all.epsilon(100, 1e-5) > all.epsilon(10, 1e-5));
/// // Hardly anybody takes part, and nobody knows who.
/// assert!(Accountant::new(4.0, 0.1).epsilon(100, 1e-5) < all.epsilon(100, 1e-5));
///
/// let z = noise_multiplier_for(2.0, 100, 0.1, 1e-5).unwrap();
/// let spent = Accountant::new(z, 0.1).epsilon(100, 1e-5);
/// assert!(spent <= 2.0 && spent > 1.999);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Accountant {
    noise_multiplier: f64,
    /// Rényi divergence of one release at each of [`ORDERS`]; empty without sampling.
    renyi: Vec<f64>,
}

impl Accountant {
    /// Of releases with noise of `noise_multiplier` times what one participant can change, in each of
    /// which everybody takes part with probability `rate`.
    pub fn new(noise_multiplier: f64, rate: f64) -> Self {
        let at = |order: &f64| renyi::sampled_gaussian(rate, noise_multiplier, *order);
        let renyi = if rate < 1.0 { ORDERS.iter().map(at).collect() } else { Vec::new() };
        Self { noise_multiplier, renyi }
    }

    /// The ε of so many releases at a δ.
    pub fn epsilon(&self, releases: u64, delta: f64) -> f64 {
        let releases = releases as f64;
        // Sums of n noisy ones are as good as one with noise divided by √n.
        let exact = gaussian::epsilon(self.noise_multiplier / libm::sqrt(releases), delta);
        if self.renyi.is_empty() || releases == 0.0 {
            return exact;
        }
        let composed = ORDERS.iter().zip(&self.renyi).map(|(order, one)| (*order, releases * one));
        exact.min(renyi::epsilon(composed, delta))
    }
}

/// The noise multiplier with which so many releases cost no more than ε; none if no noise that is of any
/// use would do.
pub fn noise_multiplier_for(epsilon: f64, releases: u64, rate: f64, delta: f64) -> Option<f64> {
    let suffices = |z: f64| Accountant::new(z, rate).epsilon(releases, delta) <= epsilon;
    let (mut too_little, mut enough) = (0.0, 1.0);
    while !suffices(enough) {
        (too_little, enough) = (enough, 2.0 * enough);
        if enough > MOST {
            return None;
        }
    }
    while enough - too_little > PRECISION * enough {
        let between = f64::midpoint(too_little, enough);
        if suffices(between) {
            enough = between;
        } else {
            too_little = between;
        }
    }
    Some(enough)
}

/// Beyond this multiplier nothing is learnt.
const MOST: f64 = 1e6;

/// How near to the least noise that suffices one comes.
const PRECISION: f64 = 1e-7;

#[cfg(test)]
mod tests;
