//! The engine: a fixed list of layers over numbered activations, run forwards and backwards.

use super::plan::{Accumulate, GradientPlan};
use super::timing::Stopwatch;
use super::workspace::Workspace;
use super::{Batch, Network, Output, OutputGradient, Pass};
use crate::gemm::SLACK;
use crate::layer::{
    AveragePool, BatchNorm, Conv, GlobalAveragePool, GroupNorm, InputGradient, Linear, MaxPool,
    Need, Passed, Saved, add_backward, add_forward, flatten_backward, flatten_forward,
};
use crate::{Layout, Model, Part, Rng, Shape};
use core::mem::take;

/// Bytes of activations and their gradients beyond which it does not matter what layers need
/// besides.
const LARGEST_WORKSPACE: u64 = 1 << 58;

/// One layer and the activations it reads.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Conv(Conv),
    Linear(Linear),
    BatchNorm(BatchNorm),
    GroupNorm(GroupNorm),
    MaxPool(MaxPool),
    AveragePool(AveragePool),
    GlobalAveragePool(GlobalAveragePool),
    /// Extents of the input.
    Flatten {
        channels: usize,
        plane: usize,
    },
    /// `relu(input + other)`, `other` being another activation.
    AddRelu(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) op: Op,
    pub(super) input: usize,
    pub(super) output: usize,
}

/// How an initial value is drawn.
#[derive(Debug, Clone)]
pub(super) struct Init {
    pub(super) range: core::ops::Range<usize>,
    pub(super) draw: Draw,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Draw {
    /// Uniform in `±bound`.
    Uniform(f64),
    /// A constant.
    Constant(f32),
}

/// A network as the CPU computes it: a tape of layers.
#[derive(Debug, Clone)]
pub struct Tape {
    pub(super) layout: Layout,
    pub(super) input: Shape,
    pub(super) classes: usize,
    pub(super) features: usize,
    pub(super) nodes: Vec<Node>,
    /// Values per sample of each activation; 0 is the input, the last is the logits.
    pub(super) sizes: Vec<usize>,
    pub(super) inits: Vec<Init>,
    pub(super) buffer_inits: Vec<Init>,
    pub(super) plan: GradientPlan,
}

/// What the layers need for a batch besides activations and gradients.
struct Needs {
    /// They share it.
    scratch: Need,
    /// Values that each of them keeps from its forward pass.
    saved: Vec<usize>,
}

impl Tape {
    /// The gradient of an activation that no later layer's gradient has replaced.
    #[cfg(test)]
    pub(super) fn gradient_of<'w>(&self, slot: usize, work: &'w Workspace) -> &'w [f32] {
        &work.gradients[self.plan.buffer[slot]][..work.n * self.sizes[slot]]
    }

    /// What the layers need besides activations and gradients.
    fn needs(&self, batch: usize) -> Needs {
        let mut scratch = Need::default();
        let saved = |node: &Node| {
            match &node.op {
                Op::Conv(conv) => scratch = scratch.max(conv.need(batch)),
                Op::Linear(linear) => scratch = scratch.max(Need::columns(linear.scratch(batch))),
                Op::BatchNorm(norm) => return 2 * norm.channels,
                Op::GroupNorm(norm) => return 2 * norm.groups * batch,
                _ => {}
            }
            0
        };
        let saved = self.nodes.iter().map(saved).collect();
        Needs { scratch, saved }
    }

    /// The activation that the head reads.
    fn features_slot(&self) -> usize {
        self.nodes[self.nodes.len() - 1].input
    }

    fn run(
        &self,
        parameters: &[f32],
        mut buffers: Option<&mut [f32]>,
        fixed: &[f32],
        work: &mut Workspace,
    ) {
        let n = work.n;
        work.stopwatch.start(&self.nodes, &self.plan.trained);
        for (i, (node, saved)) in self.nodes.iter().zip(&mut work.saved).enumerate() {
            let mut output = take(&mut work.activations[node.output]);
            let input = &work.activations[node.input];
            match &node.op {
                Op::Conv(conv) => conv.forward(
                    parameters,
                    input,
                    &mut output[..n * self.sizes[node.output]],
                    &mut work.scratch,
                    n,
                ),
                Op::Linear(linear) => {
                    linear.forward(parameters, input, &mut output, &mut work.scratch, n);
                }
                Op::BatchNorm(norm) => match &mut buffers {
                    Some(buffers) => {
                        norm.forward(parameters, buffers, input, &mut output, saved, n);
                    }
                    None => norm.forward_fixed(parameters, fixed, input, &mut output, saved, n),
                },
                Op::GroupNorm(norm) => norm.forward(parameters, input, &mut output, saved, n),
                Op::MaxPool(pool) => pool.forward(input, &mut output, n),
                Op::AveragePool(pool) => pool.forward(input, &mut output, n),
                Op::GlobalAveragePool(pool) => pool.forward(input, &mut output, n),
                Op::Flatten { channels, plane } => {
                    flatten_forward(input, &mut output, *channels, *plane, n);
                }
                Op::AddRelu(other) => {
                    let len = n * self.sizes[node.output];
                    add_forward(
                        &input[..len],
                        &work.activations[*other][..len],
                        &mut output[..len],
                    );
                }
            }
            work.activations[node.output] = output;
            work.stopwatch.lap(i, false);
        }
    }
}

