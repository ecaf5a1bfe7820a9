//! Files that are whole or not there: written under a temporary name, then renamed.

use super::faults::{Call, pass};
use super::folder::parent;
use super::raw;
use crate::RuntimeError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a write waits for. Whatever it is, a killed process leaves the old file or the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synced {
    /// Nothing. After a power cut the file may hold anything, so a checksum must guard it.
    Nothing,
    /// The content: after a power cut there is the old file or the new one.
    Content,
    /// The content and then the name: what was written is there after a power cut.
    Name,
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever the system lets.
    Public,
    /// Only its owner, from the first byte on.
    Secret,
}

/// Who writes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// One at a time, which a lock or the owner of the folder sees to. A temporary file that a crash
    /// has left is overwritten by the next write.
    One,
    /// Perhaps several at once, threads or processes: each has a temporary file of its own.
    Many,
}

/// How a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// What it waits for.
    pub synced: Synced,
    /// Who may read it.
    pub access: Access,
    /// Who writes it.
    pub writers: Writers,
}

impl Replacement {
    /// By one writer, for everybody to read.
    pub const fn synced(synced: Synced) -> Self {
        Self { synced, access: Access::Public, writers: Writers::One }
    }
}

/// Writes a file so that a crash leaves the old one or the new one, never half of one.
pub fn write(path: &Path, bytes: &[u8], synced: Synced) -> Result<(), RuntimeError> {
    write_by(path, synced, |file| file.write_all(bytes))
}

/// The same for what only the owner may read.
pub fn write_secret(path: &Path, bytes: &[u8], synced: Synced) -> Result<(), RuntimeError> {
    let how = Replacement { access: Access::Secret, ..Replacement::synced(synced) };
    replace(path, how, |file| file.write_all(bytes))
        .map_err(|source| RuntimeError::file("write", path, source))
}

/// Has a file that is made be its owner's alone.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    restrict(options, Access::Secret);
    options
}

/// Makes a file that is there its owner's alone.
pub fn make_private(path: &Path) -> Result<(), RuntimeError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .map_err(|source| RuntimeError::file("write", path, source))?;
    }
    let _ = path;
    Ok(())
}

/// As [`write()`], with a writer.
pub fn write_by(
    path: &Path,
    synced: Synced,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), RuntimeError> {
    replace(path, Replacement::synced(synced), fill)
        .map_err(|source| RuntimeError::file("write", path, source))
}

/// The same for callers with words of their own for what went wrong.
pub fn replace(
    path: &Path,
    how: Replacement,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary(path, how.writers);
    let written = create(&temporary, how.access).and_then(|mut file| {
        fill(&mut file)?;
        pass(Call::Write, &temporary)?;
        if how.synced >= Synced::Content {
            raw::sync_data(&file, &temporary)?;
        }
        drop(file);
        raw::rename(&temporary, path)
    });
    if written.is_err() {
        // The first error is the one that matters; a file that was never made cannot be removed.
        let _ = raw::remove_file(&temporary);
    }
    written?;
    if how.synced >= Synced::Name { raw::sync_folder(parent(path)) } else { Ok(()) }
}

/// Gives a file that was written piece by piece, or a folder that was filled, its final name.
pub fn settle(from: &Path, to: &Path, synced: Synced) -> Result<(), RuntimeError> {
    let settled = || {
        if synced >= Synced::Content {
            raw::sync_data(&File::open(from)?, from)?;
        }
        raw::rename(from, to)?;
        if synced >= Synced::Name { raw::sync_folder(parent(to)) } else { Ok(()) }
    };
    settled().map_err(|source| RuntimeError::file("write", to, source))
}

/// A name beside a file: `x.bin.tmp` for `x.bin`.
fn temporary(path: &Path, writers: Writers) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let file = path.file_name().unwrap_or_default();
    let mut name = OsString::new();
    match writers {
        Writers::One => name.push(file),
        Writers::Many => {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            name.push(".");
            name.push(file);
            name.push(format!(".{}.{count}", process::id()));
        }
    }
    name.push(".tmp");
    path.with_file_name(name)
}

/// A new file. What a crash has left under its name would keep its own permissions, or be a link to
/// somewhere else, so it is removed and not written into.
fn create(path: &Path, access: Access) -> io::Result<File> {
    match raw::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    restrict(&mut options, access);
    raw::open(&options, path)
}

/// An empty file that only its owner may read, unless it is there: for whoever opens it to append.
pub fn create_secret(path: &Path) -> Result<(), RuntimeError> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    restrict(&mut options, Access::Secret);
    let opened = options.open(path).map(|_| ());
    opened.map_err(|source| RuntimeError::file("create", path, source))
}

#[cfg(unix)]
fn restrict(options: &mut OpenOptions, access: Access) {
    use std::os::unix::fs::OpenOptionsExt;
    if access == Access::Secret {
        options.mode(0o600);
    }
}

#[cfg(not(unix))]
fn restrict(_: &mut OpenOptions, _: Access) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::names;
    use std::fs;

    const SECRET: Replacement =
        Replacement { access: Access::Secret, ..Replacement::synced(Synced::Name) };

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        for writers in [Writers::One, Writers::Many] {
            for synced in [Synced::Nothing, Synced::Content, Synced::Name] {
                let how = Replacement { writers, ..Replacement::synced(synced) };
                replace(&path, how, |file| file.write_all(b"old")).unwrap();
                let failed = replace(&path, how, |file| {
                    file.write_all(b"half of the n")?;
                    Err(io::Error::other("the disk is full"))
                });
                assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
                assert_eq!(fs::read(&path).unwrap(), b"old");
                assert_eq!(names(folder.path()).unwrap(), ["a.bin"]);
            }
        }
        let nowhere = folder.path().join("none").join("a.bin");
        let error = write(&nowhere, b"x", Synced::Name).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("a.bin"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn secrets_are_their_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (whole, growing) = (folder.path().join("a.bin"), folder.path().join("a.log"));
        write_secret(&whole, b"x", Synced::Name).unwrap();
        create_secret(&growing).unwrap();
        fs::write(&growing, b"y").unwrap();
        create_secret(&growing).unwrap();
        assert_eq!(fs::read(&growing).unwrap(), b"y");
        for path in [whole, growing] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn writers_at_once_leave_a_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        let how = Replacement { writers: Writers::Many, ..Replacement::synced(Synced::Content) };
        std::thread::scope(|scope| {
            for writer in 0..8_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace(path, how, |file| file.write_all(&[writer; 1_000])).unwrap();
                    }
                });
            }
        });
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes, vec![bytes[0]; 1_000]);
        assert_eq!(names(folder.path()).unwrap(), ["report.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_secret_is_its_owners_whatever_a_crash_has_left() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let left = folder.path().join("a.key.tmp");
        fs::write(&left, "").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, SECRET, |file| file.write_all(b"secret")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()).unwrap(), ["a.key"]);
    }

    #[test]
    fn what_was_written_piece_by_piece_gets_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (part, whole) = (folder.path().join("a.part"), folder.path().join("a.bin"));
        for synced in [Synced::Nothing, Synced::Content, Synced::Name] {
            fs::write(&part, "whole").unwrap();
            settle(&part, &whole, synced).unwrap();
            assert_eq!(fs::read(&whole).unwrap(), b"whole");
            assert!(settle(&part, &whole, synced).is_err());
        }
        // A folder as well.
        settle(folder.path(), &folder.path().with_extension("moved"), Synced::Nothing).unwrap();
        fs::remove_dir_all(folder.path().with_extension("moved")).unwrap();
    }
}
