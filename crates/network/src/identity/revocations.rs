//! Which certificates the server no longer accepts.

use super::certificate::{self, parse};
use super::x509::Revoked;
use super::{IdentityError, Serial, file, files, peer_name};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The revoked certificates of an authority: `revoked.pem`, read anew whenever it changes, so that
/// a certificate that is revoked during a run gets nothing from then on.
#[derive(Debug)]
pub struct Revocations {
    path: PathBuf,
    authority: CertificateDer<'static>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stamp: Stamp,
    serials: HashSet<Serial>,
}

/// By what a change of the file is noticed.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
}

/// What to do about a list that cannot be used. Nobody is let in without one: somebody may have
/// taken it away.
const RESTORE: &str = "copy revoked.pem anew from the folder of the authority, where \
                       `formant cert server` writes it";

impl Revocations {
    /// Reads the list in a folder that also holds the authority's certificate, by which it must be
    /// signed.
    pub fn read(dir: &Path) -> Result<Self, IdentityError> {
        let authority = super::tls::authority(dir)?;
        Self::of(dir, authority)
    }

    pub(crate) fn of(
        dir: &Path,
        authority: CertificateDer<'static>,
    ) -> Result<Self, IdentityError> {
        let path = dir.join(file::REVOKED);
        let state = State::read(&path, &authority)?;
        Ok(Self { path, authority, state: Mutex::new(state) })
    }

    /// Whether a certificate is revoked by now. When the file was changed and the new one cannot
    /// be used, that is an error until it is mended.
    pub fn contains(&self, serial: &Serial) -> Result<bool, IdentityError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if Stamp::of(&self.path)? != state.stamp {
            *state = State::read(&self.path, &self.authority)?;
        }
        Ok(state.serials.contains(serial))
    }

    /// The name of a client whose certificates, its own first, a handshake has verified, if it is
    /// not revoked by now. To be asked on every request: a connection may live long.
    pub fn admit(&self, certificates: &[CertificateDer<'_>]) -> Result<String, IdentityError> {
        let name = peer_name(certificates)?;
        let serial = Serial::of(certificate::own(certificates)?)?;
        if self.contains(&serial)? {
            return Err(IdentityError::Revoked { name, serial: serial.to_string() });
        }
        Ok(name)
    }
}

impl State {
    fn read(path: &Path, authority: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        // Before the content: a change in between is then noticed the next time.
        let stamp = Stamp::of(path)?;
        let text = files::read(path, RESTORE)?;
        let serials = serials(&text, authority)
            .map_err(|found| IdentityError::unusable(path, found, RESTORE))?;
        Ok(Self { stamp, serials })
    }
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, IdentityError> {
        let found = fs::metadata(path)
            .map_err(|source| IdentityError::file("read", path, source, RESTORE))?;
        Ok(Self { modified: found.modified().ok(), length: found.len() })
    }
}

/// The serial numbers in a list that the authority has signed, or what is wrong with it.
fn serials(text: &[u8], authority: &CertificateDer<'_>) -> Result<HashSet<Serial>, String> {
    let der = CertificateRevocationListDer::from_pem_slice(text)
        .map_err(|error| format!("it holds no list of revoked certificates ({error})"))?;
    let list = Revoked::read(&der).ok_or("it holds no list of revoked certificates")?;
    if !list.is_signed_by(&parse(authority)?.key) {
        return Err("it is not signed by the authority in authority.pem".into());
    }
    Ok(list.serials.into_iter().map(Serial::from_bytes).collect())
}
