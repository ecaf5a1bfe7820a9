//! IDX files of any shape, plain or compressed with gzip, labels in a file next to them.

use super::array::{Array, Element, Place, opened};
use super::format::{Format, Parts};
use super::sight::Sight;
use super::{Problem, Source, SourceOptions, npy, refusal};
use crate::DataError;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(crate) const FORMAT: Format = Format {
    name: "IDX",
    summary: "NAME-images-idx3-ubyte beside NAME-labels-idx1-ubyte, of any shape, plain or .gz",
    is_it: |sight| sight.kind() == Some(super::Kind::Idx),
    open: |sight, options| Ok(Parts { train: open(&sight.path, options)?, test: None }),
};

pub(crate) const FOLDER_FORMAT: Format = Format {
    name: "IDX folder",
    summary: "train-images-*, train-labels-*, and t10k-* or test-* for the test set",
    is_it: |sight| images_of(sight, &["train"]).is_some(),
    open: |sight, options| {
        let part = |words: &[&str]| {
            images_of(sight, words).map(|name| open(&sight.path.join(name), options)).transpose()
        };
        match part(&["train"])? {
            Some(train) => Ok(Parts { train, test: part(&["t10k", "test"])? }),
            None => Err(sight.unknown()),
        }
    },
};

/// The file of images of a part.
fn images_of<'s>(sight: &'s Sight, words: &[&str]) -> Option<&'s str> {
    let is_it = |name: &&String| {
        let opening = words.iter().any(|word| name.starts_with(&format!("{word}-images")));
        opening && name.contains("-idx")
    };
    sight.entries.iter().find(is_it).map(String::as_str)
}

/// Opens a file of images and finds its labels.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let array = read_header(path)?;
    if array.extents.len() == 1 {
        return Err(refusal(
            path.display(),
            format!("it is a file of {} labels, not of images", array.len()),
            "name the file of the images; labels are found next to it or given with --labels",
        ));
    }
    array.check_images()?;
    array.check_length()?;
    let labels = labels(path, array.len(), options)?;
    Ok(source(array, "IDX", labels))
}

/// A source of one array.
pub(crate) fn source(
    array: Array,
    format: &'static str,
    labels: Result<Vec<u16>, Problem>,
) -> Source {
    Source {
        shape: array.arrangement().map(|images| images.shape),
        values: array.values(),
        ..Source::new(array.origin.clone(), format, array.len(), labels, array)
    }
}

fn labels(
    path: &Path,
    count: usize,
    options: &SourceOptions,
) -> Result<Result<Vec<u16>, Problem>, DataError> {
    if let Some(labels) = &options.labels {
        return read_labels(labels, count).map(Ok);
    }
    let places = beside(path);
    if let Some(labels) = places.iter().find(|labels| labels.is_file()) {
        return read_labels(labels, count).map(Ok);
    }
    let names: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
    let found = if names.is_empty() {
        "its name does not say where its labels are".to_owned()
    } else {
        format!("there is no file of labels: {}", names.join(" or "))
    };
    Ok(Err((found, "name the file of the labels with --labels".into())))
}

/// The labels in an IDX or `.npy` file.
pub(crate) fn read_labels(path: &Path, count: usize) -> Result<Vec<u16>, DataError> {
    let array = match super::kind(path)? {
        super::Kind::Idx => read_header(path)?,
        super::Kind::Npy => npy::read(path)?,
        _ => {
            return Err(refusal(
                path.display(),
                "it is not a file of labels".into(),
                "give labels as an IDX or .npy file with one whole number per image",
            ));
        }
    };
    array.check_length()?;
    array.labels(count)
}

/// Where the labels of `train-images-idx3-ubyte` are: `train-labels-idx1-ubyte`.
fn beside(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !name.contains("images") {
        return Vec::new();
    }
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let plain = plain.replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1");
    let packed = format!("{plain}.gz");
    let order = if name.ends_with(".gz") { [packed, plain] } else { [plain, packed] };
    order.map(|name| path.with_file_name(name)).into()
}

/// The extents and kind of the numbers in a file.
fn read_header(path: &Path) -> Result<Array, DataError> {
    let origin = path.display().to_string();
    let short = || {
        let found = "it is truncated: it ends within its header".into();
        refusal(&origin, found, "take another copy of the file")
    };
    let mut stream = opened(path)?;
    let mut word = [0; 4];
    stream.read_exact(&mut word).map_err(|_| short())?;
    let [_, _, kind, dimensions] = word;
    let (kind, size) = match kind {
        0x08 => (b'u', 1),
        0x09 => (b'i', 1),
        0x0b => (b'i', 2),
        0x0c => (b'i', 4),
        0x0d => (b'f', 4),
        0x0e => (b'f', 8),
        other => {
            let found = format!("its numbers are of the unknown kind {other:#04x}");
            return Err(refusal(&origin, found, "store unsigned bytes (0x08)"));
        }
    };
    let mut extents = Vec::new();
    for _ in 0..dimensions {
        stream.read_exact(&mut word).map_err(|_| short())?;
        extents.push(u32::from_be_bytes(word) as usize);
    }
    let place = Place::File(path.into(), 4 + 4 * u64::from(dimensions));
    let element = Element { kind, size, big_endian: true };
    Ok(Array { origin, extents, element, place })
}
