//! Sums and tails that overflow or vanish unless one computes with their logarithms.

use core::f64::consts::{LN_2, PI, SQRT_2};

/// `ln(e^a + e^b)`.
pub(crate) fn add(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY { large } else { large + libm::log1p(libm::exp(small - large)) }
}

/// `ln(e^a − e^b)`, or nothing if that is no number.
pub(crate) fn subtract(a: f64, b: f64) -> Option<f64> {
    if b == f64::NEG_INFINITY {
        return Some(a);
    }
    if a < b {
        return None;
    }
    if a == b {
        return Some(f64::NEG_INFINITY);
    }
    // Where e^(a − b) overflows, b is lost in a.
    let ratio = libm::expm1(a - b);
    Some(if ratio.is_finite() { libm::log(ratio) + b } else { a })
}

/// `ln erfc(x)`.
pub(crate) fn erfc(x: f64) -> f64 {
    if x < 10.0 {
        return libm::log(libm::erfc(x));
    }
    // The asymptotic series: erfc itself is below every f64 from 27 on.
    let y = 1.0 / (x * x);
    let series = 1.0 - y * (0.5 - y * (0.75 - y * (1.875 - y * 6.5625)));
    -x * x - libm::log(x * libm::sqrt(PI)) + libm::log(series)
}

/// `ln Φ(x)`: how likely a standard normal number is below `x`.
pub(crate) fn normal(x: f64) -> f64 {
    erfc(-x / SQRT_2) - LN_2
}
