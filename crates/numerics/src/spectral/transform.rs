//! One transform of a stretch of parameters and its inverse, by the algorithm that suits its length.

use super::fft::{Bins, Decimation, Dimensions, LANES, Lanes, Matrix, Resampling};
use super::truncation::{Kept, Order, PIECE};
use core::ops::Range;
use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// A transform of `N ≥ d` numbers: `d` parameters and zeros.
pub(super) struct Transform {
    /// Which parameters.
    pub(super) range: Range<usize>,
    /// `N`.
    len: usize,
    engine: Engine,
    pub(super) order: Order,
    /// Its part of the memory's `blocks` or `lines`.
    place: Range<usize>,
}

/// Which transform, and of how many numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    /// `N = R·C`.
    Matrix(Dimensions),
    /// As many numbers as there are parameters, by way of a matrix that is larger.
    Resampled(Dimensions),
    /// `N`, by way of a matrix that is smaller: of the spectrum only the first entries are there.
    Decimated {
        /// `N`.
        len: usize,
        /// What is transformed.
        grid: Dimensions,
        /// How many are there.
        entries: usize,
    },
    /// `N`.
    Library(usize),
    /// `N`, which are left as they are.
    Plain(usize),
}

enum Engine {
    /// Any length. Its algorithm depends on the machine's instruction set, and so do the last bits.
    Library { forward: Arc<dyn RealToComplex<f32>>, inverse: Arc<dyn ComplexToReal<f32>> },
    /// Long vectors of a suitable length, or brought to one.
    Matrix(Box<Matrix>, Way),
    /// None.
    Plain,
}

/// How parameters become the numbers of a matrix.
enum Way {
    /// They are those numbers, with zeros behind them.
    Straight,
    Resampled(Box<Resampling>),
    Decimated(Box<Decimation>),
}

/// Working memory for a list of transforms.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Spectra of matrix transforms.
    blocks: Vec<Bins>,
    columns: Vec<Bins>,
    /// What is resampled.
    eighths: Vec<Lanes>,
    /// Spectra of the library's transforms, and what has none.
    lines: Vec<Complex32>,
    real: Vec<f32>,
    scratch: Vec<Complex32>,
}

/// What happens to consecutive blocks of a spectrum that are kept in the same way. The first argument
/// says where they start, counted over the kept blocks only; the last, how many entries each lane
/// stands for.
pub(super) trait Visit: FnMut(usize, &mut [Bins], Lanes) {}
impl<F: FnMut(usize, &mut [Bins], Lanes)> Visit for F {}

impl Transform {
    /// Plans a transform and makes room for it in the memory.
    pub(super) fn new(
        range: Range<usize>,
        size: Size,
        planner: &mut RealFftPlanner<f32>,
        memory: &mut Sizes,
    ) -> Self {
        match size {
            Size::Matrix(dimensions)
            | Size::Resampled(dimensions)
            | Size::Decimated { grid: dimensions, .. } => {
                let matrix = Matrix::new(dimensions);
                let (grid, frequencies) = (matrix.len(), matrix.frequencies());
                let (len, way) = match size {
                    Size::Resampled(_) => {
                        let resampling = Resampling::new(range.len(), dimensions, &frequencies);
                        memory.eighths = memory.eighths.max(resampling.eighths());
                        (range.len(), Way::Resampled(Box::new(resampling)))
                    }
                    Size::Decimated { len, entries, .. } => {
                        let decimation =
                            Decimation::new(range.len(), len, dimensions, entries, &frequencies);
                        memory.real = memory.real.max(decimation.room());
                        (len, Way::Decimated(Box::new(decimation)))
                    }
                    _ => (grid, Way::Straight),
                };
                let place = memory.blocks..memory.blocks + matrix.blocks();
                memory.blocks = place.end;
                memory.columns = memory.columns.max(matrix.scratch());
                Self {
                    range,
                    len,
                    order: Order::Matrix { len, grid, rows: matrix.rows(), frequencies },
                    engine: Engine::Matrix(Box::new(matrix), way),
                    place,
                }
            }
            Size::Library(len) => {
                let place = memory.lines..memory.lines + len / 2 + 1;
                memory.lines = place.end;
                let forward = planner.plan_fft_forward(len);
                let inverse = planner.plan_fft_inverse(len);
                memory.real = memory.real.max(len);
                let need = forward.get_scratch_len().max(inverse.get_scratch_len());
                memory.scratch = memory.scratch.max(need);
                let order = Order::Natural { len };
                Self { range, len, order, engine: Engine::Library { forward, inverse }, place }
            }
            Size::Plain(len) => {
                let place = memory.lines..memory.lines + len;
                memory.lines = place.end;
                Self { range, len, order: Order::Plain { len }, engine: Engine::Plain, place }
            }
        }
    }

