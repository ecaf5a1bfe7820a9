//! Every certificate that an authority gave out.
//!
//! The authority writes a certificate here before it writes the certificate itself: one that is not
//! in the list could never be revoked.

use super::files::{self, Access};
use super::{IdentityError, Serial, file};
use formant_runtime::seal::{seal_text, verify_text};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// For whom a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The server; good for nothing but to be one.
    Server,
    /// A client; good for nothing but to be one.
    Client,
}

/// Whether a certificate is good at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It is.
    Valid,
    /// Its time is over.
    Expired,
    /// The authority has taken it back.
    Revoked,
}

/// One certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// For whom.
    pub kind: Kind,
    /// The client's name, or the server's hosts.
    pub name: String,
    /// Its number.
    pub serial: Serial,
    /// Its end.
    pub expires: Timestamp,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
}

impl Entry {
    /// How it stands at a moment.
    pub fn standing(&self, at: Timestamp) -> Standing {
        match self.revoked {
            Some(_) => Standing::Revoked,
            None if self.expires <= at => Standing::Expired,
            None => Standing::Valid,
        }
    }
}

/// The list of an authority's certificates, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "certificate")]
    certificates: Vec<Entry>,
}

const HEADING: &str = "\
# Every certificate of this authority. `formant cert` writes this file and signs revoked.pem from it.
# Without it, no certificate can be revoked: keep it together with authority.key.\n";

/// Says that the file has a check; those of earlier versions have none.
const SEALED: &str = "# Its last line is a check of all others, since a changed digit would take a certificate off the list.\n";

