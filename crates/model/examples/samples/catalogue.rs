//! Models of every network with random values, inputs for them, and the logits that Formant gives.

use formant_data::Normalisation;
use formant_model::{Card, MethodName, ModelFile, Role};
use formant_numerics::{
    Batch, CATALOGUE, Family, Model, Network, NetworkSpec, Norm, Pass, Rng, Shape, Stem, Stream,
};
use std::error::Error;

/// Classes of every sample model.
const CLASSES: usize = 7;

/// A model and what it is called.
pub(crate) struct Sample {
    /// Network and options in a word.
    pub(crate) name: String,
    /// The model.
    pub(crate) file: ModelFile,
}

/// Every network of the catalogue, residual ones with both norms and both stems.
pub(crate) fn samples() -> Result<Vec<Sample>, Box<dyn Error>> {
    let mut samples = Vec::new();
    for entry in CATALOGUE {
        let plain = NetworkSpec::named(entry.name);
        match entry.family {
            Family::ResNet => {
                for (stem, word, size) in
                    [(Stem::Cifar, "cifar", 16), (Stem::Imagenet, "imagenet", 64)]
                {
                    // Sixteen channels are computed by Winograd's algorithm; 36 make groups of two and
                    // more channels. (In groups of a few values, rounding errors grow from layer to
                    // layer: PyTorch itself is then 1e-5 away from its own double precision.)
                    for (norm, kind, width) in
                        [(Norm::Batch, "batch", 16), (Norm::Group, "group", 36)]
                    {
                        let (norm, stem, width) = (Some(norm), Some(stem), Some(width));
                        let spec = NetworkSpec { norm, stem, width, ..plain.clone() };
                        let name = format!("{}-{kind}-{word}", entry.name);
                        samples.push(sample(name, spec, Shape::new(3, size, size))?);
                    }
                }
            }
            Family::Mlp => {
                let spec = NetworkSpec { hidden: Some(vec![30, 20]), ..plain };
                samples.push(sample(entry.name.into(), spec, Shape::new(1, 9, 8))?);
            }
            Family::Convolutional => {
                samples.push(sample(entry.name.into(), plain.clone(), Shape::new(1, 28, 28))?);
                let name = format!("{}-wide", entry.name);
                samples.push(sample(name, plain, Shape::new(3, 20, 26))?);
            }
            Family::Fixed => {
                samples.push(sample(entry.name.into(), plain, Shape::new(3, 6, 5))?);
            }
        }
    }
    Ok(samples)
}

fn sample(name: String, spec: NetworkSpec, input: Shape) -> Result<Sample, Box<dyn Error>> {
    let network = spec.build(input, CLASSES)?;
    let normalisation = [(0.49, 0.25), (0.48, 0.24), (0.45, 0.26)]
        .map(|(mean, std)| Normalisation::new(mean, std))[..input.channels]
        .to_vec();
    let card = Card {
        network: spec,
        input,
        normalisation,
        classes: (0..CLASSES).map(|class| format!("class \"{class}\"")).collect(),
        dataset: "random".into(),
        experiment: "samples".into(),
        method: MethodName { label: "SCD".into(), name: "scd".into() },
        role: Role::Personal { client: 3, name: None },
        round: 30,
        seed: 1,
        ..Card::default()
    };
    let model = random(network.as_ref());
    Ok(Sample { name, file: ModelFile { card, model } })
}

/// Weights of a size that lets every layer be heard in the logits, and norms that are not the identity.
fn random(network: &dyn Network) -> Model {
    let mut rng = Rng::new(11, Stream::Test, 0, 0);
    let mut model = network.init(&mut rng);
    let mut draw = |from: f64, to: f64| (from + (to - from) * rng.uniform()) as f32;
    for tensor in network.layout().tensors() {
        for value in &mut model.parameters[tensor.range.clone()] {
            match tensor.shape.len() {
                1 if *value == 1.0 => *value = draw(0.5, 1.5),
                1 => *value += draw(-0.2, 0.2),
                _ => *value *= 2.0,
            }
        }
    }
    for tensor in network.layout().buffers() {
        let variance = tensor.name.ends_with("running_var");
        for value in &mut model.buffers[tensor.range.clone()] {
            *value = if variance { draw(0.5, 2.0) } else { draw(-0.5, 0.5) };
        }
    }
    model
}

/// Random bytes for `count` images, one after another.
pub(crate) fn pixels(input: Shape, count: usize) -> Vec<u8> {
    let mut rng = Rng::new(12, Stream::Test, 0, 0);
    (0..count * input.len()).map(|_| rng.below(256) as u8).collect()
}

/// Formant's own logits.
pub(crate) fn logits(file: &ModelFile, pixels: &[u8]) -> Result<Vec<f32>, Box<dyn Error>> {
    let card = &file.card;
    let network = card.build("a sample")?;
    let count = pixels.len() / card.input.len();
    let images =
        formant_data::Unlabelled::from(pixels.to_vec()).samples(card.input, &card.normalisation)?;
    let mut inputs = vec![0.0; pixels.len()];
    let indices: Vec<u32> = (0..count as u32).collect();
    images.gather(&indices, &mut inputs);
    let batch = Batch { inputs: &inputs, labels: &vec![0; count] };
    let mut work = network.workspace(count);
    Ok(network.forward(Pass::Eval(&file.model), &batch, &mut work).logits.to_vec())
}
