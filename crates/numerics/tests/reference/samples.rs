//! The same pixels, once as bytes that are normalised on the way out, once as floats that were before.

use crate::floats::Floats;
use formant_data::Images;
use formant_numerics::{
    BatchPlan, Batches, Cpu, Descent, EVALUATION_BATCH, Engine, Meter, Model, NetworkSpec,
    Normalisation, Objective, Optimiser, Part, Patience, Phase, Rng, Rule, Samples, Shape, Stream,
    Tally,
};

const SHAPE: Shape = Shape::new(3, 16, 16);
const LEN: usize = 30;

fn both() -> (Images, Floats) {
    let mut rng = Rng::new(2, Stream::Test, 0, 0);
    let pixels: Vec<u8> = (0..LEN * SHAPE.len()).map(|_| rng.below(256) as u8).collect();
    let labels: Vec<u16> = (0..LEN).map(|_| rng.below(4) as u16).collect();
    let normalisation = [(0.49, 0.25), (0.48, 0.24), (0.45, 0.26)];
    let normalisation = normalisation.map(|(mean, std)| Normalisation::new(mean, std));
    let values = pixels.iter().enumerate().map(|(i, byte)| {
        let Normalisation { mean, std } = normalisation[i / SHAPE.plane() % SHAPE.channels];
        (f32::from(*byte) / 255.0 - mean) / std
    });
    let floats = Floats { shape: SHAPE, values: values.collect(), labels: labels.clone() };
    (Images::new(SHAPE, pixels, labels, &normalisation).unwrap(), floats)
}

/// Two epochs over most samples, and a score of all.
fn trained(samples: &dyn Samples) -> (Model, Meter, Tally) {
    let engine = Cpu::new(NetworkSpec::named("lenet5").build(SHAPE, 4).unwrap());
    let mut model = engine.network().init(&mut Rng::new(1, Stream::Test, 0, 0));
    let all: Vec<u32> = (0..samples.len() as u32).collect();
    let (train, batch, epochs, patience) = (&all[3..], 8, 2, Patience::Epochs);
    let mut rng = Rng::new(3, Stream::Test, 0, 0);
    let mut batches = Batches::new(BatchPlan { samples, train, batch, epochs, patience }, &mut rng);
    let optimiser = Optimiser {
        weight_decay: 1e-3,
        clip: Some(1.0),
        rule: Rule::momentum(0.9),
        ..Optimiser::sgd(0.05)
    };
    let descent = Descent { optimiser, part: Part::All };
    let mut phase = Phase { batches: &mut batches, descent, objective: Objective::CROSS_ENTROPY };
    let mut worker = engine.worker(EVALUATION_BATCH);
    let meter = worker.train(&mut model, &mut phase).unwrap();
    let tally = worker.score(&model, samples, &all);
    (model, meter, tally)
}

#[test]
fn floats_train_to_the_same_bits_as_bytes() {
    let (images, floats) = both();
    let (bytes, values) = (trained(&images), trained(&floats));
    assert_eq!(bytes, values);
    assert_eq!((bytes.1.samples, bytes.1.steps), (54, 8));
}

#[test]
fn all_that_a_network_sees_of_samples_is_the_same() {
    let (images, floats) = both();
    let pair: [&dyn Samples; 2] = [&images, &floats];
    let [a, b] = pair.map(|samples| {
        let (mut values, mut labels) = (vec![f32::NAN; 3 * SHAPE.len()], vec![9; 7]);
        samples.gather(&[7, 29, 7], &mut values);
        samples.gather_labels(&[7, 29, 7], &mut labels);
        (samples.len(), samples.is_empty(), samples.shape(), samples.labels(), values, labels)
    });
    assert_eq!(a, b);
    // Only bytes can be given back as bytes, and only they are normalised on the way out.
    assert_eq!(images.bytes(4).map(|bytes| bytes.len()), Some(SHAPE.len()));
    assert_eq!((floats.bytes(4), floats.normalisation()), (None, &[][..]));
}
