//! Several files of an authority that change together: a key and its certificate are a pair, whenever the
//! process is killed.
//!
//! The new files are written into a folder aside. Its renaming is the change; what follows moves them to
//! their places, and whoever opens the folder next does that where it was left undone.

use super::IdentityError;
use super::files::{self, Access};
use formant_runtime::files::sync_folder;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where files are written that do not count yet.
const STAGED: &str = ".staged";
/// Where they are once they count, until they are in their places.
const DECIDED: &str = ".decided";

/// What to do when a change cannot be made.
const AGAIN: &str =
    "mend that and give the same command again: until then the files are as they were";

/// A file of a change: its path in the folder, what it holds, and who may read it.
pub(crate) type Part<'a> = (PathBuf, &'a str, Access);

/// Replaces some files of a folder, all or none.
pub(crate) fn make(dir: &Path, parts: &[Part<'_>]) -> Result<(), IdentityError> {
    settle(dir)?;
    stage(dir, parts)?;
    decide(dir)?;
    settle(dir)
}

/// Writes the files aside.
fn stage(dir: &Path, parts: &[Part<'_>]) -> Result<(), IdentityError> {
    let staged = dir.join(STAGED);
    clear(&staged)?;
    for (path, text, access) in parts {
        let path = staged.join(path);
        files::create_folder(path.parent().unwrap_or(&staged))?;
        files::write(&path, text, *access)?;
    }
    Ok(())
}

/// From here on the new files count.
fn decide(dir: &Path) -> Result<(), IdentityError> {
    let (staged, decided) = (dir.join(STAGED), dir.join(DECIDED));
    let renamed = fs::rename(&staged, &decided);
    renamed.map_err(|source| IdentityError::file("write", &decided, source, AGAIN))?;
    synced(dir)
}

/// Brings files of a change that is decided to their places.
pub(crate) fn settle(dir: &Path) -> Result<(), IdentityError> {
    let decided = dir.join(DECIDED);
    if !decided.is_dir() {
        return Ok(());
    }
    place(&decided, dir)?;
    synced(dir)?;
    clear(&decided)
}

fn place(from: &Path, to: &Path) -> Result<(), IdentityError> {
    let fail = |source| IdentityError::file("read", from, source, AGAIN);
    for entry in fs::read_dir(from).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(fail)?.is_dir() {
            files::create_folder(&target)?;
            place(&entry.path(), &target)?;
            synced(&target)?;
            continue;
        }
        match fs::rename(entry.path(), &target) {
            // Somebody else does the same at this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => {
                renamed.map_err(|source| IdentityError::file("write", &target, source, AGAIN))?;
            }
        }
    }
    Ok(())
}

fn clear(folder: &Path) -> Result<(), IdentityError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(IdentityError::file("remove", folder, error, AGAIN))
        }
        _ => Ok(()),
    }
}

fn synced(dir: &Path) -> Result<(), IdentityError> {
    sync_folder(dir).map_err(|error| IdentityError::unusable(dir, error.to_string(), AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Authority, ServerIdentity, Validity, file};

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn a_pair_is_the_old_one_or_the_new_one_wherever_it_stops() {
        let dir = tempfile::tempdir().unwrap();
        let pair = |n: u8| [format!("key {n}"), format!("certificate {n}")];
        let parts = |texts: &[String; 2]| {
            let texts: [&str; 2] =
                [&texts[0], &texts[1]].map(|text| Box::leak(text.clone().into_boxed_str()) as &str);
            vec![
                (PathBuf::from("a.key"), texts[0], Access::Secret),
                (PathBuf::from("clients/a.pem"), texts[1], Access::Public),
            ]
        };
        let there = || [read(dir.path(), "a.key"), read(dir.path(), "clients/a.pem")];
        make(dir.path(), &parts(&pair(1))).unwrap();
        assert_eq!(there(), pair(1));
        // Before it is decided: nothing has happened.
        stage(dir.path(), &parts(&pair(2))).unwrap();
        settle(dir.path()).unwrap();
        assert_eq!(there(), pair(1));
        // After that, in the middle of what follows.
        decide(dir.path()).unwrap();
        fs::rename(dir.path().join(DECIDED).join("a.key"), dir.path().join("a.key")).unwrap();
        assert_ne!(there(), pair(2));
        settle(dir.path()).unwrap();
        assert_eq!(there(), pair(2));
        assert!(!dir.path().join(STAGED).exists() && !dir.path().join(DECIDED).exists());
        // What a stop has left aside does not get into the next change.
        stage(dir.path(), &parts(&pair(3))).unwrap();
        make(dir.path(), &parts(&pair(4))).unwrap();
        assert_eq!(there(), pair(4));
    }

    #[test]
    fn an_authority_whose_replacement_was_killed_opens() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let year = Validity::days(365).unwrap();
        for dir in [&dir, &other] {
            let mut made = Authority::create(dir.path(), year, false).unwrap();
            made.issue_server(&["localhost"], year).unwrap();
        }
        let texts =
            [file::AUTHORITY_KEY, file::AUTHORITY, file::SERVER, file::SERVER_KEY, file::REVOKED]
                .map(|name| (name, read(other.path(), name)));
        let parts: Vec<Part<'_>> = texts
            .iter()
            .map(|(name, text)| (PathBuf::from(*name), text.as_str(), Access::Secret))
            .collect();
        stage(dir.path(), &parts).unwrap();
        Authority::open(dir.path()).unwrap();
        ServerIdentity::read(dir.path()).unwrap();
        decide(dir.path()).unwrap();
        let key = file::AUTHORITY_KEY;
        fs::rename(dir.path().join(DECIDED).join(key), dir.path().join(key)).unwrap();
        // The server needs no key of the authority, and no `formant cert` before it.
        ServerIdentity::read(dir.path()).unwrap();
        Authority::open(dir.path()).unwrap();
        assert_eq!(read(dir.path(), key), read(other.path(), key));
    }
}
