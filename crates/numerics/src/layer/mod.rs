//! Layers with hand-written forward and backward passes.
//!
//! Activations of convolutional layers are channel-major over the whole batch (`C, N, H, W`), so
//! that a convolution is one matrix product; those of fully connected layers are sample-major
//! (`N, F`). A backward pass *overwrites* the gradient of its own parameters and adds to nothing:
//! every parameter belongs to exactly one layer.

mod activation;
mod batch_norm;
mod conv;
mod group_norm;
mod linear;
mod pool;
mod scratch;
mod shifts;
mod winograd;

pub(crate) use activation::{add_backward, add_forward, flatten_backward, flatten_forward};
pub(crate) use batch_norm::{BatchNorm, EPSILON};
pub(crate) use conv::Conv;
pub(crate) use group_norm::GroupNorm;
pub(crate) use linear::Linear;
pub(crate) use pool::{AveragePool, GlobalAveragePool, MaxPool, Window};
pub(crate) use scratch::{Need, Scratch};

/// What a layer keeps from its forward pass for its backward pass.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) values: Vec<f32>,
    pub(crate) eval: bool,
}

/// What a layer read and wrote in its forward pass.
#[derive(Clone, Copy)]
pub(crate) struct Passed<'a> {
    pub(crate) input: &'a [f32],
    pub(crate) output: &'a [f32],
}

/// Where an input gradient goes.
pub(crate) struct InputGradient<'a> {
    pub(crate) data: &'a mut [f32],
    /// Add to what another reader of the same activation has written.
    pub(crate) accumulate: bool,
}
