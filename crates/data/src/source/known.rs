//! A dataset of the catalogue.

use super::share::Memory;
use super::{Source, refusal};
use crate::{DataError, Dataset, Split};
use std::borrow::Cow;
use std::path::Path;

/// Opens the global test set or the training images of a dataset.
pub(crate) fn open(name: &str, dir: Option<&Path>, split: Split) -> Result<Source, DataError> {
    let dataset = Dataset::load(name, dir)?;
    let images = match split {
        Split::Train => dataset.train,
        Split::Test => dataset.test,
        Split::Validation | Split::All => {
            return Err(refusal(
                name,
                "a dataset has a train and a test part".into(),
                "choose one of them with --split",
            ));
        }
    };
    // Every dataset of the catalogue is kept as bytes.
    let bytes = (0..images.len()).filter_map(|i| images.bytes(i));
    let pixels: Vec<u8> = bytes.flat_map(Cow::into_owned).collect();
    let content = Memory { shape: images.shape(), pixels: pixels.into() };
    Ok(Source {
        shape: Some(images.shape()),
        class_names: Some(dataset.class_names),
        ..Source::new(name.to_owned(), "dataset", images.len(), Ok(images.labels()), content)
    })
}
