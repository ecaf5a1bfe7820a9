//! A client's own data, in whatever format it has them, for a federation that is described.

use crate::holding::Holding;
use crate::images::Images;
use crate::reading::{Memory, Outline, Pouring, bytes_of, name_of, pour};
use crate::source::{Classes, Parts};
use crate::split::stratified;
use crate::{
    ClientData, DataError, Dataset, Description, Floats, Progress, Reading, Samples, Share, Source,
    SourceOptions, Values, Wanted,
};
use formant_numerics::{Rng, Stream};
use std::path::Path;
use std::sync::Arc;

/// How a client divides data that do not say what is for training and what for testing.
#[derive(Debug, Clone, Copy)]
pub struct OwnSplit {
    /// Share of the samples that it trains on.
    pub train_fraction: f64,
    /// Share for choosing settings. What is left is its test set.
    pub validation_fraction: f64,
    /// The seed of all draws.
    pub seed: u64,
    /// The client's place.
    pub client: usize,
}

impl Description {
    /// Reads a client's own data, brought into what is described: pictures resized, classes matched by their
    /// names, rows of a table encoded by the schema.
    ///
    /// A share of `formant data export` says itself what is for training; other data with a test part are
    /// tested on that; all others are divided class by class.
    pub fn own(
        &self,
        path: &Path,
        reading: &Reading,
        split: OwnSplit,
        progress: Progress<'_>,
    ) -> Result<(Dataset, ClientData), DataError> {
        if path.is_file() && Source::is_share(path)? {
            return Share::read(path)?.into_dataset(name_of(path), self);
        }
        let options = SourceOptions { schema: self.schema.clone(), ..reading.options.clone() };
        let parts = Parts::open(path, &options)?;
        let classes = self.matched(&parts)?;
        let size = parts.len() as u64 * bytes_of(Wanted { shape: self.shape, values: self.values });
        if let Some(memory) = reading.memory.filter(|memory| size > *memory) {
            return Err(DataError::Input {
                place: path.display().to_string(),
                found: format!(
                    "its samples take {} MiB in memory, and {} MiB are free",
                    size >> 20,
                    memory >> 20
                ),
                remedy: "bring fewer samples".into(),
            });
        }
        let mut memory = Memory::default();
        let poured = Pouring {
            parts: &parts,
            wanted: Wanted { shape: self.shape, values: self.values },
            classes,
            is_test: vec![false; parts.train.len()],
            threads: reading.threads,
            normalisation: None,
            remarks: Vec::new(),
        };
        let Outline { labels: [train, test], .. } = pour(poured, &mut memory, progress)?;
        let client = split.divide(&train, test.len());
        let labels = [train, test].concat();
        let samples: Arc<dyn Samples> = match self.values {
            Values::Bytes => {
                let pixels = joined(memory.bytes);
                Arc::new(Images::new(self.shape, pixels, labels, &self.normalisation)?)
            }
            Values::Floats => {
                let values = joined(memory.floats);
                Arc::new(Floats::new(self.shape, values, labels, &self.normalisation)?)
            }
        };
        let described = Dataset::described(name_of(path), self)?;
        Ok((Dataset { train: samples, ..described }, client))
    }

    /// What the labels of a client's data mean here: by name where they have names, else by number.
    fn matched(&self, parts: &Parts) -> Result<Classes, DataError> {
        let of = |source: &Source| -> Result<Vec<u16>, DataError> {
            let refuse = |found: String| DataError::Input {
                place: source.origin().to_owned(),
                found,
                remedy: format!("the federation has the classes {}", listed(&self.class_names)),
            };
            if let Some(names) = source.class_names() {
                let place = |name: &String| {
                    let place = self.class_names.iter().position(|known| known == name);
                    let unknown = || refuse(format!("it has the class {name:?}"));
                    place.map(|place| place as u16).ok_or_else(unknown)
                };
                return names.iter().map(place).collect();
            }
            let labels = source.labels()?;
            let most = labels.iter().max().map_or(0, |&label| usize::from(label) + 1);
            // Where all names are numbers, a label is a name.
            let are_numbers = self.class_names.iter().all(|name| name.parse::<u32>().is_ok());
            let place = |label: u16| {
                if are_numbers {
                    self.class_names.iter().position(|name| name.parse() == Ok(label))
                } else {
                    Some(usize::from(label)).filter(|&label| label < self.class_names.len())
                }
            };
            if let Some(i) = labels.iter().position(|&label| place(label).is_none()) {
                return Err(refuse(format!("the label {} of {}", labels[i], source.name(i))));
            }
            let places = (0..=u16::MAX).take(most);
            Ok(places.map(|label| place(label).unwrap_or_default() as u16).collect())
        };
        let of_train = of(&parts.train)?;
        let of_test = parts.test.as_ref().map(of).transpose()?.unwrap_or_default();
        Ok(Classes { names: self.class_names.clone(), of_train, of_test })
    }
}

impl OwnSplit {
    /// Which of the samples are which, of some to divide and some that are for testing.
    fn divide(&self, labels: &[u16], tested: usize) -> ClientData {
        let mut held = Holding::default();
        for (i, &label) in (0u32..).zip(labels) {
            held.add(label, &[i]);
        }
        let mut rng = Rng::new(self.seed, Stream::Split, 0, self.client as u64);
        let (train, validation) = (self.train_fraction, self.validation_fraction);
        let fractions = if tested > 0 {
            let all = train + validation;
            [train / all, validation / all, 0.0]
        } else {
            [train, validation, (1.0 - train - validation).max(0.0)]
        };
        let mut data = stratified(held, fractions, &mut rng);
        let first = labels.len() as u32;
        data.test.extend(first..first + tested as u32);
        data
    }
}

/// Both sets, one after the other.
fn joined<T>([mut first, then]: [Vec<T>; 2]) -> Vec<T> {
    first.extend(then);
    first
}

/// The first names of a list.
fn listed(names: &[String]) -> String {
    let shown =
        names.iter().take(12).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=12 => shown,
        more => format!("{shown} and {} more", more - 12),
    }
}
