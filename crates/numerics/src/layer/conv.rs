//! The two-dimensional convolution.
//!
//! All three passes are matrix products whose window operand is packed straight from the
//! (padded) image:
//! - forward: `Y[o, p] = Σ_d W[o, d] X[d, p]`, with `p` an output position and `d` a kernel tap;
//! - weights: `dW[o, d] = Σ_p dY[o, p] X[d, p]`;
//! - input: a stride-1 convolution that (almost) keeps its size is a convolution of the padded `dY`
//!   with the flipped kernel; any other goes through columns `Wᵀ dY`, which are added back to the
//!   places that they were taken from.

use super::shifts::EntryMemory;
use super::winograd::Winograd;
use super::{InputGradient, Need, Scratch};
use crate::gemm::{
    Extents, SLACK, Span, Strided, Target, WIDTH, Windows, WindowsTransposed, multiply,
};
use crate::{Shape, Size};
use core::ops::Range;

/// About how many output positions have their columns made at a time for the input gradient: whole
/// images are taken, at least one.
const COLUMN_CHUNK: usize = 512;

/// A convolution of any kernel, stride and padding.
#[derive(Debug, Clone)]
pub(crate) struct Conv {
    pub(crate) input: Shape,
    pub(crate) output: Shape,
    pub(crate) kernel: Size,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Option<Range<usize>>,
    /// Never by minimal filtering.
    pub(crate) direct: bool,
    /// A maximum pooling reads the output, so most of its gradient is zero.
    pub(crate) before_pooling: bool,
}

/// A convolution by minimal filtering.
enum Fast {
    Three(Winograd<4, 3>),
    Five(Winograd<2, 5>),
}

impl Conv {
    /// The output shape of a convolution, if the kernel fits.
    pub(crate) fn output_shape(
        input: Shape,
        channels: usize,
        kernel: Size,
        stride: usize,
        padding: usize,
    ) -> Option<Shape> {
        let extent =
            |size: usize, k: usize| Some((size + 2 * padding).checked_sub(k)? / stride + 1);
        Some(Shape::new(
            channels,
            extent(input.height, kernel.height)?,
            extent(input.width, kernel.width)?,
        ))
    }

    /// Kernel taps: input channels times kernel area.
    pub(super) fn depth(&self) -> usize {
        self.input.channels * self.kernel.area()
    }

    pub(super) fn padded_size(&self) -> Size {
        bordered(self.input, self.padding)
    }

    /// Whether a 1x1 convolution over every position: a plain matrix product.
    fn is_pointwise(&self) -> bool {
        self.kernel == Size::square(1) && self.stride == 1 && self.padding == 0
    }

    /// Whether the input gradient is cheaper as a convolution with the flipped kernel: it needs
    /// stride 1, padding below the kernel, and wastes little on positions outside the output.
    fn flips(&self) -> bool {
        let Size { height: kh, width: kw } = self.kernel;
        self.stride == 1
            && self.padding < kh
            && self.padding < kw
            && kh == kw
            && 4 * self.input.plane() <= 5 * self.output.plane()
    }

    /// The minimal-filtering form of a stride-1 convolution of 3x3 or 5x5 over whole groups of
    /// channels.
    fn fast(&self) -> Option<Fast> {
        let whole = [self.input.channels, self.output.channels].map(|c| c.is_multiple_of(WIDTH));
        if self.direct
            || self.stride != 1
            || whole != [true, true]
            || self.padding >= self.kernel.height
        {
            return None;
        }
        let Self { input, output, padding, .. } = *self;
        match self.kernel {
            Size { height: 3, width: 3 } => Some(Fast::Three(Winograd { input, output, padding })),
            Size { height: 5, width: 5 } => Some(Fast::Five(Winograd { input, output, padding })),
            _ => None,
        }
    }

    /// Scratch for a batch.
    pub(crate) fn need(&self, n: usize) -> Need {
        match self.fast() {
            Some(Fast::Three(conv)) => {
                return Need { transforms: conv.sizes(n), ..Need::default() };
            }
            Some(Fast::Five(conv)) => return Need { transforms: conv.sizes(n), ..Need::default() },
            None if self.is_pointwise() => return Need::default(),
            None => {}
        }
        let mut need = Need { taps: self.depth(), ..Need::default() };
        if self.padding > 0 {
            need.padded = self.input.channels * n * self.padded_size().area() + SLACK;
        }
        if self.sums_entries() {
            need.positions = self.output.plane();
            need.columns = self.output.channels * self.input.channels * self.kernel.height * 8;
        }
        if self.flips() {
            let plane = bordered(self.output, self.kernel.height - 1 - self.padding).area();
            need.padded = need.padded.max(self.output.channels * n * plane + SLACK);
            need.weights = self.weight.len();
        } else {
            let chunk = self.chunk_images() * self.output.plane();
            need.columns = need.columns.max(self.depth() * chunk);
        }
        need
    }

