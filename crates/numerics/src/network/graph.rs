//! A network as a graph that can be read: for export into other formats, not for computing.

use super::tape::{Node, Op, Tape};
use crate::layer::{EPSILON, Window};
use crate::{Layout, Shape, Size, Tensor};
use core::ops::Range;

/// The layers of a network in the order in which they run.
///
/// ```
/// use formant_numerics::{GraphOp, NetworkSpec, Shape};
/// let graph = NetworkSpec::named("logistic").graph(Shape::new(1, 28, 28), 10)?;
/// let [flatten, head] = graph.nodes.as_slice() else { panic!() };
/// assert_eq!(flatten.op, GraphOp::Flatten);
/// assert_eq!(head.op, GraphOp::Linear { weight: "fc.weight".into(), bias: "fc.bias".into() });
/// assert_eq!(graph.shapes[head.output], Shape::new(10, 1, 1));
/// # Ok::<(), formant_numerics::NumericsError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The shape of one sample's share of each activation, by the activation's number; 0 is the
    /// input, the last is the logits. What is no longer an image has the shape `(values, 1, 1)`.
    pub shapes: Vec<Shape>,
    /// The layers; each reads activations that earlier ones have written.
    pub nodes: Vec<GraphNode>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    /// What it computes.
    pub op: GraphOp,
    /// The activation that it reads.
    pub input: usize,
    /// The activation that it writes.
    pub output: usize,
    /// Whether negative values of the result become zero.
    pub relu: bool,
}

/// What a layer computes. Tensors are named as in the [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub enum GraphOp {
    /// A convolution with the same stride and zero padding on all sides.
    Conv {
        /// `(outputs, inputs, height, width)`.
        weight: String,
        /// `(outputs)`.
        bias: Option<String>,
        /// Height and width.
        kernel: Size,
        /// In both directions.
        stride: usize,
        /// On each side.
        padding: usize,
    },
    /// `weight · x + bias`.
    Linear {
        /// `(outputs, inputs)`.
        weight: String,
        /// `(outputs)`.
        bias: String,
    },
    /// `(x − mean) / √(variance + ε) · weight + bias` for each channel, as it is used after training.
    BatchNorm {
        /// `(channels)`.
        weight: String,
        /// `(channels)`.
        bias: String,
        /// Running mean, `(channels)`.
        mean: String,
        /// Running variance, `(channels)`.
        variance: String,
        /// ε.
        epsilon: f64,
    },
    /// The same with mean and variance of each sample's groups of neighbouring channels.
    GroupNorm {
        /// Number of groups.
        groups: usize,
        /// `(channels)`.
        weight: String,
        /// `(channels)`.
        bias: String,
        /// ε.
        epsilon: f64,
    },
    /// The maximum of each window; what lies outside the image does not count.
    MaxPool {
        /// Height and width.
        kernel: usize,
        /// In both directions.
        stride: usize,
        /// On each side.
        padding: usize,
    },
    /// The mean of each window; what lies outside the image counts as zero.
    AveragePool {
        /// Height and width.
        kernel: usize,
        /// In both directions.
        stride: usize,
        /// On each side.
        padding: usize,
    },
    /// The mean of each channel; the result is no longer an image.
    GlobalAveragePool,
    /// The values of a sample one after another, channel by channel.
    Flatten,
    /// The sum with another activation.
    Add {
        /// That activation.
        other: usize,
    },
}

impl GraphOp {
    /// The names of its tensors.
    pub fn tensors(&self) -> Vec<&str> {
        match self {
            Self::Conv { weight, bias, .. } => {
                core::iter::once(weight.as_str()).chain(bias.as_deref()).collect()
            }
            Self::Linear { weight, bias } | Self::GroupNorm { weight, bias, .. } => {
                vec![weight, bias]
            }
            Self::BatchNorm { weight, bias, mean, variance, .. } => {
                vec![weight, bias, mean, variance]
            }
            _ => Vec::new(),
        }
    }
}

impl Tape {
    /// The network for readers.
    pub(super) fn graph(&self) -> Graph {
        let mut shapes = vec![self.input];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            shapes.push(output_shape(node, &shapes));
            nodes.push(describe(node, &self.layout));
        }
        Graph { shapes, nodes }
    }
}

/// A builder numbers activations as they come, so the new one is always the next.
fn output_shape(node: &Node, shapes: &[Shape]) -> Shape {
    let input = shapes[node.input];
    match &node.op {
        Op::Conv(conv) => conv.output,
        Op::MaxPool(pool) => pool.window.output,
        Op::AveragePool(pool) => pool.window.output,
        Op::Linear(linear) => Shape::new(linear.outputs, 1, 1),
        Op::GlobalAveragePool(_) => Shape::new(input.channels, 1, 1),
        Op::Flatten { .. } => Shape::new(input.len(), 1, 1),
        Op::BatchNorm(_) | Op::GroupNorm(_) | Op::AddRelu(_) => input,
    }
}

