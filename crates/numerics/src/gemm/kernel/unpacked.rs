//! The register tile over operands that lie where they are, without packing.

use super::has_fused;
use crate::gemm::WIDTH;

/// One tile: up to `MR` rows of `A` against sixteen columns of `B`.
#[derive(Clone, Copy)]
pub(in crate::gemm) struct Strides {
    /// Valid rows, at most `MR`.
    pub(in crate::gemm) rows: usize,
    pub(in crate::gemm) depth: usize,
    /// Distance between rows of `A` and along its depth.
    pub(in crate::gemm) a: (usize, usize),
    /// Distance along the depth of `B`.
    pub(in crate::gemm) b: usize,
    /// Distance between rows of `C`.
    pub(in crate::gemm) c: usize,
    /// Add to what is there instead of replacing it.
    pub(in crate::gemm) accumulate: bool,
}

/// Adds (or writes) the product of one tile. The sum runs over the whole depth in order, fused.
#[inline]
pub(in crate::gemm) fn unpacked_tile<const MR: usize>(
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    s: Strides,
) {
    assert!(s.rows > 0 && s.rows <= MR && s.depth > 0);
    assert!((s.rows - 1) * s.a.0 + (s.depth - 1) * s.a.1 < a.len());
    assert!((s.depth - 1) * s.b + WIDTH <= b.len());
    assert!((s.rows - 1) * s.c + WIDTH <= c.len());
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        // SAFETY: AVX2 and FMA are present; the assertions above bound every element of the tile,
        // and rows beyond `rows` are never formed.
        unsafe { x86::<MR>(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), s) };
        return;
    }
    let mut sums = [[0.0f32; WIDTH]; MR];
    for k in 0..s.depth {
        let b = &b[k * s.b..][..WIDTH];
        for (i, sums) in sums.iter_mut().enumerate().take(s.rows) {
            let x = a[i * s.a.0 + k * s.a.1];
            for (sum, &y) in sums.iter_mut().zip(b) {
                *sum = x.mul_add(y, *sum);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate().take(s.rows) {
        for (c, sum) in c[i * s.c..][..WIDTH].iter_mut().zip(sums) {
            *c = if s.accumulate { *c + sum } else { *sum };
        }
    }
}

/// # Safety
/// AVX2 and FMA must be present; `rows` rows of `A` and `C`, `depth` rows of `B` are readable (and
/// `C` writable) at the given strides.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn x86<const MR: usize>(a: *const f32, b: *const f32, c: *mut f32, s: Strides) {
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };
    let mut sums = [[_mm256_setzero_ps(); 2]; MR];
    // Rows that are not there repeat the last one; their sums are dropped.
    // SAFETY: every offset stays inside by the contract.
    unsafe {
        let rows: [*const f32; MR] = core::array::from_fn(|i| a.add(i.min(s.rows - 1) * s.a.0));
        let (mut b, mut at) = (b, 0);
        for _ in 0..s.depth {
            let (left, right) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let x = _mm256_broadcast_ss(&*row.add(at));
                sums[0] = _mm256_fmadd_ps(x, left, sums[0]);
                sums[1] = _mm256_fmadd_ps(x, right, sums[1]);
            }
            b = b.wrapping_add(s.b);
            at += s.a.1;
        }
        for (i, sums) in sums.iter().enumerate() {
            if i == s.rows {
                return;
            }
            for (v, sum) in sums.iter().enumerate() {
                let out = c.add(i * s.c + 8 * v);
                let value =
                    if s.accumulate { _mm256_add_ps(_mm256_loadu_ps(out), *sum) } else { *sum };
                _mm256_storeu_ps(out, value);
            }
        }
    }
}
