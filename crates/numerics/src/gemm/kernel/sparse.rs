//! Sums over the few places where a gradient is not zero.

use super::has_fused;

/// The non-zero entries of a gradient's plane: where the window begins in the image, and the value.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    at: Vec<u32>,
    value: Vec<f32>,
    count: usize,
}

/// Entries are appended eight at a time.
const STEP: usize = 8;

impl Entries {
    /// Room for the entries of a plane of `positions`.
    pub(crate) fn with_room(positions: usize) -> Self {
        Self { at: vec![0; positions + STEP], value: vec![0.0; positions + STEP], count: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn values(&self) -> &[f32] {
        &self.value[..self.count]
    }

    /// Appends the non-zero values of a row whose windows begin at `from`, `from + 1`, ...
    pub(crate) fn append(&mut self, row: &[f32], from: usize) {
        assert!(self.count + row.len() + STEP <= self.at.len());
        assert!(u32::try_from(from + row.len()).is_ok());
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        if has_fused() {
            done = row.len() / STEP * STEP;
            // SAFETY: AVX2 is present, and there is room for the row and eight more.
            self.count += unsafe {
                x86::compress(
                    &row[..done],
                    from as u32,
                    &mut self.at[self.count..],
                    &mut self.value[self.count..],
                )
            };
        }
        for (x, d) in row.iter().enumerate().skip(done) {
            // Always written, counted only if not zero: there is no branch to predict.
            self.at[self.count] = (from + x) as u32;
            self.value[self.count] = *d;
            self.count += usize::from(*d != 0.0);
        }
    }

    /// `sums[r] += Σ_entries value · image[at + rows[r] ..][..8]`, `R` rows in registers; each
    /// row's sum starts from zero and runs in the order of the entries.
    pub(crate) fn weigh<const R: usize>(
        &self,
        image: &[f32],
        rows: &[usize; R],
        sums: &mut [[f32; 8]; R],
    ) {
        let (at, value) = (&self.at[..self.count], &self.value[..self.count]);
        let furthest = at.iter().max().map_or(0, |at| *at as usize);
        let reach = rows.iter().max().map_or(0, |row| *row);
        assert!(furthest + reach + 8 <= image.len(), "a window reaches past the image");
        #[cfg(target_arch = "x86_64")]
        if has_fused() {
            // SAFETY: AVX2 and FMA are present; the assertion bounds every vector that is read.
            unsafe { x86::weigh(at, value, image, rows, sums) };
            return;
        }
        for (row, sums) in rows.iter().zip(sums) {
            let mut total = [0.0f32; 8];
            for (at, value) in at.iter().zip(value) {
                for (sum, x) in total.iter_mut().zip(&image[*at as usize + row..]) {
                    *sum = value.mul_add(*x, *sum);
                }
            }
            for (sum, total) in sums.iter_mut().zip(total) {
                *sum += total;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::STEP;
    use std::arch::x86_64::{
        _CMP_NEQ_UQ, _mm_loadl_epi64, _mm256_add_epi32, _mm256_add_ps, _mm256_broadcast_ss,
        _mm256_cmp_ps, _mm256_cvtepu8_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_movemask_ps,
        _mm256_permutevar8x32_ps, _mm256_set1_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
        _mm256_storeu_si256,
    };

    /// For each set of lanes, their numbers in order.
    static LANES: [[u8; STEP]; 256] = {
        let mut table = [[0; STEP]; 256];
        let mut set = 0;
        while set < 256 {
            let (mut lane, mut count) = (0, 0);
            while lane < STEP {
                if set >> lane & 1 == 1 {
                    table[set][count] = lane as u8;
                    count += 1;
                }
                lane += 1;
            }
            set += 1;
        }
        table
    };

    /// # Safety
    /// AVX2 must be present; `row` is whole vectors, and `at` and `value` hold eight more.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn compress(
        row: &[f32],
        from: u32,
        at: &mut [u32],
        value: &mut [f32],
    ) -> usize {
        let mut count = 0;
        for (block, row) in row.chunks_exact(STEP).enumerate() {
            // SAFETY: by the contract; `count` never overtakes the row.
            unsafe {
                let d = _mm256_loadu_ps(row.as_ptr());
                let set = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NEQ_UQ>(d, _mm256_setzero_ps()));
                let lanes = &LANES[set as usize & 255];
                let lanes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(lanes.as_ptr().cast()));
                let first = _mm256_set1_epi32((from as usize + STEP * block) as i32);
                let places = _mm256_add_epi32(lanes, first);
                _mm256_storeu_si256(at.as_mut_ptr().add(count).cast(), places);
                let values = _mm256_permutevar8x32_ps(d, lanes);
                _mm256_storeu_ps(value.as_mut_ptr().add(count), values);
                count += set.count_ones() as usize;
            }
        }
        count
    }

    /// # Safety
    /// AVX2 and FMA must be present; eight values lie at every `at + row` of the image.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn weigh<const R: usize>(
        at: &[u32],
        value: &[f32],
        image: &[f32],
        rows: &[usize; R],
        sums: &mut [[f32; 8]; R],
    ) {
        let mut totals = [_mm256_setzero_ps(); R];
        for (at, value) in at.iter().zip(value) {
            let d = _mm256_broadcast_ss(value);
            // SAFETY: by the contract.
            unsafe {
                let window = image.as_ptr().add(*at as usize);
                for (total, row) in totals.iter_mut().zip(rows) {
                    *total = _mm256_fmadd_ps(d, _mm256_loadu_ps(window.add(*row)), *total);
                }
            }
        }
        for (sums, total) in sums.iter_mut().zip(totals) {
            // SAFETY: `sums` holds eight values.
            unsafe {
                let sum = _mm256_add_ps(_mm256_loadu_ps(sums.as_ptr()), total);
                _mm256_storeu_ps(sums.as_mut_ptr(), sum);
            }
        }
    }
}
