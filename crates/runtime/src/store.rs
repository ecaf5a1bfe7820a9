//! Client states and uploads: in memory up to a limit, on disk beyond it.
//!
//! A state that leaves memory becomes a file that is never written again; a newer state of the
//! same client is another file. A checkpoint therefore only has to name files: see
//! [`crate::checkpoint`]. Which states stay in memory is stable from round to round (a state that
//! fits when it comes back stays), so a fleet that is a little too large does not read everything
//! from disk every round.

use crate::RuntimeError;
use crate::files::{read, write_renamed};
use formant_methods::{ErasedMethod, MethodError, Value};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

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

/// Where a value is.
enum Place {
    /// In memory, and on disk too if that copy is still current.
    Memory(Value, Option<Stored>),
    /// Only on disk.
    Disk(Stored),
    /// With a worker, and on disk too if that copy was current when it was lent.
    Lent(Option<Stored>),
    /// With a worker, who made it: nobody has trained it yet.
    LentFresh,
}

/// The values of one method's run.
pub(crate) struct Store {
    folder: PathBuf,
    limit: u64,
    inner: Mutex<Inner>,
}

struct Inner {
    states: HashMap<usize, Place>,
    uploads: HashMap<usize, Place>,
    resident: u64,
    version: u64,
    /// Files that the last checkpoint names.
    pinned: HashSet<String>,
}

impl Store {
    /// An empty store over a folder, which must exist. Versions go on from `version`, so that
    /// files of an earlier session are never overwritten.
    pub(crate) fn new(folder: &Path, limit: u64, version: u64) -> Self {
        let inner = Inner {
            states: HashMap::new(),
            uploads: HashMap::new(),
            resident: 0,
            version,
            pinned: HashSet::new(),
        };
        Self { folder: folder.into(), limit, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A worker that panicked takes the run down anyway; the map itself is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state that a checkpoint left on disk.
    pub(crate) fn adopt(&self, client: usize, stored: Stored) {
        self.lock().states.insert(client, Place::Disk(stored));
    }

    /// Lends a client's state; the first time, `start` makes it.
    pub(crate) fn take(
        &self,
        client: usize,
        method: &dyn ErasedMethod,
        start: impl FnOnce() -> Value,
    ) -> Result<Value, RuntimeError> {
        let place = self.lock().states.insert(client, Place::LentFresh);
        match place {
            None => Ok(start()),
            Some(Place::Memory(value, stored)) => {
                let size = value.encoded_len()? as u64;
                let mut inner = self.lock();
                inner.resident -= size;
                inner.states.insert(client, Place::Lent(stored));
                Ok(value)
            }
            Some(Place::Disk(stored)) => {
                let bytes = self.load(&stored)?;
                let value = method.decode_client(&bytes)?;
                self.lock().states.insert(client, Place::Lent(Some(stored)));
                Ok(value)
            }
            Some(Place::Lent(_) | Place::LentFresh) => {
                let (method, what) = (method.entry().name, "idle client state");
                Err(MethodError::WrongValue { method, what }.into())
            }
        }
    }

    /// Takes a state back. `changed` says whether the copy on disk, if any, is now stale.
    pub(crate) fn give_back(
        &self,
        client: usize,
        value: Value,
        changed: bool,
    ) -> Result<(), RuntimeError> {
        let size = value.encoded_len()? as u64;
        let (on_disk, version) = {
            let mut inner = self.lock();
            let place = inner.states.remove(&client);
            if let Some(Place::Lent(Some(stale))) = &place
                && changed
                && !inner.pinned.contains(&stale.file)
            {
                // Nothing will read it again; many rounds between checkpoints must not fill a disk.
                let _ = std::fs::remove_file(self.folder.join(&stale.file));
            }
            let on_disk = match place {
                // Only looked at: it can be made again, so a client that never takes part costs
                // neither memory nor a file.
                Some(Place::LentFresh) if !changed => return Ok(()),
                Some(Place::Lent(stored)) if !changed => stored,
                _ => None,
            };
            if inner.resident + size <= self.limit {
                inner.resident += size;
                inner.states.insert(client, Place::Memory(value, on_disk));
                return Ok(());
            }
            inner.version += 1;
            (on_disk, inner.version)
        };
        let stored = match on_disk {
            Some(stored) => stored,
            None => self.write(format!("client-{client}-{version}.bin"), &value.encode()?)?,
        };
        self.lock().states.insert(client, Place::Disk(stored));
        Ok(())
    }

    /// Keeps an upload until it is aggregated.
    pub(crate) fn put_upload(&self, client: usize, value: Value) -> Result<(), RuntimeError> {
        let size = value.encoded_len()? as u64;
        {
            let mut inner = self.lock();
            if inner.resident + size <= self.limit {
                inner.resident += size;
                inner.uploads.insert(client, Place::Memory(value, None));
                return Ok(());
            }
        }
        let stored = self.write(format!("upload-{client}.bin"), &value.encode()?)?;
        self.lock().uploads.insert(client, Place::Disk(stored));
        Ok(())
    }

    /// Takes an upload out.
    pub(crate) fn take_upload(
        &self,
        client: usize,
        method: &dyn ErasedMethod,
    ) -> Result<Option<Value>, RuntimeError> {
        let place = self.lock().uploads.remove(&client);
        match place {
            Some(Place::Memory(value, _)) => {
                let size = value.encoded_len()? as u64;
                self.lock().resident -= size;
                Ok(Some(value))
            }
            Some(Place::Disk(stored)) => {
                let value = method.decode_upload(&self.load(&stored)?)?;
                // Losing a temporary file is no harm; the folder is cleaned at the next checkpoint.
                let _ = std::fs::remove_file(self.folder.join(&stored.file));
                Ok(Some(value))
            }
            Some(Place::Lent(_) | Place::LentFresh) | None => Ok(None),
        }
    }

    /// Writes every state that is not on disk yet and names the files, `None` for clients that
    /// never took part. Called between rounds, when no state is lent.
    pub(crate) fn persist(&self, clients: usize) -> Result<Vec<Option<Stored>>, RuntimeError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let mut named = Vec::with_capacity(clients);
        for client in 0..clients {
            named.push(match inner.states.get_mut(&client) {
                None | Some(Place::LentFresh | Place::Lent(_)) => None,
                Some(Place::Disk(stored) | Place::Memory(_, Some(stored))) => Some(stored.clone()),
                Some(Place::Memory(value, on_disk @ None)) => {
                    inner.version += 1;
                    let file = format!("client-{client}-{}.bin", inner.version);
                    Some(on_disk.insert(self.write(file, &value.encode()?)?).clone())
                }
            });
        }
        Ok(named)
    }

    /// The highest version given out.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    fn write(&self, file: String, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        // Not synced: a checksum guards every file, and the manifest is synced.
        write_renamed(&self.folder.join(&file), bytes, false)?;
        Ok(Stored { file, bytes: bytes.len() as u64, hash: xxh3_64(bytes) })
    }