impl Ledger {
    /// An empty list for a folder of certificates; nothing is written yet.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { path: dir.join(file::LEDGER), entries: Vec::new() }
    }

    /// Reads the list of a folder of certificates. The authority's key is not needed for that.
    pub fn read(dir: &Path) -> Result<Self, IdentityError> {
        let path = dir.join(file::LEDGER);
        let absent = "name the folder of the authority with --dir, or make an authority with \
                      `formant cert init`";
        Self::parse(&files::read_text(&path, absent)?, &path)
    }

    /// Reads the text of a list; `path` is what errors call it.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, IdentityError> {
        let restore = "bring it back from a backup: without it, no certificate can be revoked";
        if text.contains(SEALED) || text.lines().any(|line| line.starts_with("# check ")) {
            verify_text(text)
                .map_err(|broken| IdentityError::unusable(path, broken.to_string(), restore))?;
        }
        let document: Document = toml::from_str(text)
            .map_err(|error| IdentityError::unusable(path, error.to_string().trim(), restore))?;
        let entries = document.certificates;
        if let Some(bad) = entries.iter().find(|entry| entry.serial.to_bytes().is_none()) {
            let found =
                format!("serial = {:?} is not a hexadecimal number", bad.serial.to_string());
            return Err(IdentityError::unusable(path, found, restore));
        }
        Ok(Self { path: path.into(), entries })
    }

    /// The certificates, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&mut self, entry: Entry) -> Result<(), IdentityError> {
        self.put(entry);
        self.write()
    }

    /// Adds a certificate to a list that somebody else writes.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The clients of a name. A file system may not tell upper case from lower, so neither does
    /// this.
    pub(crate) fn clients<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Entry> {
        let named = move |entry: &&Entry| entry.name.eq_ignore_ascii_case(name);
        self.entries.iter().filter(|entry| entry.kind == Kind::Client).filter(named)
    }

    /// Revokes every certificate of a client and returns those that were not revoked yet.
    pub(crate) fn revoke(
        &mut self,
        name: &str,
        at: Timestamp,
    ) -> Result<Vec<Entry>, IdentityError> {
        let mut known = false;
        let mut revoked = Vec::new();
        for entry in &mut self.entries {
            if entry.kind == Kind::Client && entry.name == name {
                known = true;
                if entry.revoked.is_none() {
                    entry.revoked = Some(at);
                    revoked.push(entry.clone());
                }
            }
        }
        if !known {
            return Err(self.unknown(name));
        }
        self.write()?;
        Ok(revoked)
    }

    pub(crate) fn unknown(&self, name: &str) -> IdentityError {
        let clients = self.entries.iter().filter(|entry| entry.kind == Kind::Client);
        let mut known: Vec<&str> = clients.map(|entry| entry.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let known = match known.as_slice() {
            [] => "no clients yet".to_owned(),
            names if names.len() <= 10 => names.join(", "),
            names => format!("{}, … ({} in all)", names[..10].join(", "), names.len()),
        };
        IdentityError::UnknownClient { path: self.path.clone(), name: name.to_owned(), known }
    }

    /// Revokes every certificate for somebody but the newest, and returns those that were not yet.
    pub(crate) fn retire(
        &mut self,
        kind: Kind,
        name: &str,
        at: Timestamp,
    ) -> Result<Vec<Entry>, IdentityError> {
        let mut retired = Vec::new();
        let own = |entry: &Entry| entry.kind == kind && entry.name == name;
        let newest = self.entries.iter().rposition(own);
        for (place, entry) in self.entries.iter_mut().enumerate() {
            if own(entry) && Some(place) != newest && entry.standing(at) == Standing::Valid {
                entry.revoked = Some(at);
                retired.push(entry.clone());
            }
        }
        self.write()?;
        Ok(retired)
    }

    /// The newest certificate for somebody, if it was not revoked.
    pub(crate) fn newest(&self, kind: Kind, name: Option<&str>) -> Option<&Entry> {
        let named =
            |entry: &&Entry| entry.kind == kind && name.is_none_or(|name| entry.name == name);
        self.entries.iter().rfind(named).filter(|entry| entry.revoked.is_none())
    }

    pub(crate) fn write(&self) -> Result<(), IdentityError> {
        files::write(&self.path, &self.text()?, Access::Public)
    }

    /// What the file holds.
    pub(crate) fn text(&self) -> Result<String, IdentityError> {
        let document = Document { certificates: self.entries.clone() };
        let text = toml::to_string(&document)
            .map_err(|error| IdentityError::crypto("write the list of certificates", error))?;
        let mut text = format!("{HEADING}{SEALED}\n{text}");
        seal_text(&mut text);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str, serial: &[u8]) -> Entry {
        Entry {
            kind: Kind::Client,
            name: name.into(),
            serial: Serial::from_bytes(serial),
            expires: "2100-01-01T00:00:00Z".parse().unwrap(),
            revoked: None,
        }
    }

    #[test]
    fn the_list_comes_back_and_a_name_is_revoked_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::new(dir.path());
        for (name, serial) in [("a", 1), ("b", 2), ("a", 3)] {
            ledger.add(client(name, &[serial])).unwrap();
        }
        assert_eq!(Ledger::read(dir.path()).unwrap(), ledger);
        assert_eq!(ledger.clients("A").count(), 2);

        let now = Timestamp::now();
        assert_eq!(ledger.revoke("a", now).unwrap().len(), 2);
        assert_eq!(ledger.revoke("a", now).unwrap(), []);
        let again = Ledger::read(dir.path()).unwrap();
        assert_eq!(again, ledger);
        let standings: Vec<_> = again.entries().iter().map(|e| e.standing(now)).collect();
        assert_eq!(standings, [Standing::Revoked, Standing::Valid, Standing::Revoked]);

        let message = ledger.revoke("c", now).unwrap_err().to_string();
        assert!(message.contains("no client named \"c\"; it has a, b\nhint: "), "{message}");
    }

    #[test]
    fn a_changed_digit_is_noticed_and_a_list_without_a_check_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file::LEDGER);
        let mut ledger = Ledger::new(dir.path());
        ledger.add(client("a", &[1])).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for at in (0..text.len()).filter(|at| text.as_bytes()[*at].is_ascii_alphanumeric()) {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            std::fs::write(&path, changed).unwrap();
            let message = Ledger::read(dir.path()).unwrap_err().to_string();
            assert!(message.contains("issued.toml"), "{message}");
        }
        let earlier = text.replace(SEALED, "");
        let end = earlier.rfind("# check").unwrap();
        std::fs::write(&path, &earlier[..end]).unwrap();
        assert_eq!(Ledger::read(dir.path()).unwrap(), ledger);
    }

    #[test]
    fn a_damaged_list_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let message = || Ledger::read(dir.path()).unwrap_err().to_string();
        assert!(message().contains("formant cert init"), "{}", message());
        let serial = "[[certificate]]\nkind = \"client\"\nname = \"a\"\nserial = \"xyz\"\n\
                      expires = \"2100-01-01T00:00:00Z\"\n";
        for (text, part) in [("certificate = 3", "expected"), (serial, "\"xyz\"")] {
            std::fs::write(dir.path().join(file::LEDGER), text).unwrap();
            let message = message();
            assert!(message.contains("issued.toml") && message.contains(part), "{message}");
            assert!(message.contains("\nhint: bring it back"), "{message}");
        }
    }
}
