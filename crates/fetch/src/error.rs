//! What can go wrong when a dataset is fetched.

use std::io;
use std::path::{Path, PathBuf};

/// Why a dataset is not there. Every message names the culprit and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// There is no dataset of that name.
    #[error("no dataset named {name:?} can be fetched\nhint: choose one of {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: String,
    },

    /// None of the addresses gave the file.
    #[error(
        "{file} of {dataset} cannot be fetched{reasons}\nhint: try again later, or fetch the files by other means and put them there, then the same command checks them:\n{by_hand}"
    )]
    Unreachable {
        /// The dataset.
        dataset: &'static str,
        /// The file.
        file: &'static str,
        /// Address by address, what happened.
        reasons: String,
        /// Address, place, length and checksum of each file.
        by_hand: String,
    },

    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}\nhint: {remedy}", path = .path.display())]
    File {
        /// Read or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },

    /// Somebody else fetches the file.
    #[error("another process fetches {path}\nhint: wait for it", path = .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },

    /// An archive does not hold what it should.
    #[error("{path}: {found}\nhint: remove it and run the same command again", path = .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
}

impl FetchError {
    /// The error that a file cannot be read or written.
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                "change the permissions, or choose another folder with --data-dir"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space and run the same command again: it goes on"
            }
            _ => "check the path and the disk",
        };
        Self::File { action, path: path.into(), source, remedy }
    }
}
