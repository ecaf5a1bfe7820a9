//! Filters to and from their transforms.

#![expect(
    clippy::inline_always,
    reason = "bodies must land inside a caller that has AVX2 switched on"
)]

use super::plane_stride;
use super::transform::{self, POINTS};
use crate::gemm::{LaneWork, Lanes, WIDTH};

/// Which channel runs along the depth of the products that use the filters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// For the forward pass.
    Inputs,
    /// For the input gradient.
    Outputs,
}

/// How many channels a layer reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// `G g Gᵀ` of all filters, as the right factor of the products: in
/// groups of sixteen channels of one kind, along the depth of the other.
pub(super) struct TransformFilters<'a, const R: usize> {
    pub(super) weight: &'a [f32],
    pub(super) channels: Channels,
    pub(super) depth: Depth,
    pub(super) to: &'a mut [f32],
}

impl<const R: usize> LaneWork for TransformFilters<'_, R> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { weight, channels: Channels { inputs: c, outputs: k }, depth, to } = self;
        let (stride, area) = (plane_stride(c * k), R * R);
        let (lanes, depths) = if depth == Depth::Inputs { (k, c) } else { (c, k) };
        // Distance of two filters along the lanes and along the depth.
        let (lane_step, depth_step) =
            if depth == Depth::Inputs { (c * area, area) } else { (area, c * area) };
        for lane in (0..lanes).step_by(8) {
            for d in 0..depths {
                let first = lane * lane_step + d * depth_step;
                let mut taps = [[[0.0; 8]; R]; R];
                for l in 0..8 {
                    let from = &weight[first + l * lane_step..][..area];
                    for (taps, value) in taps.iter_mut().flatten().zip(from) {
                        taps[l] = *value;
                    }
                }
                let mut rows = [[L::splat(0.0); POINTS]; R];
                for (row, taps) in rows.iter_mut().zip(&taps) {
                    let mut values = [L::splat(0.0); R];
                    for (value, tap) in values.iter_mut().zip(taps) {
                        *value = L::load(tap);
                    }
                    *row = transform::filter(values);
                }
                let at = (lane / WIDTH * depths + d) * WIDTH + lane % WIDTH;
                for j in 0..POINTS {
                    let mut column = [L::splat(0.0); R];
                    for (column, row) in column.iter_mut().zip(&rows) {
                        *column = row[j];
                    }
                    for (i, value) in transform::filter(column).into_iter().enumerate() {
                        value.store(&mut to[(i * POINTS + j) * stride + at..]);
                    }
                }
            }
        }
    }
}

/// `Gᵀ u G` of all filters; `from` holds `u` as `c × k` for each of the 36 points.
pub(super) struct FilterGradients<'a, const R: usize> {
    pub(super) from: &'a [f32],
    pub(super) channels: Channels,
    pub(super) d_weight: &'a mut [f32],
}

impl<const R: usize> LaneWork for FilterGradients<'_, R> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { from, channels: Channels { inputs: c, outputs: k }, d_weight } = self;
        let (stride, area) = (plane_stride(c * k), R * R);
        for o in (0..k).step_by(8) {
            for i in 0..c {
                let mut rows = [[L::splat(0.0); R]; POINTS];
                for (y, row) in rows.iter_mut().enumerate() {
                    let mut line = [L::splat(0.0); POINTS];
                    for (x, line) in line.iter_mut().enumerate() {
                        *line = L::load(&from[(y * POINTS + x) * stride + i * k + o..]);
                    }
                    *row = transform::filter_adjoint(line);
                }
                let mut taps = [[[0.0; 8]; R]; R];
                for x in 0..R {
                    let mut column = [L::splat(0.0); POINTS];
                    for (column, row) in column.iter_mut().zip(&rows) {
                        *column = row[x];
                    }
                    let column: [L; R] = transform::filter_adjoint(column);
                    for (taps, value) in taps.iter_mut().zip(column) {
                        value.store(&mut taps[x]);
                    }
                }
                for l in 0..8 {
                    let to = &mut d_weight[((o + l) * c + i) * area..][..area];
                    for (to, taps) in to.iter_mut().zip(taps.iter().flatten()) {
                        *to = taps[l];
                    }
                }
            }
        }
    }
}