    /// `d/N`: what an entry of the padded spectrum weighs against one of the exact spectrum.
    pub(super) fn share(&self) -> f64 {
        self.range.len() as f64 / self.len as f64
    }

    /// `N`.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// `Σ|z|² / Σw²`: `N` (Parseval).
    pub(super) fn gain(&self) -> f64 {
        if matches!(self.engine, Engine::Plain) { 1.0 } else { self.len as f64 }
    }

    /// Transforms parameters and visits what is kept.
    pub(super) fn analyse(
        &self,
        w: &[f32],
        memory: &mut Memory,
        kept: &Kept,
        mut visit: impl Visit,
    ) {
        let w = &w[self.range.clone()];
        match &self.engine {
            Engine::Library { .. } | Engine::Plain => {
                self.line_forward(w, memory);
                self.line_visit(&mut memory.lines[self.place.clone()], kept, visit);
            }
            Engine::Matrix(matrix, way) => {
                let blocks = split(matrix, way, w, self.place.clone(), memory);
                let mut at = 0;
                for (group, blocks) in blocks.chunks_exact_mut(matrix.columns()).enumerate() {
                    matrix.split_rows(blocks);
                    way.weigh(group, blocks);
                    self.visit_group(group, blocks, kept, &mut at, &mut visit);
                }
            }
        }
    }

    /// Visits what is kept, which must leave coefficients `a_k`, drops the rest, and adds
    /// `Re Σ_k a_k e^{−2πi kn/N}` to the gradient.
    pub(super) fn synthesise(
        &self,
        memory: &mut Memory,
        kept: &Kept,
        gradient: &mut [f32],
        mut visit: impl Visit,
    ) {
        let gradient = &mut gradient[self.range.clone()];
        match &self.engine {
            Engine::Library { .. } | Engine::Plain => {
                self.line_visit(&mut memory.lines[self.place.clone()], kept, visit);
                self.line_back(memory, kept, gradient);
            }
            Engine::Matrix(matrix, way) => {
                let blocks = &mut memory.blocks[self.place.clone()];
                let mut at = 0;
                for (group, blocks) in blocks.chunks_exact_mut(matrix.columns()).enumerate() {
                    self.visit_group(group, blocks, kept, &mut at, &mut visit);
                    Self::drop_gaps(blocks, kept);
                    way.weigh(group, blocks);
                    matrix.join_rows(blocks);
                }
                join(matrix, way, self.place.clone(), memory, gradient);
            }
        }
    }

