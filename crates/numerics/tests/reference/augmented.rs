//! Both engines see the same augmented samples, and score a mixture by both of its labels.

use crate::floats::Floats;
use crate::reference::Reference;
use formant_data::Images;
use formant_numerics::{
    Augmentation, Augmenter, BatchPlan, Batches, Cpu, Criterion, Descent, Detail, Engine, Loss,
    Model, NetworkSpec, Normalisation, Objective, Optimiser, Part, Patience, Phase, Rng, Samples,
    Shape, Stream,
};

const SHAPE: Shape = Shape::new(3, 8, 8);

fn images() -> Images {
    let mut rng = Rng::new(2, Stream::Test, 0, 0);
    let pixels = (0..12 * SHAPE.len()).map(|_| rng.below(256) as u8).collect();
    let labels = (0..12).map(|_| rng.below(4) as u16).collect();
    Images::new(SHAPE, pixels, labels, &[Normalisation::new(0.5, 0.25); 3]).unwrap()
}

/// Two epochs of an engine on augmented batches.
fn trained(
    engine: &dyn Engine,
    samples: &dyn Samples,
    how: Augmentation,
    loss: Loss<'_>,
    criterion: Criterion<'_>,
) -> (Model, f64) {
    let mut model = engine.network().init(&mut Rng::new(1, Stream::Test, 0, 0));
    let train: Vec<u32> = (1..11).collect();
    let (batch, epochs, patience) = (4, 2, Patience::Epochs);
    let plan = BatchPlan { samples, train: &train, batch, epochs, patience };
    let mut rng = Rng::new(3, Stream::Test, 0, 0);
    let mut augmenter = Augmenter::new(how, &rng);
    let mut batches = Batches::new(plan, &mut rng).augmented(&mut augmenter);
    let descent = Descent { optimiser: Optimiser::sgd(0.05), part: Part::All };
    let objective = Objective { loss, criterion, terms: &[] };
    let mut phase = Phase { batches: &mut batches, descent, objective };
    let meter = engine.worker(12).train(&mut model, &mut phase).unwrap();
    assert_eq!((meter.steps, meter.samples), (6, 20));
    (model, meter.objective)
}

#[test]
fn both_engines_train_alike_on_augmented_samples() {
    let network = NetworkSpec { hidden: Some(vec![7]), ..NetworkSpec::named("mlp") };
    let cpu = Cpu::new(network.build(SHAPE, 4).unwrap());
    let reference = Reference::new(&network, SHAPE, 4).unwrap();
    let images = images();
    let floats = Floats::random(SHAPE, 4, 12);
    let moved =
        Augmentation { crop: 2, flip: 0.5, rotation: 20.0, cutout: 3, ..Augmentation::NONE };
    let coloured = Augmentation { brightness: 0.4, contrast: 0.4, saturation: 0.4, ..moved };
    let mixed = Augmentation { mixup: 1.0, ..moved };
    let alone = Augmentation { mixup: 0.4, ..Augmentation::NONE };
    let shift = [0.5, -0.25, 0.0, 1.0];
    let plain = Criterion::PLAIN;
    let weights = [0.5, 2.0, 1.0, 1.5];
    let picky = Criterion { smoothing: 0.1, weights: Some(&weights) };
    let cases: [(&dyn Samples, Augmentation, Loss<'_>, Criterion<'_>); 7] = [
        (&images, moved, Loss::CrossEntropy, plain),
        (&images, coloured, Loss::CrossEntropy, plain),
        (&images, mixed, Loss::CrossEntropy, plain),
        (&images, mixed, Loss::Shifted { shift: &shift }, plain),
        (&images, mixed, Loss::CrossEntropy, picky),
        (&floats, mixed, Loss::CrossEntropy, plain),
        (&floats, alone, Loss::CrossEntropy, plain),
    ];
    for (samples, how, loss, criterion) in cases {
        let (a, value) = trained(&cpu, samples, how, loss, criterion);
        let (b, expected) = trained(&reference, samples, how, loss, criterion);
        assert!((value - expected).abs() < 1e-4, "{how:?}: {value} {expected}");
        let pairs = a.parameters.iter().zip(&b.parameters);
        let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{how:?}: {apart}");
        // It makes a difference, and the same one each time.
        let as_they_are = trained(&cpu, samples, Augmentation::NONE, loss, criterion);
        assert_ne!(as_they_are.0, a, "{how:?}");
        assert_eq!(trained(&cpu, samples, how, loss, criterion).0, a, "{how:?}");
    }
}

#[test]
fn a_score_sees_samples_as_they_are_whatever_was_trained_on() {
    let images = images();
    let cpu = Cpu::new(NetworkSpec::named("logistic").build(SHAPE, 4).unwrap());
    let model = cpu.network().init(&mut Rng::new(1, Stream::Test, 0, 0));
    let all: Vec<u32> = (0..12).collect();
    let fresh = cpu.worker(64).score(&model, &images, &all, Detail::PLAIN);
    let mut worker = cpu.worker(64);
    let how = Augmentation { crop: 3, cutout: 4, mixup: 1.0, ..Augmentation::NONE };
    let patience = Patience::Epochs;
    let plan = BatchPlan { samples: &images, train: &all, batch: 5, epochs: 1, patience };
    let mut rng = Rng::new(3, Stream::Test, 0, 0);
    let mut augmenter = Augmenter::new(how, &rng);
    let mut batches = Batches::new(plan, &mut rng).augmented(&mut augmenter);
    let descent = Descent { optimiser: Optimiser::sgd(0.05), part: Part::All };
    let objective = Objective::CROSS_ENTROPY;
    let mut phase = Phase { batches: &mut batches, descent, objective };
    worker.train(&mut model.clone(), &mut phase).unwrap();
    assert_eq!(worker.score(&model, &images, &all, Detail::PLAIN), fresh);
    // Nor does a step on samples as they are know of what was mixed before.
    let step = |worker: &mut dyn formant_numerics::Worker| {
        let mut model = model.clone();
        worker.begin();
        worker.load(&images, &all[..4]);
        let value = worker.step(&mut model, descent, &objective).unwrap();
        (model, value)
    };
    assert_eq!(step(&mut *worker), step(&mut *cpu.worker(64)));
}
