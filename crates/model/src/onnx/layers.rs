//! The operators of each layer.

use super::format::{float, floats, integer, integers, list, node};
use super::proto::tensor_proto::DataType;
use super::proto::{AttributeProto, NodeProto, TensorProto};
use super::{LOGITS, PIXELS};
use formant_data::Normalisation;
use formant_numerics::{GraphNode, GraphOp, Shape, Size, Tensor};
use std::collections::BTreeSet;

/// Operators and constants as they come.
#[derive(Default)]
pub(super) struct Writer {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
    /// The value of each activation.
    activations: Vec<String>,
    /// Scales and shifts of group norms, one for each channel: shaped so that they fit an image.
    per_channel: BTreeSet<String>,
    /// Numbers of groups for which there are constants.
    groups: BTreeSet<usize>,
}

impl Writer {
    pub(super) fn finish(self) -> (Vec<NodeProto>, Vec<TensorProto>) {
        (self.nodes, self.constants)
    }

    /// A tensor of the model, under its own name.
    pub(super) fn tensor(&mut self, tensor: &Tensor, bytes: Vec<u8>) {
        let mut shape = tensor.shape.clone();
        if self.per_channel.contains(&tensor.name) {
            shape.extend([1, 1]);
        }
        self.constants.push(floats(&tensor.name, &shape, bytes));
    }

    /// `(x / 255 − mean) / std` in `f32` and in this order, as Formant computes it when it trains.
    pub(super) fn normalise(&mut self, pixels: &str, normalisation: &[Normalisation]) {
        let name = |what: &str| format!("{PIXELS}.{what}");
        let shape = [normalisation.len(), 1, 1];
        let mut constant = |what, shape: &[usize], values: Vec<f32>| {
            self.constants.push(floats(&name(what), shape, bytes(&values)));
        };
        constant("largest", &[], vec![255.0]);
        constant("mean", &shape, normalisation.iter().map(|n| n.mean).collect());
        constant("std", &shape, normalisation.iter().map(|n| n.std).collect());
        let to = integer("to", DataType::Float as i64);
        self.push("Cast", &[pixels], &name("float"), vec![to]);
        self.push("Div", &[&name("float"), &name("largest")], &name("scaled"), Vec::new());
        self.push("Sub", &[&name("scaled"), &name("mean")], &name("centred"), Vec::new());
        self.push("Div", &[&name("centred"), &name("std")], &name("normalised"), Vec::new());
        self.activations = vec![name("normalised")];
    }

    /// `(x − mean) / std` in `f32`, and 0 where a number is missing, as Formant computes it when it trains.
    pub(super) fn standardise(
        &mut self,
        values: &str,
        normalisation: &[Normalisation],
        are_rows: bool,
    ) {
        let name = |what: &str| format!("{values}.{what}");
        let channels = normalisation.len();
        let shape = if are_rows { vec![channels] } else { vec![channels, 1, 1] };
        let mut constant = |what, shape: &[usize], values: Vec<f32>| {
            self.constants.push(floats(&name(what), shape, bytes(&values)));
        };
        constant("zero", &[], vec![0.0]);
        constant("mean", &shape, normalisation.iter().map(|n| n.mean).collect());
        constant("std", &shape, normalisation.iter().map(|n| n.std).collect());
        self.push("IsNaN", &[values], &name("missing"), Vec::new());
        self.push("Sub", &[values, &name("mean")], &name("centred"), Vec::new());
        self.push("Div", &[&name("centred"), &name("std")], &name("scaled"), Vec::new());
        let inputs = [name("missing"), name("zero"), name("scaled")];
        let inputs = inputs.each_ref().map(String::as_str);
        self.push("Where", &inputs, &name("normalised"), Vec::new());
        self.activations = vec![name("normalised")];
    }

    /// The softmax of the last activation.
    pub(super) fn softmax(&mut self, output: &str) {
        let input = self.activations.last().cloned().unwrap_or_default();
        self.push("Softmax", &[&input], output, vec![integer("axis", 1)]);
    }

    /// One layer; the `last` one gives the logits.
    pub(super) fn layer(&mut self, layer: &GraphNode, shapes: &[Shape], last: bool) {
        let result =
            if last { LOGITS.to_owned() } else { format!("{}.{}", word(&layer.op), layer.output) };
        let plain = if layer.relu { format!("{result}.plain") } else { result.clone() };
        self.operators(layer, shapes, &plain);
        if layer.relu {
            self.push("Relu", &[&plain], &result, Vec::new());
        }
        self.activations.push(result);
    }

