//! Tiles of the images to and from their transforms.

#![expect(
    clippy::inline_always,
    reason = "bodies must land inside a caller that has AVX2 switched on"
)]

use super::strip::{Grid, Place, Planes};
use super::transform::{self, POINTS};
use crate::gemm::{LaneWork, Lanes};
use core::ops::Range;

/// One strip of eight channels, and its columns half transformed.
#[derive(Debug, Default)]
pub(crate) struct StripMemory {
    pub(super) strip: Vec<[f32; 8]>,
    pub(super) columns: Vec<[[f32; 8]; POINTS]>,
}

/// Which tiles, of which planes, and where their 36 values are: value `p` of tile `t` and channel
/// `c` is at `p * stride + t * row + c`.
#[derive(Clone)]
pub(super) struct Block {
    pub(super) grid: Grid,
    pub(super) planes: Planes,
    pub(super) strips: Range<usize>,
    pub(super) row: usize,
    pub(super) stride: usize,
}

impl Block {
    /// Every strip and group of eight channels: place in the planes, offset in the transform.
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(Place, usize)) {
        for (s, (image, strip)) in self.grid.places(self.strips.clone()).enumerate() {
            for channel in (0..self.planes.shape.channels).step_by(8) {
                let place = Place { channel, image, strip };
                visit(place, s * self.grid.columns * self.row + channel);
            }
        }
    }
}

/// `Bᵀ d B` (six rows read) or `A dY Aᵀ` (`M` rows read).
pub(super) struct Gather<'a, const M: usize, const INPUT: bool> {
    pub(super) block: Block,
    pub(super) from: &'a [f32],
    pub(super) to: &'a mut [f32],
    pub(super) memory: &'a mut StripMemory,
}

impl<const M: usize> LaneWork for Gather<'_, M, true> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        gather::<L, POINTS, M>(
            &self.block,
            self.from,
            self.to,
            self.memory,
            // The function's bare name would go through a shim that is not inlined.
            #[inline(always)]
            |d| transform::input(d),
        );
    }
}

impl<const M: usize> LaneWork for Gather<'_, M, false> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        gather::<L, M, M>(
            &self.block,
            self.from,
            self.to,
            self.memory,
            #[inline(always)]
            |y| transform::output_adjoint(y),
        );
    }
}

/// Tiles of `N × N` values, `M` apart, through `transform` along both axes.
#[inline(always)]
fn gather<L: Lanes, const N: usize, const M: usize>(
    block: &Block,
    from: &[f32],
    to: &mut [f32],
    memory: &mut StripMemory,
    transform: impl Fn([L; N]) -> [L; POINTS],
) {
    let StripMemory { strip, columns } = memory;
    let columns = &mut columns[..(block.grid.columns - 1) * M + N];
    block.each(
        #[inline(always)]
        |place, start| {
            let view = block.planes.load(from, place, strip);
            for (x, column) in columns.iter_mut().enumerate() {
                let values = transform(view.column::<L, N>(strip, x));
                for (column, value) in column.iter_mut().zip(values) {
                    value.store(column);
                }
            }
            for tile in 0..block.grid.columns {
                let columns = &columns[tile * M..][..N];
                let at = start + tile * block.row;
                for i in 0..POINTS {
                    let mut line = [L::splat(0.0); N];
                    for (line, column) in line.iter_mut().zip(columns) {
                        *line = L::load(&column[i]);
                    }
                    for (j, value) in transform(line).into_iter().enumerate() {
                        value.store(&mut to[(i * POINTS + j) * block.stride + at..]);
                    }
                }
            }
        },
    );
}

/// `Aᵀ m A + bias` to the places of the output.
pub(super) struct WriteOutput<'a, const M: usize> {
    pub(super) block: Block,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) from: &'a [f32],
    pub(super) to: &'a mut [f32],
    pub(super) memory: &'a mut StripMemory,
}

impl<const M: usize> LaneWork for WriteOutput<'_, M> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { block, bias, from, to, memory } = self;
        let (strip, width) = (&mut memory.strip, block.planes.shape.width);
        block.each(
            #[inline(always)]
            |place, start| {
                for tile in 0..block.grid.columns {
                    let at = start + tile * block.row;
                    let mut lines = [[L::splat(0.0); M]; POINTS];
                    for (j, line) in lines.iter_mut().enumerate() {
                        let mut column = [L::splat(0.0); POINTS];
                        for (i, column) in column.iter_mut().enumerate() {
                            *column = L::load(&from[(i * POINTS + j) * block.stride + at..]);
                        }
                        *line = transform::output(column);
                    }
                    for i in 0..M {
                        let mut row = [L::splat(0.0); POINTS];
                        for (row, line) in row.iter_mut().zip(&lines) {
                            *row = line[i];
                        }
                        let values: [L; M] = transform::output(row);
                        for (x, value) in (tile * M..width).zip(values) {
                            value.store(&mut strip[i * width + x]);
                        }
                    }
                }
                let mut offset = [0.0; 8];
                if let Some(bias) = bias {
                    offset.copy_from_slice(&bias[place.channel..][..8]);
                }
                block.planes.store(strip, to, place, &offset, false);
            },
        );
    }
}

/// `B v Bᵀ` added to the places of the input.
pub(super) struct AddInputGradient<'a, const M: usize> {
    pub(super) block: Block,
    pub(super) from: &'a [f32],
    pub(super) to: &'a mut [f32],
    pub(super) memory: &'a mut StripMemory,
}

impl<const M: usize> LaneWork for AddInputGradient<'_, M> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { block, from, to, memory } = self;
        let StripMemory { strip, columns } = memory;
        let columns = &mut columns[..(block.grid.columns - 1) * M + POINTS];
        block.each(
            #[inline(always)]
            |place, start| {
                // Columns that two tiles share are the sum of both.
                columns.fill([[0.0; 8]; POINTS]);
                for tile in 0..block.grid.columns {
                    let columns = &mut columns[tile * M..][..POINTS];
                    let at = start + tile * block.row;
                    for i in 0..POINTS {
                        let mut line = [L::splat(0.0); POINTS];
                        for (j, line) in line.iter_mut().enumerate() {
                            *line = L::load(&from[(i * POINTS + j) * block.stride + at..]);
                        }
                        for (column, value) in
                            columns.iter_mut().zip(transform::input_adjoint(line))
                        {
                            L::load(&column[i]).add(value).store(&mut column[i]);
                        }
                    }
                }
                let view = block.planes.view(place);
                for (x, column) in columns.iter().enumerate() {
                    let mut values = [L::splat(0.0); POINTS];
                    for (value, column) in values.iter_mut().zip(column) {
                        *value = L::load(column);
                    }
                    view.put_column(strip, x, transform::input_adjoint(values));
                }
                block.planes.store(strip, to, place, &[0.0; 8], true);
            },
        );
    }
}