fn describe(node: &Node, layout: &Layout) -> GraphNode {
    let parameter = |range: &Range<usize>| name(layout.tensors(), range);
    let buffer = |range: &Range<usize>| name(layout.buffers(), range);
    let (op, relu) = match &node.op {
        Op::Conv(conv) => (
            GraphOp::Conv {
                weight: parameter(&conv.weight),
                bias: conv.bias.as_ref().map(parameter),
                kernel: conv.kernel,
                stride: conv.stride,
                padding: conv.padding,
            },
            false,
        ),
        Op::Linear(linear) => (
            GraphOp::Linear { weight: parameter(&linear.weight), bias: parameter(&linear.bias) },
            linear.relu,
        ),
        Op::BatchNorm(norm) => (
            GraphOp::BatchNorm {
                weight: parameter(&norm.weight),
                bias: parameter(&norm.bias),
                mean: buffer(&norm.mean),
                variance: buffer(&norm.variance),
                epsilon: EPSILON,
            },
            norm.relu,
        ),
        Op::GroupNorm(norm) => (
            GraphOp::GroupNorm {
                groups: norm.groups,
                weight: parameter(&norm.weight),
                bias: parameter(&norm.bias),
                epsilon: EPSILON,
            },
            norm.relu,
        ),
        // The maximum of a window and zero is the same whether the zero comes first or last.
        Op::MaxPool(pool) => {
            let Window { kernel, stride, padding, .. } = pool.window;
            (GraphOp::MaxPool { kernel, stride, padding }, pool.relu)
        }
        Op::AveragePool(pool) => {
            let Window { kernel, stride, padding, .. } = pool.window;
            (GraphOp::AveragePool { kernel, stride, padding }, false)
        }
        Op::GlobalAveragePool(_) => (GraphOp::GlobalAveragePool, false),
        Op::Flatten { .. } => (GraphOp::Flatten, false),
        Op::AddRelu(other) => (GraphOp::Add { other: *other }, true),
    };
    GraphNode { op, input: node.input, output: node.output, relu }
}

/// The name of the tensor that lies at a range of the layout from which the layer was made.
fn name(tensors: &[Tensor], range: &Range<usize>) -> String {
    tensors
        .iter()
        .find(|tensor| tensor.range == *range)
        .map_or_else(String::new, |t| t.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CATALOGUE, Family, NetworkSpec, Norm, Stem};

    /// Every network, residual ones with both norms and both stems.
    fn specifications() -> Vec<NetworkSpec> {
        let mut all = Vec::new();
        for entry in CATALOGUE {
            let plain = NetworkSpec::named(entry.name);
            if entry.family != Family::ResNet {
                all.push(plain);
                continue;
            }
            for norm in [Norm::Batch, Norm::Group] {
                for stem in [Stem::Cifar, Stem::Imagenet] {
                    let (norm, stem, width) = (Some(norm), Some(stem), Some(8));
                    all.push(NetworkSpec { norm, stem, width, ..plain.clone() });
                }
            }
        }
        all
    }

    #[test]
    fn every_tensor_is_named_once() {
        for spec in specifications() {
            let input = Shape::new(3, 32, 32);
            let graph = spec.graph(input, 10).unwrap();
            let network = spec.build(input, 10).unwrap();
            let layout = network.layout();
            let mut expected: Vec<&str> =
                layout.tensors().iter().chain(layout.buffers()).map(|t| t.name.as_str()).collect();
            let mut named: Vec<&str> = graph.nodes.iter().flat_map(|n| n.op.tensors()).collect();
            expected.sort_unstable();
            named.sort_unstable();
            assert_eq!(named, expected, "{spec:?}");
        }
    }

    #[test]
    fn activations_follow_from_the_input_and_end_with_the_logits() {
        for spec in specifications() {
            let graph = spec.graph(Shape::new(1, 28, 28), 7).unwrap();
            assert_eq!(graph.shapes[0], Shape::new(1, 28, 28));
            assert_eq!(graph.shapes.last(), Some(&Shape::new(7, 1, 1)));
            for (i, node) in graph.nodes.iter().enumerate() {
                assert_eq!(node.output, i + 1);
                assert!(node.input < node.output);
                if let GraphOp::Add { other } = node.op {
                    assert!(other < node.output && node.relu);
                    assert_eq!(graph.shapes[other], graph.shapes[node.output], "{spec:?}");
                }
            }
            // Activations' sizes are those that the engine computes with.
            let tape = spec.tape(Shape::new(1, 28, 28), 7).unwrap();
            let sizes: Vec<usize> = graph.shapes.iter().map(Shape::len).collect();
            assert_eq!(sizes, tape.sizes);
        }
    }
}
