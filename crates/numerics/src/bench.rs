//! The seam through which the benchmarks reach the matrix products. Not part of the interface.

use crate::gemm::{self, Panels, Strided, Target};

/// Our product of plain row-major matrices, with its packing buffers.
#[derive(Debug)]
pub struct Product {
    panels: Panels,
}

impl Default for Product {
    fn default() -> Self {
        Self { panels: Panels::new() }
    }
}

impl Product {
    /// `C = A·B` with `A` of `m × k`, `B` of `k × n`.
    pub fn multiply(
        &mut self,
        (m, n, k): (usize, usize, usize),
        a: &[f32],
        b: &[f32],
        c: &mut [f32],
    ) {
        gemm::multiply(
            (m, n, k),
            &Strided { data: a, lane: k, depth: 1 },
            &Strided { data: b, lane: 1, depth: n },
            Target { data: c, row_stride: n, accumulate: false },
            &mut self.panels,
        );
    }
}

/// `Y = X·Wᵀ + bias`, the forward pass of a fully connected layer: `X` of `n × k`, `W` of `o × k`.
pub fn fully_connected(x: &[f32], w: &[f32], bias: &[f32], y: &mut [f32], k: usize) {
    gemm::dot_rows(x, w, bias, y, k);
}
