//! Convolutions over few channels without packing: every tap of the kernel is a shifted view of
//! the image.
//!
//! - forward: sixteen neighbouring outputs of up to six channels are one register tile;
//! - weights, where a maximum pooling follows: at most one output of each window has a gradient (and none
//!   where the ReLU is off), so the sum runs over these alone, a whole kernel row at a time.

use super::Conv;
use crate::Size;
use crate::gemm::{Entries, ShiftedRow, Shifts, WIDTH};

/// Kernel rows fit one vector.
const LANES: usize = 8;

/// What a sum over non-zero entries works in.
pub(super) struct EntryMemory<'a> {
    pub(super) entries: &'a mut Entries,
    /// The weight gradient on its way, one vector for each kernel row.
    pub(super) sums: &'a mut [f32],
    /// Where the kernel rows lie relative to a window.
    pub(super) rows: &'a mut Shifts,
}

impl Conv {
    /// Whether the forward pass runs on shifted views: for stride 1, rows of outputs that waste
    /// little of whole tiles, and so few channels that an image stays in the first-level cache.
    pub(super) fn shifts(&self) -> bool {
        let width = self.output.width;
        self.stride == 1
            && self.kernel != Size::square(1)
            && self.input.channels <= 4
            && width >= WIDTH
            && 4 * width >= 3 * width.next_multiple_of(WIDTH)
    }

    /// Whether the weight gradient is summed over non-zero entries.
    pub(super) fn sums_entries(&self) -> bool {
        self.before_pooling
            && self.stride == 1
            && self.kernel != Size::square(1)
            && self.kernel.width <= LANES
    }

    /// Where the kernel's taps (or, with `taps` 1, its rows) lie relative to a window.
    fn offsets(&self, n: usize, taps: usize) -> impl Iterator<Item = usize> {
        let Size { height: hp, width: wp } = self.padded_size();
        let (channels, rows) = (self.input.channels, self.kernel.height);
        (0..channels * rows * taps).map(move |t| {
            let (row, x) = (t / taps, t % taps);
            row / rows * n * hp * wp + row % rows * wp + x
        })
    }

    /// `image` is padded already and holds slack past its end.
    pub(super) fn forward_by_shifts(
        &self,
        filters: &[f32],
        bias: Option<&[f32]>,
        image: &[f32],
        output: &mut [f32],
        shifts: &mut Shifts,
        n: usize,
    ) {
        shifts.set(self.offsets(n, self.kernel.width));
        let Size { height: hp, width: wp } = self.padded_size();
        let (width, stride) = (self.output.width, n * self.output.plane());
        for (i, y) in (0..n).flat_map(|i| (0..self.output.height).map(move |y| (i, y))) {
            let row = ShiftedRow {
                filters,
                bias,
                image: &image[(i * hp + y) * wp..],
                shifts,
                channels: self.output.channels,
                width,
                stride,
            };
            row.run(&mut output[(i * self.output.height + y) * width..]);
        }
    }

    /// Overwrites the gradients of weights and bias.
    pub(super) fn weight_gradient_by_entries(
        &self,
        image: &[f32],
        d_output: &[f32],
        d_weight: &mut [f32],
        d_bias: &mut [f32],
        EntryMemory { entries, sums, rows }: EntryMemory<'_>,
        n: usize,
    ) {
        let count = self.input.channels * self.kernel.height;
        let (sums, _) = sums.as_chunks_mut::<LANES>();
        let sums = &mut sums[..self.output.channels * count];
        sums.fill([0.0; LANES]);
        d_bias.fill(0.0);
        rows.set(self.offsets(n, 1));
        let Size { height: hp, width: wp } = self.padded_size();
        let plane = self.output.plane();
        // An image stays in the first-level cache while all channels run over it.
        for i in 0..n {
            for (o, sums) in sums.chunks_exact_mut(count).enumerate() {
                entries.clear();
                let d = &d_output[(o * n + i) * plane..][..plane];
                for (y, d) in d.chunks_exact(self.output.width).enumerate() {
                    entries.append(d, (i * hp + y) * wp);
                }
                if let Some(d_bias) = d_bias.get_mut(o) {
                    *d_bias += super::batch_norm::sum(entries.values()) as f32;
                }
                weigh_rows(entries, image, rows.taps(), sums);
            }
        }
        for (to, from) in d_weight.chunks_exact_mut(self.kernel.width).zip(sums) {
            to.copy_from_slice(&from[..self.kernel.width]);
        }
    }
}

/// In groups of rows that fit the registers.
fn weigh_rows(entries: &Entries, image: &[f32], rows: &[usize], sums: &mut [[f32; LANES]]) {
    let (mut rows, mut sums) = (rows, sums);
    while !rows.is_empty() {
        let done = match rows.len() {
            15.. => weigh::<15>(entries, image, rows, sums),
            9.. => weigh::<9>(entries, image, rows, sums),
            5.. => weigh::<5>(entries, image, rows, sums),
            3.. => weigh::<3>(entries, image, rows, sums),
            _ => weigh::<1>(entries, image, rows, sums),
        };
        rows = &rows[done..];
        sums = &mut sums[done..];
    }
}

fn weigh<const R: usize>(
    entries: &Entries,
    image: &[f32],
    rows: &[usize],
    sums: &mut [[f32; LANES]],
) -> usize {
    if let (Some(rows), Some(sums)) = (rows.first_chunk::<R>(), sums.first_chunk_mut::<R>()) {
        entries.weigh(image, rows, sums);
    }
    R
}
