//! A dataset: training samples, test samples and the names of the classes.

use crate::catalogue::{CatalogueEntry, Format};
use crate::folder::Folder;
use crate::{
    DataError, Description, Floats, Images, Schema, Values, cifar, data_dir, embedded, idx,
};
use formant_numerics::{Samples, Shape};
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Training and test samples of the same shape and classes.
#[derive(Debug, Clone)]
pub struct Dataset {
    /// The name under which it is known.
    pub name: String,
    /// The shape of one sample.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// A name for every class.
    pub class_names: Vec<String>,
    /// The samples that are divided among the clients.
    pub train: Arc<dyn Samples>,
    /// The global test set, of which nothing reaches a client.
    pub test: Arc<dyn Samples>,
    /// What samples are made of.
    pub values: Values,
    /// How a row becomes a sample, of data that come as a table.
    pub schema: Option<Schema>,
    /// Whose the training samples are, where the data say so.
    pub owners: Option<Arc<Owners>>,
    /// What was decided about the data that its files do not say, for whoever runs an experiment on it.
    pub remarks: Vec<String>,
}

/// Samples of a part that a hash looks at.
const LOOKED_AT: usize = 128;

/// Whose samples these are: clients that exist already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// What the clients are called.
    pub names: Vec<String>,
    /// The client of each sample, as an index into the names.
    pub of: Vec<u32>,
}

impl Dataset {
    /// Reads a set of the [`CATALOGUE`](crate::CATALOGUE) from [`data_dir`], where its files may
    /// lie in torchvision's layout or directly in the folder, plain or compressed with gzip. CIFAR may be
    /// the binary or the Python version, unpacked or as the archive that is handed out.
    ///
    /// ```
    /// let digits = formant_data::Dataset::load("mnist-small", None)?;
    /// assert_eq!((digits.train.len(), digits.test.len(), digits.classes), (8_000, 2_000, 10));
    /// # Ok::<(), formant_data::DataError>(())
    /// ```
    pub fn load(name: &str, data_dir: Option<&Path>) -> Result<Self, DataError> {
        let entry = CatalogueEntry::named(name)?;
        let data_dir = self::data_dir(data_dir);
        let (train, test) = match &entry.format {
            Format::Embedded => embedded::load(entry)?,
            Format::Idx => idx::load(entry, &Folder::open(entry, &data_dir)?)?,
            Format::Cifar => cifar::load(entry, &data_dir)?,
        };
        let class_names = entry.class_names.iter().map(ToString::to_string).collect();
        Self::from_parts(entry.name, class_names, train, test)
    }

    /// A dataset of which nothing is there but its description.
    pub fn described(
        name: impl Into<String>,
        description: &Description,
    ) -> Result<Self, DataError> {
        description.check()?;
        let Description { shape, class_names, normalisation, values, schema } = description.clone();
        let none: Arc<dyn Samples> = match values {
            Values::Bytes => Arc::new(Images::new(shape, Vec::new(), Vec::new(), &normalisation)?),
            Values::Floats => Arc::new(Floats::new(shape, Vec::new(), Vec::new(), &normalisation)?),
        };
        Ok(Self {
            name: name.into(),
            shape,
            classes: class_names.len(),
            class_names,
            train: none.clone(),
            test: none,
            values,
            schema,
            owners: None,
            remarks: Vec::new(),
        })
    }

    /// A hash of shape, classes, normalisation and labels, and of samples here and there, by which other data are
    /// noticed; none without training samples.
    pub fn check(&self) -> Option<String> {
        if self.train.is_empty() {
            return None;
        }
        let mut hash = Xxh3::new();
        hash.update(format!("{} {:?}", self.shape, self.class_names).as_bytes());
        let mut sample = vec![0.0; self.shape.len()];
        for part in [&self.train, &self.test] {
            for n in part.normalisation() {
                hash.update(&n.mean.to_le_bytes());
                hash.update(&n.std.to_le_bytes());
            }
            for i in 0..part.len() {
                hash.update(&(part.label(i) as u16).to_le_bytes());
            }
            for i in (0..part.len()).step_by(part.len().div_ceil(LOOKED_AT).max(1)) {
                part.gather(&[i as u32], &mut sample);
                for value in &sample {
                    hash.update(&value.to_le_bytes());
                }
            }
        }
        Some(format!("{:016x}", hash.digest()))
    }

    /// What is known of it without its samples.
    pub fn description(&self) -> Description {
        Description {
            shape: self.shape,
            class_names: self.class_names.clone(),
            normalisation: self.train.normalisation().to_vec(),
            values: self.values,
            schema: self.schema.clone(),
        }
    }

