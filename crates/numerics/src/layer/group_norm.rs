//! Group normalisation (Wu and He 2018): every sample by itself, so nothing leaks between clients
//! or batches and there are no running statistics to average.

use super::batch_norm::{EPSILON, affine, squared_deviations, sum, sums_along};
use super::{InputGradient, Passed, Saved, activation};
use crate::gemm::vectorised;
use core::ops::Range;

/// Normalises groups of channels within each sample, optionally followed by ReLU.
#[derive(Debug, Clone)]
pub(crate) struct GroupNorm {
    pub(crate) channels: usize,
    pub(crate) plane: usize,
    pub(crate) groups: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
    pub(crate) relu: bool,
}

impl GroupNorm {
    /// The largest divisor of `channels` that is at most 32, the paper's number of groups.
    pub(crate) fn groups_for(channels: usize) -> usize {
        (1..=32.min(channels)).rev().find(|g| channels.is_multiple_of(*g)).unwrap_or(1)
    }

    fn channels_of(&self, group: usize) -> Range<usize> {
        let width = self.channels / self.groups;
        group * width..(group + 1) * width
    }

    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        input: &[f32],
        output: &mut [f32],
        saved: &mut Saved,
        n: usize,
    ) {
        let plane = |c: usize, i: usize| (c * n + i) * self.plane;
        let count = (self.channels / self.groups * self.plane) as f64;
        for i in 0..n {
            for g in 0..self.groups {
                let of = |c: usize| &input[plane(c, i)..][..self.plane];
                let mean = self.channels_of(g).map(|c| sum(of(c))).sum::<f64>() / count;
                let variance =
                    self.channels_of(g).map(|c| squared_deviations(of(c), mean)).sum::<f64>()
                        / count;
                let inverse = 1.0 / (variance + EPSILON).sqrt();
                let at = 2 * (i * self.groups + g);
                saved.values[at] = mean as f32;
                saved.values[at + 1] = inverse as f32;
                for c in self.channels_of(g) {
                    let y = &mut output[plane(c, i)..][..self.plane];
                    let slope = parameters[self.weight.start + c] * inverse as f32;
                    affine(of(c), y, mean as f32, slope, parameters[self.bias.start + c]);
                    if self.relu {
                        activation::relu(y);
                    }
                }
            }
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
        let n = d_output.len() / (self.channels * self.plane);
        let plane = |c: usize, i: usize| (c * n + i) * self.plane;
        if self.relu {
            activation::relu_backward(&output[..d_output.len()], d_output);
        }
        gradient[self.weight.clone()].fill(0.0);
        gradient[self.bias.clone()].fill(0.0);
        let count = (self.channels / self.groups * self.plane) as f64;
        for i in 0..n {
            for g in 0..self.groups {
                let at = 2 * (i * self.groups + g);
                let (mean, inverse) = (saved.values[at], saved.values[at + 1]);
                let (mut shift, mut tilt) = (0.0, 0.0);
                for c in self.channels_of(g) {
                    let d = &d_output[plane(c, i)..][..self.plane];
                    let x = &input[plane(c, i)..][..self.plane];
                    let (total, along) = sums_along(d, x, mean);
                    let along = along * f64::from(inverse);
                    gradient[self.bias.start + c] += total as f32;
                    gradient[self.weight.start + c] += along as f32;
                    let weight = f64::from(parameters[self.weight.start + c]);
                    shift += weight * total;
                    tilt += weight * along;
                }
                let Some(target) = &mut d_input else { continue };
                let (shift, tilt) = ((shift / count) as f32, (tilt / count) as f32 * inverse);
                for c in self.channels_of(g) {
                    let d = &d_output[plane(c, i)..][..self.plane];
                    let x = &input[plane(c, i)..][..self.plane];
                    let out = &mut target.data[plane(c, i)..][..self.plane];
                    let weight = parameters[self.weight.start + c];
                    let accumulate = target.accumulate;
                    vectorised(
                        #[inline(always)]
                        || {
                            for ((out, d), x) in out.iter_mut().zip(d).zip(x) {
                                let value = inverse * (d * weight - shift - (x - mean) * tilt);
                                *out = if accumulate { *out + value } else { value };
                            }
                        },
                    );
                }
            }
        }
    }
}
