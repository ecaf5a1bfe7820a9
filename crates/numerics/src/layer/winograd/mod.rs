//! Stride-1 convolutions of 3x3 and 5x5 by Winograd's minimal filtering (Lavin and Gray, 2016).
//!
//! The image is cut into overlapping 6x6 tiles. With [`transform`]'s matrices
//! - forward: `Y = Aᵀ[ Σ_c (G g Gᵀ) ⊙ (Bᵀ d B) ]A`: for each of the 36 points one product
//!   `(tiles × C)·(C × K)`;
//! - input: the adjoint, `dd = B[ Σ_k (G g Gᵀ) ⊙ (A dY Aᵀ) ]Bᵀ`, added where tiles overlap;
//! - weights: `dg = Gᵀ[ Σ_tiles (A dY Aᵀ) ⊙ (Bᵀ d B) ]G`.
//!
//! Both backward passes are exact adjoints of the forward pass, so they differentiate what was
//! computed. A 3x3 kernel makes 4x4 outputs of a tile with 36 products instead of 144, a 5x5 kernel
//! 2x2 outputs with 36 instead of 100.

mod filters;
mod strip;
mod tiles;
mod transform;

use super::InputGradient;
use crate::Shape;
use crate::gemm::{Extents, Groups, Outer, Rows, Target, WIDTH, multiply_unpacked, with_lanes};
use core::ops::Range;
use filters::{Channels, Depth, FilterGradients, TransformFilters};
use strip::{Grid, Planes};
use tiles::{AddInputGradient, Block, Gather, StripMemory, WriteOutput};
use transform::POINTS;

/// Tiles worked on at a time, about: their transforms stay in the second-level cache, and the
/// transformed weights are read once for all of them.
const BLOCK_TILES: usize = 32;

/// Memory for the transforms, sized once.
#[derive(Debug, Default)]
pub(crate) struct Transforms {
    /// `Bᵀ d B` of a block, and in the backward pass the gradient in its place.
    pub(crate) inputs: Vec<f32>,
    /// The products of a block, or `A dY Aᵀ`.
    pub(crate) outputs: Vec<f32>,
    /// `G g Gᵀ`.
    pub(crate) filters: Vec<f32>,
    /// Its gradient.
    pub(crate) d_filters: Vec<f32>,
    strip: StripMemory,
}

#[cfg(test)]
impl Transforms {
    /// All buffers that outlive a pass.
    pub(crate) fn buffers(&mut self) -> [&mut Vec<f32>; 4] {
        [&mut self.inputs, &mut self.outputs, &mut self.filters, &mut self.d_filters]
    }
}

/// How large [`Transforms`] must be.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    inputs: usize,
    outputs: usize,
    filters: usize,
    strip: usize,
    columns: usize,
}

impl Sizes {
    pub(crate) fn max(self, o: Self) -> Self {
        Self {
            inputs: self.inputs.max(o.inputs),
            outputs: self.outputs.max(o.outputs),
            filters: self.filters.max(o.filters),
            strip: self.strip.max(o.strip),
            columns: self.columns.max(o.columns),
        }
    }

    /// Bytes that [`Sizes::allocate`] takes.
    pub(crate) fn bytes(self) -> u64 {
        let floats = self.inputs + self.outputs + 2 * self.filters;
        let lanes = self.strip + POINTS * self.columns;
        4 * floats as u64 + 32 * lanes as u64
    }

    pub(crate) fn allocate(self) -> Transforms {
        Transforms {
            inputs: vec![0.0; self.inputs],
            outputs: vec![0.0; self.outputs],
            filters: vec![0.0; self.filters],
            d_filters: vec![0.0; self.filters],
            strip: StripMemory {
                strip: vec![[0.0; 8]; self.strip],
                columns: vec![[[0.0; 8]; POINTS]; self.columns],
            },
        }
    }
}

/// A convolution with `R × R` taps in tiles of `M × M` outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Winograd<const M: usize, const R: usize> {
    pub(crate) input: Shape,
    pub(crate) output: Shape,
    pub(crate) padding: usize,
}

/// Distance between the 36 matrices of a transform: an odd number of cache lines, so that one
/// tile's 36 values do not fall into the same few sets of the cache.
fn plane_stride(values: usize) -> usize {
    (values.div_ceil(WIDTH) | 1) * WIDTH
}

/// Distance between rows of a transform, odd in cache lines where it would be a large power of two.
fn row_stride(channels: usize) -> usize {
    if channels >= 256 { channels + WIDTH } else { channels }
}

impl<const M: usize, const R: usize> Winograd<M, R> {
    fn channels(&self) -> Channels {
        Channels { inputs: self.input.channels, outputs: self.output.channels }
    }

    fn grid(&self, n: usize) -> Grid {
        Grid { n, rows: self.output.height.div_ceil(M), columns: self.output.width.div_ceil(M) }
    }

    /// Strips of one block.
    fn block_strips(&self, n: usize) -> usize {
        let grid = self.grid(n);
        (BLOCK_TILES / grid.columns).clamp(1, grid.strips())
    }

    pub(crate) fn sizes(&self, n: usize) -> Sizes {
        let tiles = self.block_strips(n) * self.grid(n).columns;
        let Channels { inputs: c, outputs: k } = self.channels();
        Sizes {
            inputs: 36 * plane_stride(tiles * row_stride(c)),
            outputs: 36 * plane_stride(tiles * row_stride(k)),
            filters: 36 * plane_stride(c * k),
            strip: (POINTS * self.input.width).max(M * self.output.width),
            columns: self.grid(n).columns * M + R - 1,
        }
    }

