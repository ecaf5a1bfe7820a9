//! Durable files: whole or not there, and who may read them and for how long they stay.
//!
//! - [`replace`] writes a file under a temporary name and renames it when it is whole. [`Synced`] says
//!   what a power cut may undo, [`Access`] who may read it, [`Writers`] who else may write it.
//! - [`lock`] keeps other processes out of a folder; [`create_private`] keeps other people out.
//! - Calls on which promises stand go through [`raw`], so that tests can have each of them fail.
//! - A manifest names the files that count ([`Named`]). A file is written under a new name, and counts
//!   from the moment at which a manifest that names it is in place. A crash in between leaves a file
//!   that nobody names, which [`sweep`] removes at the next start.

pub mod faults;
mod folder;
mod manifest;
pub mod raw;
mod replace;

pub use folder::{
    create_folder, create_private, is_locked, lock, move_into, names, remove, sweep, sync_folder,
    wait_for_lock,
};
pub use manifest::{Named, fingerprint, read_manifest, store, write_manifest, write_sealed};
pub use replace::{
    Access, Replacement, Synced, Writers, create_secret, make_private, private, replace, settle,
    write, write_by, write_secret,
};

use crate::RuntimeError;
use std::path::Path;

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>, RuntimeError> {
    std::fs::read(path).map_err(|source| RuntimeError::file("read", path, source))
}
