//! Kaiser and Bessel's kernel: short, and with hardly anything beyond its bandwidth.

use core::f64::consts::PI;

/// `½ cos 3π/8` and `½ cos π/8`.
const NODES: [f64; 2] = [0.191_341_716_182_544_9, 0.461_939_766_255_643_4];

/// `φ(x) = I₀(β √(1 − (2x/w)²)) / I₀(β)` for `|x| ≤ w/2`, and 0 beyond.
pub(super) struct Kernel {
    /// `w`.
    width: f64,
    /// `β`.
    beta: f64,
    /// `I₀(β)`.
    whole: f64,
}

impl Kernel {
    pub(super) fn new(width: f64, beta: f64) -> Self {
        Self { width, beta, whole: bessel(beta) }
    }

    pub(super) fn at(&self, x: f64) -> f64 {
        let inside = 1.0 - (2.0 * x / self.width).powi(2);
        if inside < 0.0 { 0.0 } else { bessel(self.beta * libm::sqrt(inside)) / self.whole }
    }

    /// `1/(gain · φ̂(ξ))` at a frequency within the bandwidth, where `φ̂` is the Fourier transform of `φ`.
    pub(super) fn reciprocal(&self, frequency: f64, gain: f64) -> f64 {
        let x = PI * self.width * frequency;
        let root = libm::sqrt(self.beta * self.beta - x * x);
        self.whole * root / (gain * self.width * libm::sinh(root))
    }

    /// `φ(middle + h · step)` for `|h| ≤ ½` as `p₀ + p₁ h + p₂ h² + p₃ h³`: exact where Chebyshev's polynomial of degree
    /// four is zero, even and odd part by themselves.
    pub(super) fn cubic(&self, middle: f64, step: f64) -> [f64; 4] {
        let at = |h: f64| self.at(middle + h * step);
        let [near, far] = NODES;
        let even = |h: f64| f64::midpoint(at(h), at(-h));
        let odd = |h: f64| (at(h) - at(-h)) / (2.0 * h);
        let squares = far * far - near * near;
        let (second, third) =
            ((even(far) - even(near)) / squares, (odd(far) - odd(near)) / squares);
        let zeroth = even(near) - second * near * near;
        let first = odd(near) - third * near * near;
        [zeroth, first, second, third]
    }
}

/// `I₀`, the modified Bessel function, by its series.
fn bessel(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0);
    while term > 1e-17 * sum {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}
