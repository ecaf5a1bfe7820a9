//! A dataset of the catalogue.

use super::format::Parts;
use super::{Source, mapped, refusal};
use crate::{CatalogueEntry, DataError, Dataset, Split};
use std::path::Path;

/// Opens the global test set or the training images of a dataset.
pub(crate) fn open(name: &str, dir: Option<&Path>, split: Split) -> Result<Source, DataError> {
    let parts = Parts::known(CatalogueEntry::named(name)?, dir)?;
    match (split, parts.test) {
        (Split::Train, _) => Ok(parts.train),
        (Split::Test, Some(test)) => Ok(test),
        _ => Err(refusal(
            name,
            "a dataset has a train and a test part".into(),
            "choose one of them with --split",
        )),
    }
}

impl Parts {
    /// A dataset of the [`CATALOGUE`](crate::CATALOGUE).
    pub fn known(entry: &CatalogueEntry, dir: Option<&Path>) -> Result<Self, DataError> {
        Ok(mapped::parts(entry.name.to_owned(), &Dataset::load(entry.name, dir)?))
    }
}
