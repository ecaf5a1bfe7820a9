//! Batch normalisation (Ioffe and Szegedy 2015), as PyTorch computes it: biased variance for the
//! batch, unbiased for the running statistics, momentum 0.1, epsilon 1e-5.

use super::{InputGradient, Passed, Saved, activation};
use crate::gemm::vectorised;
use core::ops::Range;

/// Keeps a variance of zero finite.
pub(crate) const EPSILON: f64 = 1e-5;
/// Share of the new batch in the running statistics.
const MOMENTUM: f32 = 0.1;

/// Normalises every channel over the batch, optionally followed by ReLU.
#[derive(Debug, Clone)]
pub(crate) struct BatchNorm {
    pub(crate) channels: usize,
    pub(crate) plane: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
    pub(crate) mean: Range<usize>,
    pub(crate) variance: Range<usize>,
    pub(crate) relu: bool,
}

/// What a channel is normalised by.
#[derive(Clone, Copy)]
struct Moments {
    mean: f64,
    variance: f64,
}

impl BatchNorm {
    /// Batch statistics; the running ones are updated.
    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        buffers: &mut [f32],
        input: &[f32],
        output: &mut [f32],
        saved: &mut Saved,
        n: usize,
    ) {
        let count = n * self.plane;
        saved.eval = false;
        for c in 0..self.channels {
            let x = &input[c * count..][..count];
            let mean = sum(x) / count as f64;
            let variance = squared_deviations(x, mean) / count as f64;
            let unbiased = variance * count as f64 / (count as f64 - 1.0).max(1.0);
            let running = &mut buffers[self.mean.start + c];
            *running += MOMENTUM * (mean as f32 - *running);
            let running = &mut buffers[self.variance.start + c];
            *running += MOMENTUM * (unbiased as f32 - *running);
            let y = &mut output[c * count..][..count];
            self.normalise(parameters, c, Moments { mean, variance }, x, y, saved);
        }
    }

    /// Running statistics, which stay as they are.
    pub(crate) fn forward_fixed(
        &self,
        parameters: &[f32],
        buffers: &[f32],
        input: &[f32],
        output: &mut [f32],
        saved: &mut Saved,
        n: usize,
    ) {
        let count = n * self.plane;
        saved.eval = true;
        for c in 0..self.channels {
            let mean = f64::from(buffers[self.mean.start + c]);
            let variance = f64::from(buffers[self.variance.start + c]);
            let x = &input[c * count..][..count];
            let y = &mut output[c * count..][..count];
            self.normalise(parameters, c, Moments { mean, variance }, x, y, saved);
        }
    }

    fn normalise(
        &self,
        parameters: &[f32],
        c: usize,
        Moments { mean, variance }: Moments,
        x: &[f32],
        y: &mut [f32],
        saved: &mut Saved,
    ) {
        let inverse = 1.0 / (variance + EPSILON).sqrt();
        saved.values[2 * c] = mean as f32;
        saved.values[2 * c + 1] = inverse as f32;
        let slope = (f64::from(parameters[self.weight.start + c]) * inverse) as f32;
        affine(x, y, mean as f32, slope, parameters[self.bias.start + c]);
        if self.relu {
            activation::relu(y);
        }
    }

    pub(crate) fn backward(
        &self,
        parameters: &[f32],
        Passed { input, output }: Passed<'_>,
        d_output: &mut [f32],
        mut d_input: Option<InputGradient<'_>>,
        gradient: &mut [f32],
        saved: &Saved,
    ) {
        let count = d_output.len() / self.channels;
        for c in 0..self.channels {
            let x = &input[c * count..][..count];
            let d = &mut d_output[c * count..][..count];
            if self.relu {
                activation::relu_backward(&output[c * count..][..count], d);
            }
            let (mean, inverse) = (saved.values[2 * c], saved.values[2 * c + 1]);
            let (total, along) = sums_along(d, x, mean);
            let along = along * f64::from(inverse);
            gradient[self.bias.start + c] = total as f32;
            gradient[self.weight.start + c] = along as f32;
            let Some(target) = &mut d_input else { continue };
            let slope = parameters[self.weight.start + c] * inverse;
            // Running statistics are constants; batch statistics depend on every input.
            let (shift, tilt) = if saved.eval {
                (0.0, 0.0)
            } else {
                let m = count as f64;
                ((total / m) as f32, (along / m) as f32 * inverse)
            };
            let out = &mut target.data[c * count..][..count];
            let accumulate = target.accumulate;
            vectorised(
                #[inline(always)]
                || {
                    for ((out, d), x) in out.iter_mut().zip(&*d).zip(x) {
                        let value = slope * (d - shift - (x - mean) * tilt);
                        *out = if accumulate { *out + value } else { value };
                    }
                },
            );
        }
    }
}

/// `y = (x − mean) slope + bias`.
pub(super) fn affine(x: &[f32], y: &mut [f32], mean: f32, slope: f32, bias: f32) {
    vectorised(
        #[inline(always)]
        || {
            for (y, x) in y.iter_mut().zip(x) {
                *y = (x - mean) * slope + bias;
            }
        },
    );
}

/// Values summed in `f32` lanes before they join the `f64` total.
const BLOCK: usize = 512;

/// Sums terms of up to three columns in eight lanes per block of [`BLOCK`], blocks in `f64`.
#[expect(
    clippy::inline_always,
    reason = "its body must land inside a caller that has AVX2 switched on"
)]
#[inline(always)]
fn lanes_sum(len: usize, term: impl Fn(usize) -> f32) -> f64 {
    let mut total = 0.0;
    for start in (0..len).step_by(BLOCK) {
        let end = (start + BLOCK).min(len);
        let whole = start + (end - start) / 8 * 8;
        let mut lanes = [0.0f32; 8];
        for i in (start..whole).step_by(8) {
            for (l, lane) in lanes.iter_mut().enumerate() {
                *lane += term(i + l);
            }
        }
        total += lanes.iter().map(|l| f64::from(*l)).sum::<f64>();
        for i in whole..end {
            total += f64::from(term(i));
        }
    }
    total
}

/// `Σ x`.
pub(super) fn sum(x: &[f32]) -> f64 {
    vectorised(
        #[inline(always)]
        || lanes_sum(x.len(), |i| x[i]),
    )
}

/// `Σ (x − mean)²`.
pub(super) fn squared_deviations(x: &[f32], mean: f64) -> f64 {
    let mean = mean as f32;
    vectorised(
        #[inline(always)]
        || lanes_sum(x.len(), |i| (x[i] - mean) * (x[i] - mean)),
    )
}

/// `Σ d` and `Σ d (x − mean)`.
pub(super) fn sums_along(d: &[f32], x: &[f32], mean: f32) -> (f64, f64) {
    let x = &x[..d.len()];
    vectorised(
        #[inline(always)]
        || (lanes_sum(d.len(), |i| d[i]), lanes_sum(d.len(), |i| d[i] * (x[i] - mean))),
    )
}
