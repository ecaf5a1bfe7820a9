//! Values on disk, verified when read: client states or uploads in parts of one file, others in
//! files of their own that are written under a temporary name and renamed when whole.
//!
//! Two of these may work in one folder, the clients' and the server's: each leaves the files of the
//! other alone. What the last checkpoint names is neither overwritten nor removed before the next one.

use super::slots::Slots;
use crate::RuntimeError;
use crate::files::faults::{Call, pass};
use crate::files::{Synced, raw, write, write_by};
use crate::sync::lock;
use formant_methods::{MethodError, Value};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The file whose parts hold client states. Checkpoints of earlier versions name uploads in it too.
const STATES: &str = "values.bin";

/// The beginning of the names of such files where clients' states are in several processes, each with a file of its
/// own.
const SHARES: &str = "values-";

/// The file whose parts hold uploads that wait at the server.
const UPLOADS: &str = "uploads.bin";

/// Beginnings of the names of the server's values with files of their own.
const OWN: &[&str] = &["server-", "broadcast-", "best-"];

/// A value on disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stored {
    /// File name inside the store's folder.
    pub file: String,
    /// Where it begins.
    pub offset: u64,
    /// Length of the encoding.
    pub bytes: u64,
    /// Its XXH3.
    pub hash: u64,
}

/// Whose clients' states a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareName {
    /// Tells shares of the clients from each other, each of which is in a process of its own. The share that is beside
    /// the simulator's driver is number 0.
    pub number: usize,
    /// Another number whenever processes are started together: one that is still at work when others have taken its
    /// place does not write into their files.
    pub session: u64,
}

impl ShareName {
    /// All clients, in one process.
    pub const WHOLE: Self = Self { number: 0, session: 0 };

    /// Whoever has the driver has the run folder locked as well: its file needs no session.
    pub(super) fn file(self) -> Cow<'static, str> {
        match self {
            Self { number: 0, .. } => STATES.into(),
            Self { number, session } => format!("{SHARES}{session:016x}-{number}.bin").into(),
        }
    }
}

impl Stored {
    /// Whether it is in the file that a share writes.
    pub fn is_of_share(&self, share: ShareName) -> bool {
        self.file == share.file()
    }
}

/// One store's part of a folder.
pub(super) struct Disk {
    folder: PathBuf,
    /// The file that values share.
    shared: Cow<'static, str>,
    /// Beginnings of the names of values with files of their own.
    own: &'static [&'static str],
    /// Whether something was written into the shared file since it was synced last.
    is_ahead: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    slots: Slots,
    /// Parts of the shared file that the last checkpoint names.
    pinned: HashSet<u64>,
    /// Files of their own that it names.
    named: HashSet<String>,
}

impl Disk {
    /// For client states: of all clients, or of a share of them. Shares may have their files in one folder.
    pub(super) fn of_clients(folder: &Path, share: ShareName) -> Self {
        Self::new(folder, share.file(), &[])
    }

    /// For what the server keeps.
    pub(super) fn of_server(folder: &Path) -> Self {
        Self::new(folder, UPLOADS.into(), OWN)
    }

