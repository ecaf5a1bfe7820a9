//! Differentiable classifiers over one flat parameter vector.

mod builder;
mod catalogue;
mod graph;
mod matching;
mod plan;
mod resnet;
mod tape;
#[cfg(test)]
mod tests;
mod timing;
mod units;
mod workspace;

pub use catalogue::{CATALOGUE, Convolution, Family, MODULE, NetworkSpec, Norm, Stem};
pub use graph::{Graph, GraphNode, GraphOp};
pub use tape::Tape;
#[doc(hidden)]
pub use timing::LayerTime;
pub use units::{UnitGroup, UnitOrder, Units};
pub use workspace::Workspace;

use crate::{Layout, Model, Rng, Shape};

/// Samples for one pass.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Values ready for the network, channel-major over the batch: `(C, N, H, W)`.
    pub inputs: &'a [f32],
    /// One class per sample.
    pub labels: &'a [u32],
}

/// A forward pass either learns batch statistics or changes nothing.
#[derive(Debug)]
pub enum Pass<'m> {
    /// Batch statistics; running statistics are updated.
    Train(&'m mut Model),
    /// Running statistics; evaluation cannot train.
    Eval(&'m Model),
}

/// What a forward pass gives, sample-major.
#[derive(Debug, Clone, Copy)]
pub struct Output<'w> {
    /// Input of the head: `(N, features)`.
    pub features: &'w [f32],
    /// Class scores: `(N, classes)`.
    pub logits: &'w [f32],
}

/// Where a backward pass starts.
#[derive(Debug, Clone, Copy)]
pub struct OutputGradient<'a> {
    /// `∂/∂logits`.
    pub logits: &'a [f32],
    /// `∂/∂features`, in addition to what flows through the head.
    pub features: Option<&'a [f32]>,
}

/// A classifier over one flat parameter vector, as seen from outside. An
/// [`Engine`](crate::Engine) computes it.
pub trait Network: Send + Sync {
    /// Names, shapes, ranges, body and head, buffers.
    fn layout(&self) -> &Layout;
    /// Shape of one sample.
    fn input(&self) -> Shape;
    /// Number of classes.
    fn classes(&self) -> usize;
    /// Number of features that the head sees.
    fn features(&self) -> usize;
    /// Fresh parameters and buffers.
    fn init(&self, rng: &mut Rng) -> Model;
}