impl Tape {
    /// See [`Network::layout`].
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// See [`Network::input`].
    pub fn input(&self) -> Shape {
        self.input
    }

    /// See [`Network::classes`].
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// See [`Network::features`].
    pub fn features(&self) -> usize {
        self.features
    }

    /// See [`Network::init`].
    pub fn init(&self, rng: &mut Rng) -> Model {
        let mut model = Model {
            parameters: vec![0.0; self.layout.parameters()],
            buffers: vec![0.0; self.layout.buffer_values()],
        };
        for (inits, values) in
            [(&self.inits, &mut model.parameters), (&self.buffer_inits, &mut model.buffers)]
        {
            for init in inits {
                for value in &mut values[init.range.clone()] {
                    *value = match init.draw {
                        Draw::Uniform(bound) => ((2.0 * rng.uniform() - 1.0) * bound) as f32,
                        Draw::Constant(constant) => constant,
                    };
                }
            }
        }
        model
    }

    /// Memory for batches of up to `batch` samples.
    pub fn workspace(&self, batch: usize) -> Workspace {
        let Needs { scratch, saved } = self.needs(batch);
        let saved = saved.into_iter().map(|n| Saved { values: vec![0.0; n], eval: false });
        let saved = saved.collect();
        let buffers =
            |sizes: &[usize]| sizes.iter().map(|s| vec![0.0; s * batch + SLACK]).collect();
        Workspace {
            capacity: batch,
            n: 0,
            activations: buffers(&self.sizes),
            gradients: buffers(&self.plan.sizes),
            saved,
            scratch: scratch.allocate(),
            stopwatch: Stopwatch::default(),
        }
    }

    /// Bytes of a workspace that a batch of `batch` samples uses, forwards alone or backwards as well;
    /// nothing is allocated.
    pub fn workspace_bytes(&self, batch: usize, backwards: bool) -> u64 {
        let values = |sizes: &[usize]| {
            let sizes = sizes.iter().map(|size| size.saturating_mul(batch) as u64);
            sizes.fold(0, u64::saturating_add)
        };
        let gradients = if backwards { values(&self.plan.sizes) } else { 0 };
        let passing = values(&self.sizes).saturating_add(gradients).saturating_mul(4);
        // Layers multiply sizes as they are, which they may with a network that can exist.
        if passing > LARGEST_WORKSPACE {
            return passing;
        }
        let Needs { scratch, saved } = self.needs(batch);
        passing + scratch.bytes() + 4 * saved.into_iter().sum::<usize>() as u64
    }

