//! Every network of the catalogue, trained and scored on both engines.

use crate::closeness::{Closeness, assert_values};
use crate::floats::Floats;
use crate::reference::Reference;
use formant_numerics::{
    CATALOGUE, Convolution, Cpu, Descent, Detail, EVALUATION_BATCH, Engine, Family, Metric, Model,
    NetworkSpec, Norm, Objective, Optimiser, Part, Rng, Samples, Shape, Stem, Stream, Worker,
};

const CLASSES: usize = 5;
/// Sizes of the batches; the last one of an epoch is often smaller.
const BATCHES: [usize; 2] = [4, 3];
/// Batches on which a ReLU or a maximum could fall either way in `f32`, whose activations are off by up
/// to a millionth, are passed over: one such choice changes a gradient by a hundredth.
const MARGIN: f64 = 2e-6;

/// A network on samples of a shape.
struct Case {
    spec: NetworkSpec,
    input: Shape,
    /// See [`Closeness::gradient`].
    gradient: f64,
}

/// Draws a batch of a size until its outcome does not hang on rounding.
fn batch(reference: &Reference, model: &Model, samples: &Floats, size: usize) -> Vec<u32> {
    let mut rng = Rng::new(6, Stream::Test, 0, size as u64);
    let mut all: Vec<u32> = (0..samples.len() as u32).collect();
    for _ in 0..200 {
        rng.shuffle(&mut all);
        if reference.margin(model, samples, &all[..size]) > MARGIN {
            return all[..size].to_vec();
        }
    }
    panic!("no batch of {size} samples has a margin of {MARGIN}")
}

/// One step of a worker, from a model: so large a step that it shows the gradient and not how weights are
/// rounded.
fn step(worker: &mut dyn Worker, samples: &Floats, batch: &[u32], from: &Model) -> (f64, Model) {
    let descent = Descent { optimiser: Optimiser::sgd(1.0), part: Part::All };
    let mut model = from.clone();
    worker.begin();
    worker.load(samples, batch);
    let value = worker.step(&mut model, descent, &Objective::CROSS_ENTROPY).unwrap();
    (value, model)
}

/// A few steps and a score on the reference and, with each way to convolve, on the CPU. Each step starts
/// from the reference's model: residual networks would make differences of 1e-6 large within three.
fn check(Case { spec, input, gradient }: &Case) {
    let (input, gradient) = (*input, *gradient);
    let reference = Reference::new(spec, input, CLASSES).unwrap();
    let family = CATALOGUE.iter().find(|entry| entry.name == spec.name).unwrap().family;
    let ways: &[Option<Convolution>] = match family {
        Family::Fixed | Family::Mlp => &[None],
        _ => &[Some(Convolution::Fast), Some(Convolution::Direct)],
    };
    let layout = reference.network().layout();
    let mut workers: Vec<(String, Box<dyn Worker>)> = Vec::new();
    for convolution in ways {
        let spec = NetworkSpec { convolution: *convolution, ..spec.clone() };
        let cpu = Cpu::new(spec.build(input, CLASSES).unwrap());
        workers.push((format!("{spec:?}"), cpu.worker(EVALUATION_BATCH)));
    }

    let mut model = start(&reference);
    let samples = Floats::random(input, CLASSES, 12);
    let mut own = reference.worker(EVALUATION_BATCH);
    for size in BATCHES {
        let batch = batch(&reference, &model, &samples, size);
        let (value, after) = step(&mut *own, &samples, &batch, &model);
        for (place, worker) in &mut workers {
            let (found, found_after) = step(&mut **worker, &samples, &batch, &model);
            assert_values(place, found, value);
            Closeness { place, layout, before: &model, steps: 1, gradient }
                .assert_models(&found_after, &after);
        }
        // Training itself goes more slowly.
        for (w, after) in model.parameters.iter_mut().zip(&after.parameters) {
            *w += 0.02 * (after - *w);
        }
        model.buffers = after.buffers;
    }
    let all: Vec<u32> = (0..samples.len() as u32).collect();
    let detail = Detail { classes: true, calibration: true, logits: true, confusion: true };
    let expected = own.score(&model, &samples, &all, detail);
    for (place, worker) in &mut workers {
        let found = worker.score(&model, &samples, &all, detail);
        assert_eq!(found.right, expected.right, "{place}");
        assert_values(place, found.loss, expected.loss);
        for metric in Metric::ALL {
            let [found, expected] = [&found, &expected].map(|tally| tally.figure(metric).unwrap());
            assert_values(place, found, expected);
        }
    }
}

/// Fresh parameters, but for norms: none of them is the identity, and those that end a residual branch
/// let little of it through. Otherwise the gradients of 50 layers grow a hundredfold on their way back.
fn start(reference: &Reference) -> Model {
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let mut model = reference.network().init(&mut rng);
    let layout = reference.network().layout();
    let last = layout.tensors().iter().any(|tensor| tensor.name.contains(".bn3"));
    let last = if last { ".bn3.weight" } else { ".bn2.weight" };
    // Linear layers have vectors as well, but no norms beside them.
    let norms = layout.tensors().iter().filter(|tensor| {
        tensor.shape.len() == 1
            && (tensor.name.contains("bn") || tensor.name.contains("downsample"))
    });
    for tensor in norms {
        let scale = if tensor.name.ends_with(last) { 0.2 } else { 1.0 };
        for w in &mut model.parameters[tensor.range.clone()] {
            *w = scale * *w + 0.1 * scale * rng.normal() as f32;
        }
    }
    model
}

#[test]
fn plain_networks_agree() {
    for entry in CATALOGUE.iter().filter(|entry| entry.family != Family::ResNet) {
        let spec = NetworkSpec::named(entry.name);
        check(&Case { spec, input: Shape::new(3, 20, 20), gradient: 2e-6 });
    }
    let spec = NetworkSpec { hidden: Some(vec![7, 6]), ..NetworkSpec::named("mlp") };
    check(&Case { spec, input: Shape::new(1, 5, 7), gradient: 2e-6 });
}

/// Eight channels, so that later stages are whole groups of sixteen, which minimal filtering needs; and
/// images whose last stage still has four positions, since the norm of one position is a constant.
fn check_residual(name: &str) {
    for norm in [Norm::Batch, Norm::Group] {
        for (stem, size) in [(Stem::Cifar, 16), (Stem::Imagenet, 64)] {
            let (norm, stem, width) = (Some(norm), Some(stem), Some(8));
            let spec = NetworkSpec { norm, stem, width, ..NetworkSpec::named(name) };
            check(&Case { spec, input: Shape::new(3, size, size), gradient: 2e-5 });
        }
    }
}

#[test]
fn resnet18_agrees() {
    check_residual("resnet18");
}

#[test]
fn resnet34_agrees() {
    check_residual("resnet34");
}

#[test]
fn resnet50_agrees() {
    check_residual("resnet50");
}
