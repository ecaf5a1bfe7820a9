//! Using a model: the probabilities of its classes for images or rows.

use crate::{Card, ModelError, ModelFile};
use formant_data::{DataError, Fitting, Source, Unlabelled};
use formant_numerics::{Batch, Model, Pass, Samples, Tape, Workspace, probabilities};
use std::sync::Arc;

/// Images that go through the network together. Where one batch ends and the next begins depends only
/// on the images, so the bits of the result do too.
pub const BATCH: usize = 64;

/// Bytes of pixels that are read and predicted before the next ones are.
const CHUNK_BYTES: usize = 64 << 20;
/// Images at most, so that progress can be seen.
const CHUNK_IMAGES: usize = 16 * BATCH;

/// Some images of a source and what the model makes of them.
#[derive(Debug)]
pub struct Predicted<'c> {
    /// Which images of the source these are.
    pub indices: &'c [usize],
    /// The probability of every class, image after image.
    pub probabilities: &'c [f64],
    /// Why images between them were left out.
    pub skipped: &'c [DataError],
}

/// A model that is ready to be used.
///
/// ```
/// # use formant_data::Normalisation;
/// # use formant_model::{Card, ModelFile, Predictor};
/// # use formant_numerics::{NetworkSpec, Rng, Shape, Stream};
/// # let network = NetworkSpec::named("logistic").build(Shape::new(1, 2, 2), 3)?;
/// # let card = Card {
/// #     network: NetworkSpec::named("logistic"),
/// #     input: network.input(),
/// #     normalisation: vec![Normalisation::NONE],
/// #     classes: ["a", "b", "c"].map(String::from).to_vec(),
/// #     ..Card::default()
/// # };
/// # let model = network.init(&mut Rng::new(1, Stream::Init, 0, 0));
/// # let file = ModelFile { card, model };
/// let predictor = Predictor::new(file, "a.safetensors")?;
/// // Two images of 1x2x2 and three classes.
/// let probabilities = predictor.probabilities(vec![0_u8, 50, 100, 150, 7, 7, 7, 7], 1)?;
/// assert_eq!(probabilities.len(), 6);
/// assert!((probabilities[..3].iter().sum::<f64>() - 1.0).abs() < 1e-12);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Predictor {
    card: Card,
    model: Model,
    network: Arc<Tape>,
    origin: String,
}

impl Predictor {
    /// Builds the model's network; `origin` is what an error calls the file.
    pub fn new(file: ModelFile, origin: &str) -> Result<Self, ModelError> {
        let network = file.card.build(origin)?;
        Ok(Self { card: file.card, model: file.model, network, origin: origin.into() })
    }

    /// What the model says about itself.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The probability of every class for every sample, sample after sample. Their values are pixels or
    /// real numbers as the card says, sample after sample and channel after channel, in the card's shape.
    ///
    /// The result does not depend on the number of threads.
    pub fn probabilities(
        &self,
        samples: impl Into<Unlabelled>,
        threads: usize,
    ) -> Result<Vec<f64>, ModelError> {
        let samples = samples.into();
        if samples.values() != self.card.values {
            let (has, wants) = (samples.values(), self.card.values);
            return Err(self.refuse(format!("it was given {has:?} where it takes {wants:?}")));
        }
        let count = samples.len() / self.card.input.len();
        let images = samples
            .samples(self.card.input, &self.card.normalisation)
            .map_err(|error| self.refuse(error.to_string()))?;
        let mut probabilities = vec![0.0; count * self.card.classes.len()];
        let classes = self.card.classes.len();
        let batches = count.div_ceil(BATCH);
        let per_thread = batches.div_ceil(threads.max(1)).max(1) * BATCH;
        if per_thread >= count {
            self.fill(&*images, 0, &mut probabilities);
        } else {
            std::thread::scope(|scope| {
                let parts = probabilities.chunks_mut(per_thread * classes).enumerate();
                for (nth, part) in parts {
                    let images = &*images;
                    scope.spawn(move || self.fill(images, nth * per_thread, part));
                }
            });
        }
        match probabilities.iter().position(|p| !p.is_finite()) {
            None => Ok(probabilities),
            Some(place) => Err(self.refuse(format!(
                "it gives values that are not finite for sample {}",
                place / classes
            ))),
        }
    }

