//! Element-wise pieces: ReLU, residual addition, flattening.

use super::InputGradient;
use crate::gemm::vectorised;

/// `x ← max(x, 0)`. A NaN stays a NaN, so that a divergence is seen and not hidden.
pub(super) fn relu(x: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for x in x {
                *x = if *x < 0.0 { 0.0 } else { *x };
            }
        },
    );
}

/// Stops the gradient where the output was cut off.
pub(super) fn relu_backward(output: &[f32], d_output: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for (d, y) in d_output.iter_mut().zip(output) {
                *d = if *y > 0.0 { *d } else { 0.0 };
            }
        },
    );
}

/// `y = relu(a + b)`: the end of a residual block.
pub(crate) fn add_forward(a: &[f32], b: &[f32], y: &mut [f32]) {
    vectorised(
        #[inline(always)]
        || {
            for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                let sum = a + b;
                *y = if sum < 0.0 { 0.0 } else { sum };
            }
        },
    );
}

/// Both summands receive the gradient where the sum was positive.
pub(crate) fn add_backward(
    output: &[f32],
    d_output: &mut [f32],
    a: InputGradient<'_>,
    b: InputGradient<'_>,
) {
    relu_backward(output, d_output);
    for target in [a, b] {
        if target.accumulate {
            crate::vector::axpy(1.0, d_output, &mut target.data[..d_output.len()]);
        } else {
            target.data[..d_output.len()].copy_from_slice(d_output);
        }
    }
}

/// `(C, N, HW)` to `(N, C·HW)`.
pub(crate) fn flatten_forward(
    input: &[f32],
    output: &mut [f32],
    channels: usize,
    plane: usize,
    n: usize,
) {
    for c in 0..channels {
        for i in 0..n {
            output[(i * channels + c) * plane..][..plane]
                .copy_from_slice(&input[(c * n + i) * plane..][..plane]);
        }
    }
}

/// `(N, C·HW)` to `(C, N, HW)`.
pub(crate) fn flatten_backward(
    d_output: &[f32],
    d_input: &mut InputGradient<'_>,
    channels: usize,
    plane: usize,
    n: usize,
) {
    for c in 0..channels {
        for i in 0..n {
            let from = &d_output[(i * channels + c) * plane..][..plane];
            let to = &mut d_input.data[(c * n + i) * plane..][..plane];
            if d_input.accumulate {
                crate::vector::axpy(1.0, from, to);
            } else {
                to.copy_from_slice(from);
            }
        }
    }
}
