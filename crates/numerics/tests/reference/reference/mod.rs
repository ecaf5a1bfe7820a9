//! An engine that is slow and obvious: every layer, loss and term by its definition, in `f64`.
//!
//! It shares nothing with the CPU's engine but descriptions: the graph of a network, the layout of its
//! parameters, how initial values are drawn, the objective, the batches. So where the two agree, both
//! compute what is described. Models are `f32` between steps, as everywhere.

mod backward;
mod forward;
mod norm;
mod objective;
mod spectral;
mod window;
mod worker;

use core::ops::Range;
use formant_numerics::{
    Engine, Graph, Model, Network, NetworkSpec, NumericsError, Samples, Shape, Tape, Tensor, Worker,
};
use std::sync::Arc;

/// The reference engine of one network.
#[derive(Debug, Clone)]
pub struct Reference {
    description: Arc<Description>,
}

impl Reference {
    /// The engine for samples of a shape.
    pub fn new(spec: &NetworkSpec, input: Shape, classes: usize) -> Result<Self, NumericsError> {
        let (network, graph) = (spec.build(input, classes)?, spec.graph(input, classes)?);
        Ok(Self { description: Arc::new(Description { network, graph }) })
    }

    /// How near a training step on a batch comes to another outcome: the least number that a ReLU cuts
    /// off or lets pass, or by which a maximum leads. An engine whose activations are off by more may
    /// decide otherwise, and then its gradient is another one although nothing is wrong with it.
    pub fn margin(&self, model: &Model, samples: &dyn Samples, batch: &[u32]) -> f64 {
        let mut worker = worker::ReferenceWorker::new(self.description.clone());
        worker.load(samples, batch);
        worker.margin(model)
    }
}

impl Engine for Reference {
    fn network(&self) -> &dyn Network {
        &*self.description.network
    }

    fn worker(&self, _batch: usize) -> Box<dyn Worker> {
        Box::new(worker::ReferenceWorker::new(self.description.clone()))
    }

    fn pass_bytes(&self, batch: usize, backwards: bool) -> u64 {
        let sizes = self.description.graph.shapes.iter().map(|shape| shape.len() as u64);
        let values = sizes.fold(0, u64::saturating_add).saturating_mul(batch as u64);
        values.saturating_mul(if backwards { 16 } else { 8 })
    }
}

/// What is known of a network. Its tape is asked for the layout and for initial values only.
#[derive(Debug)]
struct Description {
    network: Arc<Tape>,
    graph: Graph,
}

impl Description {
    /// Where a tensor lies among the parameters.
    fn parameter(&self, name: &str) -> Range<usize> {
        range(self.network.layout().tensors(), name)
    }

    /// Where a tensor lies among the buffers.
    fn buffer(&self, name: &str) -> Range<usize> {
        range(self.network.layout().buffers(), name)
    }

    /// The activation that the head reads.
    fn features(&self) -> usize {
        self.graph.nodes[self.graph.nodes.len() - 1].input
    }
}

fn range(tensors: &[Tensor], name: &str) -> Range<usize> {
    let tensor = tensors.iter().find(|tensor| tensor.name == name);
    tensor.expect("a graph names tensors of its network's layout").range.clone()
}

/// One activation of a batch: a row for each sample, whose value of channel `c` at `(y, x)` is number
/// `(c·H + y)·W + x`.
type Rows = Vec<Vec<f64>>;

/// The same numbers in double precision.
fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|x| f64::from(*x)).collect()
}
