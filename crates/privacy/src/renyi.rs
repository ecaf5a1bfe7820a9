//! Rényi differential privacy of the sampled Gaussian mechanism.
//!
//! Mironov, Talwar and Zhang, *Rényi Differential Privacy of the Sampled Gaussian Mechanism*,
//! arXiv:1908.10530, 2019. Everybody takes part with probability `q`, by a toss of its own, and the noise has
//! `z` times the sensitivity; then with `μ0 = N(0, z²)` and `μ1 = N(1, z²)`
//!
//! - `ε(α) = ln A(α) / (α − 1)` with `A(α) = E_{x∼μ0} ((1 − q) + q μ1(x)/μ0(x))^α`
//! - whole `α` (equation 6): `A = Σ_k C(α,k) (1 − q)^(α−k) q^k e^((k² − k)/(2z²))`
//! - any `α` (section 3.3): the binomial series on either side of the point where both summands are equal
//!
//! It is that of two federations of which one has a client less, whichever of them comes first.
//! Releases add up at each order. Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential
//! Privacy*, NeurIPS 2020, Proposition 12 (also Balle et al., *Hypothesis Testing Interpretations and Rényi
//! Differential Privacy*, AISTATS 2020), turns them into (ε, δ):
//!
//! `ε = min_α ε(α) + ln((α − 1)/α) − (ln δ + ln α)/(α − 1)`.

use crate::logarithm::{add, erfc, subtract};
use core::f64::consts::{LN_2, SQRT_2};

/// The orders at which divergences are kept: those of Google's dp-accounting, so that figures can be compared.
pub const ORDERS: [f64; 156] = {
    let mut orders = [0.0; 156];
    let mut i = 0;
    while i < orders.len() {
        orders[i] = match i {
            0..99 => 1.0 + (i + 1) as f64 / 10.0,
            // 11 to 63.
            99..152 => (i - 88) as f64,
            // 128 to 1,024.
            _ => (128 << (i - 152)) as f64,
        };
        i += 1;
    }
    orders
};

/// The divergence of one release at an order above 1; infinite where its series does not converge, which
/// leaves the other orders.
pub fn sampled_gaussian(rate: f64, noise_multiplier: f64, order: f64) -> f64 {
    let (q, z) = (rate, noise_multiplier);
    if q == 0.0 {
        return 0.0;
    }
    if q >= 1.0 {
        return order / (2.0 * z * z);
    }
    let moment = if order.fract() == 0.0 {
        whole(q, z, order)
    } else {
        fractional(q, z, order).unwrap_or(f64::INFINITY)
    };
    moment / (order - 1.0)
}

/// `ln A(α)` of a whole order.
fn whole(q: f64, z: f64, order: f64) -> f64 {
    let mut sum = f64::NEG_INFINITY;
    let mut binomial = 0.0;
    for k in 0..=order as u64 {
        let k = k as f64;
        let exponent = (k * k - k) / (2.0 * z * z);
        let chance = k * libm::log(q) + (order - k) * libm::log1p(-q);
        sum = add(sum, binomial + chance + exponent);
        binomial += libm::log((order - k) / (k + 1.0));
    }
    sum
}

/// Terms after which a series is given up.
const PATIENCE: u32 = 1_000;

/// What is left of a series may be neglected if it is this share of the sum, as a logarithm.
const NEGLIGIBLE: f64 = -30.0;

/// `ln A(α)` of any order.
fn fractional(q: f64, z: f64, order: f64) -> Option<f64> {
    // Where (1 − q) μ0 and q μ1 are equal.
    let middle = z * z * libm::log(1.0 / q - 1.0) + 0.5;
    let (mut below, mut above) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    let (mut binomial, mut is_positive) = (0.0, true);
    let mut last = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for i in 0..PATIENCE {
        let i = f64::from(i);
        let j = order - i;
        let term = |k: f64, tail: f64| {
            let chance = k * libm::log(q) + (order - k) * libm::log1p(-q);
            let half_tail = erfc(tail / (SQRT_2 * z)) - LN_2;
            binomial + chance + (k * k - k) / (2.0 * z * z) + half_tail
        };
        let terms = (term(i, i - middle), term(j, middle - j));
        if is_positive {
            (below, above) = (add(below, terms.0), add(above, terms.1));
        } else {
            (below, above) = (subtract(below, terms.0)?, subtract(above, terms.1)?);
        }
        let falls = terms.0 < last.0 && terms.1 < last.1;
        let sum = add(below, above);
        if falls && terms.0.max(terms.1) < sum + NEGLIGIBLE {
            return Some(sum);
        }
        last = terms;
        let factor = (order - i) / (i + 1.0);
        binomial += libm::log(factor.abs());
        is_positive ^= factor < 0.0;
    }
    None
}

/// The ε of orders with their divergences, at a δ.
pub fn epsilon(orders: impl Iterator<Item = (f64, f64)>, delta: f64) -> f64 {
    let at = |(order, divergence): (f64, f64)| {
        // δ ≤ √(1 − e^−KL): so near to each other, ε may be 0.
        if delta * delta + libm::expm1(-divergence) > 0.0 {
            return 0.0;
        }
        let improved = libm::log1p(-1.0 / order) - libm::log(delta * order) / (order - 1.0);
        (divergence + improved).max(0.0)
    };
    orders.map(at).fold(f64::INFINITY, f64::min)
}
