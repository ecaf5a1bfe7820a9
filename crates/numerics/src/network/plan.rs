//! Where the gradients of activations lie in memory.

use super::tape::{Node, Op};

/// Which buffer holds the gradient of each activation: buffers are reused once the layer that made
/// the activation has consumed its gradient.
#[derive(Debug, Clone, Default)]
pub(super) struct GradientPlan {
    /// Buffer of each activation.
    pub(super) buffer: Vec<usize>,
    /// Values per sample of each buffer.
    pub(super) sizes: Vec<usize>,
    /// Per activation: whether anything before it learns, so that its gradient is wanted.
    pub(super) trained: Vec<bool>,
    /// Per node.
    pub(super) accumulate: Vec<Accumulate>,
}

/// Whether what a layer sends back adds to the gradient of another reader of the same activation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Accumulate {
    /// The gradient of its input.
    pub(super) input: bool,
    /// The gradient of the second summand, if it has one.
    pub(super) other: bool,
}

impl GradientPlan {
    pub(super) fn new(nodes: &[Node], sizes: &[usize]) -> Self {
        const NONE: usize = usize::MAX;
        let mut plan = Self {
            buffer: vec![NONE; sizes.len()],
            sizes: Vec::new(),
            trained: vec![false; sizes.len()],
            accumulate: vec![Accumulate::default(); nodes.len()],
        };
        for node in nodes {
            plan.trained[node.output] = match node.op {
                Op::Conv(_) | Op::Linear(_) | Op::BatchNorm(_) | Op::GroupNorm(_) => true,
                Op::AddRelu(other) => plan.trained[node.input] || plan.trained[other],
                _ => plan.trained[node.input],
            };
        }
        let mut free: Vec<usize> = Vec::new();
        // Says whether the activation had a buffer already, so that its gradient is added to.
        let claim = |plan: &mut Self, free: &mut Vec<usize>, slot: usize| -> bool {
            if slot == 0 || plan.buffer[slot] != NONE {
                return slot != 0;
            }
            let buffer = free.pop().unwrap_or_else(|| {
                plan.sizes.push(0);
                plan.sizes.len() - 1
            });
            plan.sizes[buffer] = plan.sizes[buffer].max(sizes[slot]);
            plan.buffer[slot] = buffer;
            false
        };
        claim(&mut plan, &mut free, sizes.len() - 1);
        for (i, node) in nodes.iter().enumerate().rev() {
            let input = claim(&mut plan, &mut free, node.input);
            let other = match node.op {
                Op::AddRelu(other) => claim(&mut plan, &mut free, other),
                _ => false,
            };
            plan.accumulate[i] = Accumulate { input, other };
            free.push(plan.buffer[node.output]);
        }
        plan
    }
}
