//! Which certificates the server no longer accepts.

use super::certificate::{self, parse};
use super::x509::Revoked;
use super::{IdentityError, Serial, file, files, peer_name};
use crate::error::NetworkError;
use crate::wire::hex;
use formant_runtime::files::{Synced, read_manifest, write_manifest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The revoked certificates of an authority: `revoked.pem`, read anew whenever it changes, so that
/// a certificate that is revoked during a run gets nothing from then on.
#[derive(Debug)]
pub struct Revocations {
    path: PathBuf,
    authorities: Vec<CertificateDer<'static>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stamp: Stamp,
    list: List,
    /// Where the number of the newest list is remembered, if it is.
    note: Option<PathBuf>,
    /// The number that is remembered there.
    noted: String,
}

/// A list that is in force.
#[derive(Debug)]
struct List {
    /// Its number as hexadecimal digits, without zeros in front. An authority's lists have rising numbers.
    number: String,
    serials: HashSet<Serial>,
}

/// Numbers in this order rise: without zeros in front, the longer one is the greater.
fn order(number: &str) -> (usize, &str) {
    (number.len(), number)
}

/// What a server's folder remembers of the newest list, so that no older one is taken after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    /// The number, as hexadecimal digits.
    newest: String,
}

/// The name of that file in a server's folder.
const NOTED: &str = "revocations.json";

/// What to do if that file cannot be read.
const NOTE_DAMAGED: &str = "restore the whole state folder from a copy; or compare revoked.pem with the one in the folder of \
                            the authority, and remove this file";

/// By what a change of the file is noticed.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
}

const OLDER: &str = "it is older than the list that was here before, and may lack certificates that are revoked since";

/// What to do about a list that cannot be used. Nobody is let in without one: somebody may have
/// taken it away.
const RESTORE: &str = "copy revoked.pem anew from the folder of the authority, where \
                       `formant cert server` writes it";

impl Revocations {
    /// Reads the list in a folder that also holds the authority's certificate, by which it must be
    /// signed.
    pub fn read(dir: &Path) -> Result<Self, IdentityError> {
        let authorities = super::tls::authorities(dir)?;
        Self::of(dir, authorities)
    }

