//! Writing a file that can be mapped: one pass over the data, in bounded memory.

use super::header::{ALIGNMENT, Header, PREFIX, Prefix, Section, SectionName, digits};
use super::{check_byte_order, damaged};
use crate::reading::{Outline, Set, Sink, bytes_of, name_of, pour};
use crate::share::file_error;
use crate::source::{Parts, Wanted};
use crate::{CatalogueEntry, DataError, Description, Progress, Reading};
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a set that are written at once.
const BUFFER: usize = 4 << 20;

/// What an import has written.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What the data are called.
    pub name: String,
    /// What they consist of.
    pub description: Description,
    /// Number of training samples.
    pub train: usize,
    /// Number of test samples.
    pub test: usize,
    /// Number of clients, if the samples have owners.
    pub clients: Option<usize>,
    /// What was decided that the data do not say.
    pub remarks: Vec<String>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes data as one file that can be mapped. `source` is what [`Dataset::find`](crate::Dataset::find) takes: a
/// known dataset, whose files are below `data_dir`, or a path. The file is there when it is complete, and replaces
/// one that was there.
pub fn import(
    source: &str,
    data_dir: Option<&Path>,
    out: &Path,
    reading: &Reading,
    progress: Progress<'_>,
) -> Result<Imported, DataError> {
    check_byte_order(out)?;
    let path = Path::new(source);
    let (name, parts) = match CatalogueEntry::named(source) {
        Ok(entry) => (entry.name.to_owned(), Parts::known(entry, data_dir)?),
        Err(_) if path.exists() => (name_of(path), Parts::open(path, &reading.options)?),
        Err(unknown) => return Err(unknown),
    };
    let pouring = parts.pouring(reading)?;
    let mut draft = Draft::beside(out)?;
    let outline = pour(pouring, &mut draft, progress)?;
    draft.complete(name, outline)
}

/// A file that is being written, under another name. It is removed unless it is completed.
struct Draft {
    file: File,
    path: PathBuf,
    out: PathBuf,
    /// Training and test samples.
    sets: [Region; 2],
    is_complete: bool,
}

/// Where the samples of a set go.
struct Region {
    at: u64,
    /// Bytes that are in the file.
    written: u64,
    /// Bytes that are not yet there.
    buffer: Vec<u8>,
    check: Xxh3,
}

impl Region {
    fn from(at: u64) -> Self {
        Self { at, written: 0, buffer: Vec::new(), check: Xxh3::new() }
    }

    fn take(&mut self, bytes: &[u8], file: &mut File) -> std::io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush(file) } else { Ok(()) }
    }

    fn flush(&mut self, file: &mut File) -> std::io::Result<()> {
        self.check.update(&self.buffer);
        file.seek(SeekFrom::Start(self.at + self.written))?;
        file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn section(&self, name: SectionName) -> Section {
        Section { name, at: self.at, bytes: self.written, check: digits(self.check.digest128()) }
    }
}

impl Draft {
    fn beside(out: &Path) -> Result<Self, DataError> {
        let mut name = OsString::from(".");
        name.push(
            out.file_name().ok_or_else(|| damaged(out, "it is not the name of a file".into()))?,
        );
        name.push(".part");
        let path = out.with_file_name(name);
        let fail = |source| file_error("write", &path, source);
        // What a crash has left is overwritten, and two imports do not write into each other's file.
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(fail)?;
        // Where files cannot be locked, nobody is kept out.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(DataError::Input {
                place: path.display().to_string(),
                found: "another import writes it".into(),
                remedy: format!("wait for it, or choose another name than {}", out.display()),
            });
        }
        let sets = [Region::from(PREFIX as u64), Region::from(PREFIX as u64)];
        let draft = Self { file, path, out: out.into(), sets, is_complete: false };
        draft.file.set_len(0).map_err(|source| draft.fail(source))?;
        Ok(draft)
    }

    fn fail(&self, source: std::io::Error) -> DataError {
        file_error("write", &self.path, source)
    }

    fn take(&mut self, set: Set, bytes: &[u8]) -> Result<(), DataError> {
        let taken = self.sets[set as usize].take(bytes, &mut self.file);
        taken.map_err(|source| self.fail(source))
    }

    /// Writes everything that is known at the end, and gives the file its name.
    fn complete(mut self, name: String, outline: Outline) -> Result<Imported, DataError> {
        let bytes = self.write_rest(&name, &outline).map_err(|source| self.fail(source))?;
        std::fs::rename(&self.path, &self.out)
            .map_err(|source| file_error("write", &self.out, source))?;
        self.is_complete = true;
        let Outline { description, labels: [train, test], owners, remarks } = outline;
        let (train, test) = (train.len(), test.len());
        let clients = owners.map(|owners| owners.names.len());
        Ok(Imported { name, description, train, test, clients, remarks, bytes })
    }

    fn write_rest(&mut self, name: &str, outline: &Outline) -> std::io::Result<u64> {
        let Self { file, sets, .. } = self;
        for set in sets.iter_mut() {
            set.flush(file)?;
        }
        let mut sections =
            vec![sets[0].section(SectionName::Train), sets[1].section(SectionName::Test)];
        let mut at = sets[1].at + sets[1].written;
        let le_labels = |labels: &[u16]| {
            labels.iter().flat_map(|label| label.to_le_bytes()).collect::<Vec<u8>>()
        };
        let [train, test] = outline.labels.each_ref().map(|labels| le_labels(labels));
        let owners = outline.owners.iter().flat_map(|owners| &owners.of);
        let owners: Vec<u8> = owners.flat_map(|owner| owner.to_le_bytes()).collect();
        let rest = [
            (SectionName::TrainLabels, train),
            (SectionName::TestLabels, test),
            (SectionName::Owners, owners),
        ];
        for (name, bytes) in rest {
            at = at.next_multiple_of(ALIGNMENT);
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&bytes)?;
            let (check, bytes) = (digits(xxh3_128(&bytes)), bytes.len() as u64);
            sections.push(Section { name, at, bytes, check });
            at += bytes;
        }
        let header = Header {
            name: name.into(),
            data: outline.description.clone(),
            train: outline.labels[0].len(),
            test: outline.labels[1].len(),
            owners: outline.owners.as_ref().map(|owners| owners.names.clone()),
            remarks: outline.remarks.clone(),
            sections,
        };
        let header = serde_json::to_vec(&header)?;
        let header_at = at.next_multiple_of(ALIGNMENT);
        file.seek(SeekFrom::Start(header_at))?;
        file.write_all(&header)?;
        let file_bytes = header_at + header.len() as u64;
        let prefix = Prefix { header_at, file_bytes, header_check: xxh3_128(&header) };
        file.rewind()?;
        file.write_all(&prefix.to_bytes())?;
        file.sync_all()?;
        Ok(file_bytes)
    }
}

impl Sink for Draft {
    /// The test samples begin where the training samples end if none of them is left out.
    fn expect(&mut self, samples: [usize; 2], wanted: Wanted) {
        let train = samples[0] as u64 * bytes_of(wanted);
        self.sets[1].at = (PREFIX as u64 + train).next_multiple_of(ALIGNMENT);
    }

    fn bytes(&mut self, set: Set, sample: &[u8]) -> Result<(), DataError> {
        self.take(set, sample)
    }

    fn floats(&mut self, set: Set, sample: &[f32]) -> Result<(), DataError> {
        self.take(set, bytemuck::cast_slice(sample))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_complete {
            // Nobody is left to tell; the next import overwrites it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
