//! NumPy's `.npz` archives: arrays of images and labels, each with a name.

use super::array::{Array, Place};
use super::format::{Format, Parts};
use super::image_folder::words;
use super::npy::{self, Header};
use super::{Source, SourceOptions, idx, refusal};
use crate::share::file_error;
use crate::{DataError, Split};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::fs::File;
use std::io::{BufReader, Error, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::{CompressionMethod, ZipArchive};

/// Names under which images and their labels go together.
const PAIRS: [(&str, &str); 8] = [
    ("images", "labels"),
    ("x", "y"),
    ("X", "y"),
    ("X", "Y"),
    ("data", "labels"),
    ("data", "targets"),
    ("images", "targets"),
    ("arr_0", "arr_1"),
];

pub(crate) const FORMAT: Format = Format {
    name: "NumPy archive",
    summary: "an .npz file with images or rows and labels: x and y, or x_train, y_train, x_test, y_test",
    is_it: |sight| sight.kind() == Some(super::Kind::Zip),
    open: |sight, options| {
        let entries = entries(&sight.path)?;
        let part = |split| {
            let labels_key = options.labels_key.clone().or_else(|| options.label.clone());
            SourceOptions { split, labels_key, ..options.clone() }
        };
        let has = |split| {
            let names: Vec<String> = of_part(split).map(|(images, _)| images).collect();
            entries.iter().any(|entry| names.contains(&entry.key))
        };
        let train = open(&sight.path, &part(Split::Train))?;
        let test = has(Split::Test) && has(Split::Train);
        // Arrays that are named are those of the training part; those of the test part are called alike.
        let partner = |key: &Option<String>| match key {
            None => Some(None),
            Some(key) => {
                let other = key.replace("train", "test");
                let is_there = other != *key && entries.iter().any(|entry| entry.key == other);
                is_there.then_some(Some(other))
            }
        };
        let options = part(Split::Test);
        let test = match (partner(&options.images_key), partner(&options.labels_key)) {
            (Some(images_key), Some(labels_key)) if test => {
                Some(open(&sight.path, &SourceOptions { images_key, labels_key, ..options })?)
            }
            _ => None,
        };
        Ok(Parts { train, test })
    },
};

/// Opens an archive: the arrays that are named, or else those of the usual names.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let entries = entries(path)?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let there = names.join(", ");
    let candidates = candidates(options);
    let images_key = match &options.images_key {
        Some(key) => key.as_str(),
        None => match candidates.iter().find(|(images, _)| names.contains(&images.as_str())) {
            Some((images, _)) => images.as_str(),
            None if names.len() == 1 => names[0],
            None => {
                let found = format!("none of its arrays is known to hold images: {there}");
                return Err(refusal(
                    path.display(),
                    found,
                    "name one with data.features (--features, or --images-key to predict)",
                ));
            }
        },
    };
    let find = |key: &str, flag: &str| {
        entries.iter().find(|entry| entry.key == key).cloned().ok_or_else(|| {
            let remedy = format!("name one of them with {flag}");
            refusal(path.display(), format!("it has no array {key}; it has {there}"), &remedy)
        })
    };
    let images = array(find(images_key, "--images-key")?)?;
    images.check_images()?;
    let partner = || {
        let mut pairs = candidates.iter().filter(|(images, _)| images == images_key);
        pairs
            .find(|(_, labels)| names.contains(&labels.as_str()))
            .map(|(_, labels)| labels.as_str())
    };
    let labels = match (&options.labels, options.labels_key.as_deref().or_else(partner)) {
        (Some(file), _) => Ok(idx::read_labels(file, images.len())?),
        (None, Some(key)) => Ok(array(find(key, "--labels-key")?)?.labels(images.len())?),
        (None, None) => Err((
            format!("none of its arrays is known to hold the labels of {images_key}: {there}"),
            "name one with data.label (--label, or --labels-key to predict), or a file of labels with --labels".into(),
        )),
    };
    Ok(idx::source(images, "NumPy", labels))
}

