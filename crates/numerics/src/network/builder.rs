//! Builds a tape layer by layer, drawing up the layout as it goes.

use super::plan::GradientPlan;
use super::tape::{Draw, Init, Node, Op, Tape};
use super::{Convolution, Norm};
use crate::layer::{
    AveragePool, BatchNorm, Conv, GlobalAveragePool, GroupNorm, Linear, MaxPool, Window,
};
use crate::{Layout, NumericsError, Part, Shape, Size};

/// The network under construction; new layers read the latest activation.
pub(super) struct Builder {
    layout: Layout,
    input: Shape,
    classes: usize,
    nodes: Vec<Node>,
    sizes: Vec<usize>,
    shapes: Vec<Shape>,
    inits: Vec<Init>,
    buffer_inits: Vec<Init>,
    current: usize,
    /// For the convolutions to come.
    pub(super) convolution: Convolution,
}

/// A convolution to add.
#[derive(Clone, Copy)]
pub(super) struct ConvSpec {
    pub(super) channels: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) bias: bool,
}

impl Builder {
    pub(super) fn new(input: Shape, classes: usize) -> Self {
        Self {
            layout: Layout::default(),
            input,
            classes,
            nodes: Vec::new(),
            sizes: vec![input.len()],
            shapes: vec![input],
            inits: Vec::new(),
            buffer_inits: Vec::new(),
            current: 0,
            convolution: Convolution::default(),
        }
    }

    /// The activation that the next layer reads, to return to it for a shortcut.
    pub(super) fn position(&self) -> usize {
        self.current
    }

    /// Makes an earlier activation the current one.
    pub(super) fn rewind(&mut self, position: usize) {
        self.current = position;
    }

    /// Channels of the current activation.
    pub(super) fn channels(&self) -> usize {
        self.shapes[self.current].channels
    }

    fn push(&mut self, op: Op, shape: Shape) {
        let output = self.sizes.len();
        self.nodes.push(Node { op, input: self.current, output });
        self.sizes.push(shape.len());
        self.shapes.push(shape);
        self.current = output;
    }

    fn too_small(&self, what: &str, name: &str) -> NumericsError {
        NumericsError::InputTooSmall {
            input: self.input,
            layer: format!("{what} {name}"),
            reached: self.shapes[self.current],
        }
    }

    pub(super) fn conv(&mut self, name: &str, spec: ConvSpec) -> Result<(), NumericsError> {
        let input = self.shapes[self.current];
        let kernel = Size::square(spec.kernel);
        let output = Conv::output_shape(input, spec.channels, kernel, spec.stride, spec.padding)
            .filter(|shape| !shape.is_empty())
            .ok_or_else(|| self.too_small("convolution", name))?;
        let fan_in = input.channels.saturating_mul(spec.kernel * spec.kernel);
        let shape = [spec.channels, input.channels, spec.kernel, spec.kernel];
        let weight = self.parameter(format!("{name}.weight"), &shape, fan_in, Part::Body);
        let bias = spec
            .bias
            .then(|| self.parameter(format!("{name}.bias"), &[spec.channels], fan_in, Part::Body));
        let conv = Conv {
            input,
            output,
            kernel,
            stride: spec.stride,
            padding: spec.padding,
            weight,
            bias,
            direct: self.convolution == Convolution::Direct,
            before_pooling: false,
        };
        self.push(Op::Conv(conv), output);
        Ok(())
    }

    /// A weight or bias of a linear map: uniform in `±1/√fan_in`, PyTorch's default for both
    /// `nn.Linear` and `nn.Conv2d`.
    fn parameter(
        &mut self,
        name: String,
        shape: &[usize],
        fan_in: usize,
        part: Part,
    ) -> core::ops::Range<usize> {
        let range = self.layout.push(name, shape, part);
        let bound = 1.0 / (fan_in as f64).sqrt();
        self.inits.push(Init { range: range.clone(), draw: Draw::Uniform(bound) });
        range
    }

    fn constant(&mut self, name: String, len: usize, value: f32) -> core::ops::Range<usize> {
        let range = self.layout.push(name, &[len], Part::Body);
        self.inits.push(Init { range: range.clone(), draw: Draw::Constant(value) });
        range
    }

