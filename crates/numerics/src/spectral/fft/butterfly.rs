//! Transforms of two, three, four and five points.
#![expect(
    clippy::inline_always,
    reason = "these bodies must land inside a caller that has AVX2 switched on"
)]

use core::ops::{Add, Sub};

/// One complex number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Point {
    pub(super) re: f32,
    pub(super) im: f32,
}

impl Add for Point {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Point {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Point {
    /// `e^{−2πi k/n}`, from `f64`.
    pub(super) fn root(k: usize, n: usize) -> Self {
        let (im, re) = libm::sincos(-core::f64::consts::TAU * ((k % n) as f64 / n as f64));
        Self { re: re as f32, im: im as f32 }
    }

    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    #[inline(always)]
    fn scaled(self, factor: f32) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }

    /// Times `−i`.
    #[inline(always)]
    fn turned(self) -> Self {
        Self { re: self.im, im: -self.re }
    }
}

/// A transform of a few points: `X_k = Σ_n x_n e^{−2πi kn/P}`.
pub(super) trait Butterfly {
    fn transformed(self) -> Self;
}

impl Butterfly for [Point; 2] {
    #[inline(always)]
    fn transformed(self) -> Self {
        let [a, b] = self;
        [a + b, a - b]
    }
}

impl Butterfly for [Point; 3] {
    #[inline(always)]
    fn transformed(self) -> Self {
        /// `sin 2π/3`.
        const SIN: f32 = 0.866_025_4;
        let [a, b, c] = self;
        let (sum, turned) = (b + c, (b - c).scaled(SIN).turned());
        let middle = a - sum.scaled(0.5);
        [a + sum, middle + turned, middle - turned]
    }
}

impl Butterfly for [Point; 4] {
    #[inline(always)]
    fn transformed(self) -> Self {
        let [a, b, c, d] = self;
        let (p, q, r, s) = (a + c, a - c, b + d, (b - d).turned());
        [p + r, q + s, p - r, q - s]
    }
}

impl Butterfly for [Point; 5] {
    #[inline(always)]
    fn transformed(self) -> Self {
        /// `cos 2π/5`, `cos 4π/5`, `sin 2π/5`, `sin 4π/5`.
        const COS: [f32; 2] = [0.309_017, -0.809_017];
        const SIN: [f32; 2] = [0.951_056_54, 0.587_785_24];
        let [a, b, c, d, e] = self;
        let (p, q, r, s) = (b + e, c + d, b - e, c - d);
        let near = a + (p.scaled(COS[0]) + q.scaled(COS[1]));
        let far = a + (p.scaled(COS[1]) + q.scaled(COS[0]));
        let near_turned = (r.scaled(SIN[0]) + s.scaled(SIN[1])).turned();
        let far_turned = (r.scaled(SIN[1]) - s.scaled(SIN[0])).turned();
        [a + (p + q), near + near_turned, far + far_turned, far - far_turned, near - near_turned]
    }
}
