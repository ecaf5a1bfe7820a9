//! What can go wrong while a run is under way.

use formant_methods::MethodError;
use formant_model::ModelError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run could not start, go on or be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}\nhint: {hint}", path = path.display())]
    File {
        /// Read, write, create, …
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
        /// What to do.
        hint: String,
    },
    /// A file is there but does not say what it should.
    #[error("{path} is damaged: {found}\nhint: {hint}", path = path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What was found and what was expected.
        found: String,
        /// What to do.
        hint: String,
    },
    /// Another process works in the same folder.
    #[error("{path} is in use by another formant process\nhint: wait for it to finish, or choose another folder with --out", path = path.display())]
    Locked {
        /// The run folder.
        path: PathBuf,
    },
    /// A run that no longer is what it was when it began.
    #[error("the run in {path} cannot go on: {change}\nhint: {hint}", path = path.display())]
    Changed {
        /// The run folder.
        path: PathBuf,
        /// What differs, with both values.
        change: String,
        /// What to do.
        hint: &'static str,
    },
    /// A run that has ended already.
    #[error("the run in {path} is complete: there is nothing to resume\nhint: `formant report {path}` prints its table; --set rounds=N and --add-method NAME extend it", path = path.display())]
    Complete {
        /// The run folder.
        path: PathBuf,
    },
    /// A thread that reads or writes for the workers failed; whoever waits for it is told why.
    #[error(transparent)]
    Background(Arc<RuntimeError>),
    /// Where clients' states live, something failed.
    #[error("{place} failed: {why}")]
    Executor {
        /// Which part of the executor: a thread, a process, a host.
        place: String,
        /// Why.
        why: String,
    },
    /// A method whose speed cannot be measured, because its training goes wrong.
    #[error("{method} cannot be measured: {why}\nhint: lower train.learning_rate")]
    Unmeasured {
        /// Its label.
        method: String,
        /// What went wrong.
        why: String,
    },
    /// A model could not be made into a file.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A method failed where no client can be blamed.
    #[error(transparent)]
    Method(#[from] MethodError),
}

impl RuntimeError {
    /// Whether somebody has stopped the work, which is no failure.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Method(MethodError::Stopped))
    }

    /// A file error with the usual advice.
    pub fn file(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        let hint = match source.kind() {
            ErrorKind::NotFound => "check the path; the file or folder is not there",
            ErrorKind::PermissionDenied => {
                "choose a place that you may write to, or change its permissions"
            }
            ErrorKind::NotADirectory => {
                "a part of the path is a file, not a folder; choose another place"
            }
            ErrorKind::AlreadyExists => "a file is in the way; choose another place",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free some space, then go on with `formant run --resume`"
            }
            ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another place",
            _ => "check the path and the disk",
        };
        let hint = hint.to_owned();
        Self::File { action, path: path.into(), source, hint }
    }
}
