//! Between eight rows and one row of eight lanes.

use super::has_fused;

/// `to[x][l] = from[l * stride + x]`, for eight rows of `to.len()` values.
pub(crate) fn interleave(from: &[f32], stride: usize, to: &mut [[f32; 8]]) {
    let len = to.len();
    assert!(7 * stride + len <= from.len(), "eight rows of {len} values");
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        done = len / 8 * 8;
        // SAFETY: AVX2 is present; by the assertion, eight rows of `done` values lie in `from`.
        unsafe { x86::interleave(from, stride, &mut to[..done]) };
    }
    for (x, to) in to.iter_mut().enumerate().skip(done) {
        for (l, to) in to.iter_mut().enumerate() {
            *to = from[l * stride + x];
        }
    }
}

/// `to[l * stride + x] (+)= from[x][l] (+ offset[l])`, the inverse of [`interleave`].
pub(crate) fn deinterleave(
    from: &[[f32; 8]],
    to: &mut [f32],
    stride: usize,
    offset: &[f32; 8],
    accumulate: bool,
) {
    let len = from.len();
    assert!(7 * stride + len <= to.len(), "eight rows of {len} values");
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if has_fused() {
        done = len / 8 * 8;
        // SAFETY: AVX2 is present; by the assertion, eight rows of `done` values lie in `to`.
        unsafe { x86::deinterleave(&from[..done], to, stride, offset, accumulate) };
    }
    for (x, from) in from.iter().enumerate().skip(done) {
        for (l, value) in from.iter().enumerate() {
            let to = &mut to[l * stride + x];
            let value = value + offset[l];
            *to = if accumulate { *to + value } else { value };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, _mm256_add_ps, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_set1_ps,
        _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };

    /// # Safety
    /// AVX2 must be present, and eight rows of `to.len()` values, a multiple of eight, in `from`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn interleave(from: &[f32], stride: usize, to: &mut [[f32; 8]]) {
        for (block, to) in to.chunks_exact_mut(8).enumerate() {
            let mut rows = [_mm256_setzero_ps(); 8];
            for (l, row) in rows.iter_mut().enumerate() {
                // SAFETY: by the contract.
                *row = unsafe { _mm256_loadu_ps(from.as_ptr().add(l * stride + 8 * block)) };
            }
            for (to, column) in to.iter_mut().zip(transpose(rows)) {
                // SAFETY: `to` holds eight values.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), column) };
            }
        }
    }

    /// # Safety
    /// AVX2 must be present, and eight rows of `from.len()` values, a multiple of eight, in `to`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn deinterleave(
        from: &[[f32; 8]],
        to: &mut [f32],
        stride: usize,
        offset: &[f32; 8],
        accumulate: bool,
    ) {
        for (block, from) in from.chunks_exact(8).enumerate() {
            let mut columns = [_mm256_setzero_ps(); 8];
            for (column, from) in columns.iter_mut().zip(from) {
                // SAFETY: `from` holds eight values.
                *column = unsafe { _mm256_loadu_ps(from.as_ptr()) };
            }
            for (l, row) in transpose(columns).into_iter().enumerate() {
                let mut row = _mm256_add_ps(row, _mm256_set1_ps(offset[l]));
                // SAFETY: by the contract.
                unsafe {
                    let to = to.as_mut_ptr().add(l * stride + 8 * block);
                    if accumulate {
                        row = _mm256_add_ps(_mm256_loadu_ps(to), row);
                    }
                    _mm256_storeu_ps(to, row);
                }
            }
        }
    }

    /// The transpose of an eight by eight matrix.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn transpose(r: [__m256; 8]) -> [__m256; 8] {
        let (mut pairs, mut fours, mut columns) = (r, r, r);
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..2 {
            for j in 0..2 {
                let (x, y) = (pairs[4 * i + j], pairs[4 * i + 2 + j]);
                fours[4 * i + 2 * j] = _mm256_shuffle_ps::<0b01_00_01_00>(x, y);
                fours[4 * i + 2 * j + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(x, y);
            }
        }
        for i in 0..4 {
            columns[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[4 + i]);
            columns[4 + i] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[4 + i]);
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::super::with_portable;
    use super::*;

    #[test]
    fn every_value_finds_its_place_and_the_way_back() {
        for len in [0, 1, 5, 8, 13, 16, 30] {
            let stride = len + 3;
            let from: Vec<f32> = (0..8 * stride).map(|i| i as f32).collect();
            let run = || {
                let mut lanes = vec![[0.0; 8]; len];
                interleave(&from, stride, &mut lanes);
                lanes
            };
            let lanes = run();
            assert_eq!(lanes, with_portable(run));
            for (x, lanes) in lanes.iter().enumerate() {
                for (l, value) in lanes.iter().enumerate() {
                    assert_eq!(*value, from[l * stride + x]);
                }
            }
            let offset = core::array::from_fn(|l| l as f32);
            let back = || {
                let mut to = vec![-1.0; 8 * stride];
                deinterleave(&lanes, &mut to, stride, &[0.0; 8], false);
                deinterleave(&lanes, &mut to, stride, &offset, true);
                to
            };
            let to = back();
            assert_eq!(to, with_portable(back));
            for (i, to) in to.iter().enumerate() {
                let (l, x) = (i / stride, i % stride);
                let want = if x < len { 2.0 * from[i] + l as f32 } else { -1.0 };
                assert_eq!(*to, want);
            }
        }
    }
}
