//! Files that survive a power cut, and a manifest that names them.
//!
//! A value goes into a file with a new name, is synced, and counts only once a manifest that names it
//! has been renamed into place. A crash in between leaves a file that nobody names, which the next
//! start removes.

use formant_runtime::RuntimeError;
use formant_runtime::seal::{self, Check};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// A file that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// XXH3-128, as hexadecimal digits.
    pub(crate) hash: String,
}

impl Named {
    pub(crate) fn of(file: impl Into<String>, bytes: &[u8]) -> Self {
        Self { file: file.into(), bytes: bytes.len() as u64, hash: crate::wire::fingerprint(bytes) }
    }

    /// The hash as it goes over the wire.
    pub(crate) fn hash_bytes(&self) -> Vec<u8> {
        u128::from_str_radix(&self.hash, 16).unwrap_or_default().to_le_bytes().to_vec()
    }

    /// Reads the file and checks that it is what the manifest says.
    pub(crate) fn read(&self, folder: &Path) -> Result<Vec<u8>, RuntimeError> {
        let path = folder.join(&self.file);
        let bytes = formant_runtime::files::read(&path)?;
        let hash = format!("{:032x}", xxh3_128(&bytes));
        if bytes.len() as u64 != self.bytes || hash != self.hash {
            return Err(RuntimeError::Damaged {
                found: format!(
                    "{} bytes with the hash {hash} where {} with {} are expected",
                    bytes.len(),
                    self.bytes,
                    self.hash
                ),
                hint: "restore the whole state folder from a copy".into(),
                path,
            });
        }
        Ok(bytes)
    }
}

/// Makes a folder its owner's alone, also one that is there already: it holds models that were learnt
/// from somebody's data.
pub(crate) fn create_private(folder: &Path) -> Result<(), RuntimeError> {
    formant_runtime::files::create_folder(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|source| RuntimeError::file("protect", folder, source))?;
    }
    Ok(())
}

/// Writes a file whole and syncs it; it is under this name or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), RuntimeError> {
    let temporary = beside(path, ".tmp");
    let fail = |source| RuntimeError::file("write", path, source);
    let mut file = File::create(&temporary).map_err(fail)?;
    file.write_all(bytes).and_then(|()| file.sync_data()).map_err(fail)?;
    drop(file);
    fs::rename(&temporary, path).map_err(fail)?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Writes a value into a folder and says how a manifest names it.
pub(crate) fn store(folder: &Path, name: &str, bytes: &[u8]) -> Result<Named, RuntimeError> {
    write(&folder.join(name), bytes)?;
    Ok(Named::of(name, bytes))
}

/// Moves a file or a folder into another folder, if it is there. Done again after a crash, it goes on:
/// a folder that is there already takes what is left.
pub(crate) fn move_into(path: &Path, folder: &Path) -> Result<(), RuntimeError> {
    let target = folder.join(path.file_name().unwrap_or_default());
    let fail = |error| RuntimeError::file("move", path, error);
    if path.is_dir() && target.is_dir() {
        for entry in fs::read_dir(path).map_err(fail)? {
            move_into(&entry.map_err(fail)?.path(), &target)?;
        }
        return fs::remove_dir(path).map_err(fail);
    }
    match fs::rename(path, &target) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(fail(error)),
        _ => sync_folder(folder),
    }
}

/// Makes renames and removals in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), RuntimeError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| RuntimeError::file("sync", folder, source))
}

/// Replaces a manifest, sealed.
pub(crate) fn write_manifest<T: Serialize>(path: &Path, manifest: &T) -> Result<(), RuntimeError> {
    let mut text = serde_json::to_vec(manifest)
        .map_err(|error| RuntimeError::file("write", path, error.into()))?;
    seal::seal(&mut text, Check::default());
    write(path, &text)
}

/// Reads a manifest; `None` if there is none yet.
pub(crate) fn read_manifest<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RuntimeError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RuntimeError::file("read", path, error)),
    };
    let damaged = |found: String| RuntimeError::Damaged {
        path: path.into(),
        found,
        hint: "restore the whole state folder from a copy, or start again in a new one".into(),
    };
    seal::verify(&bytes, Check::default()).map_err(|broken| damaged(broken.to_string()))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Removes the files of a folder that nobody names.
pub(crate) fn sweep(folder: &Path, named: &HashSet<String>) -> Result<(), RuntimeError> {
    for name in names(folder)? {
        if !named.contains(&name) {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// The names of a folder's files.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, RuntimeError> {
    let fail = |source| RuntimeError::file("read", folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), RuntimeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(RuntimeError::file("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// A name beside a file: `x.bin` with `.tmp` is `x.bin.tmp`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_read_back_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let named = store(folder.path(), "a.bin", b"some bytes").unwrap();
        assert_eq!(named.read(folder.path()).unwrap(), b"some bytes");
        fs::write(folder.path().join("a.bin"), b"some bytez").unwrap();
        let error = named.read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("a.bin is damaged") && error.contains("hint:"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_there_already_becomes_private() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        create_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_move_that_was_cut_short_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (states, archive) = (folder.path().join("states"), folder.path().join("archive"));
        for (place, name) in [(&states, "b"), (&archive.join("states"), "a")] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join(name), name).unwrap();
        }
        for _ in 0..2 {
            move_into(&states, &archive).unwrap();
            assert!(!states.exists());
            let mut moved = names(&archive.join("states")).unwrap();
            moved.sort_unstable();
            assert_eq!(moved, ["a", "b"]);
            // As the next start leaves it, before the move is done again.
            fs::create_dir(&states).unwrap();
        }
    }

    #[test]
    fn what_nobody_names_is_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c.tmp"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        sweep(folder.path(), &HashSet::from(["b".to_owned()])).unwrap();
        assert_eq!(names(folder.path()).unwrap(), ["b"]);
        assert!(read_manifest::<Named>(&folder.path().join("none")).unwrap().is_none());
        assert!(read_manifest::<Named>(&folder.path().join("b")).is_err());
    }
}
