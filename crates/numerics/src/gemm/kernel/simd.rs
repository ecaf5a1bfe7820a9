//! Eight lanes that are one register where the machine has it.
//!
//! Arrays of eight floats in plain loops often compile to scalar code once they are nested in
//! other arrays. Code written against [`Lanes`] compiles to one instruction per operation with
//! AVX2, and to the same operations elsewhere, so the bits are the same.

use super::has_fused;

/// Eight floats. Every operation rounds once, lane by lane.
pub(crate) trait Lanes: Copy {
    fn splat(value: f32) -> Self;
    /// The first eight values of a slice.
    fn load(from: &[f32]) -> Self;
    fn store(self, to: &mut [f32]);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, factor: f32) -> Self;
    /// `self · factor + other`, rounded once.
    fn mul_add(self, factor: f32, other: Self) -> Self;
}

/// Work that can be compiled for any kind of lanes. `run` must be `#[inline(always)]`, and so must
/// everything below it that touches lanes.
pub(crate) trait LaneWork {
    fn run<L: Lanes>(self);
}

/// Runs work with the best lanes of this machine.
pub(crate) fn with_lanes(work: impl LaneWork) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn with_avx2(work: impl LaneWork) {
            work.run::<x86::Avx>();
        }
        if has_fused() {
            // SAFETY: AVX2 and FMA are present.
            unsafe { with_avx2(work) };
            return;
        }
    }
    work.run::<Portable>();
}

/// For machines without the vector path.
#[derive(Clone, Copy)]
struct Portable([f32; 8]);

impl Portable {
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = self.0;
        for (a, b) in out.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        Self(out)
    }
}

impl Lanes for Portable {
    fn splat(value: f32) -> Self {
        Self([value; 8])
    }

    fn load(from: &[f32]) -> Self {
        let mut lanes = [0.0; 8];
        lanes.copy_from_slice(&from[..8]);
        Self(lanes)
    }

    fn store(self, to: &mut [f32]) {
        to[..8].copy_from_slice(&self.0);
    }

    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    fn mul(self, factor: f32) -> Self {
        self.zip(self, |a, _| a * factor)
    }

    fn mul_add(self, factor: f32, other: Self) -> Self {
        self.zip(other, |a, b| a.mul_add(factor, b))
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::inline_always,
    reason = "the bodies must land inside a caller that has AVX2 switched on"
)]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::{
        __m256, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps,
        _mm256_storeu_ps, _mm256_sub_ps,
    };

    /// One AVX register. Only [`super::with_lanes`] can name it, and only after it has checked
    /// that the machine has AVX2 and FMA: that is what makes the bodies below sound.
    #[derive(Clone, Copy)]
    pub(super) struct Avx(__m256);

    impl Lanes for Avx {
        #[inline(always)]
        fn splat(value: f32) -> Self {
            // SAFETY: the machine has AVX2, see the type.
            Self(unsafe { _mm256_set1_ps(value) })
        }

        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            let from = &from[..8];
            // SAFETY: as above; eight values are there.
            Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
        }

        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            let to = &mut to[..8];
            // SAFETY: as above; eight values are there.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) };
        }

        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm256_add_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm256_sub_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn mul(self, factor: f32) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm256_mul_ps(self.0, _mm256_set1_ps(factor)) })
        }

        #[inline(always)]
        fn mul_add(self, factor: f32, other: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm256_fmadd_ps(self.0, _mm256_set1_ps(factor), other.0) })
        }
    }
}
