//! Datasets as one file that is mapped and not read: they may be larger than memory, and open at once.
//!
//! `formant data import` writes such a file. Its parts, each at a multiple of 64 bytes: a beginning of 64 bytes
//! (magic, version, byte order, where the header lies, its check, a check of the beginning itself), the
//! training samples, the test samples, the labels of both, the owners, and the header as JSON. Numbers are
//! little-endian. All checks are XXH3.

mod header;
mod import;
mod map;

pub(crate) use header::MAGIC;
pub use import::{Imported, import};

use crate::share::file_error;
use crate::store::Store;
use crate::{DataError, Dataset, Description, Floats, Images, Owners, Progress, Reading, Values};
use formant_numerics::Samples;
use header::{Header, Prefix, SectionName};
use map::Window;
use memmap2::Mmap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How the names of such files end.
pub const EXTENSION: &str = "formant";
/// Files up to this size are compared with their checks whenever they are opened; larger ones by [`check`].
const READ_WHOLE: u64 = 1 << 30;

/// The error that a file is not what was written.
fn damaged(path: &Path, found: String) -> DataError {
    DataError::Input {
        place: path.display().to_string(),
        found,
        remedy: "take another copy of the file, or make it again: formant data import SOURCE OUT"
            .into(),
    }
}

/// An error on machines that keep numbers the other way round.
fn check_byte_order(path: &Path) -> Result<(), DataError> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    Err(DataError::Input {
        place: path.display().to_string(),
        found: "such files are little-endian, and this machine is big-endian".into(),
        remedy: "name the data themselves instead of an imported file".into(),
    })
}

/// A file that is open, and what it says of itself.
struct Opened {
    map: Arc<Mmap>,
    header: Header,
    header_at: u64,
}

impl Opened {
    fn at(path: &Path) -> Result<Self, DataError> {
        check_byte_order(path)?;
        let fail = |source| file_error("read", path, source);
        let file = File::open(path).map_err(fail)?;
        let map = Arc::new(map::map(&file).map_err(fail)?);
        let prefix = Prefix::of(path, &map)?;
        let header = Header::of(path, &map, &prefix)?;
        Ok(Self { map, header, header_at: prefix.header_at })
    }

    fn verify(&self, path: &Path) -> Result<u64, DataError> {
        self.header.verify(path, &self.map, self.header_at)
    }

    fn labels(&self, path: &Path, name: SectionName) -> Result<Vec<u16>, DataError> {
        let bytes = self.map[self.header.range(name)].chunks_exact(2);
        let labels: Vec<u16> = bytes.map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
        let classes = self.header.data.class_names.len();
        match labels.iter().position(|&label| usize::from(label) >= classes) {
            Some(at) => {
                let (what, label) = (name.words(), labels[at]);
                let found = format!("the {what} have class {label} at {at}, of {classes} classes");
                Err(damaged(path, found))
            }
            None => Ok(labels),
        }
    }

    fn owners(&self, path: &Path) -> Result<Option<Owners>, DataError> {
        let Some(names) = self.header.owners.clone() else { return Ok(None) };
        let bytes = self.map[self.header.range(SectionName::Owners)].chunks_exact(4);
        let of: Vec<u32> =
            bytes.map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        match of.iter().position(|&owner| owner as usize >= names.len()) {
            Some(at) => {
                let (owner, names) = (of[at], names.len());
                let found = format!("sample {at} belongs to client {owner} of {names}");
                Err(damaged(path, found))
            }
            None => Ok(Some(Owners { names, of })),
        }
    }

    fn samples(
        &self,
        path: &Path,
        values: SectionName,
        labels: SectionName,
    ) -> Result<Arc<dyn Samples>, DataError> {
        let Description { shape, normalisation, .. } = &self.header.data;
        let labels = self.labels(path, labels)?;
        let range = self.header.range(values);
        let odd = || damaged(path, format!("the {} are not aligned", values.words()));
        Ok(match self.header.data.values {
            Values::Bytes => {
                let lent =
                    Store::Lent(Arc::new(Window::<u8>::new(&self.map, range).ok_or_else(odd)?));
                Arc::new(Images::over(*shape, lent, labels, normalisation)?)
            }
            Values::Floats => {
                let lent =
                    Store::Lent(Arc::new(Window::<f32>::new(&self.map, range).ok_or_else(odd)?));
                Arc::new(Floats::over(*shape, lent, labels, normalisation)?)
            }
        })
    }

    fn dataset(self, path: &Path) -> Result<Dataset, DataError> {
        let train = self.samples(path, SectionName::Train, SectionName::TrainLabels)?;
        let test = self.samples(path, SectionName::Test, SectionName::TestLabels)?;
        let owners = self.owners(path)?.map(Arc::new);
        let Header { name, data, remarks, .. } = self.header;
        let dataset = Dataset::assemble(name, data.class_names, train, test)?;
        Ok(Dataset { values: data.values, schema: data.schema, owners, remarks, ..dataset })
    }
}

/// Opens a file without reading its samples, unless it is small.
pub(crate) fn open(path: &Path) -> Result<Dataset, DataError> {
    let opened = Opened::at(path)?;
    if opened.map.len() as u64 <= READ_WHOLE {
        opened.verify(path)?;
    }
    opened.dataset(path)
}

/// Compares all of an imported file with its checks; gives the dataset and the bytes that were read.
pub fn check(path: &Path) -> Result<(Dataset, u64), DataError> {
    if !Dataset::is_mapped(path) {
        // Says why it cannot be opened, if it cannot.
        File::open(path).map_err(|source| file_error("read", path, source))?;
        return Err(DataError::Input {
            place: path.display().to_string(),
            found: "it does not begin as a file of `formant data import` does".into(),
            remedy: "name a file that `formant data import` has written".into(),
        });
    }
    let opened = Opened::at(path)?;
    let bytes = opened.verify(path)?;
    Ok((opened.dataset(path)?, bytes))
}

impl Dataset {
    /// Whether a file begins as one of `formant data import` does, or is named so.
    pub fn is_mapped(path: &Path) -> bool {
        let named = path.extension().is_some_and(|extension| extension == EXTENSION);
        let begins = || {
            let mut start = [0; MAGIC.len()];
            let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
            read.is_ok() && start == MAGIC
        };
        path.is_file() && (named || begins())
    }

    /// Data that a user has, whatever their format: a file of `formant data import` is mapped, which takes
    /// no memory and no time, and everything else is [read](Dataset::read).
    ///
    /// ```
    /// use formant_data::{Dataset, Reading, import};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let file = dir.path().join("digits.formant");
    /// let (reading, mut silent) = (Reading::default(), |_: usize, _: usize| {});
    /// import("mnist-small", None, &file, &reading, &mut silent)?;
    /// let digits = Dataset::open(&file, &reading, &mut silent)?;
    /// assert_eq!((digits.train.len(), digits.test.len()), (8_000, 2_000));
    /// # Ok::<(), formant_data::DataError>(())
    /// ```
    pub fn open(path: &Path, reading: &Reading, progress: Progress<'_>) -> Result<Self, DataError> {
        match &reading.normalisation {
            Some(name) if Self::is_mapped(path) => Err(DataError::Plan {
                key: "normalisation",
                value: format!("{name:?}"),
                remedy: format!(
                    "an imported file has its own: import the data again with --normalisation {name}"
                ),
            }),
            None if Self::is_mapped(path) => open(path),
            _ => Self::read(path, reading, progress),
        }
    }
}
