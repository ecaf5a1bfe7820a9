//! Files that are whole or not there: written under a temporary name, then renamed.

use crate::RuntimeError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file so that a crash leaves the old one or the new one, never half of one.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), RuntimeError> {
    write_renamed_by(path, true, |file| file.write_all(bytes))
}

/// The same with a writer; without `sync` it does not wait for the disk: whole after a killed
/// process, but after a power cut only as far as a checksum says.
pub(crate) fn write_renamed_by(
    path: &Path,
    sync: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), RuntimeError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let fail = |source| RuntimeError::file("write", path, source);
    let mut file = File::create(&temporary).map_err(fail)?;
    fill(&mut file).map_err(fail)?;
    if sync {
        file.sync_data().map_err(fail)?;
    }
    drop(file);
    fs::rename(&temporary, path).map_err(fail)
}

/// Keeps other processes out of a folder for as long as the returned file lives; the operating
/// system lets go of it however the process ends.
pub fn lock(folder: &Path) -> Result<File, RuntimeError> {
    let path = folder.join("lock");
    let fail = |source| RuntimeError::file("create", &path, source);
    let file = File::create(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RuntimeError::Locked { path: folder.into() }),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// Creates a folder and its parents.
pub fn create_folder(path: &Path) -> Result<(), RuntimeError> {
    fs::create_dir_all(path).map_err(|source| RuntimeError::file("create", path, source))
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>, RuntimeError> {
    fs::read(path).map_err(|source| RuntimeError::file("read", path, source))
}