    /// [`Transform::analyse`] and [`Transform::synthesise`] at once, for forms whose coefficients
    /// need nothing that is known only at the end: the rows then stay in the cache.
    pub(super) fn pass(
        &self,
        w: &[f32],
        memory: &mut Memory,
        kept: &Kept,
        gradient: &mut [f32],
        mut visit: impl Visit,
    ) {
        match &self.engine {
            Engine::Library { .. } | Engine::Plain => {
                self.line_forward(&w[self.range.clone()], memory);
                self.synthesise(memory, kept, gradient, visit);
            }
            Engine::Matrix(matrix, way) => {
                let w = &w[self.range.clone()];
                let blocks = split(matrix, way, w, self.place.clone(), memory);
                let mut at = 0;
                for (group, blocks) in blocks.chunks_exact_mut(matrix.columns()).enumerate() {
                    matrix.split_rows(blocks);
                    way.weigh(group, blocks);
                    self.visit_group(group, blocks, kept, &mut at, &mut visit);
                    Self::drop_gaps(blocks, kept);
                    way.weigh(group, blocks);
                    matrix.join_rows(blocks);
                }
                let gradient = &mut gradient[self.range.clone()];
                join(matrix, way, self.place.clone(), memory, gradient);
            }
        }
    }

    fn visit_group(
        &self,
        group: usize,
        blocks: &mut [Bins],
        kept: &Kept,
        at: &mut usize,
        visit: &mut impl Visit,
    ) {
        let mut piece = [Bins::default(); PIECE];
        for (stretches, counts) in kept.batches(&self.order, group) {
            let first = *at;
            if let [stretch] = stretches {
                *at += stretch.len();
                visit(first, &mut blocks[stretch.clone()], counts);
                continue;
            }
            for (to, position) in piece.iter_mut().zip(stretches.iter().cloned().flatten()) {
                *to = blocks[position];
                *at += 1;
            }
            visit(first, &mut piece[..*at - first], counts);
            for (from, position) in piece.iter().zip(stretches.iter().cloned().flatten()) {
                blocks[position] = *from;
            }
        }
    }

    fn drop_gaps(blocks: &mut [Bins], kept: &Kept) {
        for gap in kept.gaps() {
            blocks[gap.clone()].fill(Bins::default());
        }
    }

    fn line_forward(&self, w: &[f32], memory: &mut Memory) {
        let lines = &mut memory.lines[self.place.clone()];
        let Engine::Library { forward, .. } = &self.engine else {
            lines.iter_mut().zip(w).for_each(|(z, w)| *z = Complex32::new(*w, 0.0));
            return;
        };
        // The library uses its input as working memory.
        let real = &mut memory.real[..self.len];
        real[..w.len()].copy_from_slice(w);
        real[w.len()..].fill(0.0);
        let outcome = forward.process_with_scratch(real, lines, &mut memory.scratch);
        debug_assert!(outcome.is_ok(), "the lengths are the plan's own");
    }

    /// Visits bins that stand in a line, a piece at a time, as blocks.
    fn line_visit(&self, lines: &mut [Complex32], kept: &Kept, mut visit: impl Visit) {
        let mut piece = [Bins::default(); PIECE];
        let mut at = 0;
        let batches = kept.batches(&self.order, 0);
        for (stretch, counts) in
            batches.flat_map(|(stretches, counts)| stretches.iter().map(move |s| (s, counts)))
        {
            for start in stretch.clone().step_by(PIECE) {
                let blocks = PIECE.min(stretch.end - start);
                let piece = &mut piece[..blocks];
                let end = lines.len().min(LANES * (start + blocks));
                let lines = &mut lines[LANES * start..end];
                for (block, bins) in piece.iter_mut().zip(lines.chunks(LANES)) {
                    for (l, z) in bins.iter().enumerate() {
                        (block.re.0[l], block.im.0[l]) = (z.re, z.im);
                    }
                }
                visit(at, piece, counts);
                at += blocks;
                for (block, bins) in piece.iter().zip(lines.chunks_mut(LANES)) {
                    for (l, z) in bins.iter_mut().enumerate() {
                        *z = Complex32::new(block.re.0[l], block.im.0[l]);
                    }
                }
            }
        }
    }

