//! A forward pass: all activations of a batch.

use super::norm::{Norm, Statistics, batch_sets, group_sets};
use super::window::Window;
use super::{Description, Rows, wide};
use formant_numerics::{GraphNode, GraphOp, Shape, Size};

/// Share of the new batch in the running statistics: PyTorch's.
const MOMENTUM: f64 = 0.1;

/// Where batch normalisation takes its statistics from.
#[derive(Debug)]
pub(super) enum Pass<'b> {
    /// From the batch; the running ones among the buffers follow.
    Train(&'b mut [f32]),
    /// From the buffers.
    Eval(&'b [f32]),
}

/// What a forward pass leaves.
#[derive(Debug)]
pub(super) struct Passed {
    /// By number, beginning with the inputs.
    pub(super) activations: Vec<Rows>,
    /// See [`Reference::margin`](super::Reference::margin).
    pub(super) margin: f64,
}

impl Passed {
    pub(super) fn logits(&self) -> &Rows {
        &self.activations[self.activations.len() - 1]
    }
}

impl Description {
    /// All layers one after the other.
    pub(super) fn forward(&self, w: &[f32], mut pass: Pass<'_>, inputs: &Rows) -> Passed {
        let (mut activations, mut margin) = (vec![inputs.clone()], f64::INFINITY);
        for node in &self.graph.nodes {
            let x = &activations[node.input];
            let mut y = match &node.op {
                GraphOp::Conv { weight, bias, .. } => {
                    let tensor = |name: &String| wide(&w[self.parameter(name)]);
                    let (weight, bias) = (tensor(weight), bias.as_ref().map(tensor));
                    let window = self.window(node);
                    convolve(&window, &weight, bias.as_deref(), x)
                }
                GraphOp::Linear { weight, bias } => {
                    let weight = wide(&w[self.parameter(weight)]);
                    let bias = wide(&w[self.parameter(bias)]);
                    x.iter().map(|x| linear(&weight, &bias, x)).collect()
                }
                GraphOp::BatchNorm { mean, variance, .. } => {
                    let norm = self.norm(node, w, x.len());
                    let places = (self.buffer(mean), self.buffer(variance));
                    let statistics: Vec<Statistics> = match &mut pass {
                        Pass::Train(buffers) => {
                            let found = norm.sets.iter().map(|set| norm.statistics(x, set));
                            let found: Vec<_> = found.collect();
                            let (means, variances) = places;
                            follow(buffers, means, found.iter().map(|s| s.mean));
                            let unbiased = found.iter().zip(&norm.sets).map(|(s, set)| {
                                let count = norm.count(set);
                                s.variance * count / (count - 1.0).max(1.0)
                            });
                            follow(buffers, variances, unbiased);
                            found
                        }
                        Pass::Eval(buffers) => {
                            let running = |place| wide(&buffers[place]).into_iter();
                            let pairs = running(places.0).zip(running(places.1));
                            pairs.map(|(mean, variance)| Statistics { mean, variance }).collect()
                        }
                    };
                    norm.forward(x, &statistics)
                }
                GraphOp::GroupNorm { .. } => {
                    let norm = self.norm(node, w, x.len());
                    let statistics: Vec<_> =
                        norm.sets.iter().map(|set| norm.statistics(x, set)).collect();
                    norm.forward(x, &statistics)
                }
                GraphOp::MaxPool { .. } => {
                    let y = pool(&self.window(node), f64::NEG_INFINITY, x, larger);
                    margin = margin.min(lead(&self.window(node), x, &y));
                    y
                }
                GraphOp::AveragePool { .. } => average_pool(&self.window(node), x),
                GraphOp::GlobalAveragePool => {
                    let plane = self.graph.shapes[node.input].plane();
                    let means = |x: &Vec<f64>| {
                        let planes = x.chunks_exact(plane);
                        planes.map(|x| x.iter().sum::<f64>() / plane as f64).collect()
                    };
                    x.iter().map(means).collect()
                }
                // Rows are flat already.
                GraphOp::Flatten => x.clone(),
                GraphOp::Add { other } => {
                    let pairs = x.iter().zip(&activations[*other]);
                    pairs.map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
                }
            };
            if node.relu {
                margin = y.iter().flatten().fold(margin, |least, y| least.min(y.abs()));
                // Not `max`, which would turn a NaN into zero.
                y.iter_mut().flatten().filter(|y| **y < 0.0).for_each(|y| *y = 0.0);
            }
            activations.push(y);
        }
        Passed { activations, margin }
    }

    /// The windows of a convolution or of a pooling.
    pub(super) fn window(&self, node: &GraphNode) -> Window {
        let (input, output) = (self.graph.shapes[node.input], self.graph.shapes[node.output]);
        let (kernel, stride, padding) = match node.op {
            GraphOp::Conv { kernel, stride, padding, .. } => (kernel, stride, padding),
            GraphOp::MaxPool { kernel, stride, padding }
            | GraphOp::AveragePool { kernel, stride, padding } => {
                (Size::square(kernel), stride, padding)
            }
            ref other => unreachable!("{other:?} has no windows"),
        };
        Window { input, output, kernel, stride, padding }
    }

    /// A normalisation of so many samples.
    pub(super) fn norm(&self, node: &GraphNode, w: &[f32], samples: usize) -> Norm {
        let shape: Shape = self.graph.shapes[node.input];
        let (weight, bias, epsilon, sets) = match &node.op {
            GraphOp::BatchNorm { weight, bias, epsilon, .. } => {
                (weight, bias, *epsilon, batch_sets(shape, samples))
            }
            GraphOp::GroupNorm { groups, weight, bias, epsilon } => {
                (weight, bias, *epsilon, group_sets(shape, samples, *groups))
            }
            other => unreachable!("{other:?} does not normalise"),
        };
        let tensor = |name: &str| wide(&w[self.parameter(name)]);
        Norm { shape, weight: tensor(weight), bias: tensor(bias), epsilon, sets }
    }
}

/// Moves running statistics towards those of a batch.
fn follow(buffers: &mut [f32], place: core::ops::Range<usize>, batch: impl Iterator<Item = f64>) {
    for (running, new) in buffers[place].iter_mut().zip(batch) {
        *running = ((1.0 - MOMENTUM) * f64::from(*running) + MOMENTUM * new) as f32;
    }
}

/// `y[o] = bias[o] + Σ_c Σ_taps weight[o, c, tap] · x[c]`.
fn convolve(window: &Window, weight: &[f64], bias: Option<&[f64]>, x: &Rows) -> Rows {
    let Window { input, output, kernel, .. } = *window;
    let (pairs, taps) = (window.pairs(), kernel.area());
    let one = |x: &Vec<f64>| {
        let mut y = vec![0.0; output.len()];
        for (o, y) in y.chunks_exact_mut(output.plane()).enumerate() {
            y.fill(bias.map_or(0.0, |bias| bias[o]));
            for (c, x) in x.chunks_exact(input.plane()).enumerate() {
                let weight = &weight[(o * input.channels + c) * taps..][..taps];
                for pair in &pairs {
                    y[pair.output] += weight[pair.tap] * x[pair.input];
                }
            }
        }
        y
    };
    x.iter().map(one).collect()
}

/// `weight · x + bias`.
pub(super) fn linear(weight: &[f64], bias: &[f64], x: &[f64]) -> Vec<f64> {
    let rows = weight.chunks_exact(x.len()).zip(bias);
    rows.map(|(row, bias)| bias + row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>()).collect()
}

/// The mean of each window, whose border counts as zero.
pub(super) fn average_pool(window: &Window, x: &Rows) -> Rows {
    let share = 1.0 / window.kernel.area() as f64;
    pool(window, 0.0, x, |sum, x| sum + share * x)
}

/// Folds what each window sees.
fn pool(window: &Window, start: f64, x: &Rows, fold: impl Fn(f64, f64) -> f64) -> Rows {
    let (input, output, pairs) = (window.input, window.output, window.pairs());
    let one = |x: &Vec<f64>| {
        let mut y = vec![start; output.len()];
        let planes = x.chunks_exact(input.plane()).zip(y.chunks_exact_mut(output.plane()));
        for (x, y) in planes {
            for pair in &pairs {
                y[pair.output] = fold(y[pair.output], x[pair.input]);
            }
        }
        y
    };
    x.iter().map(one).collect()
}

/// By how much the maximum of a window exceeds the next smaller value, at least.
fn lead(window: &Window, x: &Rows, maxima: &Rows) -> f64 {
    let pairs = window.pairs();
    let mut least = f64::INFINITY;
    for (x, maxima) in x.iter().zip(maxima) {
        let planes = x.chunks_exact(window.input.plane());
        for (x, maxima) in planes.zip(maxima.chunks_exact(window.output.plane())) {
            let gaps = pairs.iter().map(|pair| maxima[pair.output] - x[pair.input]);
            least = gaps.filter(|gap| *gap > 0.0).fold(least, f64::min);
        }
    }
    least
}

/// The larger number; a NaN on either side wins.
fn larger(a: f64, b: f64) -> f64 {
    if b <= a || a.is_nan() { a } else { b }
}