    fn new(folder: &Path, shared: Cow<'static, str>, own: &'static [&'static str]) -> Self {
        let (is_ahead, inner) = (AtomicBool::new(false), Mutex::default());
        Self { folder: folder.into(), shared, own, is_ahead, inner }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a value into a part of the shared file that nothing else uses. Not synced: a
    /// checksum guards every value, and the manifest is synced.
    pub(super) fn write(&self, value: &Value) -> Result<Stored, RuntimeError> {
        self.write_part(value.encoded_len()? as u64, |file| encode(value, file))
    }

    /// The same for what is encoded already.
    pub(super) fn write_encoded(&self, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        let length = bytes.len() as u64;
        self.write_part(length, |file| match file.write_all(bytes) {
            Ok(()) => Ok((length, xxh3_64(bytes))),
            Err(error) => Err(Unwritten::File(error)),
        })
    }

    fn write_part(
        &self,
        length: u64,
        fill: impl FnOnce(&mut File) -> Result<(u64, u64), Unwritten>,
    ) -> Result<Stored, RuntimeError> {
        self.is_ahead.store(true, Ordering::Relaxed);
        let offset = lock(&self.inner).slots.take(length);
        let path = self.folder.join(&*self.shared);
        let fail = |source| RuntimeError::file("write", &path, source);
        // Opened each time, which is cheap: a folder that has gone is noticed.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let mut file = raw::open(&options, &path).map_err(fail)?;
        file.seek(SeekFrom::Start(offset)).map_err(fail)?;
        let (bytes, hash) = fill(&mut file).map_err(|error| error.told(&path))?;
        pass(Call::Write, &path).map_err(fail)?;
        Ok(Stored { file: self.shared.to_string(), offset, bytes, hash })
    }

    /// Writes a value into a file of its own.
    pub(super) fn write_file(&self, file: String, value: &Value) -> Result<Stored, RuntimeError> {
        let path = self.folder.join(&file);
        let mut outcome = Ok((0, 0));
        write_by(&path, Synced::Nothing, |file| {
            outcome = encode(value, file);
            match &outcome {
                Ok(_) => Ok(()),
                Err(Unwritten::File(error)) => Err(error.kind().into()),
                Err(Unwritten::Value(error)) => Err(io::Error::other(error.to_string())),
            }
        })
        .or_else(|error| if outcome.is_ok() { Err(error) } else { Ok(()) })?;
        let (bytes, hash) = outcome.map_err(|error| error.told(&path))?;
        Ok(Stored { file, offset: 0, bytes, hash })
    }

    /// The same for what is encoded already.
    pub(super) fn write_bytes(&self, file: String, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        write(&self.folder.join(&file), bytes, Synced::Nothing)?;
        Ok(Stored { file, offset: 0, bytes: bytes.len() as u64, hash: xxh3_64(bytes) })
    }

    /// Has what was written into the shared file reach the disk, and the file's name with it. Hosts may be lost one by
    /// one, and what one of them has not written then is missing in a checkpoint of another one. An error that comes
    /// when a file is closed, of a full disk somewhere on a network, comes out here as well.
    pub(super) fn sync(&self) -> Result<(), RuntimeError> {
        if !self.is_ahead.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let synced = self.sync_files([&*self.shared]);
        self.is_ahead.store(synced.is_err(), Ordering::Relaxed);
        synced
    }

    /// The same for all of this store's files that a checkpoint is about to name.
    pub(super) fn sync_named<'s>(
        &self,
        named: impl Iterator<Item = &'s Stored>,
    ) -> Result<(), RuntimeError> {
        let is_ours =
            |file: &str| file == self.shared || self.own.iter().any(|own| file.starts_with(own));
        let ours: BTreeSet<&str> =
            named.map(|stored| stored.file.as_str()).filter(|file| is_ours(file)).collect();
        self.sync_files(ours)
    }

    fn sync_files<'f>(&self, files: impl IntoIterator<Item = &'f str>) -> Result<(), RuntimeError> {
        for file in files {
            let path = self.folder.join(file);
            raw::open(OpenOptions::new().write(true), &path)
                .and_then(|file| raw::sync_data(&file, &path))
                .map_err(|source| RuntimeError::file("sync", &path, source))?;
        }
        raw::sync_folder(&self.folder)
            .map_err(|source| RuntimeError::file("sync", &self.folder, source))
    }

