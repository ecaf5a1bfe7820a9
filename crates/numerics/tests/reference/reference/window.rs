//! Which input positions an output position of a convolution or of a pooling sees.

use formant_numerics::{Shape, Size};

/// The geometry of windows that move over one plane of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) input: Shape,
    pub(super) output: Shape,
    pub(super) kernel: Size,
    pub(super) stride: usize,
    pub(super) padding: usize,
}

/// An output position and one of the input positions that it sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Place within the kernel.
    pub(super) tap: usize,
    /// Place within a plane of the input.
    pub(super) input: usize,
    /// Place within a plane of the output.
    pub(super) output: usize,
}

impl Window {
    /// All pairs whose input lies within the image: output after output, row after row of its window.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        let Self { input, output, kernel, stride, padding } = *self;
        // Input coordinate, if it is not in the border.
        let seen = |at: usize, tap: usize, size: usize| {
            (at * stride + tap).checked_sub(padding).filter(|place| *place < size)
        };
        let mut pairs = Vec::new();
        for y in 0..output.height {
            for x in 0..output.width {
                for ky in 0..kernel.height {
                    for kx in 0..kernel.width {
                        let rows = seen(y, ky, input.height);
                        let Some((row, column)) = rows.zip(seen(x, kx, input.width)) else {
                            continue;
                        };
                        pairs.push(Pair {
                            tap: ky * kernel.width + kx,
                            input: row * input.width + column,
                            output: y * output.width + x,
                        });
                    }
                }
            }
        }
        pairs
    }
}
