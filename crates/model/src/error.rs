//! What can go wrong with a model file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A model that cannot be read, found, written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}\nhint: {hint}", path = path.display())]
    File {
        /// Read, write, …
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The refusal.
        source: std::io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// A file that does not hold what a model file promises.
    #[error("{origin} is not a usable model file: {found}\nhint: {remedy}")]
    Malformed {
        /// The file.
        origin: String,
        /// What was found.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// A file of a later version.
    #[error(
        "{origin} is a model file of format {found}, and this program knows {known}\nhint: use formant {writer} or later"
    )]
    Newer {
        /// The file.
        origin: String,
        /// Its format.
        found: u32,
        /// The newest that is known.
        known: u32,
        /// The version that wrote it.
        writer: String,
    },
    /// A model that a format cannot hold.
    #[error(
        "the model cannot be written as {format}: {found}\nhint: export it as safetensors, which has no such limit"
    )]
    Export {
        /// The format.
        format: &'static str,
        /// Why not.
        found: String,
    },
    /// A folder that does not hold the model that was asked for.
    #[error("{found}\nhint: {remedy}")]
    Choice {
        /// What was looked for and what is there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// What should be predicted or scored is not usable.
    #[error(transparent)]
    Data(#[from] formant_data::DataError),
}

impl ModelError {
    /// A file error with the usual advice.
    pub fn file(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        let hint = match source.kind() {
            ErrorKind::NotFound => "check the path; the file or folder is not there",
            ErrorKind::PermissionDenied => {
                "choose a place that you may use, or change its permissions"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space and try again",
            _ => "check the path and the disk",
        };
        Self::File { action, path: path.into(), source, hint }
    }
}
