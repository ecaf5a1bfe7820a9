//! The authority: it makes certificates and takes them back.

mod revoking;

use super::certificate::parse;
use super::change::{self, Part};
use super::files::{self, Access};
use super::ledger::{Entry, Kind, Ledger, Standing};
use super::{IdentityError, Serial, Validity, file, issuer, names};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::File;
use std::path::{Path, PathBuf};

/// An authority and its folder. As long as it is open, other processes wait to open it.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    expires: Timestamp,
    ledger: Ledger,
    _lock: File,
}

/// The files of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its key, which only the owner of the file may read.
    pub key: PathBuf,
    /// All that the client needs: the authority's certificate, its own, and its key.
    pub bundle: PathBuf,
}

/// A client's new certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedClient {
    /// What the authority notes about it.
    pub entry: Entry,
    /// Where it is.
    pub files: ClientFiles,
}

/// The server's new certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedServer {
    /// What the authority notes about it.
    pub entry: Entry,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key, which only the owner of the file may read.
    pub key: PathBuf,
}

/// What to do about an authority that cannot be used.
const RESTORE: &str = "bring authority.pem and authority.key back from a backup, or make a new \
                       authority with `formant cert init --force`; then every client needs a new \
                       certificate";

/// What to do when there is no authority.
const ABSENT: &str =
    "name the folder of the authority with --dir, or make one with `formant cert init`";

impl Authority {
    /// Makes a new authority in a folder. One that is there already is replaced only if `replace`
    /// says so: nobody trusts its certificates any longer.
    pub fn create(dir: &Path, validity: Validity, replace: bool) -> Result<Self, IdentityError> {
        let authority = Self::made(dir, validity, replace)?;
        authority.install(&[])?;
        Ok(authority)
    }

    /// The same with a certificate for the server: whoever replaces an authority and is interrupted has all of the
    /// old one or all of the new one, and never a server that its own authority does not know.
    pub fn create_with_server(
        dir: &Path,
        validity: Validity,
        replace: bool,
        hosts: &[impl AsRef<str>],
    ) -> Result<(Self, IssuedServer), IdentityError> {
        // Refused before anything is made.
        alternatives(hosts)?;
        let mut authority = Self::made(dir, validity, replace)?;
        let (entry, leaf, key) = authority.sign_server(hosts, validity)?;
        authority.ledger.put(entry.clone());
        authority.install(&[
            (file::SERVER_KEY.into(), &key, Access::Secret),
            (file::SERVER.into(), &leaf, Access::Public),
        ])?;
        let issued = authority.server_files(entry);
        Ok((authority, issued))
    }

    /// A new one, of which nothing is written.
    fn made(dir: &Path, validity: Validity, replace: bool) -> Result<Self, IdentityError> {
        files::create_folder(dir)?;
        let lock = files::lock(dir)?;
        if !replace {
            check_unused(dir)?;
        }
        let (issuer, certificate) = Self::generate(validity)?;
        Ok(Self {
            dir: dir.into(),
            issuer,
            certificate,
            expires: validity.until(),
            ledger: Ledger::new(dir),
            _lock: lock,
        })
    }