    pub(super) fn norm(&mut self, name: &str, norm: Norm, relu: bool) {
        let shape = self.shapes[self.current];
        let (channels, plane) = (shape.channels, shape.plane());
        let weight = self.constant(format!("{name}.weight"), channels, 1.0);
        let bias = self.constant(format!("{name}.bias"), channels, 0.0);
        let op = match norm {
            Norm::Batch => {
                let mean = self.layout.push_buffer(format!("{name}.running_mean"), channels);
                let variance = self.layout.push_buffer(format!("{name}.running_var"), channels);
                for (range, value) in [(&mean, 0.0), (&variance, 1.0)] {
                    self.buffer_inits
                        .push(Init { range: range.clone(), draw: Draw::Constant(value) });
                }
                Op::BatchNorm(BatchNorm { channels, plane, weight, bias, mean, variance, relu })
            }
            Norm::Group => {
                let groups = GroupNorm::groups_for(channels);
                Op::GroupNorm(GroupNorm { channels, plane, groups, weight, bias, relu })
            }
        };
        self.push(op, shape);
    }

    fn window(
        &self,
        what: &str,
        kernel: usize,
        stride: usize,
        padding: usize,
    ) -> Result<Window, NumericsError> {
        let input = self.shapes[self.current];
        let size = Size::square(kernel);
        let output = Conv::output_shape(input, input.channels, size, stride, padding)
            .filter(|shape| !shape.is_empty())
            .ok_or_else(|| self.too_small("pooling", what))?;
        Ok(Window { input, output, kernel, stride, padding })
    }

    /// Maximum pooling; `relu` folds the activation before it into it.
    pub(super) fn max_pool(
        &mut self,
        kernel: usize,
        stride: usize,
        padding: usize,
        relu: bool,
    ) -> Result<(), NumericsError> {
        let window = self.window("maximum", kernel, stride, padding)?;
        if let Some(Node { op: Op::Conv(conv), output, .. }) = self.nodes.last_mut()
            && *output == self.current
        {
            conv.before_pooling = kernel > 1;
        }
        self.push(Op::MaxPool(MaxPool { window, relu }), window.output);
        Ok(())
    }

    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a layer of the kit that no catalogue network uses yet")
    )]
    pub(super) fn average_pool(
        &mut self,
        kernel: usize,
        stride: usize,
        padding: usize,
    ) -> Result<(), NumericsError> {
        let window = self.window("average", kernel, stride, padding)?;
        self.push(Op::AveragePool(AveragePool { window }), window.output);
        Ok(())
    }

    pub(super) fn global_average_pool(&mut self) {
        let shape = self.shapes[self.current];
        let pool = GlobalAveragePool { channels: shape.channels, plane: shape.plane() };
        self.push(Op::GlobalAveragePool(pool), Shape::new(shape.channels, 1, 1));
    }

    pub(super) fn flatten(&mut self) {
        let shape = self.shapes[self.current];
        let op = Op::Flatten { channels: shape.channels, plane: shape.plane() };
        self.push(op, Shape::new(shape.len(), 1, 1));
    }

    /// `relu(current + other)`.
    pub(super) fn add_relu(&mut self, other: usize) {
        self.push(Op::AddRelu(other), self.shapes[self.current]);
    }

    pub(super) fn linear(&mut self, name: &str, outputs: usize, relu: bool) {
        self.linear_part(name, outputs, relu, Part::Body);
    }

    fn linear_part(&mut self, name: &str, outputs: usize, relu: bool, part: Part) {
        let inputs = self.sizes[self.current];
        let weight = self.parameter(format!("{name}.weight"), &[outputs, inputs], inputs, part);
        let bias = self.parameter(format!("{name}.bias"), &[outputs], inputs, part);
        let linear = Linear { inputs, outputs, weight, bias, relu };
        self.push(Op::Linear(linear), Shape::new(outputs, 1, 1));
    }

    /// Closes the network with its head, the linear layer that gives the logits.
    pub(super) fn head(mut self, name: &str) -> Tape {
        let features = self.sizes[self.current];
        self.linear_part(name, self.classes, false, Part::Head);
        Tape {
            plan: GradientPlan::new(&self.nodes, &self.sizes),
            layout: self.layout,
            input: self.input,
            classes: self.classes,
            features,
            nodes: self.nodes,
            sizes: self.sizes,
            inits: self.inits,
            buffer_inits: self.buffer_inits,
        }
    }
}
