//! Two-dimensional transforms of the planes that tensors are made of.
//!
//! `z(k, l) = Σ_{r,c} w(r, c) e^{−2πi (kr/R + lc/C)}`, unnormalised. All `R·C` entries are computed. *Low* is
//! a small radial frequency: `(k/R)² + (l/C)²` with `k` and `l` counted from the nearer end.

use crate::{Layout, Part, Tensor};
use core::ops::Range;
use realfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};
use std::sync::Arc;

/// What planes lie across.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Across {
    /// `(out, in)` for each position of the kernel.
    Units,
    /// The two extents of the kernel for each `(out, in)`; of a matrix, `(out, in)`.
    Kernels,
}

/// Planes of one tensor: they have their shape in common.
pub(super) struct Sheet<T> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Between neighbours in a column, and in a row.
    strides: [usize; 2],
    /// Where the first plane begins, and how far it is to the next.
    first: usize,
    step: usize,
    pub(super) planes: usize,
    forward: [Arc<dyn Fft<T>>; 2],
    inverse: [Arc<dyn Fft<T>>; 2],
    /// Places in a transformed plane, from the lowest frequency to the highest.
    pub(super) order: Vec<usize>,
}

/// All planes of a part of a layout.
pub(super) struct Planes<T> {
    pub(super) sheets: Vec<Sheet<T>>,
    /// The parameters that are transformed.
    pub(super) range: Range<usize>,
    /// Numbers of the largest plane, and what a transform needs besides.
    largest: usize,
    scratch: usize,
}

/// Working memory.
#[derive(Debug, Clone)]
pub(super) struct PlaneMemory<T> {
    plane: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<T: FftNum> Planes<T> {
    pub(super) fn new(layout: &Layout, part: Part, across: Across) -> Self {
        let mut planner = FftPlanner::new();
        let tensors = layout.tensors_of(part);
        let sheets: Vec<Sheet<T>> =
            tensors.map(|tensor| Sheet::new(tensor, across, &mut planner)).collect();
        Self {
            range: layout.range(part),
            largest: sheets.iter().map(Sheet::entries).max().unwrap_or(0),
            scratch: sheets.iter().map(Sheet::scratch).max().unwrap_or(0),
            sheets,
        }
    }

    /// Memory for its transforms.
    pub(super) fn memory(&self) -> PlaneMemory<T> {
        let zeros = |len| vec![Complex::new(T::zero(), T::zero()); len];
        PlaneMemory { plane: zeros(self.largest), scratch: zeros(self.scratch) }
    }
}

impl<T: FftNum> Sheet<T> {
    fn new(tensor: &Tensor, across: Across, planner: &mut FftPlanner<T>) -> Self {
        let first = tensor.range.start;
        let (rows, columns, strides, step, planes) = match (tensor.shape.as_slice(), across) {
            // A kernel of one value is a matrix.
            ([out, inputs, height, width], Across::Kernels) if height * width > 1 => {
                (*height, *width, [*width, 1], height * width, out * inputs)
            }
            ([out, inputs, kernel @ ..], _) => {
                let positions: usize = kernel.iter().product();
                (*out, *inputs, [inputs * positions, positions], 1, positions)
            }
            (_, _) => (1, tensor.range.len(), [tensor.range.len(), 1], 0, 1),
        };
        let lengths = [columns, rows];
        Self {
            rows,
            columns,
            strides,
            first,
            step,
            planes,
            forward: lengths.map(|n| planner.plan_fft_forward(n)),
            inverse: lengths.map(|n| planner.plan_fft_inverse(n)),
            order: radial(rows, columns),
        }
    }

    /// Entries of a plane.
    pub(super) fn entries(&self) -> usize {
        self.rows * self.columns
    }

    fn scratch(&self) -> usize {
        let plans = self.forward.iter().chain(&self.inverse);
        plans.map(|plan| plan.get_inplace_scratch_len()).max().unwrap_or(0)
    }

    /// Where a value of a plane lies among the parameters.
    fn place(&self, plane: usize, row: usize, column: usize) -> usize {
        self.first + plane * self.step + row * self.strides[0] + column * self.strides[1]
    }