    /// A new key and its certificate.
    fn generate(validity: Validity) -> Result<(Issuer<'static, KeyPair>, String), IdentityError> {
        let key = generate_key()?;
        let mut params = CertificateParams::default();
        // A name of its own, so that certificates of two authorities are told apart by it.
        let mark: String =
            Serial::from_bytes(key.der_bytes().get(1..5).unwrap_or_default()).to_string();
        params.distinguished_name.push(DnType::CommonName, format!("Formant authority {mark}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = validity.dates()?;
        let certificate = params.self_signed(&key).map_err(signing)?.pem();
        Ok((Issuer::new(params, key), certificate))
    }

    /// Replaces everything that goes with the authority's key, and what is made with it, all or nothing.
    fn install(&self, beside: &[Part<'_>]) -> Result<(), IdentityError> {
        let key = self.issuer.key().serialize_pem();
        let (ledger, revoked) = (self.ledger.text()?, self.revocations()?);
        let own: [Part<'_>; 4] = [
            (file::AUTHORITY_KEY.into(), &key, Access::Secret),
            (file::AUTHORITY.into(), &self.certificate, Access::Public),
            (file::LEDGER.into(), &ledger, Access::Public),
            (file::REVOKED.into(), &revoked, Access::Public),
        ];
        change::make(&self.dir, &[&own, beside].concat())
    }

    /// Makes a new authority beside the one that is here: the new one signs from now on, and both are
    /// trusted, until [`Authority::retire_former`].
    pub fn succeed(&mut self, validity: Validity) -> Result<(), IdentityError> {
        let (issuer, certificate) = Self::generate(validity)?;
        self.certificate = certificate + &self.certificate;
        (self.issuer, self.expires) = (issuer, validity.until());
        self.install(&[])
    }

    /// Trusts only the newest authority from now on. Says how many others there were.
    pub fn retire_former(&mut self) -> Result<usize, IdentityError> {
        const END: &str = "-----END CERTIFICATE-----";
        let all = self.certificate.matches(END).count();
        if let Some(end) = self.certificate.find(END) {
            self.certificate.truncate(end + END.len());
            self.certificate.push('\n');
        }
        self.install(&[])?;
        Ok(all.saturating_sub(1))
    }

    /// Opens the authority of a folder. Waits for another process that has it open.
    pub fn open(dir: &Path) -> Result<Self, IdentityError> {
        change::settle(dir)?;
        let path = dir.join(file::AUTHORITY);
        // Asked before the lock is taken, which would make a file where there is no authority.
        let certificate = files::read_text(&path, ABSENT)?;
        let lock = files::lock(dir)?;
        let key_path = dir.join(file::AUTHORITY_KEY);
        let key = KeyPair::from_pem(&files::read_text(&key_path, RESTORE)?).map_err(|error| {
            IdentityError::unusable(&key_path, format!("it holds no key ({error})"), RESTORE)
        })?;
        let damaged = |found: String| IdentityError::unusable(&path, found, RESTORE);
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| damaged(format!("it holds no certificate ({error})")))?;
        let parsed = parse(&der).map_err(damaged)?;
        if parsed.key.bytes != key.der_bytes() {
            return Err(damaged("authority.key is not its key".into()));
        }
        let expires = parsed.not_after;
        let issuer = issuer::of(&parsed, key).map_err(damaged)?;
        let ledger = Ledger::read(dir)?;
        Ok(Self { dir: dir.into(), issuer, certificate, expires, ledger, _lock: lock })
    }

    /// When the authority ends, and with it all of its certificates.
    pub fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Every certificate that was given out, oldest first.
    pub fn list(&self) -> &[Entry] {
        self.ledger.entries()
    }

    /// Makes or renews the server's certificate for the hosts by which clients call it.
    pub fn issue_server(
        &mut self,
        hosts: &[impl AsRef<str>],
        validity: Validity,
    ) -> Result<IssuedServer, IdentityError> {
        let (entry, leaf, key) = self.sign_server(hosts, validity)?;
        self.ledger.add(entry.clone())?;
        change::make(
            &self.dir,
            &[
                (file::SERVER_KEY.into(), &key, Access::Secret),
                (file::SERVER.into(), &leaf, Access::Public),
            ],
        )?;
        self.sign_revocations()?;
        Ok(self.server_files(entry))
    }

    /// A server's certificate and its key, and what the list says of it.
    fn sign_server(
        &self,
        hosts: &[impl AsRef<str>],
        validity: Validity,
    ) -> Result<(Entry, String, String), IdentityError> {
        let alternatives = alternatives(hosts)?;
        let mut listed: Vec<&str> = hosts.iter().map(AsRef::as_ref).collect();
        listed.dedup();
        let purpose = (ExtendedKeyUsagePurpose::ServerAuth, validity);
        let (leaf, key) = self.sign("formant server", alternatives, purpose)?;
        Ok((entry(Kind::Server, listed.join(" "), &leaf)?, leaf.pem(), key))
    }

    fn server_files(&self, entry: Entry) -> IssuedServer {
        let (certificate, key) = (self.dir.join(file::SERVER), self.dir.join(file::SERVER_KEY));
        IssuedServer { entry, certificate, key }
    }

    /// Makes a client's certificate. One that is still good is not replaced: it would stay good,
    /// wherever its copies are.
    pub fn issue_client(
        &mut self,
        name: &str,
        validity: Validity,
    ) -> Result<IssuedClient, IdentityError> {
        names::check_client(name)?;
        self.check_free(name)?;
        self.make_client(name, validity)
    }

    /// Makes a client a new certificate with a new key, under the name that it has. The one before stays
    /// good until its own end, so that the client can change over when it suits; with `retire` it is
    /// taken back now.
    pub fn renew_client(
        &mut self,
        name: &str,
        validity: Validity,
        retire: bool,
    ) -> Result<(IssuedClient, Vec<Entry>), IdentityError> {
        if self.ledger.newest(Kind::Client, Some(name)).is_none() {
            // One that was taken back gets a new one only if somebody admits it anew.
            return Err(match self.ledger.clients(name).find(|entry| entry.name == name) {
                None => self.ledger.unknown(name),
                Some(entry) => IdentityError::Revoked {
                    name: name.to_owned(),
                    serial: entry.serial.to_string(),
                },
            });
        }
        let issued = self.make_client(name, validity)?;
        let retired = if retire {
            let retired = self.ledger.retire(Kind::Client, name, Timestamp::now())?;
            self.sign_revocations()?;
            retired
        } else {
            Vec::new()
        };
        Ok((issued, retired))
    }

    /// The same for the server, for the hosts that its last certificate has.
    pub fn renew_server(&mut self, validity: Validity) -> Result<IssuedServer, IdentityError> {
        let Some(last) = self.ledger.newest(Kind::Server, None) else {
            return Err(IdentityError::Value {
                key: "server",
                value: "none".into(),
                reason: "the server has no certificate to renew".into(),
                hint: "make one with `formant cert server --host NAME`".into(),
            });
        };
        let hosts: Vec<String> = last.name.split(' ').map(str::to_owned).collect();
        self.issue_server(&hosts, validity)
    }

    fn make_client(
        &mut self,
        name: &str,
        validity: Validity,
    ) -> Result<IssuedClient, IdentityError> {
        let uri = names::client_uri(name).try_into().map_err(signing)?;
        let (leaf, key) = self.sign(
            name,
            vec![SanType::URI(uri)],
            (ExtendedKeyUsagePurpose::ClientAuth, validity),
        )?;
        let entry = self.note(Kind::Client, name.to_owned(), &leaf)?;
        let files = ClientFiles::of(&self.dir, name);
        let bundle = format!("{}{}{key}", self.certificate, leaf.pem());
        let own = ClientFiles::of(Path::new(""), name);
        change::make(
            &self.dir,
            &[
                (own.key, &key, Access::Secret),
                (own.certificate, &leaf.pem(), Access::Public),
                (own.bundle, &bundle, Access::Secret),
            ],
        )?;
        Ok(IssuedClient { entry, files })
    }

    /// Takes back every certificate of a client and returns those that were still good. The signed
    /// list is written anew in any case, so that a second try mends what a crash left undone.
    pub fn revoke(&mut self, name: &str) -> Result<Vec<Entry>, IdentityError> {
        let revoked = self.ledger.revoke(name, Timestamp::now())?;
        self.sign_revocations()?;
        Ok(revoked)
    }

    fn check_free(&self, name: &str) -> Result<(), IdentityError> {
        let now = Timestamp::now();
        let good = |entry: &&Entry| entry.standing(now) == Standing::Valid;
        match self.ledger.clients(name).find(|entry| good(entry) || entry.name != name) {
            None => Ok(()),
            Some(entry) if entry.name != name => Err(IdentityError::Exists {
                what: format!("the client {:?}, whose files have the same names,", entry.name),
                hint: "choose a name that differs in more than upper and lower case".into(),
            }),
            Some(entry) => {
                let path = ClientFiles::of(&self.dir, name).certificate;
                Err(IdentityError::Exists {
                    what: format!(
                        "a certificate of the client {name}, {}, good until {},",
                        path.display(),
                        entry.expires
                    ),
                    hint: format!(
                        "choose another name, or take this one back first with \
                         `formant cert revoke {name}`"
                    ),
                })
            }
        }
    }

    /// A certificate for one use only, and its key as PEM.
    fn sign(
        &self,
        name: &str,
        alternatives: Vec<SanType>,
        (usage, validity): (ExtendedKeyUsagePurpose, Validity),
    ) -> Result<(Certificate, String), IdentityError> {
        if self.expires <= Timestamp::now() {
            let found = format!("it ended on {}", self.expires);
            return Err(IdentityError::unusable(&self.dir.join(file::AUTHORITY), found, RESTORE));
        }
        let key = generate_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = alternatives;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity.within(self.expires).dates()?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(signing)?;
        Ok((certificate, key.serialize_pem()))
    }

    fn note(
        &mut self,
        kind: Kind,
        name: String,
        certificate: &Certificate,
    ) -> Result<Entry, IdentityError> {
        let entry = entry(kind, name, certificate)?;
        self.ledger.add(entry.clone())?;
        Ok(entry)
    }
}

fn entry(kind: Kind, name: String, certificate: &Certificate) -> Result<Entry, IdentityError> {
    let serial = Serial::of(certificate.der())?;
    let expires = expiry(certificate.der()).map_err(signing)?;
    Ok(Entry { kind, name, serial, expires, revoked: None })
}

impl ClientFiles {
    /// Where the files of a client are.
    pub(crate) fn of(dir: &Path, name: &str) -> Self {
        let place = |ending: &str| dir.join(file::CLIENTS).join(format!("{name}.{ending}"));
        Self { certificate: place("pem"), key: place("key"), bundle: place("bundle.pem") }
    }
}

/// Without the key.
impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("dir", &self.dir)
            .field("expires", &self.expires)
            .field("ledger", &self.ledger.path())
            .finish_non_exhaustive()
    }
}

