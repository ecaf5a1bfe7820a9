//! A linear classifier over features: the head of a network, or an additional one.
//!
//! Its weights are one flat vector, first a row of `features` for each class, then a bias for each:
//! the order in which a network's own head lies at the end of its parameters.

use crate::{Differentiable, Network, Part, cross_entropy, vector};
use core::ops::Range;

/// The sizes of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Features of a sample.
    pub features: usize,
    /// Scores, one for each class.
    pub classes: usize,
}

impl Head {
    /// A head like the one that a network has.
    pub fn of(network: &dyn Network) -> Self {
        let head = Self { features: network.features(), classes: network.classes() };
        debug_assert_eq!(network.layout().range(Part::Head).len(), head.weights());
        head
    }

    /// Number of weights and biases.
    pub fn weights(&self) -> usize {
        self.classes * (self.features + 1)
    }

    /// Adds the logits of a batch of features, `z W^T + b`.
    pub fn add_logits(&self, weights: &[f32], features: &[f32], logits: &mut [f32]) {
        let (rows, biases) = weights.split_at(self.classes * self.features);
        for (z, logits) in self.samples(features).zip(logits.chunks_exact_mut(self.classes)) {
            let rows = rows.chunks_exact(self.features);
            for ((logit, row), bias) in logits.iter_mut().zip(rows).zip(biases) {
                *logit += vector::dot(row, z) as f32 + bias;
            }
        }
    }

    /// Adds `scale · ∂/∂weights` of a loss whose gradient by the logits is given.
    pub fn add_gradient(
        &self,
        scale: f32,
        features: &[f32],
        d_logits: &[f32],
        gradient: &mut [f32],
    ) {
        let (rows, biases) = gradient.split_at_mut(self.classes * self.features);
        for (z, d) in self.samples(features).zip(d_logits.chunks_exact(self.classes)) {
            let rows = rows.chunks_exact_mut(self.features);
            for ((d, row), bias) in d.iter().zip(rows).zip(biases.iter_mut()) {
                vector::axpy(scale * d, z, row);
                *bias += scale * d;
            }
        }
    }

    /// Adds `scale · ∂/∂features`, what flows back to the layers that made the features.
    pub fn add_feature_gradient(
        &self,
        scale: f32,
        weights: &[f32],
        d_logits: &[f32],
        d_features: &mut [f32],
    ) {
        let rows = &weights[..self.classes * self.features];
        let samples = d_features.chunks_exact_mut(self.features);
        for (d_z, d) in samples.zip(d_logits.chunks_exact(self.classes)) {
            for (d, row) in d.iter().zip(rows.chunks_exact(self.features)) {
                vector::axpy(scale * d, row, d_z);
            }
        }
    }

    fn samples<'a>(&self, features: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
        features.chunks_exact(self.features)
    }
}

/// [`Term::Head`](crate::Term::Head) as the CPU computes it.
#[derive(Debug)]
pub(crate) struct HeadLoss<'a> {
    /// The sizes.
    pub(crate) head: Head,
    /// Where the head lies among the parameters.
    pub(crate) range: Range<usize>,
    /// The features, a row for each sample.
    pub(crate) features: &'a [f32],
    /// Their classes.
    pub(crate) labels: &'a [u32],
    /// Memory for the logits and for their gradient.
    pub(crate) scratch: &'a mut [Vec<f32>; 2],
}

impl Differentiable for HeadLoss<'_> {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        let [logits, d_logits] = &mut *self.scratch;
        for memory in [&mut *logits, &mut *d_logits] {
            memory.clear();
            memory.resize(self.labels.len() * self.head.classes, 0.0);
        }
        self.head.add_logits(&w[self.range.clone()], self.features, logits);
        let value = cross_entropy(logits, self.labels, d_logits);
        let gradient = &mut gradient[self.range.clone()];
        self.head.add_gradient(weight, self.features, d_logits, gradient);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, NetworkSpec, OutputGradient, Pass, Rng, Shape, Stream};

    const HEAD: Head = Head { features: 5, classes: 3 };

    fn draw(count: usize, client: u64) -> Vec<f32> {
        let mut rng = Rng::new(1, Stream::Test, 0, client);
        (0..count).map(|_| rng.normal() as f32).collect()
    }

    #[test]
    fn a_networks_own_head_gives_its_logits_and_its_gradients() {
        let network = NetworkSpec { hidden: Some(vec![5]), ..NetworkSpec::named("mlp") }
            .build(Shape::new(1, 2, 2), 3)
            .unwrap();
        let (head, range) = (Head::of(&*network), network.layout().range(Part::Head));
        assert_eq!((head, range.len()), (HEAD, HEAD.weights()));
        let model = network.init(&mut Rng::new(1, Stream::Test, 0, 0));
        let (inputs, labels) = (draw(16, 1), [0, 1, 2, 1]);
        let mut work = network.workspace(4);
        let batch = Batch { inputs: &inputs, labels: &labels };
        let output = network.forward(Pass::Eval(&model), &batch, &mut work);
        let (features, expected) = (output.features.to_vec(), output.logits.to_vec());
        let mut logits = vec![0.0; 12];
        head.add_logits(&model.parameters[range.clone()], &features, &mut logits);
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(&logits, &expected));
        let d_logits = draw(12, 2);
        let mut gradient = vec![0.0; network.layout().parameters()];
        let seed = OutputGradient { logits: &d_logits, features: None };
        network.backward(&model, seed, Part::All, &mut work, &mut gradient);
        let mut own = vec![0.0; HEAD.weights()];
        head.add_gradient(1.0, &features, &d_logits, &mut own);
        assert!(close(&own, &gradient[range]));
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (weights, features, labels) = (draw(HEAD.weights(), 3), draw(20, 4), [2, 0, 1, 1]);
        let value = |weights: &[f32], features: &[f32]| {
            let mut logits = vec![0.0; 12];
            HEAD.add_logits(weights, features, &mut logits);
            let mut d_logits = vec![0.0; 12];
            (cross_entropy(&logits, &labels, &mut d_logits), d_logits)
        };
        let (_, d_logits) = value(&weights, &features);
        let mut by_features = vec![0.0; 20];
        HEAD.add_feature_gradient(1.0, &weights, &d_logits, &mut by_features);
        let mut scratch = [vec![], vec![]];
        let (w, labels) = ([vec![9.0; 2], weights.clone()].concat(), &labels);
        let range = 2..w.len();
        let mut term =
            HeadLoss { head: HEAD, range, features: &features, labels, scratch: &mut scratch };
        let mut by_weights = vec![0.0; w.len()];
        let at = term.add(2.0, &w, &mut by_weights);
        assert!((at - value(&weights, &features).0).abs() < 1e-6);
        assert_eq!(by_weights[..2], [0.0; 2]);
        let slope = |x: &[f32], i: usize, f: &dyn Fn(&[f32]) -> f64| {
            let h = 1.0 / 128.0;
            let moved = |h: f32| {
                let mut x = x.to_vec();
                x[i] += h;
                f(&x)
            };
            ((moved(h) - moved(-h)) / f64::from(2.0 * h)) as f32
        };
        for i in 0..weights.len() {
            let slope = slope(&weights, i, &|x| value(x, &features).0);
            assert!((2.0 * slope - by_weights[i + 2]).abs() < 1e-3, "weight {i}");
        }
        for (i, d) in by_features.iter().enumerate() {
            let slope = slope(&features, i, &|x| value(&weights, x).0);
            assert!((slope - d).abs() < 1e-3, "feature {i}");
        }
    }
}