    pub(crate) fn of(
        dir: &Path,
        authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Self, IdentityError> {
        let path = dir.join(file::REVOKED);
        let (stamp, list) = read(&path, &authorities)?;
        let state = State { stamp, list, note: None, noted: String::new() };
        Ok(Self { path, authorities, state: Mutex::new(state) })
    }

    /// Remembers the number of the newest list in a server's folder from now on. A list that is older than what
    /// is remembered there is refused: numbers only rise, whether a server runs or not.
    pub(crate) fn remember(&self, folder: &Path) -> Result<(), NetworkError> {
        let note = folder.join(NOTED);
        let mut state = self.lock();
        if let Some(Noted { newest }) = read_manifest(&note, NOTE_DAMAGED)? {
            state.noted = newest;
        }
        if order(&state.list.number) < order(&state.noted) {
            let hint = format!(
                "{RESTORE}; if the authority was replaced by one whose clock is behind, remove {}",
                note.display()
            );
            return Err(IdentityError::unusable(&self.path, OLDER, hint).into());
        }
        state.note = Some(note);
        Ok(state.write_down()?)
    }

    /// Whether a certificate is revoked by now. When the file was changed and the new one cannot
    /// be used, or is older than the one before, that is an error until it is mended.
    pub fn contains(&self, serial: &Serial) -> Result<bool, IdentityError> {
        let mut state = self.lock();
        self.renew(&mut state)?;
        Ok(state.list.serials.contains(serial))
    }

    /// The same of a client that was let in already: while the file cannot be used, the last list that could
    /// be is in force. Whoever takes the file away, or breaks it, turns nobody out.
    fn contains_known(&self, serial: &Serial) -> bool {
        let mut state = self.lock();
        // Whoever comes new is told; it is said in the log then.
        let _ = self.renew(&mut state);
        state.list.serials.contains(serial)
    }

    /// Takes up a file that was changed.
    fn renew(&self, state: &mut State) -> Result<(), IdentityError> {
        let stamp = Stamp::of(&self.path)?;
        if stamp != state.stamp {
            let (stamp, list) = read(&self.path, &self.authorities)?;
            if order(&list.number) < order(&state.list.number) {
                return Err(IdentityError::unusable(&self.path, OLDER, RESTORE));
            }
            (state.stamp, state.list) = (stamp, list);
        }
        // It is in force in any case; until it is written down as well, nobody new is let in.
        state.write_down()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a client whose certificates, its own first, a handshake has verified, if it is
    /// not revoked by now, as far as is known. To be asked on every request: a connection may live long.
    pub fn admit(&self, certificates: &[CertificateDer<'_>]) -> Result<String, IdentityError> {
        let name = peer_name(certificates)?;
        let serial = Serial::of(certificate::own(certificates)?)?;
        if self.contains_known(&serial) {
            return Err(IdentityError::Revoked { name, serial: serial.to_string() });
        }
        Ok(name)
    }
}

impl State {
    /// Remembers the number of the list, unless it is remembered already.
    fn write_down(&mut self) -> Result<(), IdentityError> {
        let Some(note) = self.note.as_deref() else { return Ok(()) };
        if self.noted == self.list.number {
            return Ok(());
        }
        let noted = Noted { newest: self.list.number.clone() };
        write_manifest(note, &noted, Synced::Name).map_err(|error| {
            let hint = "mend that: until then nobody new is let in";
            IdentityError::unusable(note, error.to_string(), hint)
        })?;
        self.noted = noted.newest;
        Ok(())
    }
}

/// A list, and by what a change of it is noticed.
fn read(path: &Path, authorities: &[CertificateDer<'_>]) -> Result<(Stamp, List), IdentityError> {
    // Before the content: a change in between is then noticed the next time.
    let stamp = Stamp::of(path)?;
    let text = files::read(path, RESTORE)?;
    let list =
        list(&text, authorities).map_err(|found| IdentityError::unusable(path, found, RESTORE))?;
    Ok((stamp, list))
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, IdentityError> {
        let found = fs::metadata(path)
            .map_err(|source| IdentityError::file("read", path, source, RESTORE))?;
        Ok(Self { modified: found.modified().ok(), length: found.len() })
    }
}

/// The number of a list, whoever has signed it; none if there is no list, or none that can be read, or a number that no
/// authority of this program gives.
pub(super) fn number_at(path: &Path) -> Option<u64> {
    let text = fs::read(path).ok()?;
    let der = CertificateRevocationListDer::from_pem_slice(&text).ok()?;
    let digits = significant(Revoked::read(&der)?.number);
    let mut bytes = [0; 8];
    bytes.get_mut(8usize.checked_sub(digits.len())?..)?.copy_from_slice(&digits);
    Some(u64::from_be_bytes(bytes))
}

/// The serial numbers in a list that the authority has signed, or what is wrong with it.
fn list(text: &[u8], authorities: &[CertificateDer<'_>]) -> Result<List, String> {
    let der = CertificateRevocationListDer::from_pem_slice(text)
        .map_err(|error| format!("it holds no list of revoked certificates ({error})"))?;
    let list = Revoked::read(&der).ok_or("it holds no list of revoked certificates")?;
    let mut is_signed = false;
    for authority in authorities {
        is_signed |= list.is_signed_by(&parse(authority)?.key);
    }
    if !is_signed {
        return Err("it is not signed by the authority in authority.pem".into());
    }
    let serials = list.serials.into_iter().map(Serial::from_bytes).collect();
    Ok(List { number: hex(&significant(list.number)), serials })
}

/// The bytes of a number without the zeros before it.
fn significant(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}
