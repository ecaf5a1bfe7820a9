//! The datasets that are known by name.

use crate::folder::holds_all;
use crate::{DataError, Description, Normalisation, Values, cifar};
use formant_numerics::Shape;
use std::path::Path;

/// One dataset of the catalogue.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// The name by which an experiment asks for it.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The shape of one image.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// A name for every class.
    pub class_names: &'static [&'static str],
    /// One normalisation per channel.
    pub normalisation: &'static [Normalisation],
    /// The folder of its files below the data folder; empty when it needs none.
    pub folder: &'static str,
    /// Its files, training files first; empty when it needs none.
    pub files: &'static [&'static str],
    /// How the files are read.
    pub(crate) format: Format,
    /// Most samples a training file and a test file hold: this bounds what is read into memory,
    /// even if the header of a file claims more.
    pub(crate) most_samples: [usize; 2],
}

/// How the files of a set are read.
#[derive(Debug)]
pub(crate) enum Format {
    /// Compiled into the library, in the IDX format.
    Embedded,
    /// Images and labels in separate files.
    Idx,
    /// The binary or the Python version of CIFAR, unpacked or not.
    Cifar,
}

/// Every dataset that [`Dataset::load`](crate::Dataset::load) knows.
///
/// ```
/// let names: Vec<_> = formant_data::CATALOGUE.iter().map(|entry| entry.name).collect();
/// assert_eq!(names, ["mnist-small", "mnist", "fashion-mnist", "cifar10", "cifar100"]);
/// ```
pub const CATALOGUE: &[CatalogueEntry] = &[
    CatalogueEntry {
        name: "mnist-small",
        summary: "10,000 handwritten digits of MNIST, balanced, built in: needs no files",
        shape: Shape::new(1, 28, 28),
        classes: 10,
        class_names: DIGITS,
        normalisation: MNIST_NORMALISATION,
        folder: "",
        files: &[],
        format: Format::Embedded,
        most_samples: [8_000, 2_000],
    },
    CatalogueEntry {
        name: "mnist",
        summary: "70,000 handwritten digits",
        shape: Shape::new(1, 28, 28),
        classes: 10,
        class_names: DIGITS,
        normalisation: MNIST_NORMALISATION,
        folder: "MNIST/raw",
        files: &IDX_FILES,
        format: Format::Idx,
        most_samples: [60_000, 10_000],
    },
    CatalogueEntry {
        name: "fashion-mnist",
        summary: "70,000 pieces of clothing, in the format of MNIST",
        shape: Shape::new(1, 28, 28),
        classes: 10,
        class_names: CLOTHES,
        normalisation: &[Normalisation::new(0.2860, 0.3530)],
        folder: "FashionMNIST/raw",
        files: &IDX_FILES,
        format: Format::Idx,
        most_samples: [60_000, 10_000],
    },
    CatalogueEntry {
        name: "cifar10",
        summary: "60,000 colour photographs of 10 kinds of thing",
        shape: Shape::new(3, 32, 32),
        classes: 10,
        class_names: CIFAR10_CLASSES,
        normalisation: &[
            Normalisation::new(0.4914, 0.2470),
            Normalisation::new(0.4822, 0.2435),
            Normalisation::new(0.4465, 0.2616),
        ],
        folder: "cifar-10-batches-bin",
        files: &[
            "data_batch_1.bin",
            "data_batch_2.bin",
            "data_batch_3.bin",
            "data_batch_4.bin",
            "data_batch_5.bin",
            "test_batch.bin",
        ],
        format: Format::Cifar,
        most_samples: [10_000, 10_000],
    },
    CatalogueEntry {
        name: "cifar100",
        summary: "60,000 colour photographs of 100 kinds of thing (fine labels)",
        shape: Shape::new(3, 32, 32),
        classes: 100,
        class_names: CIFAR100_CLASSES,
        normalisation: &[
            Normalisation::new(0.5071, 0.2673),
            Normalisation::new(0.4865, 0.2564),
            Normalisation::new(0.4409, 0.2762),
        ],
        folder: "cifar-100-binary",
        files: &["train.bin", "test.bin"],
        format: Format::Cifar,
        most_samples: [50_000, 10_000],
    },
];

impl CatalogueEntry {
    /// The entry of a name.
    pub fn named(name: &str) -> Result<&'static Self, DataError> {
        CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| DataError::UnknownDataset {
            name: name.to_string(),
            known: CATALOGUE.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// Whether all its files are in a data folder, in any form in which they are read.
    ///
    /// ```
    /// let entry = formant_data::CatalogueEntry::named("mnist-small")?;
    /// assert!(entry.is_in(std::path::Path::new("nowhere")));
    /// # Ok::<(), formant_data::DataError>(())
    /// ```
    pub fn is_in(&self, data_dir: &Path) -> bool {
        let places = [data_dir.join(self.folder), data_dir.into()];
        self.files.is_empty()
            || places.iter().any(|place| holds_all(place, self.files))
            || cifar::is_in(self, data_dir)
    }

    /// What is known of the dataset without its files.
    pub fn description(&self) -> Description {
        Description {
            shape: self.shape,
            class_names: self.class_names.iter().map(ToString::to_string).collect(),
            normalisation: self.normalisation.to_vec(),
            values: Values::Bytes,
            schema: None,
        }
    }
}

/// The catalogue has a name once.
impl PartialEq for CatalogueEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// What is known of a dataset of the [`CATALOGUE`] without its files. A client that holds its own
/// data needs no more.
///
/// ```
/// let cifar = formant_data::description("cifar10")?;
/// assert_eq!((cifar.shape.channels, cifar.class_names.len()), (3, 10));
/// # Ok::<(), formant_data::DataError>(())
/// ```
pub fn description(name: &str) -> Result<Description, DataError> {
    Ok(CatalogueEntry::named(name)?.description())
}

const MNIST_NORMALISATION: &[Normalisation] = &[Normalisation::new(0.1307, 0.3081)];

/// Images and labels of train, images and labels of test.
pub(crate) const IDX_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

const DIGITS: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

const CLOTHES: &[&str] = &[
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
];

const CIFAR10_CLASSES: &[&str] =
    &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

#[rustfmt::skip]
const CIFAR100_CLASSES: &[&str] = &[
    "apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple tree", "motorcycle", "mountain", "mouse", "mushroom", "oak tree", "orange", "orchid",
    "otter", "palm tree", "pear", "pickup truck", "pine tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow tree", "wolf", "woman",
    "worm",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_consistent() {
        for entry in CATALOGUE {
            assert_eq!(entry.class_names.len(), entry.classes, "{}", entry.name);
            assert_eq!(entry.normalisation.len(), entry.shape.channels, "{}", entry.name);
            assert_eq!(entry.files.is_empty(), entry.folder.is_empty(), "{}", entry.name);
        }
        assert!(CIFAR100_CLASSES.is_sorted());
    }
}
