//! A backward pass: the gradient of every parameter, layer by layer.

use super::norm::NormGradient;
use super::window::Window;
use super::{Description, Rows, wide};
use core::ops::Range;
use formant_numerics::{GraphNode, GraphOp};

impl Description {
    /// `∂/∂w`, given all activations of a forward pass and `∂/∂logits`.
    pub(super) fn backward(&self, w: &[f32], activations: &[Rows], d_logits: Rows) -> Vec<f64> {
        let mut gradient = vec![0.0; w.len()];
        // By activation. Whoever reads one adds what flows back.
        let zeros = |rows: &Rows| rows.iter().map(|row| vec![0.0; row.len()]).collect();
        let mut flows: Vec<Rows> = activations.iter().map(zeros).collect();
        flows[activations.len() - 1] = d_logits;
        for node in self.graph.nodes.iter().rev() {
            let mut d = flows[node.output].clone();
            if node.relu {
                let outputs = activations[node.output].iter().flatten();
                let cut = d.iter_mut().flatten().zip(outputs).filter(|(_, y)| **y <= 0.0);
                cut.for_each(|(d, _)| *d = 0.0);
            }
            let x = &activations[node.input];
            let back = match &node.op {
                GraphOp::Conv { weight, bias, .. } => {
                    let weight = self.parameter(weight);
                    if let Some(bias) = bias {
                        let plane = self.graph.shapes[node.output].plane();
                        add_biases(&mut gradient[self.parameter(bias)], plane, &d);
                    }
                    let values = wide(&w[weight.clone()]);
                    convolve_back(&self.window(node), &values, x, &d, &mut gradient[weight])
                }
                GraphOp::Linear { weight, bias } => {
                    add_biases(&mut gradient[self.parameter(bias)], 1, &d);
                    let weight = self.parameter(weight);
                    let values = wide(&w[weight.clone()]);
                    linear_back(&values, x, &d, &mut gradient[weight])
                }
                GraphOp::BatchNorm { weight, bias, .. }
                | GraphOp::GroupNorm { weight, bias, .. } => {
                    let own = self.norm(node, w, x.len()).backward(x, &d);
                    let NormGradient { input, weight: d_weight, bias: d_bias } = own;
                    add_to(&mut gradient, self.parameter(weight), &d_weight);
                    add_to(&mut gradient, self.parameter(bias), &d_bias);
                    input
                }
                GraphOp::MaxPool { .. } => {
                    let rows = x.iter().zip(&d);
                    rows.map(|(x, d)| max_pool_back(&self.window(node), x, d)).collect()
                }
                GraphOp::AveragePool { .. } => {
                    d.iter().map(|d| average_pool_back(&self.window(node), d)).collect()
                }
                GraphOp::GlobalAveragePool => {
                    let plane = self.graph.shapes[node.input].plane();
                    let spread = |d: &f64| core::iter::repeat_n(d / plane as f64, plane);
                    d.iter().map(|d| d.iter().flat_map(spread).collect()).collect()
                }
                GraphOp::Flatten => d,
                GraphOp::Add { other } => {
                    add_rows(&mut flows[*other], &d);
                    d
                }
            };
            add_rows(&mut flows[node.input], &back);
        }
        gradient
    }

    /// Adds the gradient of the head alone, given its inputs and `∂/∂logits`.
    pub(super) fn head_back(&self, features: &Rows, d_logits: &Rows, gradient: &mut [f64]) {
        let [weight, bias] = self.head();
        for (features, d) in features.iter().zip(d_logits) {
            for (class, d) in d.iter().enumerate() {
                gradient[bias.start + class] += d;
                for (i, z) in features.iter().enumerate() {
                    gradient[weight.start + class * features.len() + i] += d * z;
                }
            }
        }
    }

    /// Where weight and bias of the head lie.
    pub(super) fn head(&self) -> [Range<usize>; 2] {
        let GraphNode { op, .. } = &self.graph.nodes[self.graph.nodes.len() - 1];
        let GraphOp::Linear { weight, bias } = op else {
            unreachable!("a network ends with its head, not with {op:?}")
        };
        [self.parameter(weight), self.parameter(bias)]
    }
}

fn add_rows(to: &mut Rows, rows: &Rows) {
    for (to, row) in to.iter_mut().zip(rows) {
        to.iter_mut().zip(row).for_each(|(to, x)| *to += x);
    }
}