    /// Features and logits of a batch.
    pub fn forward<'w>(
        &self,
        pass: Pass<'_>,
        batch: &Batch<'_>,
        work: &'w mut Workspace,
    ) -> Output<'w> {
        let n = batch.labels.len();
        assert!(n <= work.capacity, "a batch of {n} in a workspace for {}", work.capacity);
        assert_eq!(
            batch.inputs.len(),
            n * self.input.len(),
            "inputs do not fit {} samples of {}",
            n,
            self.input
        );
        work.n = n;
        work.activations[0][..batch.inputs.len()].copy_from_slice(batch.inputs);
        match pass {
            Pass::Train(model) => {
                self.run(&model.parameters, Some(&mut model.buffers), &[], work);
            }
            Pass::Eval(model) => self.run(&model.parameters, None, &model.buffers, work),
        }
        Output {
            features: &work.activations[self.features_slot()][..n * self.features],
            logits: &work.activations[self.sizes.len() - 1][..n * self.classes],
        }
    }

    /// Writes the gradient of the last forward pass into `gradient[layout.range(part)]`; what
    /// stands outside that range afterwards has no meaning.
    pub fn backward(
        &self,
        model: &Model,
        seed: OutputGradient<'_>,
        part: Part,
        work: &mut Workspace,
        gradient: &mut [f32],
    ) {
        let n = work.n;
        assert_eq!(gradient.len(), self.layout.parameters());
        let plan = &self.plan;
        work.gradients[plan.buffer[self.sizes.len() - 1]][..n * self.classes]
            .copy_from_slice(seed.logits);
        work.stopwatch.start(&self.nodes, &plan.trained);
        for (i, node) in self.nodes.iter().enumerate().rev() {
            let is_head = i == self.nodes.len() - 1;
            let stop = is_head && part == Part::Head;
            let len = n * self.sizes[node.output];
            let mut d_output = take(&mut work.gradients[plan.buffer[node.output]]);
            let mut d_input = if plan.trained[node.input] && !stop {
                Some(take(&mut work.gradients[plan.buffer[node.input]]))
            } else {
                None
            };
            let Accumulate { input: accumulate, other: accumulate_other } = plan.accumulate[i];
            let target = d_input.as_mut().map(|data| InputGradient { data, accumulate });
            let (input, output) = (&work.activations[node.input], &work.activations[node.output]);
            let passed = Passed { input, output };
            let d = &mut d_output[..len];
            let w = &model.parameters;
            match (&node.op, target) {
                (Op::Conv(conv), target) => {
                    conv.backward(w, input, d, target, gradient, &mut work.scratch);
                }
                (Op::Linear(linear), target) => {
                    linear.backward(w, passed, d, target, gradient, &mut work.scratch);
                }
                (Op::BatchNorm(norm), target) => {
                    norm.backward(w, passed, d, target, gradient, &work.saved[i]);
                }
                (Op::GroupNorm(norm), target) => {
                    norm.backward(w, passed, d, target, gradient, &work.saved[i]);
                }
                (Op::MaxPool(pool), Some(mut target)) => {
                    pool.backward(passed, d, &mut target);
                }
                (Op::AveragePool(pool), Some(mut target)) => pool.backward(d, &mut target),
                (Op::GlobalAveragePool(pool), Some(mut target)) => pool.backward(d, &mut target),
                (Op::Flatten { channels, plane }, Some(mut target)) => {
                    flatten_backward(d, &mut target, *channels, *plane, n);
                }
                (Op::AddRelu(other), Some(target)) => {
                    let mut data = take(&mut work.gradients[plan.buffer[*other]]);
                    let second = InputGradient { data: &mut data, accumulate: accumulate_other };
                    add_backward(&output[..len], d, target, second);
                    work.gradients[plan.buffer[*other]] = data;
                }
                // A layer without parameters right after the input has nothing to pass on.
                (_, None) => {}
            }
            work.gradients[plan.buffer[node.output]] = d_output;
            if let Some(mut data) = d_input {
                if let (true, Some(features)) = (is_head, seed.features) {
                    crate::vector::axpy(1.0, features, &mut data[..n * self.features]);
                }
                work.gradients[plan.buffer[node.input]] = data;
            }
            work.stopwatch.lap(i, true);
            if stop {
                return;
            }
        }
    }
}

impl Network for Tape {
    fn layout(&self) -> &Layout {
        self.layout()
    }

    fn input(&self) -> Shape {
        self.input()
    }

    fn classes(&self) -> usize {
        self.classes()
    }

    fn features(&self) -> usize {
        self.features()
    }

    fn init(&self, rng: &mut Rng) -> Model {
        self.init(rng)
    }
}
