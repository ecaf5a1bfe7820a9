//! The fully connected layer, `y = W x + b`.

use super::{InputGradient, Scratch, activation};
use crate::gemm::{Strided, Target, dot_rows, multiply};
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

impl Linear {
    pub(crate) fn forward(&self, parameters: &[f32], input: &[f32], output: &mut [f32], n: usize) {
        let output = &mut output[..n * self.outputs];
        dot_rows(
            &input[..n * self.inputs],
            &parameters[self.weight.clone()],
            &parameters[self.bias.clone()],
            output,
            self.inputs,
        );
        if self.relu {
            activation::relu(output);
        }
    }

    pub(crate) fn backward(
        &self,
        parameters: &[f32],
        (input, output): (&[f32], &[f32]),
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
        // dW = dYᵀ X
        multiply(
            (self.outputs, self.inputs, n),
            &Strided { data: d_output, lane: 1, depth: self.outputs },
            &Strided { data: input, lane: 1, depth: self.inputs },
            Target {
                data: &mut gradient[self.weight.clone()],
                row_stride: self.inputs,
                accumulate: false,
            },
            &mut scratch.panels,
        );
        if let Some(target) = d_input {
            // dX = dY W
            multiply(
                (n, self.inputs, self.outputs),
                &Strided { data: d_output, lane: self.outputs, depth: 1 },
                &Strided { data: &parameters[self.weight.clone()], lane: 1, depth: self.inputs },
                Target {
                    data: target.data,
                    row_stride: self.inputs,
                    accumulate: target.accumulate,
                },
                &mut scratch.panels,
            );
        }
    }
}
