//! Where the time of a pass goes, layer by layer: for `formant-bench layers`.

#![expect(
    clippy::disallowed_types,
    reason = "the one clock in this crate: off unless the benchmark switches it on, and no result depends on it"
)]

use super::tape::{Node, Op};
use std::time::Instant;

/// One layer's share of the work since timing began.
#[derive(Debug, Clone)]
pub struct LayerTime {
    /// Kind and shape.
    pub label: String,
    /// Multiplications of one sample's forward pass by the definition, for every algorithm.
    pub products: usize,
    /// Whether the backward pass also makes an input gradient.
    pub passes_on: bool,
    /// Seconds in forward passes.
    pub forward: f64,
    /// Seconds in backward passes.
    pub backward: f64,
}

/// A stopwatch that costs nothing while it is off.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    layers: Option<Vec<LayerTime>>,
    lap: Option<Instant>,
}

impl Stopwatch {
    pub(super) fn switch_on(&mut self) {
        self.layers = Some(Vec::new());
    }

    pub(super) fn layers(&self) -> &[LayerTime] {
        self.layers.as_deref().unwrap_or(&[])
    }

    pub(super) fn start(&mut self, nodes: &[Node], trained: &[bool]) {
        let Some(layers) = &mut self.layers else { return };
        if layers.is_empty() {
            layers.extend(nodes.iter().map(|node| describe(node, trained[node.input])));
        }
        self.lap = Some(Instant::now());
    }

    pub(super) fn lap(&mut self, node: usize, backward: bool) {
        let (Some(layers), Some(lap)) = (&mut self.layers, &mut self.lap) else { return };
        let now = Instant::now();
        let seconds = (now - *lap).as_secs_f64();
        *if backward { &mut layers[node].backward } else { &mut layers[node].forward } += seconds;
        *lap = now;
    }
}

fn describe(node: &Node, passes_on: bool) -> LayerTime {
    let (label, products) = match &node.op {
        Op::Conv(c) => (
            format!(
                "conv {}x{} /{}  {} -> {}",
                c.kernel.height, c.kernel.width, c.stride, c.input, c.output
            ),
            c.output.len() * c.input.channels * c.kernel.area(),
        ),
        Op::Linear(l) => (format!("linear {} -> {}", l.inputs, l.outputs), l.inputs * l.outputs),
        Op::BatchNorm(_) => ("batch norm".into(), 0),
        Op::GroupNorm(_) => ("group norm".into(), 0),
        Op::MaxPool(_) => ("max pool".into(), 0),
        Op::AveragePool(_) => ("average pool".into(), 0),
        Op::GlobalAveragePool(_) => ("global average pool".into(), 0),
        Op::Flatten { .. } => ("flatten".into(), 0),
        Op::AddRelu(_) => ("add and relu".into(), 0),
    };
    LayerTime { label, products, passes_on, forward: 0.0, backward: 0.0 }
}