    /// Reads a value into a buffer and verifies it.
    pub(super) fn load(&self, stored: &Stored, buffer: &mut Vec<u8>) -> Result<(), RuntimeError> {
        let path = self.folder.join(&stored.file);
        let fail = |source| RuntimeError::file("read", &path, source);
        buffer.clear();
        let mut file = File::open(&path).map_err(fail)?;
        file.seek(SeekFrom::Start(stored.offset)).map_err(fail)?;
        // A damaged length must not take memory that the file does not fill.
        let there = file.metadata().map_err(fail)?.len().saturating_sub(stored.offset);
        buffer.reserve_exact(usize::try_from(stored.bytes.min(there)).unwrap_or(0));
        file.take(stored.bytes).read_to_end(buffer).map_err(fail)?;
        if buffer.len() as u64 != stored.bytes || xxh3_64(buffer) != stored.hash {
            let (found, written, offset) = (buffer.len(), stored.bytes, stored.offset);
            return Err(RuntimeError::Damaged {
                found: format!("{found} bytes at {offset} do not match the {written} written"),
                hint: "the state cannot be trusted; start the run again in a new folder".into(),
                path,
            });
        }
        Ok(())
    }

    /// The same into memory of its own.
    pub(super) fn read(&self, stored: &Stored) -> Result<Vec<u8>, RuntimeError> {
        let mut bytes = Vec::new();
        self.load(stored, &mut bytes)?;
        Ok(bytes)
    }

    /// Gives up a value of the shared file that only the last checkpoint may still need.
    pub(super) fn release(&self, stored: &Stored) {
        let mut inner = lock(&self.inner);
        if stored.file == self.shared && !inner.pinned.contains(&stored.offset) {
            inner.slots.release(stored.offset, stored.bytes);
        }
    }

    /// Gives up everything but what a checkpoint names.
    pub(super) fn sweep(&self, named: &[Stored]) {
        let shared = || named.iter().filter(|stored| stored.file == self.shared);
        let parts = shared().map(|stored| (stored.offset, stored.bytes)).collect();
        let mut inner = lock(&self.inner);
        inner.slots = Slots::of(parts);
        inner.pinned = shared().map(|stored| stored.offset).collect();
        inner.named = named.iter().map(|stored| stored.file.clone()).collect();
        let end = inner.slots.end();
        // Best effort: a file too many or too long costs space, not correctness.
        if end > 0 {
            let file = OpenOptions::new().write(true).open(self.folder.join(&*self.shared));
            let _ = file.and_then(|file| {
                let length = file.metadata()?.len();
                if length > end {
                    raw::set_len(&file, &self.folder.join(&*self.shared), end)
                } else {
                    Ok(())
                }
            });
        }
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let ours = self.own.iter().any(|own| name.starts_with(own));
            // Shares that there are no longer. One that is there has nothing but what is named: this is called when
            // all is durable.
            let ours = ours || self.shared == STATES && name.starts_with(SHARES);
            if ours && !inner.named.contains(name) || name == self.shared && end == 0 {
                let _ = raw::remove_file(&entry.path());
            }
        }
    }

    /// Removes a file of its own, unless the last checkpoint names it; one too many costs space, not
    /// correctness.
    pub(super) fn remove_file(&self, stored: &Stored) {
        if !lock(&self.inner).named.contains(&stored.file) {
            let _ = raw::remove_file(&self.folder.join(&stored.file));
        }
    }
}

/// Why a value was not written.
enum Unwritten {
    File(io::Error),
    Value(MethodError),
}

impl Unwritten {
    fn told(self, path: &Path) -> RuntimeError {
        match self {
            Self::File(source) => RuntimeError::file("write", path, source),
            Self::Value(error) => error.into(),
        }
    }
}

/// Writes an encoding; gives its length and its hash.
fn encode(value: &Value, file: &mut File) -> Result<(u64, u64), Unwritten> {
    let mut checked = Checked { file, bytes: 0, hash: Xxh3::new(), failure: None };
    // Small fields are collected; a large vector goes straight to the file.
    let encoded = value.encode_to(&mut BufWriter::new(&mut checked));
    match (checked.failure, encoded) {
        (Some(failure), _) => Err(Unwritten::File(failure)),
        (None, Err(error)) => Err(Unwritten::Value(error)),
        (None, Ok(())) => Ok((checked.bytes, checked.hash.digest())),
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