    /// A block of input tiles.
    fn inputs(&self, strips: Range<usize>, n: usize) -> Block {
        let planes = Planes { shape: self.input, n, padding: self.padding, rows: POINTS, step: M };
        self.block(planes, strips)
    }

    /// The same block's output tiles.
    fn outputs(&self, strips: Range<usize>, n: usize) -> Block {
        self.block(Planes { shape: self.output, n, padding: 0, rows: M, step: M }, strips)
    }

    fn block(&self, planes: Planes, strips: Range<usize>) -> Block {
        let (grid, row) = (self.grid(planes.n), row_stride(planes.shape.channels));
        let stride = plane_stride(strips.len() * grid.columns * row);
        Block { grid, planes, strips, row, stride }
    }

    /// `y = conv(x) + bias`.
    pub(crate) fn forward(
        &self,
        weight: &[f32],
        bias: Option<&[f32]>,
        input: &[f32],
        output: &mut [f32],
        work: &mut Transforms,
        n: usize,
    ) {
        let channels = self.channels();
        let Channels { inputs: c, outputs: k } = channels;
        let Transforms { inputs, outputs, filters, strip, .. } = work;
        with_lanes(TransformFilters::<R> { weight, channels, depth: Depth::Inputs, to: filters });
        let grid = self.grid(n);
        for strips in grid.blocks(self.block_strips(n)) {
            let tiles = strips.len() * grid.columns;
            let (from, to) = (self.inputs(strips.clone(), n), self.outputs(strips, n));
            let (x_row, x_stride) = (from.row, from.stride);
            let (y_row, y_stride) = (to.row, to.stride);
            let memory = &mut *strip;
            with_lanes(Gather::<M, true> { block: from, from: input, to: inputs, memory });
            for p in 0..POINTS * POINTS {
                multiply_unpacked(
                    Extents { m: tiles, n: k, k: c },
                    Outer::Groups,
                    Rows { data: &inputs[p * x_stride..], row: x_row, depth: 1 },
                    filter_groups(filters, p, channels, c),
                    Target {
                        data: &mut outputs[p * y_stride..],
                        row_stride: y_row,
                        accumulate: false,
                    },
                );
            }
            with_lanes(WriteOutput::<M> { block: to, bias, from: outputs, to: output, memory });
        }
    }

    /// Overwrites `d_weight` and, if asked, writes or adds to the input gradient.
    pub(crate) fn backward(
        &self,
        weight: &[f32],
        input: &[f32],
        d_output: &[f32],
        mut d_input: Option<InputGradient<'_>>,
        d_weight: &mut [f32],
        work: &mut Transforms,
    ) {
        let n = d_output.len() / self.output.len();
        let channels = self.channels();
        let Channels { inputs: c, outputs: k } = channels;
        let Transforms { inputs, outputs, filters, d_filters, strip: memory } = work;
        if let Some(target) = &mut d_input {
            with_lanes(TransformFilters::<R> {
                weight,
                channels,
                depth: Depth::Outputs,
                to: filters,
            });
            if !target.accumulate {
                target.data[..n * self.input.len()].fill(0.0);
            }
        }
        let grid = self.grid(n);
        for strips in grid.blocks(self.block_strips(n)) {
            let tiles = strips.len() * grid.columns;
            let accumulate = strips.start > 0;
            let (from, to) = (self.inputs(strips.clone(), n), self.outputs(strips, n));
            let (x_row, x_stride) = (from.row, from.stride);
            let (y_row, y_stride) = (to.row, to.stride);
            let block = from.clone();
            with_lanes(Gather::<M, true> { block, from: input, to: inputs, memory });
            with_lanes(Gather::<M, false> { block: to, from: d_output, to: outputs, memory });
            for p in 0..POINTS * POINTS {
                let d_product = &outputs[p * y_stride..];
                multiply_unpacked(
                    Extents { m: c, n: k, k: tiles },
                    Outer::Groups,
                    Rows { data: &inputs[p * x_stride..], row: 1, depth: x_row },
                    Groups { data: d_product, group: WIDTH, depth: y_row },
                    Target {
                        data: &mut d_filters[p * plane_stride(c * k)..],
                        row_stride: k,
                        accumulate,
                    },
                );
                if d_input.is_some() {
                    // The input's transform is no longer needed; its gradient takes its place.
                    multiply_unpacked(
                        Extents { m: tiles, n: c, k },
                        Outer::Groups,
                        Rows { data: d_product, row: y_row, depth: 1 },
                        filter_groups(filters, p, channels, k),
                        Target {
                            data: &mut inputs[p * x_stride..],
                            row_stride: x_row,
                            accumulate: false,
                        },
                    );
                }
            }
            if let Some(target) = &mut d_input {
                let to = &mut *target.data;
                with_lanes(AddInputGradient::<M> { block: from, from: inputs, to, memory });
            }
        }
        with_lanes(FilterGradients::<R> { from: d_filters, channels, d_weight });
    }
}

/// The filters of point `p`, along a depth of `depth` channels.
fn filter_groups(filters: &[f32], p: usize, channels: Channels, depth: usize) -> Groups<'_> {
    let stride = plane_stride(channels.inputs * channels.outputs);
    Groups { data: &filters[p * stride..], group: depth * WIDTH, depth: WIDTH }
}
