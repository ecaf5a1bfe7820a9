//! Every layer by itself: output, gradient to its input, gradients to its parameters, buffers.
//!
//! A case is `front → layers → (flatten) → head`. The features are then the layer's output, and
//! the gradient of the front's output is the layer's input gradient.

use super::digest::{Fixture, Member};
use super::recipe::{Samples, feature_seed, model, transposed};
use crate::network::builder::{Builder, ConvSpec};
use crate::network::resnet::{Block, residual};
use crate::network::tape::Tape;
use crate::network::{Norm, OutputGradient, Pass};
use crate::{Model, Part, Shape, cross_entropy};

const CLASSES: usize = 3;
const SAMPLES: usize = 160;

#[test]
fn agree_with_pytorch() {
    let fixture = Fixture::open("layers");
    let mut worst = std::collections::BTreeMap::<String, f64>::new();
    for name in fixture.cases() {
        let case = Case::parse(fixture.line(name));
        assert_eq!(
            case.listing(),
            fixture.line(&format!("{name}.parameters")),
            "parameters of {name}"
        );
        let error = fixture.compare(name, &case.run(name), SAMPLES);
        let entry = worst.entry(case.kind.clone()).or_default();
        *entry = entry.max(error);
    }
    for (kind, error) in worst {
        println!("{kind:10} {error:.1e}");
    }
}

/// A line of the fixture's metadata, assembled.
struct Case {
    tape: Tape,
    n: usize,
    train: bool,
    kind: String,
    /// The activation that the layer under test reads.
    entry: usize,
    entry_shape: Shape,
}

impl Case {
    fn parse(line: &str) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let shape = super::networks::shape(cells[0]);
        let mut steps = cells[3].split(';').map(Step::parse);
        let front = steps.next().unwrap();
        let mut net = Builder::new(shape, CLASSES);
        let width = front.numbers[0];
        let entry_shape = if front.kind == "linear" {
            net.flatten();
            net.linear("front", width, false);
            Shape::new(width, 1, 1)
        } else {
            let spec = ConvSpec { channels: width, kernel: 1, stride: 1, padding: 0, bias: false };
            net.conv("front", spec).unwrap();
            Shape::new(width, shape.height, shape.width)
        };
        let entry = net.position();
        let (mut kind, mut dense) = (String::new(), false);
        for (i, step) in steps.enumerate() {
            step.add(&mut net, &format!("l{i}"));
            dense = ["linear", "gap", "flatten"].contains(&step.kind.as_str());
            kind = step.kind;
        }
        if !dense {
            net.flatten();
        }
        let train = cells[2] == "train";
        let (tape, n) = (net.head("last"), cells[1].parse().unwrap());
        Self { tape, n, train, kind, entry, entry_shape }
    }

    /// Names and shapes, as the fixture lists them.
    fn listing(&self) -> String {
        super::networks::listing(self.tape.layout().tensors())
    }

    /// One forward and one backward pass; everything that comes out of it.
    fn run(&self, name: &str) -> Vec<Member> {
        let (net, n) = (&self.tape, self.n);
        let layout = net.layout();
        let mut work = net.workspace(n + 2);
        let mut gradient = vec![f32::NAN; layout.parameters()];
        // A larger batch of a client that diverged leaves its NaNs everywhere the worker's memory
        // reaches, and none may show afterwards.
        let mut trampled = model(layout);
        let mut larger = Samples::new(net.input(), n + 2, CLASSES);
        larger.inputs.fill(f32::NAN);
        net.forward(Pass::Train(&mut trampled), &larger.batch(), &mut work);
        let noise = vec![f32::NAN; (n + 2) * CLASSES];
        let seed = OutputGradient { logits: &noise, features: None };
        net.backward(&trampled, seed, Part::All, &mut work, &mut gradient);
        work.poison();

        let mut model: Model = model(layout);
        let samples = Samples::new(net.input(), n, CLASSES);
        let pass = if self.train { Pass::Train(&mut model) } else { Pass::Eval(&model) };
        let output = net.forward(pass, &samples.batch(), &mut work);
        let (features, logits) = (output.features.to_vec(), output.logits.to_vec());
        let mut d_logits = vec![0.0; logits.len()];
        let loss = cross_entropy(&logits, &samples.labels, &mut d_logits);
        let d_features = feature_seed(features.len());
        let seed = OutputGradient { logits: &d_logits, features: Some(&d_features) };
        net.backward(&model, seed, Part::All, &mut work, &mut gradient);

        let shape = self.entry_shape;
        let d_entry = net.gradient_of(self.entry, &work);
        assert_eq!(d_entry.len(), n * shape.len(), "{name}");
        // Dense activations are sample-major already.
        let d_entry = match layout.tensors()[0].shape.len() {
            2 => d_entry.to_vec(),
            _ => transposed(d_entry, shape.channels, n, shape.plane()),
        };
        let mut members = vec![
            Member::new("input", &d_entry),
            Member::new("loss", &[loss as f32]),
            Member::new("logits", &logits),
            Member::new("features", &features),
        ];
        members.extend(super::networks::named(layout.tensors(), &gradient));
        members.extend(super::networks::named(layout.buffers(), &model.buffers));
        members
    }
}

/// One layer in words: `conv 5 3 1 1 bias`.
struct Step {
    kind: String,
    numbers: Vec<usize>,
    last: String,
}

impl Step {
    fn parse(words: &str) -> Self {
        let words: Vec<&str> = words.split_whitespace().collect();
        Self {
            kind: words[0].into(),
            numbers: words[1..].iter().filter_map(|w| w.parse().ok()).collect(),
            last: (*words.last().unwrap()).into(),
        }
    }

    fn add(&self, net: &mut Builder, name: &str) {
        let relu = self.last == "relu";
        match (self.kind.as_str(), self.numbers.as_slice()) {
            ("linear", &[width]) => net.linear(name, width, relu),
            ("conv", &[channels, kernel, stride, padding]) => {
                let bias = self.last == "bias";
                net.conv(name, ConvSpec { channels, kernel, stride, padding, bias }).unwrap();
            }
            ("maxpool", &[kernel, stride, padding]) => {
                net.max_pool(kernel, stride, padding, relu).unwrap();
            }
            ("avgpool", &[kernel, stride, padding]) => {
                net.average_pool(kernel, stride, padding).unwrap();
            }
            ("gap", []) => net.global_average_pool(),
            ("flatten", []) => net.flatten(),
            ("batch", []) => net.norm(name, Norm::Batch, relu),
            ("group", []) => net.norm(name, Norm::Group, relu),
            ("basic" | "bottleneck", &[width, stride]) => {
                let block = if self.kind == "basic" { Block::Basic } else { Block::Bottleneck };
                let norm = super::networks::norm(&self.last);
                residual(net, name, block, norm, width, stride).unwrap();
            }
            other => panic!("no such layer: {other:?}"),
        }
    }
}
