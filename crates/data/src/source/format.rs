//! The formats that data come in: one file each.

use super::sight::Sight;
use super::table::csv;
use super::{
    Source, SourceOptions, Wanted, cifar, idx, image_folder, inaturalist, leaf, mapped, npy, npz,
    parquet, refusal, share,
};
use crate::{DataError, Split};
use formant_numerics::Shape;
use std::path::Path;

/// A format that data come in.
pub struct Format {
    /// What messages call it.
    pub name: &'static str,
    /// What it looks like, in one line.
    pub summary: &'static str,
    /// Whether something is in this format, by what can be seen of it.
    pub(crate) is_it: fn(&Sight) -> bool,
    /// Opens it: looks at it, and reads labels but no samples.
    pub(crate) open: fn(&Sight, &SourceOptions) -> Result<Parts, DataError>,
}

/// Data to train on, opened and not yet read.
#[derive(Debug)]
pub struct Parts {
    /// What is divided among the clients.
    pub train: Source,
    /// The global test set, if the data have one.
    pub test: Option<Source>,
}

/// Every format, in the order in which they are tried: a folder of images may look like anything, so it
/// comes last.
pub const FORMATS: &[Format] = &[
    mapped::FORMAT,
    idx::FORMAT,
    cifar::ARCHIVE_FORMAT,
    npz::FORMAT,
    npy::FORMAT,
    csv::FORMAT,
    csv::FOLDER_FORMAT,
    parquet::FORMAT,
    parquet::FOLDER_FORMAT,
    share::FORMAT,
    share::FOLDER_FORMAT,
    idx::FOLDER_FORMAT,
    cifar::FORMAT,
    inaturalist::FORMAT,
    leaf::FORMAT,
    image_folder::FORMAT,
];

/// The classes of both parts, by the names of the training part.
pub(crate) struct Classes {
    /// A name for every class.
    pub(crate) names: Vec<String>,
    /// What the labels of the training part mean.
    pub(crate) of_train: Vec<u16>,
    /// What the labels of the test part mean.
    pub(crate) of_test: Vec<u16>,
}

impl Parts {
    /// Opens data, whatever their format.
    pub fn open(path: &Path, options: &SourceOptions) -> Result<Self, DataError> {
        let sight = Sight::of(path)?;
        if sight.kind() == Some(super::Kind::Image) {
            return Err(refusal(
                path.display(),
                "it is one picture".into(),
                "name a folder with a folder for each class: CLASS/IMAGE.png",
            ));
        }
        (Format::of(&sight)?.open)(&sight, options)
    }

    /// One part; everything, if there is only one.
    pub(crate) fn part(self, split: Split) -> Result<Source, DataError> {
        match (split, self.test) {
            (Split::Train, _) | (_, None) => Ok(self.train),
            (Split::Test, Some(test)) => Ok(test),
            (Split::Validation | Split::All, Some(_)) => Err(refusal(
                self.train.origin(),
                "it has a train and a test part".into(),
                "choose one of them with --split",
            )),
        }
    }

    /// Number of samples in both parts.
    pub fn len(&self) -> usize {
        self.train.len() + self.test.as_ref().map_or(0, Source::len)
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the samples are brought into, and what that means for them if nobody has said so.
    pub(crate) fn wanted(
        &self,
        options: &SourceOptions,
    ) -> Result<(Wanted, Option<String>), DataError> {
        let train = &self.train;
        let values = train.values();
        if let Some((shape, why)) = train.content.suitable(options.size)? {
            return Ok((Wanted { shape, values }, why));
        }
        let Some(own) = train.shape() else {
            return Err(refusal(
                train.origin(),
                "its extents do not say which of them are channels".into(),
                "give (n, channels, height, width), in Python images.transpose(0, 3, 1, 2)",
            ));
        };
        let shape = match options.size {
            Some(size) if values.are_bytes() => {
                Shape { height: size.height, width: size.width, ..own }
            }
            Some(_) => {
                return Err(refusal(
                    train.origin(),
                    "data.size is given for data that are not pictures".into(),
                    "remove data.size",
                ));
            }
            None => own,
        };
        // A fourth channel is alpha.
        let channels = if values.are_bytes() && shape.channels == 4 { 3 } else { shape.channels };
        Ok((Wanted { shape: Shape { channels, ..shape }, values }, None))
    }

    /// The classes of both parts, of which there are two or more.
    pub(crate) fn classes(&self) -> Result<Classes, DataError> {
        let classes = self.all_classes()?;
        match classes.names.as_slice() {
            [] | [_] => Err(refusal(
                self.train.origin(),
                format!("all its samples are of one class, {:?}", classes.names.concat()),
                "there is nothing to learn: give samples of two classes or more",
            )),
            _ => Ok(classes),
        }
    }

    fn all_classes(&self) -> Result<Classes, DataError> {
        let train = &self.train;
        let most = |source: &Source| -> Result<usize, DataError> {
            Ok(source.labels()?.iter().max().map_or(0, |&label| usize::from(label) + 1))
        };
        let Some(test) = &self.test else {
            let names = match train.class_names() {
                Some(names) => names.to_vec(),
                None => numbered(most(train)?),
            };
            return Ok(Classes { of_train: places(names.len()), names, of_test: Vec::new() });
        };
        match (train.class_names(), test.class_names()) {
            (Some(names), Some(others)) => {
                let place = |other: &String| {
                    let place = names.iter().position(|name| name == other);
                    place.map(|place| place as u16).ok_or_else(|| {
                        refusal(
                            test.origin(),
                            format!("it has the class {other:?}, which {} has not", train.origin()),
                            "train on every class that is tested, or remove it from the test set",
                        )
                    })
                };
                let of_test = others.iter().map(place).collect::<Result<_, _>>()?;
                Ok(Classes { names: names.to_vec(), of_train: places(names.len()), of_test })
            }
            (named, _) => {
                let count = most(train)?.max(most(test)?);
                let names = named.map_or_else(|| numbered(count), <[String]>::to_vec);
                let (of_train, of_test) = (places(names.len()), places(names.len()));
                Ok(Classes { names, of_train, of_test })
            }
        }
    }
}

/// Every class means itself.
fn places(count: usize) -> Vec<u16> {
    (0..=u16::MAX).take(count).collect()
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|class| class.to_string()).collect()
}

impl Format {
    /// The format of what is at a path.
    pub fn at(path: &Path) -> Result<&'static Self, DataError> {
        Self::of(&Sight::of(path)?)
    }

    /// The format of what is there.
    pub(crate) fn of(sight: &Sight) -> Result<&'static Self, DataError> {
        FORMATS.iter().find(|format| (format.is_it)(sight)).ok_or_else(|| sight.unknown())
    }
}
