//! The fully connected layer, `y = W x + b`.

use super::{InputGradient, Passed, Scratch, activation};
use crate::gemm::{
    Extents, Groups, Outer, Rows, Strided, Target, WIDTH, dot_rows, multiply, multiply_unpacked,
};
use core::ops::Range;

/// `y = W x + b`, optionally followed by ReLU.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
    pub(crate) relu: bool,
}

/// Inputs whose products are summed before the next ones are read, forward. Part of the results, like
/// the next constant: they fix the order of summation.
const FORWARD_DEPTH: usize = 256;
/// Outputs whose products are summed together in the backward pass.
const BACKWARD_DEPTH: usize = 16;
/// Up to this batch the backward pass reads the weights where they lie; beyond, packing them pays off.
const UNPACKED_BATCH: usize = 24;

impl Linear {
    /// Whether the weights are worth reading where they lie: wide enough for whole register tiles.
    /// Packing them would cost more than the product at the batch sizes of federated learning.
    fn is_wide(&self) -> bool {
        self.inputs.is_multiple_of(WIDTH) && self.outputs >= WIDTH
    }

    /// Scratch floats: inputs and outputs with the batch along their rows.
    pub(crate) fn scratch(&self, n: usize) -> usize {
        if self.is_wide() { (self.inputs + self.outputs) * n.next_multiple_of(WIDTH) } else { 0 }
    }

    pub(crate) fn forward(
        &self,
        parameters: &[f32],
        input: &[f32],
        output: &mut [f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        let output = &mut output[..n * self.outputs];
        let weight = &parameters[self.weight.clone()];
        let bias = &parameters[self.bias.clone()];
        if self.is_wide() {
            self.forward_wide(weight, bias, input, output, scratch, n);
        } else {
            dot_rows(&input[..n * self.inputs], weight, bias, output, self.inputs);
        }
        if self.relu {
            activation::relu(output);
        }
    }

    /// `Yᵀ = W Xᵀ`: the weights are the rows, broadcast one by one, and the batch the columns.
    fn forward_wide(
        &self,
        weight: &[f32],
        bias: &[f32],
        input: &[f32],
        output: &mut [f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        let columns = n.next_multiple_of(WIDTH);
        let (x, y) = scratch.columns.split_at_mut(self.inputs * columns);
        let y = &mut y[..self.outputs * columns];
        // Sixteen samples side by side; the places of missing samples are never read back.
        for (group, samples) in input[..n * self.inputs].chunks(WIDTH * self.inputs).enumerate() {
            let x = &mut x[group * WIDTH * self.inputs..][..WIDTH * self.inputs];
            side_by_side(samples, x, self.inputs);
        }
        for k in (0..self.inputs).step_by(FORWARD_DEPTH) {
            let depth = FORWARD_DEPTH.min(self.inputs - k);
            multiply_unpacked(
                Extents { m: self.outputs, n: columns, k: depth },
                Outer::Rows,
                Rows { data: &weight[k..], row: self.inputs, depth: 1 },
                Groups { data: &x[k * WIDTH..], group: WIDTH * self.inputs, depth: WIDTH },
                Target { data: &mut *y, row_stride: columns, accumulate: k > 0 },
            );
        }
        for (i, row) in output.chunks_exact_mut(self.outputs).enumerate() {
            for ((out, y), bias) in row.iter_mut().zip(y.chunks_exact(columns)).zip(bias) {
                *out = y[i] + bias;
            }
        }
    }

    pub(crate) fn backward(
        &self,
        parameters: &[f32],
        Passed { input, output }: Passed<'_>,
        d_output: &mut [f32],
        d_input: Option<InputGradient<'_>>,
        gradient: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let n = d_output.len() / self.outputs;
        if self.relu {
            activation::relu_backward(&output[..d_output.len()], d_output);
        }
        let bias = &mut gradient[self.bias.clone()];
        bias.fill(0.0);
        for row in d_output.chunks_exact(self.outputs) {
            for (b, d) in bias.iter_mut().zip(row) {
                *b += d;
            }
        }
        let d_weight = &mut gradient[self.weight.clone()];
        let target = Target { data: d_weight, row_stride: self.inputs, accumulate: false };
        let weight = &parameters[self.weight.clone()];
        let extents = Extents { m: self.outputs, n: self.inputs, k: n };
        // dW = dYᵀ X, then dX = dY W.
        if self.is_wide() && n <= UNPACKED_BATCH {
            let x = Groups { data: input, group: WIDTH, depth: self.inputs };
            let dy = Rows { data: d_output, row: 1, depth: self.outputs };
            multiply_unpacked(extents, Outer::Rows, dy, x, target);
            let Some(d_input) = d_input else { return };
            for k in (0..self.outputs).step_by(BACKWARD_DEPTH) {
                let depth = BACKWARD_DEPTH.min(self.outputs - k);
                multiply_unpacked(
                    Extents { m: n, n: self.inputs, k: depth },
                    Outer::Groups,
                    Rows { data: &d_output[k..], row: self.outputs, depth: 1 },
                    Groups { data: &weight[k * self.inputs..], group: WIDTH, depth: self.inputs },
                    Target {
                        data: d_input.data,
                        row_stride: self.inputs,
                        accumulate: d_input.accumulate || k > 0,
                    },
                );
            }
        } else {
            let x = Strided { data: input, lane: 1, depth: self.inputs };
            let dy = Strided { data: d_output, lane: 1, depth: self.outputs };
            multiply(extents, &dy, &x, target, &mut scratch.panels);
            let Some(d_input) = d_input else { return };
            multiply(
                Extents { m: n, n: self.inputs, k: self.outputs },
                &Strided { data: d_output, lane: self.outputs, depth: 1 },
                &Strided { data: weight, lane: 1, depth: self.inputs },
                Target {
                    data: d_input.data,
                    row_stride: self.inputs,
                    accumulate: d_input.accumulate,
                },
                &mut scratch.panels,
            );
        }
    }
}

/// `to[f * 16 + i] = from[i * features + f]` for up to sixteen samples.
fn side_by_side(from: &[f32], to: &mut [f32], features: usize) {
    for (f, to) in to.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        for (to, sample) in to.iter_mut().zip(from.chunks_exact(features)) {
            *to = sample[f];
        }
    }
}
