//! Folders: locked, private, swept.

use super::raw;
use crate::RuntimeError;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The name of a folder's lock.
const LOCK: &str = "lock";

/// How often a lock is asked for, and how long in between.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(30);

/// Keeps other processes out of a folder for as long as the returned file lives; the operating
/// system lets go of it however the process ends.
///
/// It is asked for a few times: [`is_locked`] holds it for an instant, and so does a child process between its birth and
/// its program, which inherits what is open.
pub fn lock(folder: &Path) -> Result<File, RuntimeError> {
    let path = folder.join(LOCK);
    let fail = |source| RuntimeError::file("create", &path, source);
    let file = File::create(&path).map_err(fail)?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
    }
    Err(RuntimeError::Locked { path: folder.into() })
}

/// Whether another process is in a folder. A folder that nobody ever locked is free.
pub fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else { return false };
    // Shared, and let go at once: whoever asks at the same moment asks the same.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Locks a folder like [`lock`], but waits for others to let go.
pub fn wait_for_lock(folder: &Path) -> io::Result<File> {
    let file = File::create(folder.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

/// Creates a folder and its parents.
pub fn create_folder(path: &Path) -> Result<(), RuntimeError> {
    raw::create_folder(path).map_err(|source| RuntimeError::file("create", path, source))
}

/// Makes a folder its owner's alone, also one that is there already: it holds models that were learnt
/// from somebody's data. What is durable in it stays: its own name is durable as well.
pub fn create_private(folder: &Path) -> Result<(), RuntimeError> {
    let made = made_for(folder);
    create_folder(folder)?;
    for parent in made.iter().map(|folder| parent(folder)) {
        sync_folder(parent)?;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .map_err(|source| RuntimeError::file("protect", folder, source))?;
    }
    Ok(())
}

/// Makes renames and removals in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<(), RuntimeError> {
    raw::sync_folder(folder).map_err(|source| RuntimeError::file("sync", folder, source))
}

/// A folder and those of its parents that are not there yet.
fn made_for(folder: &Path) -> Vec<&Path> {
    let named = |folder: &&Path| !folder.as_os_str().is_empty();
    folder.ancestors().filter(named).take_while(|folder| !folder.exists()).collect()
}

/// The folder that a path lies in.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Moves a file or a folder into another folder, if it is there. Done again after a crash, it goes on:
/// a folder that is there already takes what is left.
pub fn move_into(path: &Path, folder: &Path) -> Result<(), RuntimeError> {
    let target = folder.join(path.file_name().unwrap_or_default());
    let fail = |error| RuntimeError::file("move", path, error);
    if path.is_dir() && target.is_dir() {
        for entry in fs::read_dir(path).map_err(fail)? {
            move_into(&entry.map_err(fail)?.path(), &target)?;
        }
        return fs::remove_dir(path).map_err(fail);
    }
    match raw::rename(path, &target) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(fail(error)),
        // Both names: after a power cut it is in one place, and not in neither.
        _ => sync_folder(folder).and_then(|()| sync_folder(parent(path))),
    }
}

/// Removes the files of a folder that nobody names.
pub fn sweep(folder: &Path, is_named: impl Fn(&str) -> bool) -> Result<(), RuntimeError> {
    for name in names(folder)? {
        if !is_named(&name) {
            remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// The names of a folder's files.
pub fn names(folder: &Path) -> Result<Vec<String>, RuntimeError> {
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
pub fn remove(path: &Path) -> Result<(), RuntimeError> {
    match raw::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(RuntimeError::file("remove", path, error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_locked_folder_is_refused_until_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_locked(folder.path()));
        let held = lock(folder.path()).unwrap();
        assert!(is_locked(folder.path()));
        let error = lock(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is in use by another formant process"), "{error}");
        drop(held);
        assert!(!is_locked(folder.path()));
        drop(wait_for_lock(folder.path()).unwrap());
        lock(folder.path()).unwrap();
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
        sweep(folder.path(), |name| name == "b").unwrap();
        assert_eq!(names(folder.path()).unwrap(), ["b"]);
        remove(&folder.path().join("gone already")).unwrap();
    }
}
