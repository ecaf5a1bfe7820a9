//! The seam through which the benchmarks reach the matrix products. Not part of the interface.

pub use crate::gemm::Extents;
use crate::gemm::{self, Panels, Strided, Target};
use crate::layer::{Linear, Need, Scratch};

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
    pub fn multiply(&mut self, extents: Extents, a: &[f32], b: &[f32], c: &mut [f32]) {
        gemm::multiply(
            extents,
            &Strided { data: a, lane: extents.k, depth: 1 },
            &Strided { data: b, lane: 1, depth: extents.n },
            Target { data: c, row_stride: extents.n, accumulate: false },
            &mut self.panels,
        );
    }
}

/// `Y = X·Wᵀ + b`, the forward pass of a fully connected layer: `X` of `n × k`, `W` of `o × k`.
#[derive(Debug)]
pub struct FullyConnected {
    layer: Linear,
    parameters: Vec<f32>,
    scratch: Scratch,
}

impl FullyConnected {
    /// A layer with zero bias, for batches of up to `n`.
    pub fn new(weight: &[f32], inputs: usize, n: usize) -> Self {
        let outputs = weight.len() / inputs;
        let mut parameters = weight.to_vec();
        parameters.resize(weight.len() + outputs, 0.0);
        let layer = Linear {
            inputs,
            outputs,
            weight: 0..weight.len(),
            bias: weight.len()..parameters.len(),
            relu: false,
        };
        let scratch = Need::columns(layer.scratch(n)).allocate();
        Self { layer, parameters, scratch }
    }

    /// One forward pass.
    pub fn forward(&mut self, x: &[f32], y: &mut [f32]) {
        let n = x.len() / self.layer.inputs;
        self.layer.forward(&self.parameters, x, y, &mut self.scratch, n);
    }
}
