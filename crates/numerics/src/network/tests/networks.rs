//! Networks of the catalogue: one pass, and two steps of training.

use super::digest::{Fixture, Member};
use super::recipe::{Samples, feature_seed, model};
use crate::network::{Convolution, NetworkSpec, Norm, OutputGradient, Pass, Stem, Tape};
use crate::{
    CpuWorker, Descent, Model, Objective, Optimiser, Part, Rule, Shape, Tensor, Worker,
    cross_entropy,
};
use std::sync::Arc;

/// The same numbers stand in `make.py`.
const SGD: Optimiser = Optimiser {
    learning_rate: 0.0625,
    weight_decay: 0.03125,
    clip: Some(0.75),
    rule: Rule::momentum(0.5),
};

#[test]
fn agree_with_pytorch() {
    let fixture = Fixture::open("networks");
    for name in fixture.cases() {
        let case = Case::parse(fixture.line(name), Convolution::Direct);
        let layout = case.network.layout();
        let line = |what: &str| fixture.line(&format!("{name}.{what}"));
        assert_eq!(listing(layout.tensors()), line("parameters"), "parameters of {name}");
        assert_eq!(listing(layout.buffers()), line("buffers"), "buffers of {name}");
        let samples = line("samples").parse().unwrap();
        let pass = fixture.compare(&format!("{name}.pass"), &case.pass(), samples);
        let steps = case.compare_steps(&fixture, name, samples);
        println!("{name:18} pass {pass:.1e}, steps {steps:.1e}");
    }
}

/// A ReLU whose input is zero up to rounding has either slope, so two right answers differ in
/// their gradients, by as much as one unit contributes. In these small and deep networks it
/// happens; their forward pass, which has no jump, is compared all the same.
const AT_A_KINK: [&str; 2] = ["resnet50", "resnet50_group"];

#[test]
fn agree_with_pytorch_by_minimal_filtering() {
    let fixture = Fixture::open("networks");
    for name in fixture.cases() {
        let case = Case::parse(fixture.line(name), Convolution::Fast);
        let samples = fixture.line(&format!("{name}.samples")).parse().unwrap();
        let group = format!("{name}.pass");
        if AT_A_KINK.contains(&name) {
            let error = fixture.compare_first(&group, &case.pass()[..3], samples);
            println!("{name:18} forward {error:.1e}");
        } else {
            let pass = fixture.compare(&group, &case.pass(), samples);
            let steps = case.compare_steps(&fixture, name, samples);
            println!("{name:18} pass {pass:.1e}, steps {steps:.1e}");
        }
    }
}

struct Case {
    network: Arc<Tape>,
    n: usize,
    train: bool,
}

impl Case {
    fn parse(line: &str, convolution: Convolution) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let mut spec = NetworkSpec::named(cells[0]);
        if cells[0] == "mlp" {
            spec.hidden = Some(cells[5].split(',').map(|w| w.parse().unwrap()).collect());
        } else if !cells[5].is_empty() {
            spec.norm = Some(norm(cells[5]));
            spec.stem = Some(if cells[6] == "imagenet" { Stem::Imagenet } else { Stem::Cifar });
            spec.width = Some(cells[7].parse().unwrap());
        }
        if spec.name != "mlp" && spec.name != "logistic" {
            spec.convolution = Some(convolution);
        }
        let network = spec.build(shape(cells[1]), cells[2].parse().unwrap()).unwrap();
        Self { network, n: cells[3].parse().unwrap(), train: cells[4] == "train" }
    }

    /// Compares two steps of training; returns the largest relative error.
    fn compare_steps(&self, fixture: &Fixture, name: &str, samples: usize) -> f64 {
        if !self.train {
            return 0.0;
        }
        let groups = self.steps().into_iter().enumerate();
        groups
            .map(|(i, group)| fixture.compare(&format!("{name}.step{}", i + 1), &group, samples))
            .fold(0.0, f64::max)
    }

    fn samples(&self) -> Samples {
        Samples::new(self.network.input(), self.n, self.network.classes())
    }

    /// One forward and one backward pass.
    fn pass(&self) -> Vec<Member> {
        let (net, samples) = (&*self.network, self.samples());
        let layout = net.layout();
        let mut work = net.workspace(self.n);
        let mut model: Model = model(layout);
        let pass = if self.train { Pass::Train(&mut model) } else { Pass::Eval(&model) };
        let output = net.forward(pass, &samples.batch(), &mut work);
        let (features, logits) = (output.features.to_vec(), output.logits.to_vec());
        let mut d_logits = vec![0.0; logits.len()];
        let loss = cross_entropy(&logits, &samples.labels, &mut d_logits);
        let d_features = feature_seed(features.len());
        let seed = OutputGradient { logits: &d_logits, features: Some(&d_features) };
        let mut gradient = vec![f32::NAN; layout.parameters()];
        net.backward(&model, seed, Part::All, &mut work, &mut gradient);
        let mut members = vec![
            Member::new("loss", &[loss as f32]),
            Member::new("logits", &logits),
            Member::new("features", &features),
        ];
        members.extend(named(layout.tensors(), &gradient));
        members.extend(named(layout.buffers(), &model.buffers));
        members
    }

    /// Two steps; the second one has a velocity.
    fn steps(&self) -> Vec<Vec<Member>> {
        let (net, samples) = (&*self.network, self.samples());
        let layout = net.layout();
        let start = model(layout);
        let mut model = start.clone();
        let mut worker = CpuWorker::new(self.network.clone(), self.n);
        worker.inputs.extend(&samples.inputs);
        worker.labels.extend(&samples.labels);
        worker.begin();
        let descent = Descent { optimiser: SGD, part: Part::All };
        let mut groups = Vec::new();
        for _ in 0..2 {
            let loss = worker.step(&mut model, descent, &Objective::CROSS_ENTROPY).unwrap();
            let mut members = vec![Member::new("loss", &[loss as f32])];
            members.extend(layout.tensors().iter().map(|t| {
                let range = t.range.clone();
                Member::change(&t.name, &start.parameters[range.clone()], &model.parameters[range])
            }));
            members.extend(named(layout.buffers(), &model.buffers));
            groups.push(members);
        }
        groups
    }
}

/// The tensors of a flat vector.
pub(super) fn named<'a>(
    tensors: &'a [Tensor],
    values: &'a [f32],
) -> impl Iterator<Item = Member> + 'a {
    tensors.iter().map(|t| Member::new(&t.name, &values[t.range.clone()]))
}

/// Names and shapes as `make.py` lists them.
pub(super) fn listing(tensors: &[Tensor]) -> String {
    let line = |t: &Tensor| {
        let extents: Vec<String> = t.shape.iter().map(ToString::to_string).collect();
        format!("{} {}", t.name, extents.join("x"))
    };
    tensors.iter().map(line).collect::<Vec<_>>().join(";")
}

pub(super) fn shape(text: &str) -> Shape {
    let extents: Vec<usize> = text.split('x').map(|e| e.parse().unwrap()).collect();
    Shape::new(extents[0], extents[1], extents[2])
}

pub(super) fn norm(text: &str) -> Norm {
    if text == "batch" { Norm::Batch } else { Norm::Group }
}