fn check_unused(dir: &Path) -> Result<(), IdentityError> {
    let taken = [file::AUTHORITY, file::AUTHORITY_KEY].map(|name| dir.join(name));
    match taken.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(IdentityError::Exists {
            what: format!("the authority {}", path.display()),
            hint: "choose another folder with --dir, or replace it with --force; then every \
                   client needs a new certificate"
                .into(),
        }),
    }
}

/// The hosts as they stand in the server's certificate.
fn alternatives(hosts: &[impl AsRef<str>]) -> Result<Vec<SanType>, IdentityError> {
    if hosts.is_empty() {
        return Err(IdentityError::Value {
            key: "host",
            value: "[]".into(),
            reason: "a server needs at least one name".into(),
            hint: "give --host, such as --host localhost".into(),
        });
    }
    hosts.iter().map(|host| names::host(host.as_ref())).collect()
}

fn generate_key() -> Result<KeyPair, IdentityError> {
    KeyPair::generate().map_err(|error| IdentityError::crypto("make a key", error))
}

fn signing(error: impl std::fmt::Display) -> IdentityError {
    IdentityError::crypto("sign a certificate", error)
}

/// The end of a certificate, or what is wrong with it.
fn expiry(certificate: &CertificateDer<'_>) -> Result<Timestamp, String> {
    parse(certificate).map(|certificate| certificate.not_after)
}
