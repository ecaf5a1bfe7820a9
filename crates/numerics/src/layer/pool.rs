//! Pooling: maximum (with ReLU folded in), average, and global average.

use super::{InputGradient, Saved};
use crate::Shape;
use crate::gemm::vectorised;

/// Geometry that maximum and average pooling share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) input: Shape,
    pub(crate) output: Shape,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Window {
    /// The rows or columns of the input that output coordinate `o` sees.
    fn span(&self, o: usize, size: usize) -> core::ops::Range<usize> {
        let from = o * self.stride;
        from.saturating_sub(self.padding)
            ..(from + self.kernel).saturating_sub(self.padding).min(size)
    }
}

/// The maximum of each window; with `relu`, of the window and zero, which is the same as a ReLU
/// before the pooling at a quarter of the work.
#[derive(Debug, Clone)]
pub(crate) struct MaxPool {
    pub(crate) window: Window,
    pub(crate) relu: bool,
}

impl MaxPool {
    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], saved: &mut Saved, n: usize) {
        let w = &self.window;
        let (wi, wo) = (w.input.width, w.output.width);
        let planes = w.input.channels * n;
        let floor = if self.relu { 0.0 } else { f32::NEG_INFINITY };
        let pairs = w.kernel == 2 && w.stride == 2 && w.padding == 0;
        for p in 0..planes {
            let x = &input[p * w.input.plane()..][..w.input.plane()];
            let base = p * w.output.plane();
            if pairs {
                // The common case: two rows, two columns, no border.
                for oy in 0..w.output.height {
                    let top = &x[2 * oy * wi..][..wi];
                    let bottom = &x[(2 * oy + 1) * wi..][..wi];
                    let out = &mut output[base + oy * wo..][..wo];
                    let index = &mut saved.indices[base + oy * wo..][..wo];
                    vectorised(
                        #[inline(always)]
                        || {
                            for (ox, (out, index)) in out.iter_mut().zip(index).enumerate() {
                                let (a, b) = (top[2 * ox], top[2 * ox + 1]);
                                let (c, d) = (bottom[2 * ox], bottom[2 * ox + 1]);
                                let at = (2 * oy * wi + 2 * ox) as u32;
                                let (m, i) = larger((a, at), (b, at + 1));
                                let (m, i) = larger((m, i), (c, at + wi as u32));
                                let (m, i) = larger((m, i), (d, at + wi as u32 + 1));
                                *out = if m < floor { floor } else { m };
                                *index = i;
                            }
                        },
                    );
                }
                continue;
            }
            for oy in 0..w.output.height {
                for ox in 0..wo {
                    let (mut best, mut at) = (f32::NEG_INFINITY, 0u32);
                    for y in w.span(oy, w.input.height) {
                        for xx in w.span(ox, wi) {
                            (best, at) = larger((best, at), (x[y * wi + xx], (y * wi + xx) as u32));
                        }
                    }
                    output[base + oy * wo + ox] = if best < floor { floor } else { best };
                    saved.indices[base + oy * wo + ox] = at;
                }
            }
        }
    }

    pub(crate) fn backward(
        &self,
        output: &[f32],
        d_output: &[f32],
        d_input: &mut InputGradient<'_>,
        saved: &Saved,
    ) {
        let w = &self.window;
        let planes = d_output.len() / w.output.plane();
        if !d_input.accumulate {
            d_input.data[..planes * w.input.plane()].fill(0.0);
        }
        for p in 0..planes {
            let to = &mut d_input.data[p * w.input.plane()..][..w.input.plane()];
            let range = p * w.output.plane()..(p + 1) * w.output.plane();
            for ((d, y), at) in d_output[range.clone()]
                .iter()
                .zip(&output[range.clone()])
                .zip(&saved.indices[range])
            {
                if !self.relu || *y > 0.0 {
                    to[*at as usize] += d;
                }
            }
        }
    }
}

/// The first of two equal values wins, as in PyTorch; a NaN wins over everything.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn larger(a: (f32, u32), b: (f32, u32)) -> (f32, u32) {
    if b.0 > a.0 || b.0.is_nan() { b } else { a }
}

/// The mean of each window; a border counts as zeros, as in PyTorch.
#[derive(Debug, Clone)]
pub(crate) struct AveragePool {
    pub(crate) window: Window,
}

impl AveragePool {
    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], n: usize) {
        let w = &self.window;
        let share = 1.0 / (w.kernel * w.kernel) as f32;
        for p in 0..w.input.channels * n {
            let x = &input[p * w.input.plane()..][..w.input.plane()];
            let out = &mut output[p * w.output.plane()..][..w.output.plane()];
            for (at, out) in out.iter_mut().enumerate() {
                let (oy, ox) = (at / w.output.width, at % w.output.width);
                let mut sum = 0.0;
                for y in w.span(oy, w.input.height) {
                    for xx in w.span(ox, w.input.width) {
                        sum += x[y * w.input.width + xx];
                    }
                }
                *out = sum * share;
            }
        }
    }

    pub(crate) fn backward(&self, d_output: &[f32], d_input: &mut InputGradient<'_>) {
        let w = &self.window;
        let share = 1.0 / (w.kernel * w.kernel) as f32;
        let planes = d_output.len() / w.output.plane();
        if !d_input.accumulate {
            d_input.data[..planes * w.input.plane()].fill(0.0);
        }
        for p in 0..planes {
            let to = &mut d_input.data[p * w.input.plane()..][..w.input.plane()];
            let d = &d_output[p * w.output.plane()..][..w.output.plane()];
            for (at, d) in d.iter().enumerate() {
                let (oy, ox) = (at / w.output.width, at % w.output.width);
                for y in w.span(oy, w.input.height) {
                    for xx in w.span(ox, w.input.width) {
                        to[y * w.input.width + xx] += d * share;
                    }
                }
            }
        }
    }
}

/// The mean of each channel: `(C, N, HW)` to `(N, C)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAveragePool {
    pub(crate) channels: usize,
    pub(crate) plane: usize,
}

impl GlobalAveragePool {
    pub(crate) fn forward(&self, input: &[f32], output: &mut [f32], n: usize) {
        for c in 0..self.channels {
            for i in 0..n {
                let x = &input[(c * n + i) * self.plane..][..self.plane];
                output[i * self.channels + c] =
                    (super::batch_norm::sum(x) / self.plane as f64) as f32;
            }
        }
    }

    pub(crate) fn backward(&self, d_output: &[f32], d_input: &mut InputGradient<'_>) {
        let n = d_output.len() / self.channels;
        let share = 1.0 / self.plane as f32;
        for c in 0..self.channels {
            for i in 0..n {
                let d = d_output[i * self.channels + c] * share;
                for to in &mut d_input.data[(c * n + i) * self.plane..][..self.plane] {
                    *to = if d_input.accumulate { *to + d } else { d };
                }
            }
        }
    }
}
