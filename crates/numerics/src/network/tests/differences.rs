//! The whole backward pass against finite differences of the objective.
//!
//! The objective is the cross-entropy plus a linear function of the features, so that both seeds
//! of a backward pass take part. The network runs in `f32`, so a small step drowns in rounding,
//! while a large one crosses kinks of ReLU and pooling: the best of a few steps must agree. Next to
//! a kink only the difference to one side is the gradient, so one side is enough.

use super::recipe::{Samples, feature_seed, model};
use crate::network::{NetworkSpec, Norm, OutputGradient, Pass, Tape, Workspace};
use crate::{Model, Part, Shape, cross_entropy};
use std::sync::Arc;

/// Entries that are probed in each tensor: the steepest and some at a stride.
const PROBES: usize = 4;
/// Powers of two, so that the points are exact.
const STEPS: [f32; 4] = [1.0 / 128.0, 1.0 / 512.0, 1.0 / 2048.0, 1.0 / 8192.0];
/// Largest error of a slope, as a share of the steepest slope in its tensor.
const BOUND: f64 = 2e-2;

struct Probe {
    network: Arc<Tape>,
    samples: Samples,
    work: Workspace,
    d_logits: Vec<f32>,
    d_features: Vec<f32>,
}

impl Probe {
    fn new(spec: &NetworkSpec, shape: Shape, n: usize) -> Self {
        let network = spec.build(shape, 5).unwrap();
        let samples = Samples::new(shape, n, 5);
        let work = network.workspace(n);
        let d_features = feature_seed(n * network.features());
        Self { samples, work, d_logits: vec![0.0; n * 5], d_features, network }
    }

    /// The objective with batch statistics; the model's own buffers stay as they are.
    fn objective(&mut self, model: &Model) -> f64 {
        let mut model = model.clone();
        let batch = self.samples.batch();
        let output = self.network.forward(Pass::Train(&mut model), &batch, &mut self.work);
        let linear = crate::vector::dot(output.features, &self.d_features);
        cross_entropy(output.logits, &self.samples.labels, &mut self.d_logits) + linear
    }

    fn gradient(&mut self, model: &Model, part: Part) -> Vec<f32> {
        self.objective(model);
        let seed = OutputGradient { logits: &self.d_logits, features: Some(&self.d_features) };
        let mut gradient = vec![f32::NAN; model.parameters.len()];
        self.network.backward(model, seed, part, &mut self.work, &mut gradient);
        gradient
    }

    fn check(&mut self, name: &str) {
        let layout = self.network.layout().clone();
        let model = model(&layout);
        let gradient = self.gradient(&model, Part::All);
        assert!(gradient.iter().all(|g| g.is_finite()), "{name}: an entry was never written");
        let head = self.gradient(&model, Part::Head);
        let range = layout.range(Part::Head);
        assert_eq!(head[range.clone()], gradient[range], "{name}: the head by itself");
        let body = self.gradient(&model, Part::Body);
        let range = layout.range(Part::Body);
        assert_eq!(body[range.clone()], gradient[range], "{name}: the body by itself");
        let mut worst = 0.0f64;
        for tensor in layout.tensors() {
            let peak = gradient[tensor.range.clone()].iter().fold(0.0f32, |p, g| p.max(g.abs()));
            let steepest = tensor.range.clone().find(|i| gradient[*i].abs() == peak);
            let stride = tensor.range.len().div_ceil(PROBES);
            for at in tensor.range.clone().step_by(stride).chain(steepest) {
                let mut moved = model.clone();
                let mut along = |h: f32| {
                    moved.parameters[at] = model.parameters[at] + h;
                    self.objective(&moved)
                };
                let (want, scale) = (f64::from(gradient[at]), f64::from(peak).max(1e-2));
                let here = along(0.0);
                let mut error = f64::INFINITY;
                for h in STEPS {
                    let (left, right) = (along(-h), along(h));
                    let h = f64::from(h);
                    for slope in [right - left, 2.0 * (right - here), 2.0 * (here - left)] {
                        error = error.min((slope / (2.0 * h) - want).abs() / scale);
                    }
                    if error < BOUND / 4.0 {
                        break;
                    }
                }
                worst = worst.max(error);
                assert!(error < BOUND, "{name}: {} at {at} is off by {error}", tensor.name);
            }
        }
        println!("{name}: {worst:.1e}");
    }
}

#[test]
fn agree_with_the_gradient() {
    let mut mlp = NetworkSpec::named("mlp");
    mlp.hidden = Some(vec![24, 12]);
    let flat = Shape::new(2, 6, 5);
    Probe::new(&NetworkSpec::named("logistic"), flat, 7).check("logistic");
    Probe::new(&mlp, flat, 7).check("mlp");
    Probe::new(&NetworkSpec::named("lenet5"), Shape::new(1, 28, 28), 4).check("lenet5");
    for norm in [Norm::Batch, Norm::Group] {
        let mut spec = NetworkSpec::named("resnet18");
        (spec.width, spec.norm) = (Some(4), Some(norm));
        Probe::new(&spec, Shape::new(3, 16, 16), 8).check(&format!("resnet18, {norm:?}"));
    }
}