    fn line_back(&self, memory: &mut Memory, kept: &Kept, gradient: &mut [f32]) {
        let lines = &mut memory.lines[self.place.clone()];
        for gap in kept.gaps() {
            let end = lines.len().min(LANES * gap.end);
            lines[(LANES * gap.start).min(end)..end].fill(Complex32::default());
        }
        let Engine::Library { inverse, .. } = &self.engine else {
            gradient.iter_mut().zip(lines).for_each(|(g, a)| *g += a.re);
            return;
        };
        // Its exponent has the other sign, and it counts a bin's mirror image by itself.
        for z in lines.iter_mut() {
            *z = Complex32::new(0.5 * z.re, -0.5 * z.im);
        }
        // These two are real and stand alone.
        lines[0] = Complex32::new(2.0 * lines[0].re, 0.0);
        if self.len.is_multiple_of(2) {
            lines[self.len / 2] = Complex32::new(2.0 * lines[self.len / 2].re, 0.0);
        }
        let real = &mut memory.real[..self.len];
        let outcome = inverse.process_with_scratch(lines, real, &mut memory.scratch);
        debug_assert!(outcome.is_ok(), "the lengths are the plan's own");
        crate::vector::axpy(1.0, &real[..gradient.len()], gradient);
    }
}

/// The columns of parameters, on the way that they take; gives the spectrum, whose rows are still to be transformed.
fn split<'m>(
    matrix: &Matrix,
    way: &Way,
    w: &[f32],
    place: Range<usize>,
    memory: &'m mut Memory,
) -> &'m mut [Bins] {
    let Memory { blocks, columns, eighths, real, .. } = memory;
    let (blocks, columns) = (&mut blocks[place], &mut columns[..matrix.scratch()]);
    match way {
        Way::Straight => matrix.split_columns(w, columns, blocks),
        Way::Resampled(resampling) => {
            let eighths = &mut eighths[..resampling.eighths()];
            resampling.divide(w, eighths);
            let gather = |strips, scratch: &mut [_]| resampling.gather(eighths, strips, scratch);
            matrix.split_columns_of(gather, columns, blocks);
        }
        Way::Decimated(decimation) => {
            decimation.spread(w, real);
            matrix.split_columns(decimation.points(real), columns, blocks);
        }
    }
    blocks
}

/// The transpose of [`split`], adding to a gradient.
fn join(
    matrix: &Matrix,
    way: &Way,
    place: Range<usize>,
    memory: &mut Memory,
    gradient: &mut [f32],
) {
    let Memory { blocks, columns, eighths, real, .. } = memory;
    let (blocks, columns) = (&blocks[place], &mut columns[..matrix.scratch()]);
    match way {
        Way::Straight => matrix.join_columns(blocks, columns, gradient),
        Way::Resampled(resampling) => {
            let eighths = &mut eighths[..resampling.eighths()];
            eighths.fill(Lanes::default());
            let scatter = |scratch: &[_], strips| resampling.scatter(scratch, strips, eighths);
            matrix.join_columns_to(blocks, columns, scatter);
            resampling.unite(eighths, gradient);
        }
        Way::Decimated(decimation) => {
            let points = decimation.points(real);
            points.fill(0.0);
            matrix.join_columns(blocks, columns, points);
            decimation.back(real, gradient);
        }
    }
}

impl Way {
    /// Divides out what it did to a group.
    fn weigh(&self, group: usize, blocks: &mut [Bins]) {
        match self {
            Self::Straight => {}
            Self::Resampled(resampling) => resampling.weights().weigh(group, blocks),
            Self::Decimated(decimation) => decimation.weights().weigh(group, blocks),
        }
    }
}

/// How much memory a list of transforms needs.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    blocks: usize,
    columns: usize,
    eighths: usize,
    lines: usize,
    real: usize,
    scratch: usize,
}

impl Sizes {
    pub(super) fn memory(&self) -> Memory {
        Memory {
            blocks: vec![Bins::default(); self.blocks],
            columns: vec![Bins::default(); self.columns],
            eighths: vec![Lanes::default(); self.eighths],
            lines: vec![Complex32::default(); self.lines],
            real: vec![0.0; self.real],
            scratch: vec![Complex32::default(); self.scratch],
        }
    }
}
