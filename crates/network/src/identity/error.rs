//! What can go wrong with certificates.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A certificate could not be made, read or trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
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
    #[error("{path} cannot be used: {found}\nhint: {hint}", path = path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What was found and what was expected.
        found: String,
        /// What to do.
        hint: String,
    },
    /// Something would be overwritten that is still good.
    #[error("{what} exists already\nhint: {hint}")]
    Exists {
        /// What, and where.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A value that no certificate may carry.
    #[error("{key} = {value} is not allowed: {reason}\nhint: {hint}")]
    Value {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// Why not.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// There is no client of that name to revoke.
    #[error("{path} has no client named {name:?}; it has {known}\nhint: `formant cert list` shows all names", path = path.display())]
    UnknownClient {
        /// The ledger.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The other end showed a certificate from which no client can be told.
    #[error(
        "the peer's certificate cannot be used: {found}\nhint: the client must use the bundle that `formant cert client NAME` made for it"
    )]
    Peer {
        /// What was found and what was expected.
        found: String,
    },
    /// The other end showed a certificate that has been revoked.
    #[error(
        "the certificate of {name}, serial {serial}, is revoked\nhint: to admit this client again, make it a new certificate with `formant cert client {name}`"
    )]
    Revoked {
        /// The client's name.
        name: String,
        /// The serial number of its certificate.
        serial: String,
    },
    /// The cryptographic library refused.
    #[error("cannot {action}: {reason}\nhint: {hint}")]
    Crypto {
        /// Sign, make a key, …
        action: &'static str,
        /// Why not.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
}

impl IdentityError {
    /// A file error with the usual advice; `absent` is the advice for a file that is not there.
    pub(crate) fn file(
        action: &'static str,
        path: &Path,
        source: std::io::Error,
        absent: &str,
    ) -> Self {
        let hint = match source.kind() {
            ErrorKind::NotFound => absent,
            ErrorKind::PermissionDenied => {
                "run as the user that owns the file, or change its permissions"
            }
            ErrorKind::NotADirectory => {
                "a part of the path is a file, not a folder; choose another place"
            }
            ErrorKind::AlreadyExists => "a file is in the way; choose another place",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space and try again",
            ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another place",
            _ => "check the path and the disk",
        };
        Self::File { action, path: path.into(), source, hint: hint.to_owned() }
    }

    pub(crate) fn unusable(path: &Path, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unusable { path: path.into(), found: found.into(), hint: hint.into() }
    }

    pub(crate) fn crypto(action: &'static str, reason: impl std::fmt::Display) -> Self {
        let hint = "try again; if it stays, please report it together with this message";
        Self::Crypto { action, reason: reason.to_string(), hint }
    }
}
