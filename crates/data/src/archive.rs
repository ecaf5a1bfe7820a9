//! Files in a tar archive, plain or compressed with gzip. Nothing is ever written to disk.

use crate::DataError;
use crate::source::{opened, refusal};
use std::collections::BTreeMap;
use std::io::{Error, Read};
use std::path::{Component, Path};
use tar::EntryType;

/// How much of an archive is read: CIFAR has less than 200 MB.
const MOST_BYTES: u64 = 1 << 30;

/// Reads the members of some names, whatever folder they are in. `limit` says how many bytes a member of a
/// name may have, or that it is not wanted.
pub(crate) fn read(
    path: &Path,
    limit: impl Fn(&str) -> Option<usize>,
) -> Result<BTreeMap<String, Vec<u8>>, DataError> {
    let fail = |found: String| refusal(path.display(), found, "take another copy of the archive");
    let broken = |error: &Error| fail(format!("it is not a complete archive ({error})"));
    let mut members = BTreeMap::new();
    let mut archive = tar::Archive::new(Bounded { inner: opened(path)?, left: MOST_BYTES });
    // The extensions of the format, which may be as long as they like, are left alone: names that are
    // wanted are short.
    for entry in archive.entries().map_err(|error| broken(&error))?.raw(true) {
        let mut entry = entry.map_err(|error| broken(&error))?;
        let name = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&name).into_owned();
        let kind = entry.header().entry_type();
        check_name(&shown).map_err(fail)?;
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            return Err(fail(format!("its member {shown:?} is a link")));
        }
        let (size, at) = (entry.size(), entry.raw_file_position());
        if size > MOST_BYTES {
            return Err(fail(format!(
                "its member {shown:?} at byte {at} claims {size} bytes, more than the {MOST_BYTES} that are read"
            )));
        }
        let base = shown.rsplit('/').next().unwrap_or_default();
        let Some(limit) = limit(base).filter(|_| kind == EntryType::Regular) else { continue };
        if size > limit as u64 {
            return Err(fail(format!(
                "its member {shown:?} at byte {at} claims {size} bytes, and can have at most {limit}"
            )));
        }
        // Room is made as bytes arrive, not as they are claimed.
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|error| broken(&error))?;
        if bytes.len() as u64 != size {
            let found =
                format!("it is truncated: {} of the {size} bytes of {shown:?}", bytes.len());
            return Err(fail(found));
        }
        if members.insert(base.to_owned(), bytes).is_some() {
            return Err(fail(format!("it has more than one member {base:?}")));
        }
    }
    // The checksum of gzip comes last.
    let mut rest = archive.into_inner();
    std::io::copy(&mut rest, &mut std::io::sink()).map_err(|error| broken(&error))?;
    Ok(members)
}

/// The names of the first members, as far as a few bytes of the archive go.
pub(crate) fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

fn check_name(name: &str) -> Result<(), String> {
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(name).components().all(is_below) && !name.contains('\\') {
        return Ok(());
    }
    Err(format!("its member {name:?} is not below the archive's own folder"))
}

/// A stream that must not be longer than that.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(out)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            Error::other(format!("it goes on after {MOST_BYTES} bytes, which no known set has"))
        })?;
        Ok(count)
    }
}