fn add_to(gradient: &mut [f64], place: Range<usize>, values: &[f64]) {
    gradient[place].iter_mut().zip(values).for_each(|(to, x)| *to += x);
}

/// A bias gets the sum over samples and positions.
fn add_biases(gradient: &mut [f64], plane: usize, d: &Rows) {
    for d in d {
        for (to, d) in gradient.iter_mut().zip(d.chunks_exact(plane)) {
            *to += d.iter().sum::<f64>();
        }
    }
}

fn convolve_back(window: &Window, weight: &[f64], x: &Rows, d: &Rows, to: &mut [f64]) -> Rows {
    let Window { input, output, kernel, .. } = *window;
    let (pairs, taps) = (window.pairs(), kernel.area());
    let one = |(x, d): (&Vec<f64>, &Vec<f64>)| {
        let mut back = vec![0.0; input.len()];
        for (o, d) in d.chunks_exact(output.plane()).enumerate() {
            for c in 0..input.channels {
                let place = (o * input.channels + c) * taps;
                let (weight, to) = (&weight[place..][..taps], &mut to[place..][..taps]);
                let x = &x[c * input.plane()..][..input.plane()];
                let back = &mut back[c * input.plane()..][..input.plane()];
                for pair in &pairs {
                    to[pair.tap] += d[pair.output] * x[pair.input];
                    back[pair.input] += d[pair.output] * weight[pair.tap];
                }
            }
        }
        back
    };
    x.iter().zip(d).map(one).collect()
}

fn linear_back(weight: &[f64], x: &Rows, d: &Rows, to: &mut [f64]) -> Rows {
    let one = |(x, d): (&Vec<f64>, &Vec<f64>)| {
        let mut back = vec![0.0; x.len()];
        for (o, d) in d.iter().enumerate() {
            for (i, x) in x.iter().enumerate() {
                to[o * back.len() + i] += d * x;
                back[i] += d * weight[o * back.len() + i];
            }
        }
        back
    };
    x.iter().zip(d).map(one).collect()
}

/// The first maximum of each window gets what the window gets, as in PyTorch.
fn max_pool_back(window: &Window, x: &[f64], d: &[f64]) -> Vec<f64> {
    let (input, output, pairs) = (window.input, window.output, window.pairs());
    let mut back = vec![0.0; input.len()];
    for channel in 0..input.channels {
        let x = &x[channel * input.plane()..][..input.plane()];
        let mut best: Vec<Option<usize>> = vec![None; output.plane()];
        for pair in &pairs {
            let best = &mut best[pair.output];
            if best.is_none_or(|best| x[pair.input] > x[best]) {
                *best = Some(pair.input);
            }
        }
        let d = &d[channel * output.plane()..][..output.plane()];
        for (best, d) in best.iter().zip(d) {
            if let Some(best) = best {
                back[channel * input.plane() + best] += d;
            }
        }
    }
    back
}

fn average_pool_back(window: &Window, d: &[f64]) -> Vec<f64> {
    let (input, output) = (window.input, window.output);
    let share = 1.0 / window.kernel.area() as f64;
    let mut back = vec![0.0; input.len()];
    for pair in window.pairs() {
        for channel in 0..input.channels {
            back[channel * input.plane() + pair.input] +=
                share * d[channel * output.plane() + pair.output];
        }
    }
    back
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::forward::average_pool;
    use formant_numerics::{Shape, Size};

    /// No network of the catalogue has one, so nothing else would see it fail.
    #[test]
    fn average_pooling_counts_a_border_as_zero_and_goes_back_the_way_it_came() {
        let (input, output) = (Shape::new(2, 3, 3), Shape::new(2, 2, 2));
        let window = Window { input, output, kernel: Size::square(3), stride: 2, padding: 1 };
        let x: Vec<f64> = (1..=18).map(f64::from).collect();
        let y = average_pool(&window, &vec![x.clone()]).remove(0);
        let corners = [1 + 2 + 4 + 5, 2 + 3 + 5 + 6, 4 + 5 + 7 + 8, 5 + 6 + 8 + 9];
        for (y, corner) in y.iter().zip(corners) {
            assert!((y - f64::from(corner) / 9.0).abs() < 1e-12);
        }
        // ⟨pool(x), d⟩ = ⟨x, back(d)⟩.
        let d: Vec<f64> = (0..8).map(|i| f64::from(i * i % 5) - 1.5).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let back = average_pool_back(&window, &d);
        assert!((dot(&y, &d) - dot(&x, &back)).abs() < 1e-12);
    }
}
