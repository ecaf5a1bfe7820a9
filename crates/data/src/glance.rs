//! A first look at data: enough to say what kind of experiment suits them.

use crate::source::Parts;
use crate::{CatalogueEntry, DataError, Dataset, Reading, Samples, Values};
use formant_numerics::Shape;
use std::path::Path;

/// What a first look shows. No sample is decoded for it, where the format allows that.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    /// What the data are called.
    pub name: String,
    /// Their format, in a word or two.
    pub format: String,
    /// The shape of one sample.
    pub shape: Shape,
    /// What samples are made of.
    pub values: Values,
    /// Number of classes.
    pub classes: usize,
    /// Samples to be divided among the clients.
    pub train: usize,
    /// Samples of the global test set, given or split off.
    pub test: usize,
    /// Samples of the largest class among those to be divided.
    pub largest_class: usize,
    /// Clients that exist already.
    pub clients: Option<usize>,
    /// What was decided that the files do not say.
    pub remarks: Vec<String>,
}

impl Glance {
    /// Looks at a known dataset, or at a file or folder.
    pub fn at(source: &str, dir: Option<&Path>, reading: &Reading) -> Result<Self, DataError> {
        let path = Path::new(source);
        if CatalogueEntry::named(source).is_ok() || Dataset::is_mapped(path) || !path.exists() {
            // A mapped file is opened in no time, and known datasets are small.
            let dataset = Dataset::find(source, dir, reading, &mut |_, _| {})?;
            return Ok(Self::of(&dataset));
        }
        let parts = Parts::open(path, &reading.options)?;
        let (wanted, remark) = parts.wanted(&reading.options)?;
        let (is_test, tested) = parts.tested(reading.test_fraction)?;
        let labels = parts.train.labels()?;
        let kept = labels.iter().zip(&is_test).filter(|(_, is_test)| !**is_test);
        let split_off = is_test.iter().filter(|is_test| **is_test).count();
        Ok(Self {
            name: crate::reading::name_of(path),
            format: parts.train.format().into(),
            shape: wanted.shape,
            values: wanted.values,
            classes: parts.classes()?.names.len(),
            train: labels.len() - split_off,
            test: split_off + parts.test.as_ref().map_or(0, crate::Source::len),
            largest_class: largest(kept.map(|(label, _)| usize::from(*label))),
            clients: parts.train.owners().map(|owners| owners.names.len()),
            remarks: remark.into_iter().chain(tested).collect(),
        })
    }

    /// Looks at a dataset that is there.
    pub fn of(dataset: &Dataset) -> Self {
        let train: &dyn Samples = &*dataset.train;
        Self {
            name: dataset.name.clone(),
            format: "dataset".into(),
            shape: dataset.shape,
            values: dataset.values,
            classes: dataset.classes,
            train: train.len(),
            test: dataset.test.len(),
            largest_class: largest((0..train.len()).map(|i| train.label(i))),
            clients: dataset.owners.as_ref().map(|owners| owners.names.len()),
            remarks: dataset.remarks.clone(),
        }
    }

    /// Whether samples are rows of features, not pictures.
    pub fn is_table(&self) -> bool {
        self.shape.plane() == 1
    }
}

fn largest(labels: impl Iterator<Item = usize>) -> usize {
    let mut counts: Vec<usize> = Vec::new();
    for label in labels {
        if counts.len() <= label {
            counts.resize(label + 1, 0);
        }
        counts[label] += 1;
    }
    counts.into_iter().max().unwrap_or_default()
}