    /// The windows over an image that is padded already.
    fn windows<'a>(&self, image: &'a [f32], n: usize) -> Windows<'a> {
        Windows {
            image,
            samples: n,
            padded: self.padded_size(),
            kernel: self.kernel,
            stride: self.stride,
            output: bordered(self.output, 0),
        }
    }

    /// `input` must hold [`SLACK`] values past its end.
    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        input: &[f32],
        output: &mut [f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        let positions = n * self.output.plane();
        let weight = &parameters[self.weight.clone()];
        let bias = self.bias.clone().map(|b| &parameters[b]);
        if let Some(fast) = self.fast() {
            let work = &mut scratch.transforms;
            match fast {
                Fast::Three(c) => c.forward(weight, bias, input, output, work, n),
                Fast::Five(c) => c.forward(weight, bias, input, output, work, n),
            }
            return;
        }
        let image = if self.padding == 0 {
            input
        } else {
            pad(input, &mut scratch.padded, self.input, self.padding, n);
            &scratch.padded
        };
        if self.shifts() {
            self.forward_by_shifts(weight, bias, image, output, &mut scratch.shifts, n);
            return;
        }
        let weight = Strided { data: weight, lane: self.depth(), depth: 1 };
        if let Some(bias) = bias {
            for (row, bias) in output.chunks_exact_mut(positions).zip(bias) {
                row.fill(*bias);
            }
        }
        let target =
            Target { data: output, row_stride: positions, accumulate: self.bias.is_some() };
        let extents = Extents { m: self.output.channels, n: positions, k: self.depth() };
        if self.is_pointwise() {
            let columns = Strided { data: input, lane: 1, depth: positions };
            multiply(extents, &weight, &columns, target, &mut scratch.panels);
        } else {
            multiply(extents, &weight, &self.windows(image, n), target, &mut scratch.panels);
        }
    }

    pub(crate) fn backward(
        &self,
        parameters: &[f32],
        input: &[f32],
        d_output: &[f32],
        d_input: Option<InputGradient<'_>>,
        gradient: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let positions = d_output.len() / self.output.channels;
        let n = positions / self.output.plane();
        let own = self.weight.start..self.bias.as_ref().unwrap_or(&self.weight).end;
        // The bias follows the weights in every layout.
        let (d_weight, d_bias) = gradient[own].split_at_mut(self.weight.len());
        if self.fast().is_some() || !self.sums_entries() {
            for (b, row) in d_bias.iter_mut().zip(d_output.chunks_exact(positions)) {
                *b = super::batch_norm::sum(row) as f32;
            }
        }
        if let Some(fast) = self.fast() {
            let weight = &parameters[self.weight.clone()];
            let work = &mut scratch.transforms;
            match fast {
                Fast::Three(c) => c.backward(weight, input, d_output, d_input, d_weight, work),
                Fast::Five(c) => c.backward(weight, input, d_output, d_input, d_weight, work),
            }
            return;
        }
        let image = if self.padding == 0 {
            input
        } else {
            pad(input, &mut scratch.padded, self.input, self.padding, n);
            &scratch.padded
        };
        if self.sums_entries() {
            let memory = EntryMemory {
                entries: &mut scratch.entries,
                sums: &mut scratch.columns,
                rows: &mut scratch.shifts,
            };
            self.weight_gradient_by_entries(image, d_output, d_weight, d_bias, memory, n);
        } else {
            let extents = Extents { m: self.output.channels, n: self.depth(), k: positions };
            let rows = Strided { data: d_output, lane: positions, depth: 1 };
            let target = Target { data: d_weight, row_stride: self.depth(), accumulate: false };
            if self.is_pointwise() {
                let columns = Strided { data: input, lane: positions, depth: 1 };
                multiply(extents, &rows, &columns, target, &mut scratch.panels);
            } else {
                let windows = WindowsTransposed(self.windows(image, n));
                multiply(extents, &rows, &windows, target, &mut scratch.panels);
            }
        }
        let Some(mut target) = d_input else { return };
        let weight = &parameters[self.weight.clone()];
        if self.is_pointwise() {
            multiply(
                Extents { m: self.input.channels, n: positions, k: self.output.channels },
                &Strided { data: weight, lane: 1, depth: self.input.channels },
                &Strided { data: d_output, lane: 1, depth: positions },
                Target { data: target.data, row_stride: positions, accumulate: target.accumulate },
                &mut scratch.panels,
            );
        } else if self.flips() {
            self.input_gradient_by_flipping(weight, d_output, &mut target, scratch, n);
        } else {
            self.input_gradient_by_columns(weight, d_output, &mut target, scratch, n);
        }
    }

    fn input_gradient_by_flipping(
        &self,
        weight: &[f32],
        d_output: &[f32],
        target: &mut InputGradient<'_>,
        scratch: &mut Scratch,
        n: usize,
    ) {
        let area = self.kernel.area();
        let edge = self.kernel.height - 1 - self.padding;
        pad(d_output, &mut scratch.padded, self.output, edge, n);
        // W[o, c, tap] to F[c, o, area - 1 - tap].
        let (inputs, outputs) = (self.input.channels, self.output.channels);
        for c in 0..inputs {
            for o in 0..outputs {
                let from = &weight[(o * inputs + c) * area..][..area];
                let to = &mut scratch.weights[(c * outputs + o) * area..][..area];
                for (to, from) in to.iter_mut().zip(from.iter().rev()) {
                    *to = *from;
                }
            }
        }
        let windows = Windows {
            image: &scratch.padded,
            samples: n,
            padded: bordered(self.output, edge),
            kernel: self.kernel,
            stride: 1,
            output: bordered(self.input, 0),
        };
        let positions = n * self.input.plane();
        let depth = outputs * area;
        multiply(
            Extents { m: inputs, n: positions, k: depth },
            &Strided { data: &scratch.weights, lane: depth, depth: 1 },
            &windows,
            Target { data: target.data, row_stride: positions, accumulate: target.accumulate },
            &mut scratch.panels,
        );
    }

    fn input_gradient_by_columns(
        &self,
        weight: &[f32],
        d_output: &[f32],
        target: &mut InputGradient<'_>,
        scratch: &mut Scratch,
        n: usize,
    ) {
        let (plane, positions) = (self.output.plane(), n * self.output.plane());
        let image = &mut target.data[..n * self.input.len()];
        if !target.accumulate {
            image.fill(0.0);
        }
        for first in (0..n).step_by(self.chunk_images()) {
            let images = Span { from: first, len: self.chunk_images().min(n - first) };
            let chunk = images.len * plane;
            multiply(
                Extents { m: self.depth(), n: chunk, k: self.output.channels },
                &Strided { data: weight, lane: 1, depth: self.depth() },
                &Strided { data: &d_output[first * plane..], lane: 1, depth: positions },
                Target { data: &mut scratch.columns, row_stride: chunk, accumulate: false },
                &mut scratch.panels,
            );
            let columns = &scratch.columns[..self.depth() * chunk];
            crate::gemm::vectorised(
                #[inline(always)]
                || self.add_columns(columns, image, images, n),
            );
        }
    }

    /// Images whose columns are made at a time.
    fn chunk_images(&self) -> usize {
        (COLUMN_CHUNK / self.output.plane()).max(1)
    }

    /// Output coordinates whose kernel tap `k` falls inside an image of `size`.
    fn inside(&self, k: usize, size: usize, outputs: usize) -> Range<usize> {
        let first = self.padding.saturating_sub(k).div_ceil(self.stride);
        let end = (size + self.padding).saturating_sub(k).div_ceil(self.stride).min(outputs);
        first..end.max(first)
    }

    /// Adds the columns of some images back to the places that they were taken from.
    #[expect(
        clippy::inline_always,
        reason = "its body must land inside a caller that has AVX2 switched on"
    )]
    #[inline(always)]
    fn add_columns(&self, columns: &[f32], image: &mut [f32], images: Span, n: usize) {
        let Size { height: kh, width: kw } = self.kernel;
        let (wo, wi) = (self.output.width, self.input.width);
        let plane = self.output.plane();
        for (d, row) in columns.chunks_exact(images.len * plane).enumerate() {
            let (c, ky, kx) = (d / (kh * kw), d / kw % kh, d % kw);
            let across = self.inside(kx, wi, wo);
            if across.is_empty() {
                continue;
            }
            for (i, from) in row.chunks_exact(plane).enumerate() {
                let to = &mut image[(c * n + images.from + i) * self.input.plane()..]
                    [..self.input.plane()];
                for y in self.inside(ky, self.input.height, self.output.height) {
                    let line = y * self.stride + ky - self.padding;
                    let start = line * wi + across.start * self.stride + kx - self.padding;
                    let values = &from[y * wo..][across.clone()];
                    if self.stride == 1 {
                        for (to, v) in to[start..start + values.len()].iter_mut().zip(values) {
                            *to += v;
                        }
                    } else {
                        for (to, v) in to[start..].iter_mut().step_by(self.stride).zip(values) {
                            *to += v;
                        }
                    }
                }
            }
        }
    }
}

/// Height and width of an image with a border on each side.
fn bordered(shape: Shape, border: usize) -> Size {
    Size { height: shape.height + 2 * border, width: shape.width + 2 * border }
}

/// Copies an image batch into `padded`, with a border of zeros.
fn pad(image: &[f32], padded: &mut [f32], shape: Shape, border: usize, n: usize) {
    let Size { height: hp, width: wp } = bordered(shape, border);
    let padded = &mut padded[..shape.channels * n * hp * wp];
    padded.fill(0.0);
    for (from, to) in image.chunks_exact(shape.plane()).zip(padded.chunks_exact_mut(hp * wp)) {
        for (from, to) in from.chunks_exact(shape.width).zip(to.chunks_exact_mut(wp).skip(border)) {
            to[border..border + shape.width].copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests;
