//! Files that are whole or not there, and keys that only their owner can read.

use super::IdentityError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy)]
pub(crate) enum Access {
    /// Whoever the system lets.
    Public,
    /// Only the owner.
    Secret,
}

/// What to do when a folder that is written to is not there.
const NO_FOLDER: &str = "check the path; the folder is not there";

/// Writes a file under a temporary name and renames it, so that a crash leaves the old one or the
/// new one. A secret is never readable by others, not even for a moment.
pub(crate) fn write(path: &Path, text: &str, access: Access) -> Result<(), IdentityError> {
    let temporary = temporary(path);
    write_new(&temporary, text, access)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path))
        .map_err(|source| IdentityError::file("write", path, source, NO_FOLDER))
}

/// Makes a rename last: a revocation that a power cut undoes would let a client in again.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    path.with_file_name(name)
}

fn write_new(path: &Path, text: &str, access: Access) -> io::Result<()> {
    // What a crash left behind would keep its own permissions.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    restrict(&mut options, access);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

#[cfg(unix)]
fn restrict(options: &mut OpenOptions, access: Access) {
    use std::os::unix::fs::OpenOptionsExt;
    if matches!(access, Access::Secret) {
        options.mode(0o600);
    }
}

#[cfg(not(unix))]
fn restrict(_: &mut OpenOptions, _: Access) {}

/// Reads a whole file; `absent` says what to do when it is not there.
pub(crate) fn read(path: &Path, absent: &str) -> Result<Vec<u8>, IdentityError> {
    fs::read(path).map_err(|source| IdentityError::file("read", path, source, absent))
}

/// The same for text.
pub(crate) fn read_text(path: &Path, absent: &str) -> Result<String, IdentityError> {
    String::from_utf8(read(path, absent)?)
        .map_err(|_| IdentityError::unusable(path, "it is not text", absent))
}

/// Creates a folder and its parents.
pub(crate) fn create_folder(path: &Path) -> Result<(), IdentityError> {
    fs::create_dir_all(path)
        .map_err(|source| IdentityError::file("create", path, source, NO_FOLDER))
}

/// Waits until no other process works with the authority of a folder. Two that wrote the ledger at
/// once would forget a certificate, which could then not be revoked.
pub(crate) fn lock(folder: &Path) -> Result<File, IdentityError> {
    let path = folder.join("lock");
    let fail = |source| {
        IdentityError::file("create", &path, source, "make the authority with `formant cert init`")
    };
    let file = File::create(&path).map_err(fail)?;
    file.lock().map_err(fail)?;
    Ok(file)
}
