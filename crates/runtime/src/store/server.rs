//! What the server of a simulation keeps: its state, broadcasts, the best model, and uploads that
//! wait for an aggregation.

use super::{Disk, Room, Stored, Uploads};
use crate::RuntimeError;
use formant_methods::{ErasedMethod, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the server keeps while one method runs.
pub(crate) struct ServerStore<'m> {
    disk: Arc<Disk>,
    /// Uploads that wait for an aggregation.
    pub(crate) uploads: Uploads<'m>,
    version: AtomicU64,
}

impl<'m> ServerStore<'m> {
    /// An empty store over a folder, which must exist. Versions go on from `version`, so that
    /// files of an earlier session are never overwritten.
    pub(crate) fn new(
        folder: &Path,
        version: u64,
        room: Arc<Room>,
        method: &'m dyn ErasedMethod,
    ) -> Self {
        let disk = Arc::new(Disk::of_server(folder));
        let uploads = Uploads::new(method, disk.clone(), room);
        Self { disk, uploads, version: AtomicU64::new(version) }
    }

    /// The highest version given out.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Writes a value into a file of its own.
    pub(crate) fn write_value(&self, name: &str, value: &Value) -> Result<Stored, RuntimeError> {
        self.disk.write_file(self.fresh_name(name), value)
    }

    /// The same for what is encoded already.
    pub(crate) fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        self.disk.write_bytes(self.fresh_name(name), bytes)
    }

    fn fresh_name(&self, name: &str) -> String {
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{name}-{version}.bin")
    }

    /// Removes a value that has a file of its own, unless the last checkpoint names it.
    pub(crate) fn remove_value(&self, stored: &Stored) {
        self.disk.remove_file(stored);
    }

    /// Reads and verifies a value.
    pub(crate) fn load(&self, stored: &Stored) -> Result<Vec<u8>, RuntimeError> {
        self.disk.read(stored)
    }

    /// Has what a checkpoint is about to name reach the disk.
    pub(crate) fn sync<'s>(
        &self,
        named: impl Iterator<Item = &'s Stored>,
    ) -> Result<(), RuntimeError> {
        self.disk.sync_named(named)
    }

    /// Keeps what a checkpoint names until the next one, and gives up all else.
    pub(crate) fn sweep(&self, named: &[Stored]) {
        self.disk.sweep(named);
    }
}
