//! States that are written by another process than the one that holds them.

use super::{Disk, ShareName, Stored};
use crate::RuntimeError;
use std::path::Path;

/// The file of a share's states, for a process that writes it in place of the one that has the share: that one does not
/// see the folder.
pub struct Proxy {
    disk: Disk,
}

impl Proxy {
    /// For a share, in a folder that exists.
    pub fn new(folder: &Path, share: ShareName) -> Self {
        Self { disk: Disk::of_clients(folder, share) }
    }

    /// Writes a value that is encoded already.
    pub fn write(&self, bytes: &[u8]) -> Result<Stored, RuntimeError> {
        self.disk.write_encoded(bytes)
    }

    /// Reads and verifies a value, of this share or of another one.
    pub fn read(&self, stored: &Stored) -> Result<Vec<u8>, RuntimeError> {
        self.disk.read(stored)
    }

    /// Has what was written reach the disk.
    pub fn sync(&self) -> Result<(), RuntimeError> {
        self.disk.sync()
    }

    /// Gives up a value that only the last checkpoint may still need.
    pub fn release(&self, stored: &Stored) {
        self.disk.release(stored);
    }

    /// Gives up everything but what a checkpoint names.
    pub fn sweep(&self, named: &[Stored]) {
        self.disk.sweep(named);
    }
}