    /// Transforms a plane; entry `(k, l)` is then at `l · R + k` of the result.
    pub(super) fn forward(
        &self,
        plane: usize,
        value: impl Fn(usize) -> T,
        memory: &mut PlaneMemory<T>,
        result: &mut [Complex<T>],
    ) {
        let lines = &mut memory.plane[..self.entries()];
        for (row, line) in lines.chunks_mut(self.columns).enumerate() {
            for (column, x) in line.iter_mut().enumerate() {
                *x = Complex::new(value(self.place(plane, row, column)), T::zero());
            }
        }
        self.forward[0].process_with_scratch(lines, &mut memory.scratch);
        transpose(lines, self.columns, result);
        self.forward[1].process_with_scratch(result, &mut memory.scratch);
    }

    /// `Re Σ a(k, l) e^{+2πi (kr/R + lc/C)}` for every value of a plane, handed on with its place among the
    /// parameters. The coefficients are used up.
    pub(super) fn inverse(
        &self,
        plane: usize,
        coefficients: &mut [Complex<T>],
        memory: &mut PlaneMemory<T>,
        mut add: impl FnMut(usize, T),
    ) {
        self.inverse[1].process_with_scratch(coefficients, &mut memory.scratch);
        let lines = &mut memory.plane[..self.entries()];
        transpose(coefficients, self.rows, lines);
        self.inverse[0].process_with_scratch(lines, &mut memory.scratch);
        for (row, line) in lines.chunks(self.columns).enumerate() {
            for (column, x) in line.iter().enumerate() {
                add(self.place(plane, row, column), x.re);
            }
        }
    }
}

fn transpose<T: Copy>(from: &[T], columns: usize, to: &mut [T]) {
    let rows = from.len() / columns;
    for (column, line) in to.chunks_mut(rows).enumerate() {
        line.iter_mut().enumerate().for_each(|(row, x)| *x = from[row * columns + column]);
    }
}

/// Places of a transformed plane by radial frequency; of equals, the first comes first.
fn radial(rows: usize, columns: usize) -> Vec<usize> {
    let square = |k: usize, n: usize| (k.min(n - k) as f64 / n as f64).powi(2);
    let radius = |place: &usize| square(place % rows, rows) + square(place / rows, columns);
    let mut order: Vec<usize> = (0..rows * columns).collect();
    order.sort_by(|a, b| radius(a).total_cmp(&radius(b)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_wave_is_one_entry_and_comes_back() {
        let mut layout = Layout::default();
        layout.push("bias", &[3], Part::Body);
        layout.push("conv.weight", &[4, 6, 2, 3], Part::Body);
        for (across, rows, columns) in [(Across::Units, 4, 6), (Across::Kernels, 2, 3)] {
            let planes = Planes::<f64>::new(&layout, Part::All, across);
            let sheet = &planes.sheets[1];
            assert_eq!(
                (sheet.rows, sheet.columns, sheet.planes),
                (rows, columns, 144 / rows / columns)
            );
            let mut memory = planes.memory();
            for plane in 0..sheet.planes {
                let mut w = vec![0.0; 147];
                let wave = |r: usize, c: usize| {
                    let turns = r as f64 / rows as f64 + 2.0 * c as f64 / columns as f64;
                    (core::f64::consts::TAU * turns).cos()
                };
                for r in 0..rows {
                    for c in 0..columns {
                        w[sheet.place(plane, r, c)] = wave(r, c);
                    }
                }
                let mut bins = vec![Complex::new(0.0, 0.0); rows * columns];
                sheet.forward(plane, |i| w[i], &mut memory, &mut bins);
                for (place, z) in bins.iter().enumerate() {
                    let (k, l) = (place % rows, place / rows);
                    let mirror = (rows - 1, columns - 2);
                    let sum = f64::from(u8::from((k, l) == (1, 2)) + u8::from((k, l) == mirror));
                    let expected = sum * (rows * columns) as f64 / 2.0;
                    assert!((z.re - expected).abs() < 1e-9 && z.im.abs() < 1e-9, "{k} {l} {z}");
                }
                let mut back = vec![0.0; w.len()];
                sheet.inverse(plane, &mut bins, &mut memory, |i, x| {
                    back[i] += x / (rows * columns) as f64;
                });
                assert!(w.iter().zip(&back).all(|(a, b)| (a - b).abs() < 1e-12));
            }
        }
    }

    #[test]
    fn the_mean_is_lowest_and_the_checkerboard_highest() {
        let order = radial(4, 6);
        assert_eq!((order[0], order[23]), (0, 3 * 4 + 2));
        assert_eq!(radial(1, 5), [0, 1, 4, 2, 3]);
    }
}