    /// Writes a value that is no client's, such as the server's state.
    pub(crate) fn write_value(&self, name: &str, value: &Value) -> Result<Stored, RuntimeError> {
        let version = {
            let mut inner = self.lock();
            inner.version += 1;
            inner.version
        };
        self.write(format!("{name}-{version}.bin"), &value.encode()?)
    }

    /// Reads and verifies a file.
    pub(crate) fn load(&self, stored: &Stored) -> Result<Vec<u8>, RuntimeError> {
        let path = self.folder.join(&stored.file);
        let bytes = read(&path)?;
        if bytes.len() as u64 != stored.bytes || xxh3_64(&bytes) != stored.hash {
            return Err(RuntimeError::Damaged {
                found: format!(
                    "{} bytes that do not match the {} written",
                    bytes.len(),
                    stored.bytes
                ),
                hint: "the state cannot be trusted; start the run again in a new folder".into(),
                path,
            });
        }
        Ok(bytes)
    }

    /// Keeps the files that a checkpoint names until the next one, and removes all others.
    pub(crate) fn sweep(&self, keep: HashSet<String>) {
        let mut inner = self.lock();
        inner.pinned = keep;
        // Best effort: a file too many costs space, not correctness.
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let ours = ["client-", "server-", "upload-"].iter().any(|kind| name.starts_with(kind));
            if ours && !inner.pinned.contains(name) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
