//! Values as files: written under a temporary name, renamed when whole, verified when read.

use crate::RuntimeError;
use crate::files::write_renamed_by;
use formant_methods::{MethodError, Value};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A value on disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stored {
    /// File name inside the store's folder.
    pub file: String,
    /// Length of the encoding.
    pub bytes: u64,
    /// Its XXH3.
    pub hash: u64,
}

/// The folder of a store.
pub(super) struct Disk {
    folder: PathBuf,
}

impl Disk {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a value. Not synced: a checksum guards every file, and the manifest is synced.
    pub(super) fn write(&self, file: String, value: &Value) -> Result<Stored, RuntimeError> {
        let path = self.folder.join(&file);
        let mut refused: Option<MethodError> = None;
        let mut written = (0, 0);
        let outcome = write_renamed_by(&path, false, |file| {
            let mut checked = Checked { file, bytes: 0, hash: Xxh3::new(), failure: None };
            // Small fields are collected; a large vector goes straight to the file.
            let encoded = value.encode_to(&mut BufWriter::new(&mut checked));
            written = (checked.bytes, checked.hash.digest());
            match (checked.failure, encoded) {
                (Some(failure), _) => Err(failure),
                (None, Ok(())) => Ok(()),
                (None, Err(error)) => {
                    let why = io::Error::other(error.to_string());
                    refused = Some(error);
                    Err(why)
                }
            }
        });
        match refused {
            Some(error) => Err(error.into()),
            None => outcome.map(|()| Stored { file, bytes: written.0, hash: written.1 }),
        }
    }

    /// Reads a file into a buffer and verifies it.
    pub(super) fn load(&self, stored: &Stored, buffer: &mut Vec<u8>) -> Result<(), RuntimeError> {
        let path = self.folder.join(&stored.file);
        let fail = |source| RuntimeError::file("read", &path, source);
        buffer.clear();
        buffer.reserve(usize::try_from(stored.bytes).unwrap_or(0));
        let file = File::open(&path).map_err(fail)?;
        // One byte more than was written tells a file that has grown, and no more is ever read.
        file.take(stored.bytes + 1).read_to_end(buffer).map_err(fail)?;
        if buffer.len() as u64 != stored.bytes || xxh3_64(buffer) != stored.hash {
            let (found, written) = (buffer.len(), stored.bytes);
            return Err(RuntimeError::Damaged {
                found: format!("{found} bytes that do not match the {written} written"),
                hint: "the state cannot be trusted; start the run again in a new folder".into(),
                path,
            });
        }
        Ok(())
    }

    /// Removes a file that nothing will read again.
    pub(super) fn remove(&self, file: &str) {
        // Best effort: a file too many costs space, not correctness, and the next sweep finds it.
        let _ = std::fs::remove_file(self.folder.join(file));
    }

    /// Removes all files of a store's making but those to keep.
    pub(super) fn sweep(&self, keep: &HashSet<String>) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let ours = ["client-", "server-", "upload-"].iter().any(|kind| name.starts_with(kind));
            if ours && !keep.contains(name) {
                self.remove(name);
            }
        }
    }
}

/// Counts and hashes what passes through, and remembers why it could not: an encoder does not.
struct Checked<'f> {
    file: &'f mut File,
    bytes: u64,
    hash: Xxh3,
    failure: Option<io::Error>,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Ok(count) => {
                self.bytes += count as u64;
                self.hash.update(&bytes[..count]);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
