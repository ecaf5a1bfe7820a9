//! Products over operands that lie where they are, without packing.

use super::has_fused;
use crate::gemm::{WIDTH, heights};

/// Distances between the elements of an operand.
#[derive(Clone, Copy)]
pub(in crate::gemm) struct Steps {
    /// Between rows of `A`, or between groups of columns of `B`.
    pub(in crate::gemm) lane: usize,
    /// Along the depth.
    pub(in crate::gemm) depth: usize,
}

/// The extents of a product and the distances between its elements.
#[derive(Clone, Copy)]
pub(in crate::gemm) struct Strides {
    /// Rows of `A` and `C`.
    pub(in crate::gemm) rows: usize,
    /// Groups of sixteen columns of `B` and `C`.
    pub(in crate::gemm) groups: usize,
    pub(in crate::gemm) depth: usize,
    pub(in crate::gemm) a: Steps,
    pub(in crate::gemm) b: Steps,
    /// Distance between rows of `C`.
    pub(in crate::gemm) c: usize,
    /// Add to what is there instead of replacing it.
    pub(in crate::gemm) accumulate: bool,
    /// Whether the loop over rows is outside the one over groups.
    pub(in crate::gemm) rows_outside: bool,
}

/// Adds (or writes) a product. Each sum runs over the whole depth in order, fused.
pub(in crate::gemm) fn unpacked_product(a: &[f32], b: &[f32], c: &mut [f32], s: Strides) {
    if s.rows == 0 || s.groups == 0 || s.depth == 0 {
        return;
    }
    assert!((s.rows - 1) * s.a.lane + (s.depth - 1) * s.a.depth < a.len());
    assert!((s.groups - 1) * s.b.lane + (s.depth - 1) * s.b.depth + WIDTH <= b.len());
    assert!((s.rows - 1) * s.c + s.groups * WIDTH <= c.len());
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        // SAFETY: AVX2 and FMA are present; the assertions above bound every element.
        unsafe { x86::product(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), s) };
        return;
    }
    for (i, j) in (0..s.rows).flat_map(|i| (0..s.groups).map(move |j| (i, j))) {
        let mut sums = [0.0f32; WIDTH];
        for k in 0..s.depth {
            let x = a[i * s.a.lane + k * s.a.depth];
            for (sum, y) in sums.iter_mut().zip(&b[j * s.b.lane + k * s.b.depth..]) {
                *sum = x.mul_add(*y, *sum);
            }
        }
        for (c, sum) in c[i * s.c + j * WIDTH..][..WIDTH].iter_mut().zip(sums) {
            *c = if s.accumulate { *c + sum } else { sum };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Strides, WIDTH, heights};
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps,
        _mm256_storeu_ps,
    };

    /// # Safety
    /// AVX2 and FMA must be present, and every element that the strides name inside its matrix.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn product(a: *const f32, b: *const f32, c: *mut f32, s: Strides) {
        // SAFETY: by the contract; a tile names only rows and groups that exist.
        unsafe {
            if s.rows_outside {
                for (i, height) in heights(s.rows) {
                    for j in 0..s.groups {
                        part(a, b, c, s, Part { row: i, height, group: j });
                    }
                }
            } else {
                for j in 0..s.groups {
                    for (i, height) in heights(s.rows) {
                        part(a, b, c, s, Part { row: i, height, group: j });
                    }
                }
            }
        }
    }

    /// One register tile of a product.
    #[derive(Clone, Copy)]
    struct Part {
        row: usize,
        /// Rows of the tile; the last ones may lie outside.
        height: usize,
        group: usize,
    }

    /// # Safety
    /// As for [`product`], with the part's first row and its group inside.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn part(
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        s: Strides,
        Part { row: i, height, group: j }: Part,
    ) {
        let rows = height.min(s.rows - i);
        // SAFETY: by the contract.
        unsafe {
            let (a, b) = (a.add(i * s.a.lane), b.add(j * s.b.lane));
            let c = c.add(i * s.c + j * WIDTH);
            if height == 6 {
                tile::<6>(a, b, c, s, rows);
            } else {
                tile::<4>(a, b, c, s, rows);
            }
        }
    }

    /// Up to `MR` rows of `A` against sixteen columns of `B`.
    ///
    /// # Safety
    /// As for [`product`], with `rows` rows from `a` and `c` on inside.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn tile<const MR: usize>(
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        s: Strides,
        rows: usize,
    ) {
        let mut sums = [[_mm256_setzero_ps(); 2]; MR];
        let mut lines = [a; MR];
        // SAFETY: by the contract. Rows that are not there repeat the last one and are dropped.
        unsafe {
            for (i, line) in lines.iter_mut().enumerate() {
                *line = a.add(i.min(rows - 1) * s.a.lane);
            }
            let (mut b, mut at) = (b, 0);
            for _ in 0..s.depth {
                let (left, right) = (_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8)));
                for (sums, line) in sums.iter_mut().zip(&lines) {
                    let x = _mm256_broadcast_ss(&*line.add(at));
                    sums[0] = _mm256_fmadd_ps(x, left, sums[0]);
                    sums[1] = _mm256_fmadd_ps(x, right, sums[1]);
                }
                b = b.wrapping_add(s.b.depth);
                at += s.a.depth;
            }
            for (i, sums) in sums.iter().enumerate() {
                if i == rows {
                    return;
                }
                for (v, sum) in sums.iter().enumerate() {
                    let out = c.add(i * s.c + 8 * v);
                    let mut value = *sum;
                    if s.accumulate {
                        value = _mm256_add_ps(_mm256_loadu_ps(out), value);
                    }
                    _mm256_storeu_ps(out, value);
                }
            }
        }
    }
}