    fn operators(&mut self, layer: &GraphNode, shapes: &[Shape], output: &str) {
        let input = self.activations[layer.input].clone();
        let input = input.as_str();
        match &layer.op {
            GraphOp::Conv { weight, bias, kernel, stride, padding } => {
                let inputs: Vec<&str> =
                    [input, weight].into_iter().chain(bias.as_deref()).collect();
                self.push("Conv", &inputs, output, window(*kernel, *stride, *padding));
            }
            GraphOp::Linear { weight, bias } => {
                self.push("Gemm", &[input, weight, bias], output, vec![integer("transB", 1)]);
            }
            GraphOp::BatchNorm { weight, bias, mean, variance, epsilon } => {
                let inputs = [input, weight, bias, mean, variance];
                self.push("BatchNormalization", &inputs, output, vec![float("epsilon", *epsilon)]);
            }
            GraphOp::GroupNorm { groups, weight, bias, epsilon } => {
                let shape = shapes[layer.output];
                let norm = GroupNorm { groups: *groups, weight, bias, epsilon: *epsilon };
                self.group_norm(input, output, shape, norm);
            }
            GraphOp::MaxPool { kernel, stride, padding } => {
                let attributes = window(Size::square(*kernel), *stride, *padding);
                self.push("MaxPool", &[input], output, attributes);
            }
            GraphOp::AveragePool { kernel, stride, padding } => {
                let mut attributes = window(Size::square(*kernel), *stride, *padding);
                attributes.push(integer("count_include_pad", 1));
                self.push("AveragePool", &[input], output, attributes);
            }
            GraphOp::GlobalAveragePool => {
                let means = format!("{output}.means");
                self.push("GlobalAveragePool", &[input], &means, Vec::new());
                self.push("Flatten", &[&means], output, vec![integer("axis", 1)]);
            }
            GraphOp::Flatten => {
                self.push("Flatten", &[input], output, vec![integer("axis", 1)]);
            }
            GraphOp::Add { other } => {
                let other = self.activations[*other].clone();
                self.push("Add", &[input, &other], output, Vec::new());
            }
        }
    }

    /// Not every runtime knows `GroupNormalization`; every one knows how to normalise each channel of a
    /// sample, and a group of channels in a row is one long channel.
    fn group_norm(&mut self, input: &str, output: &str, shape: Shape, norm: GroupNorm<'_>) {
        let GroupNorm { groups, weight, bias, epsilon } = norm;
        let (ones, zeros) = (format!("groups.{groups}.ones"), format!("groups.{groups}.zeros"));
        let grouping = format!("groups.{groups}.shape");
        if self.groups.insert(groups) {
            self.constants.push(floats(&ones, &[groups], bytes(&vec![1.0; groups])));
            self.constants.push(floats(&zeros, &[groups], bytes(&vec![0.0; groups])));
            // 0 keeps the batch, −1 is the rest.
            self.constants.push(list(&grouping, &[0, groups as i64, -1]));
        }
        let image = format!("{output}.shape");
        let Shape { channels, height, width } = shape;
        self.constants.push(list(&image, &[0, channels as i64, height as i64, width as i64]));
        let step = |what: &str| format!("{output}.{what}");
        let (grouped, normalised, restored, scaled) =
            (step("grouped"), step("normalised"), step("restored"), step("scaled"));
        self.push("Reshape", &[input, &grouping], &grouped, Vec::new());
        let inputs = [grouped.as_str(), &ones, &zeros];
        let epsilon = vec![float("epsilon", epsilon)];
        self.push("InstanceNormalization", &inputs, &normalised, epsilon);
        self.push("Reshape", &[&normalised, &image], &restored, Vec::new());
        self.push("Mul", &[&restored, weight], &scaled, Vec::new());
        self.push("Add", &[&scaled, bias], output, Vec::new());
        self.per_channel.extend([weight.to_owned(), bias.to_owned()]);
    }

    fn push(&mut self, op: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) {
        self.nodes.push(node(op, inputs, output, attributes));
    }
}

/// The settings of [`GraphOp::GroupNorm`].
#[derive(Clone, Copy)]
struct GroupNorm<'a> {
    groups: usize,
    weight: &'a str,
    bias: &'a str,
    epsilon: f64,
}

/// What a layer's value is called.
fn word(op: &GraphOp) -> &'static str {
    match op {
        GraphOp::Conv { .. } => "conv",
        GraphOp::Linear { .. } => "linear",
        GraphOp::BatchNorm { .. } => "batch_norm",
        GraphOp::GroupNorm { .. } => "group_norm",
        GraphOp::MaxPool { .. } => "max_pool",
        GraphOp::AveragePool { .. } => "average_pool",
        GraphOp::GlobalAveragePool => "global_average_pool",
        GraphOp::Flatten => "flatten",
        GraphOp::Add { .. } => "add",
    }
}

fn window(kernel: Size, stride: usize, padding: usize) -> Vec<AttributeProto> {
    vec![
        integers("kernel_shape", &[kernel.height, kernel.width]),
        integers("strides", &[stride; 2]),
        integers("pads", &[padding; 4]),
    ]
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