/// Names of images and labels in the order in which they are tried.
fn candidates(options: &SourceOptions) -> Vec<(String, String)> {
    let plain = PAIRS.iter().map(|(x, y)| (x.to_string(), y.to_string()));
    plain.chain(of_part(options.split)).collect()
}

/// The names of a part's arrays.
fn of_part(split: Split) -> impl Iterator<Item = (String, String)> {
    words(split).iter().flat_map(|word| {
        [
            (format!("{word}_images"), format!("{word}_labels")),
            (format!("images_{word}"), format!("labels_{word}")),
            (format!("x_{word}"), format!("y_{word}")),
            (format!("X_{word}"), format!("y_{word}")),
        ]
    })
}

fn array(entry: Arc<Entry>) -> Result<Array, DataError> {
    let origin = format!("{}:{}", entry.path.display(), entry.key);
    let Header { extents, element, length } = npy::header(&mut *entry.opened()?, &origin)?;
    // The header and the archive must agree before anything is read.
    let numbers = extents.iter().fold(element.size as u128, |a, &b| a * b as u128);
    if numbers + u128::from(length) != u128::from(entry.size) {
        return Err(refusal(
            &origin,
            format!("its header means {numbers} bytes, and the archive has {}", entry.size),
            "write it again with numpy.savez",
        ));
    }
    Ok(Array { origin, extents, element, place: Place::Archive(entry, length) })
}

/// An array in an archive.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
    key: String,
    /// Where its bytes begin, and how many they are.
    start: u64,
    packed: u64,
    deflated: bool,
    /// How many they are when unpacked, and their checksum.
    size: u64,
    crc: u32,
}

fn entries(path: &Path) -> Result<Vec<Arc<Entry>>, DataError> {
    let file = File::open(path).map_err(|source| file_error("read", path, source))?;
    let fail = |error: &dyn std::fmt::Display| {
        let found = format!("it is not a complete .npz archive ({error})");
        refusal(path.display(), found, "write it again with numpy.savez")
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| fail(&error))?;
    let mut entries = Vec::new();
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(|error| fail(&error))?;
        let name = entry.name().map_err(|error| fail(&error))?.into_owned();
        let Some(key) = name.strip_suffix(".npy").map(ToOwned::to_owned) else { continue };
        let deflated = entry.compression() == CompressionMethod::Deflated;
        if entry.encrypted() || !(deflated || entry.compression() == CompressionMethod::Stored) {
            return Err(fail(&format!("{key} is encrypted, or packed in an unusual way")));
        }
        let start = entry.data_start().ok_or_else(|| fail(&format!("{key} is nowhere")))?;
        entries.push(Arc::new(Entry {
            path: path.into(),
            key,
            start,
            packed: entry.compressed_size(),
            deflated,
            size: entry.size(),
            crc: entry.crc32(),
        }));
    }
    if entries.is_empty() {
        return Err(fail(&"it holds no array"));
    }
    Ok(entries)
}

impl Entry {
    /// A stream of the array's bytes, with its header.
    pub(crate) fn opened(&self) -> Result<Box<dyn Read + Send>, DataError> {
        let fail = |source| file_error("read", &self.path, source);
        let mut file = File::open(&self.path).map_err(fail)?;
        file.seek(SeekFrom::Start(self.start)).map_err(fail)?;
        let packed = BufReader::new(file).take(self.packed);
        let inner: Box<dyn Read + Send> =
            if self.deflated { Box::new(DeflateDecoder::new(packed)) } else { Box::new(packed) };
        Ok(Box::new(Checked { inner, crc: Crc::new(), left: self.size, wanted: self.crc }))
    }
}

/// A stream that ends with an error unless its length and its checksum are those of the archive.
struct Checked {
    inner: Box<dyn Read + Send>,
    crc: Crc,
    left: u64,
    wanted: u32,
}

impl Read for Checked {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(out)?;
        let Some(left) = self.left.checked_sub(count as u64) else {
            return Err(Error::other("it is longer than the archive says"));
        };
        self.left = left;
        self.crc.update(&out[..count]);
        if count == 0 && !out.is_empty() && self.left == 0 && self.crc.sum() != self.wanted {
            return Err(Error::other("its checksum is wrong"));
        }
        Ok(count)
    }
}