    /// Reads a source chunk by chunk and hands over what the model makes of it; memory is that of a
    /// chunk. Gives what had to be done to the images.
    pub fn each<E: From<ModelError>>(
        &self,
        source: &Source,
        threads: usize,
        mut take: impl FnMut(Predicted<'_>) -> Result<(), E>,
    ) -> Result<Fitting, E> {
        let fail = |error: DataError| E::from(ModelError::from(error));
        let size = if self.card.values.are_bytes() { 1 } else { 4 };
        let most = (CHUNK_BYTES / (size * self.card.input.len())).min(CHUNK_IMAGES);
        let most = (most / BATCH).max(1) * BATCH;
        let mut fitting = Fitting::default();
        let mut stream = source.stream(self.card.wanted(), threads).map_err(fail)?;
        while let Some(chunk) = stream.next(most) {
            let mut chunk = chunk.map_err(fail)?;
            let probabilities = self.probabilities(chunk.raw(self.card.values), threads)?;
            fitting.add(&chunk.fitting);
            take(Predicted {
                indices: &chunk.indices,
                probabilities: &probabilities,
                skipped: &chunk.skipped,
            })?;
        }
        Ok(fitting)
    }

    /// Writes the probabilities of as many images as there is room for, from the `first` on.
    fn fill(&self, images: &dyn Samples, first: usize, out: &mut [f64]) {
        let classes = self.card.classes.len();
        let mut work: Workspace = self.network.workspace(BATCH);
        let (mut inputs, mut indices) = (Vec::new(), Vec::new());
        // They only say how many images there are.
        let no_labels = [0; BATCH];
        for (nth, rows) in out.chunks_mut(BATCH * classes).enumerate() {
            let start = first + nth * BATCH;
            let count = rows.len() / classes;
            indices.clear();
            indices.extend((start..start + count).map(|i| i as u32));
            inputs.resize(count * images.shape().len(), 0.0);
            images.gather(&indices, &mut inputs);
            let batch = Batch { inputs: &inputs, labels: &no_labels[..count] };
            let output = self.network.forward(Pass::Eval(&self.model), &batch, &mut work);
            for (logits, row) in output.logits.chunks(classes).zip(rows.chunks_mut(classes)) {
                // Beyond all bounds there is nothing to choose between, whatever the shares would be.
                if logits.iter().all(|x| x.is_finite()) {
                    probabilities(logits, row);
                } else {
                    row.fill(f64::NAN);
                }
            }
        }
    }

    fn refuse(&self, found: String) -> ModelError {
        ModelError::Malformed {
            origin: self.origin.clone(),
            found,
            remedy: "train again with a smaller rate, or take another model".into(),
        }
    }
}

/// The most probable class; of several, the first.
pub fn best(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (class, p) in probabilities.iter().enumerate() {
        if *p > probabilities[best] {
            best = class;
        }
    }
    best
}

/// The `count` most probable classes, most probable first and equal ones in their own order.
pub fn ranking(probabilities: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_data::Normalisation;
    use formant_numerics::{NetworkSpec, Rng, Shape, Stream};

    fn predictor(spec: NetworkSpec) -> Predictor {
        let network = spec.build(Shape::new(1, 28, 28), 10).unwrap();
        let card = Card {
            network: spec,
            input: network.input(),
            normalisation: vec![Normalisation::new(0.1307, 0.3081)],
            classes: (0..10).map(|c| c.to_string()).collect(),
            ..Card::default()
        };
        let model = network.init(&mut Rng::new(3, Stream::Init, 0, 0));
        Predictor::new(ModelFile { card, model }, "memory").unwrap()
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let predictor = predictor(NetworkSpec::named("lenet5"));
        let pixels: Vec<u8> = (0..784 * 200_u64).map(|i| (i * i % 251) as u8).collect();
        let one = predictor.probabilities(pixels.clone(), 1).unwrap();
        assert_eq!(one.len(), 2_000);
        for threads in [2, 3, 7, 100] {
            let many = predictor.probabilities(pixels.clone(), threads).unwrap();
            assert_eq!(one, many, "{threads} threads");
        }
        for row in one.chunks(10) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
        }
    }

    #[test]
    fn no_image_gives_nothing_and_half_an_image_is_refused() {
        let predictor = predictor(NetworkSpec::named("logistic"));
        assert!(predictor.probabilities(Vec::<u8>::new(), 4).unwrap().is_empty());
        let message = predictor.probabilities(vec![0_u8; 785], 1).unwrap_err().to_string();
        assert!(message.contains("785"), "{message}");
    }

    #[test]
    fn values_beyond_all_bounds_are_refused() {
        let mut broken = predictor(NetworkSpec::named("logistic"));
        broken.model.parameters.fill(f32::MAX);
        let message = broken.probabilities(vec![255_u8; 784], 1).unwrap_err().to_string();
        assert!(message.contains("not finite for sample 0"), "{message}");
    }

    #[test]
    fn logits_that_differ_by_a_bit_keep_their_order() {
        let (low, high) = (7.000_000_f32, 7.000_000_5_f32);
        assert!(high > low);
        let mut row = [0.0; 3];
        probabilities(&[low, high, low], &mut row);
        assert_eq!(best(&row), 1);
        assert!(row[1] > row[0]);
        assert_eq!(ranking(&row, 2), [1, 0]);
    }
}
