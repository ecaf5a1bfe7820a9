//! CIFAR-10 and CIFAR-100 as they are handed out.

use super::format::{Format, Parts};
use super::share::Memory;
use super::sight::Sight;
use super::{Source, SourceOptions};
use crate::archive::is_tar;
use crate::cifar::Found;
use crate::{DataError, Portion};

pub(crate) const FORMAT: Format = Format {
    name: "CIFAR",
    summary: "CIFAR-10 or CIFAR-100 as Python pickles or binary files: data_batch_1…5 and test_batch, or train and test",
    is_it: |sight| matches!(in_folder(sight), Ok(Some(_))),
    open: |sight, _| match in_folder(sight)? {
        Some(found) => open(sight, &found),
        None => Err(sight.unknown()),
    },
};

pub(crate) const ARCHIVE_FORMAT: Format = Format {
    name: "CIFAR archive",
    summary: "the same as cifar-10-python.tar.gz, cifar-10-binary.tar.gz, cifar-100-…",
    is_it: |sight| is_tar(&sight.start),
    open: |sight, _: &SourceOptions| open(sight, &Found::packed(&sight.path)?),
};

fn in_folder(sight: &Sight) -> Result<Option<Found>, DataError> {
    Found::in_folder(&sight.path, |file| sight.holds(file))
}

/// Both parts. They are small enough to be read here and now: 180 MB.
fn open(sight: &Sight, found: &Found) -> Result<Parts, DataError> {
    let names = found.class_names()?;
    let [train, test] = found.parts(names.len())?;
    let entry = found.entry;
    let source = |part: Portion| {
        let content = Memory { shape: entry.shape, pixels: part.pixels.into() };
        let origin = sight.path.display().to_string();
        let count = part.labels.len();
        Source {
            shape: Some(entry.shape),
            class_names: Some(names.clone()),
            normalisation: Some(entry.normalisation.to_vec()),
            ..Source::new(origin, found.version(), count, Ok(part.labels), content)
        }
    };
    Ok(Parts { train: source(train), test: Some(source(test)) })
}
