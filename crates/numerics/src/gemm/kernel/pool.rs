//! The backward pass of a two by two maximum, four outputs at a time.

use super::has_fused;

/// One row of windows.
pub(crate) struct PairRow<'a> {
    /// The two input rows and the two rows of their gradient, overwritten.
    pub(crate) inputs: [&'a [f32]; 2],
    pub(crate) d_inputs: [&'a mut [f32]; 2],
    pub(crate) output: &'a [f32],
    pub(crate) d_output: &'a [f32],
    /// A ReLU follows: where the output is not positive, nothing goes back.
    pub(crate) relu: bool,
}

impl PairRow<'_> {
    /// Sends each output's gradient to the first of its four inputs that equals it. Returns how
    /// many outputs are done: none without the vector path, all but rows of fewer than four with.
    pub(crate) fn send_back(&mut self) -> usize {
        let width = self.output.len();
        assert!(self.d_output.len() == width);
        assert!(self.inputs.iter().all(|row| row.len() >= 2 * width));
        assert!(self.d_inputs.iter().all(|row| row.len() >= 2 * width));
        #[cfg(target_arch = "x86_64")]
        if width >= 4 && has_fused() {
            // SAFETY: AVX2 is present; every row holds what the assertions say.
            unsafe { x86::send_back(self) };
            return width;
        }
        0
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::PairRow;
    use std::arch::x86_64::{
        __m256, _CMP_EQ_OQ, _CMP_GT_OQ, _mm_loadu_ps, _mm256_and_ps, _mm256_andnot_ps,
        _mm256_castps128_ps256, _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_loadu_ps,
        _mm256_movehdup_ps, _mm256_moveldup_ps, _mm256_or_ps, _mm256_permutevar8x32_ps,
        _mm256_set_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
    };

    /// # Safety
    /// AVX2 must be present; `output` and `d_output` hold at least four values, the other rows
    /// twice as many.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn send_back(row: &mut PairRow<'_>) {
        let width = row.output.len();
        let twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
        let odd = _mm256_castsi256_ps(_mm256_set_epi32(-1, 0, -1, 0, -1, 0, -1, 0));
        let mut at = 0;
        while at < width {
            // The last four may overlap the four before: the same values are written again.
            at = at.min(width - 4);
            // SAFETY: `at + 4 <= width`, and the other rows are twice as long.
            unsafe {
                let spread = |from: *const f32| {
                    let four = _mm256_castps128_ps256(_mm_loadu_ps(from.add(at)));
                    _mm256_permutevar8x32_ps(four, twice)
                };
                let y = spread(row.output.as_ptr());
                let mut d = spread(row.d_output.as_ptr());
                if row.relu {
                    let positive = _mm256_cmp_ps::<_CMP_GT_OQ>(y, _mm256_setzero_ps());
                    d = _mm256_and_ps(d, positive);
                }
                let hits = |x: &[f32]| {
                    _mm256_cmp_ps::<_CMP_EQ_OQ>(_mm256_loadu_ps(x.as_ptr().add(2 * at)), y)
                };
                let (top, bottom) = (hits(row.inputs[0]), hits(row.inputs[1]));
                let above = _mm256_or_ps(_mm256_moveldup_ps(top), _mm256_movehdup_ps(top));
                let first_top = first_of_pair(top, odd);
                let first_bottom = _mm256_andnot_ps(above, first_of_pair(bottom, odd));
                let [to_top, to_bottom] = &mut row.d_inputs;
                _mm256_storeu_ps(to_top.as_mut_ptr().add(2 * at), _mm256_and_ps(first_top, d));
                let out = to_bottom.as_mut_ptr().add(2 * at);
                _mm256_storeu_ps(out, _mm256_and_ps(first_bottom, d));
            }
            at += 4;
        }
    }

    /// Drops a hit whose left neighbour in the window is one too.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    fn first_of_pair(hits: __m256, odd: __m256) -> __m256 {
        let left = _mm256_and_ps(_mm256_moveldup_ps(hits), odd);
        _mm256_andnot_ps(left, hits)
    }
}
