//! Eight numbers that go through the same arithmetic.
#![expect(
    clippy::inline_always,
    reason = "these bodies must land inside a caller that has AVX2 switched on"
)]
#![expect(clippy::needless_range_loop, reason = "a loop over lanes is what vectorises")]

use core::ops::{Add, Mul, Sub};

/// Width of the vectors: eight `f32`, whether the machine has such vectors or not.
pub(in crate::spectral) const LANES: usize = 8;

/// Eight real numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(align(32))]
pub(in crate::spectral) struct Lanes(pub(in crate::spectral) [f32; LANES]);

impl Lanes {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = self.0;
        for l in 0..LANES {
            out[l] = f(out[l], other.0[l]);
        }
        Self(out)
    }
}

impl Lanes {
    /// `self · x + plus`, rounded once.
    #[inline(always)]
    pub(super) fn fused(self, x: f32, plus: Self) -> Self {
        self.zip(
            plus,
            #[inline(always)]
            |a, b| a.mul_add(x, b),
        )
    }
}

impl Add for Lanes {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(
            other,
            #[inline(always)]
            |a, b| a + b,
        )
    }
}

impl Sub for Lanes {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(
            other,
            #[inline(always)]
            |a, b| a - b,
        )
    }
}

impl Mul for Lanes {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(
            other,
            #[inline(always)]
            |a, b| a * b,
        )
    }
}

/// Eight complex numbers: one cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(align(64))]
pub(in crate::spectral) struct Bins {
    pub(in crate::spectral) re: Lanes,
    pub(in crate::spectral) im: Lanes,
}

impl Add for Bins {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Mul for Bins {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}
