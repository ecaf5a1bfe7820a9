//! What divides a kernel out of the bins of a matrix transform.

use super::columns::Dimensions;
use super::{Bins, LANES, Lanes};
use crate::gemm::vectorised;

/// A factor for every bin, in the order in which they stand.
pub(in crate::spectral) struct Weights {
    columns: usize,
    lanes: Vec<Lanes>,
}

impl Weights {
    /// `weight` of every point of the grid; `frequencies` are those of the matrix, by position.
    pub(super) fn new(
        grid: Dimensions,
        frequencies: &[usize],
        weight: impl Fn(usize) -> f32,
    ) -> Self {
        let groups = (grid.rows / 2 + 1).div_ceil(LANES);
        let lanes = |group: usize, c: usize| {
            let row = |l| LANES * group + l;
            let bin =
                |l| if row(l) <= grid.rows / 2 { weight(row(l) + grid.rows * c) } else { 0.0 };
            Lanes(core::array::from_fn(bin))
        };
        let every = (0..groups).flat_map(|group| frequencies.iter().map(move |c| (group, *c)));
        Self { columns: grid.columns, lanes: every.map(|(group, c)| lanes(group, c)).collect() }
    }

    /// Divides the kernel out of a group of bins, or of its coefficients on the way back.
    pub(in crate::spectral) fn weigh(&self, group: usize, bins: &mut [Bins]) {
        let weights = &self.lanes[group * self.columns..][..self.columns];
        vectorised(
            #[inline(always)]
            || {
                for (bins, weight) in bins.iter_mut().zip(weights) {
                    let z = *bins;
                    *bins = Bins { re: z.re * *weight, im: z.im * *weight };
                }
            },
        );
    }
}
