//! The files of an authority, with its words for what went wrong.

use super::IdentityError;
use formant_runtime::files::{self, Replacement, Synced};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

pub(crate) use formant_runtime::files::Access;

/// What to do when a folder that is written to is not there.
const NO_FOLDER: &str = "check the path; the folder is not there";

/// Replaces a file. Its name is synced, too: a revocation that a power cut undoes would let a client in
/// again.
pub(crate) fn write(path: &Path, text: &str, access: Access) -> Result<(), IdentityError> {
    let how = Replacement { access, ..Replacement::synced(Synced::Name) };
    files::replace(path, how, |file| file.write_all(text.as_bytes()))
        .map_err(|source| IdentityError::file("write", path, source, NO_FOLDER))
}

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
    files::wait_for_lock(folder).map_err(|source| {
        let path = folder.join("lock");
        IdentityError::file("create", &path, source, "make the authority with `formant cert init`")
    })
}
