//! Manifests: sealed JSON that names the files that count.

use super::replace::{Synced, write, write_secret};
use crate::RuntimeError;
use crate::seal::{self, Check};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::ErrorKind;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// XXH3-128 of some bytes, as hexadecimal digits: equal for equal bytes.
pub fn fingerprint(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// A file that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name in the folder that the manifest is about.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its [`fingerprint`].
    pub hash: String,
}

impl Named {
    /// How a manifest names a file of this content.
    pub fn of(file: impl Into<String>, bytes: &[u8]) -> Self {
        Self { file: file.into(), bytes: bytes.len() as u64, hash: fingerprint(bytes) }
    }

    /// Reads the file and checks that it is what the manifest says.
    pub fn read(&self, folder: &Path) -> Result<Vec<u8>, RuntimeError> {
        let path = folder.join(&self.file);
        let bytes = super::read(&path)?;
        let found = Self::of(&*self.file, &bytes);
        if found != *self {
            return Err(RuntimeError::Damaged {
                found: format!(
                    "{} bytes with the hash {} where {} with {} are expected",
                    found.bytes, found.hash, self.bytes, self.hash
                ),
                hint: "restore the whole state folder from a copy".into(),
                path,
            });
        }
        Ok(bytes)
    }
}

/// Writes a value into a folder, durably and for its owner alone, and says how a manifest names it.
pub fn store(folder: &Path, name: &str, bytes: &[u8]) -> Result<Named, RuntimeError> {
    write_secret(&folder.join(name), bytes, Synced::Name)?;
    Ok(Named::of(name, bytes))
}

/// Replaces a manifest, sealed, for its owner alone.
pub fn write_manifest<T: Serialize>(
    path: &Path,
    manifest: &T,
    synced: Synced,
) -> Result<(), RuntimeError> {
    let mut text = serde_json::to_vec(manifest)
        .map_err(|error| RuntimeError::file("write", path, error.into()))?;
    seal::seal(&mut text, Check::default());
    write_secret(path, &text, synced)
}

/// The same for one that is a JSON object already, and for everybody to read.
pub fn write_sealed(path: &Path, mut text: Vec<u8>, synced: Synced) -> Result<(), RuntimeError> {
    seal::seal(&mut text, Check::default());
    write(path, &text, synced)
}

/// Reads a manifest; `None` if there is none yet. `hint` says what to do if it is damaged.
pub fn read_manifest<T: DeserializeOwned>(
    path: &Path,
    hint: &str,
) -> Result<Option<T>, RuntimeError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RuntimeError::file("read", path, error)),
    };
    let damaged =
        |found: String| RuntimeError::Damaged { path: path.into(), found, hint: hint.into() };
    seal::verify(&bytes, Check::default()).map_err(|broken| damaged(broken.to_string()))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_named_file_is_read_back_and_damage_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let named = store(folder.path(), "a.bin", b"some bytes").unwrap();
        assert_eq!(named.read(folder.path()).unwrap(), b"some bytes");
        fs::write(folder.path().join("a.bin"), b"some bytez").unwrap();
        let error = named.read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("a.bin is damaged") && error.contains("hint:"), "{error}");
    }

    #[test]
    fn a_manifest_that_was_changed_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest.json");
        let read = || read_manifest::<Named>(&path, "restore it");
        assert!(read().unwrap().is_none());
        let named = Named::of("a.bin", b"some bytes");
        write_manifest(&path, &named, Synced::Name).unwrap();
        assert_eq!(read().unwrap(), Some(named));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("a.bin", "b.bin")).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("manifest.json is damaged: its check"), "{error}");
        assert!(error.ends_with("\nhint: restore it"), "{error}");
    }
}