    /// A dataset made in memory. The number of names is the number of classes.
    ///
    /// ```
    /// use formant_data::{Dataset, Images, Normalisation};
    /// use formant_numerics::Shape;
    ///
    /// let images = |count: usize| {
    ///     let labels = (0..count).map(|i| (i % 2) as u16).collect();
    ///     Images::new(Shape::new(1, 1, 1), vec![0; count], labels, &[Normalisation::NONE])
    /// };
    /// let names = vec!["even".to_string(), "odd".to_string()];
    /// let dataset = Dataset::from_parts("parity", names, images(100)?, images(10)?)?;
    /// assert_eq!(dataset.classes, 2);
    /// # Ok::<(), formant_data::DataError>(())
    /// ```
    pub fn from_parts(
        name: impl Into<String>,
        class_names: Vec<String>,
        train: impl Samples + 'static,
        test: impl Samples + 'static,
    ) -> Result<Self, DataError> {
        Self::assemble(name.into(), class_names, Arc::new(train), Arc::new(test))
    }

    /// The same of samples of any kind.
    pub(crate) fn assemble(
        name: String,
        class_names: Vec<String>,
        train: Arc<dyn Samples>,
        test: Arc<dyn Samples>,
    ) -> Result<Self, DataError> {
        let refuse =
            |key, value: String, remedy: String| Err(DataError::Parts { key, value, remedy });
        let classes = class_names.len();
        if classes == 0 || classes > usize::from(u16::MAX) + 1 {
            return refuse(
                "class_names.len()",
                classes.to_string(),
                format!("name between 1 and {} classes", usize::from(u16::MAX) + 1),
            );
        }
        if train.is_empty() {
            return refuse("train.len()", "0".into(), "give at least one training image".into());
        }
        if train.shape() != test.shape() {
            return refuse(
                "test.shape()",
                test.shape().to_string(),
                format!("the training images have the shape {}; use one for both", train.shape()),
            );
        }
        for (key, images) in [("train.labels()", &train), ("test.labels()", &test)] {
            if let Some(i) = (0..images.len()).find(|&i| images.label(i) >= classes) {
                return refuse(
                    key,
                    format!("[.., {} at {i}, ..]", images.label(i)),
                    format!("with {classes} class names, labels run from 0 to {}", classes - 1),
                );
            }
        }
        let values = if train.bytes(0).is_some() { Values::Bytes } else { Values::Floats };
        Ok(Self {
            name,
            shape: train.shape(),
            classes,
            class_names,
            train,
            test,
            values,
            schema: None,
            owners: None,
            remarks: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Normalisation;

    fn images(side: usize, labels: &[u16]) -> Images {
        let shape = Shape::new(1, side, side);
        let pixels = vec![0; shape.len() * labels.len()];
        Images::new(shape, pixels, labels.to_vec(), &[Normalisation::NONE]).unwrap()
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let names = |n: usize| vec![String::new(); n];
        let message = |names, train, test| {
            Dataset::from_parts("x", names, train, test).unwrap_err().to_string()
        };
        let cases = [
            (message(names(0), images(1, &[0]), images(1, &[])), "class_names.len() = 0"),
            (message(names(1), images(1, &[]), images(1, &[])), "train.len() = 0"),
            (message(names(1), images(1, &[0]), images(2, &[0])), "test.shape() = 1x2x2"),
            (message(names(2), images(1, &[0, 1]), images(1, &[2])), "test.labels() = [.., 2 at 0"),
        ];
        for (message, part) in cases {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_catalogue() {
        let message = Dataset::load("mnits", None).unwrap_err().to_string();
        assert!(message.contains("\"mnits\"") && message.contains("mnist-small"), "{message}");
    }

    #[test]
    fn the_embedded_set_is_balanced_and_normalised() {
        let digits = Dataset::load("mnist-small", None).unwrap();
        for (images, per_class) in [(&digits.train, 800), (&digits.test, 200)] {
            let mut counts = [0; 10];
            (0..images.len()).for_each(|i| counts[images.label(i)] += 1);
            assert_eq!(counts, [per_class; 10]);
        }
        assert_eq!(digits.shape, Shape::new(1, 28, 28));
        // The constants are those of the whole of MNIST: a fair subset comes close to 0 and 1.
        let indices: Vec<u32> = (0..8_000).collect();
        let mut values = vec![0.0; 8_000 * 784];
        digits.train.gather(&indices, &mut values);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        let square =
            values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02 && (square - mean * mean - 1.0).abs() < 0.03, "{mean} {square}");
    }
}
