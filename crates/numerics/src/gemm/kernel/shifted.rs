//! Convolutions over few channels, straight from the image: a kernel tap is a shift.

use super::has_fused;
use crate::gemm::{WIDTH, heights};

/// Where the taps of a kernel lie relative to a window.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    taps: Vec<usize>,
    /// The largest of them.
    reach: usize,
}

impl Shifts {
    pub(crate) fn with_room(taps: usize) -> Self {
        Self { taps: Vec::with_capacity(taps), reach: 0 }
    }

    /// Replaces all of them.
    pub(crate) fn set(&mut self, taps: impl Iterator<Item = usize>) {
        self.taps.clear();
        self.taps.extend(taps);
        self.reach = self.taps.iter().max().map_or(0, |s| *s);
    }

    pub(crate) fn taps(&self) -> &[usize] {
        &self.taps
    }
}

/// One row of outputs of all channels.
pub(crate) struct ShiftedRow<'a> {
    /// Filters, one row of taps per channel.
    pub(crate) filters: &'a [f32],
    pub(crate) bias: Option<&'a [f32]>,
    /// The image from the row's first window on.
    pub(crate) image: &'a [f32],
    pub(crate) shifts: &'a Shifts,
    pub(crate) channels: usize,
    /// Outputs of a row, at least sixteen.
    pub(crate) width: usize,
    /// Distance between channels of the output.
    pub(crate) stride: usize,
}

impl ShiftedRow<'_> {
    /// `y[o * stride + x] = bias[o] + Σ_k filters[o, k] image[shifts[k] + x]`.
    pub(crate) fn run(&self, y: &mut [f32]) {
        let taps = self.shifts.taps();
        assert!(self.channels > 0 && self.width >= WIDTH);
        assert!(self.bias.is_none_or(|bias| bias.len() >= self.channels));
        assert!(self.filters.len() >= self.channels * taps.len());
        assert!(self.shifts.reach + self.width <= self.image.len());
        assert!((self.channels - 1) * self.stride + self.width <= y.len());
        #[cfg(target_arch = "x86_64")]
        if has_fused() {
            // SAFETY: AVX2 and FMA are present; the assertions bound all channels and positions,
            // and no tap lies beyond `reach`, see `Shifts::set`.
            unsafe { x86::row(self, y) };
            return;
        }
        for o in 0..self.channels {
            for (x, y) in y[o * self.stride..][..self.width].iter_mut().enumerate() {
                let filter = self.filters[o * taps.len()..].iter().zip(taps);
                let sum = filter.fold(0.0f32, |sum, (w, s)| w.mul_add(self.image[s + x], sum));
                *y = sum + self.bias.map_or(0.0, |bias| bias[o]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ShiftedRow, WIDTH, heights};
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps,
        _mm256_setzero_ps, _mm256_storeu_ps,
    };

    /// # Safety
    /// AVX2 and FMA must be present, and everything inside as [`ShiftedRow::run`] asserts.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn row(row: &ShiftedRow<'_>, y: &mut [f32]) {
        for x in (0..row.width).step_by(WIDTH) {
            // The last tile moves left instead of reaching past the row; what it shares with the
            // one before is computed twice, with the same result.
            let x = x.min(row.width - WIDTH);
            for (o, height) in heights(row.channels) {
                // SAFETY: by the contract.
                unsafe {
                    if height == 6 {
                        tile::<6>(row, o, x, y.as_mut_ptr());
                    } else {
                        tile::<4>(row, o, x, y.as_mut_ptr());
                    }
                }
            }
        }
    }

    /// Sixteen neighbouring outputs of up to `MR` channels.
    ///
    /// # Safety
    /// As for [`row`], with channel `o` and outputs `x..x + 16` inside.
    #[target_feature(enable = "avx2,fma")]
    #[inline]
    unsafe fn tile<const MR: usize>(row: &ShiftedRow<'_>, o: usize, x: usize, y: *mut f32) {
        let channels = MR.min(row.channels - o);
        let taps = row.shifts.taps();
        let mut sums = [[_mm256_setzero_ps(); 2]; MR];
        let mut filters = [row.filters.as_ptr(); MR];
        // SAFETY: by the contract. Channels that are not there repeat the last and are dropped.
        unsafe {
            for (i, filter) in filters.iter_mut().enumerate() {
                *filter = filter.add((o + i.min(channels - 1)) * taps.len());
            }
            for (k, shift) in taps.iter().enumerate() {
                let image = row.image.as_ptr().add(*shift + x);
                let (left, right) = (_mm256_loadu_ps(image), _mm256_loadu_ps(image.add(8)));
                for (sums, filter) in sums.iter_mut().zip(&filters) {
                    let w = _mm256_broadcast_ss(&*filter.add(k));
                    sums[0] = _mm256_fmadd_ps(w, left, sums[0]);
                    sums[1] = _mm256_fmadd_ps(w, right, sums[1]);
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                if i == channels {
                    return;
                }
                let bias = _mm256_set1_ps(row.bias.map_or(0.0, |bias| bias[o + i]));
                let to = y.add((o + i) * row.stride + x);
                _mm256_storeu_ps(to, _mm256_add_ps(sums[0], bias));
                _mm256_storeu_ps(to.add(8), _mm256_add_ps(sums[1], bias));
            }
        }
    }
}
