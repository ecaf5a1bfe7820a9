//! A file of `formant data import`, for whoever reads samples one after another.

use super::format::{Format, Parts};
use super::share::{check_channels, place};
use super::{Chunk, Content, Reader, Source, SourceOptions, Wanted, refusal};
use crate::{DataError, Dataset, Split, Values, mapped};
use formant_numerics::Samples;
use std::path::Path;
use std::sync::Arc;

pub(crate) const FORMAT: Format = Format {
    name: "formant",
    summary: "one file that is mapped and not read, as `formant data import` writes it",
    is_it: |sight| Dataset::is_mapped(&sight.path),
    open: |sight, _| Ok(parts(sight.path.display().to_string(), &mapped::open(&sight.path)?)),
};

/// Opens the test samples or the training samples.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let parts = parts(path.display().to_string(), &mapped::open(path)?);
    match (options.split, parts.test) {
        (Split::Train, _) => Ok(parts.train),
        (Split::Test, Some(test)) => Ok(test),
        (Split::Test, None) => {
            Err(refusal(path.display(), "it has no test samples".into(), "choose --split train"))
        }
        (Split::Validation | Split::All, _) => Err(refusal(
            path.display(),
            "it has a train and a test part".into(),
            "choose one of them with --split",
        )),
    }
}

/// Both parts of a dataset that is there already.
pub(crate) fn parts(origin: String, dataset: &Dataset) -> Parts {
    let train = source(origin.clone(), dataset, &dataset.train);
    let test = (!dataset.test.is_empty()).then(|| source(origin, dataset, &dataset.test));
    let owners = dataset.owners.as_deref().cloned();
    Parts { train: Source { owners, ..train }, test }
}

fn source(origin: String, dataset: &Dataset, samples: &Arc<dyn Samples>) -> Source {
    let content = Kept { samples: samples.clone(), values: dataset.values };
    Source {
        shape: Some(dataset.shape),
        class_names: Some(dataset.class_names.clone()),
        values: dataset.values,
        normalisation: Some(samples.normalisation().to_vec()),
        schema: dataset.schema.clone(),
        ..Source::new(origin, "dataset", samples.len(), Ok(samples.labels()), content)
    }
}

/// Samples of a dataset.
#[derive(Clone)]
struct Kept {
    samples: Arc<dyn Samples>,
    values: Values,
}

impl Content for Kept {
    fn reader(&self, wanted: Wanted, _threads: usize) -> Result<Box<dyn Reader>, DataError> {
        let own = self.samples.shape();
        if wanted.values != self.values {
            let word = |values| if values == Values::Bytes { "pixels" } else { "real numbers" };
            return Err(refusal(
                "the samples",
                format!("they are {}, and {} are wanted", word(self.values), word(wanted.values)),
                "give data like those that the model was trained on",
            ));
        }
        match self.values {
            Values::Bytes => check_channels(own, wanted.shape, "the samples")?,
            Values::Floats if own != wanted.shape => {
                return Err(refusal(
                    "the samples",
                    format!("they have the shape {own} where {} is wanted", wanted.shape),
                    "give data like those that the model was trained on",
                ));
            }
            Values::Floats => {}
        }
        Ok(Box::new(KeptReader { kept: self.clone(), wanted, next: 0 }))
    }
}

struct KeptReader {
    kept: Kept,
    wanted: Wanted,
    next: usize,
}

impl Reader for KeptReader {
    fn read(&mut self, most: usize, chunk: &mut Chunk) -> Result<(), DataError> {
        let samples = &self.kept.samples;
        for i in self.next..samples.len().min(self.next + most) {
            if let Some(bytes) = samples.bytes(i) {
                place(&bytes, samples.shape(), self.wanted.shape, chunk);
            } else if let Some(floats) = samples.floats(i) {
                chunk.floats.extend_from_slice(&floats);
            }
            chunk.indices.push(i);
            self.next = i + 1;
        }
        Ok(())
    }
}
