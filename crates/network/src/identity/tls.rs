//! The two ends of a connection, as the TLS library wants them.
//!
//! Only TLS 1.3, with the cryptography of `ring`. Sessions are not resumed: a resumed session skips
//! the certificates, and with them the question whether they are revoked.

use super::certificate::{client_name, parse};
use super::{IdentityError, Revocations, Serial, file, files};
use jiff::Timestamp;
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use std::path::Path;
use std::sync::Arc;

/// HTTP/2, which gRPC speaks.
const PROTOCOL: &[u8] = b"h2";

/// What a server needs to show who it is and to see who its clients are.
#[derive(Debug)]
pub struct ServerIdentity {
    authorities: Vec<CertificateDer<'static>>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    revocations: Arc<Revocations>,
}

const SERVER_ABSENT: &str = "make it with `formant cert server --host NAME` in the folder of the \
                             authority, and copy server.pem and server.key from there";

const AUTHORITY_ABSENT: &str = "name the folder of the certificates; `formant cert init` makes \
                                one, and the server needs authority.pem, server.pem, server.key \
                                and revoked.pem of it";

impl ServerIdentity {
    /// Reads `authority.pem`, `server.pem`, `server.key` and `revoked.pem` of a folder and checks
    /// that they belong together and are not expired.
    pub fn read(dir: &Path) -> Result<Self, IdentityError> {
        super::change::settle(dir)?;
        let authorities = authorities(dir)?;
        let path = dir.join(file::SERVER);
        let certificate = only_certificate(&path, SERVER_ABSENT)?;
        let key_path = dir.join(file::SERVER_KEY);
        let key = key(&key_path, &files::read(&key_path, SERVER_ABSENT)?, SERVER_ABSENT)?;
        let verified = ParsedCertificate::try_from(&certificate).and_then(|parsed| {
            let roots = roots(&authorities)?;
            let algorithms = algorithms().all;
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &roots,
                &[],
                UnixTime::now(),
                algorithms,
            )
        });
        verified.map_err(|error| IdentityError::unusable(&path, reason(&error), SERVER_ABSENT))?;
        let revocations = Arc::new(Revocations::of(dir, authorities.clone())?);
        let identity = Self { authorities, certificate, key, revocations };
        identity.server_config().map_err(|error| match error {
            IdentityError::Crypto { reason, .. } => {
                IdentityError::unusable(&key_path, reason, SERVER_ABSENT)
            }
            other => other,
        })?;
        Ok(identity)
    }

    /// When the first of the certificates ends that the server cannot do without: its own, and the newest
    /// authority's.
    pub fn expires(&self) -> Option<Timestamp> {
        expiry(self.authorities.iter().take(1).chain([&self.certificate]))
    }

    /// The revoked certificates, to be asked on every request.
    pub fn revocations(&self) -> Arc<Revocations> {
        Arc::clone(&self.revocations)
    }

    /// A configuration that lets in only clients of the authority that are not revoked by then,
    /// also after `revoked.pem` has changed.
    pub fn server_config(&self) -> Result<ServerConfig, IdentityError> {
        let fail = |error: Error| IdentityError::crypto("set up the server's TLS", reason(&error));
        let provider = provider();
        let trusted = WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots(&self.authorities).map_err(fail)?),
            Arc::clone(&provider),
        )
        .build()
        .map_err(|error| IdentityError::crypto("set up the server's TLS", error))?;
        let verifier = Unrevoked { trusted, revocations: self.revocations() };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(fail)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(fail)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// What a client needs to show who it is and to know its server.
#[derive(Debug)]
pub struct ClientIdentity {
    name: String,
    authorities: Vec<CertificateDer<'static>>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

const BUNDLE: &str = "use the file NAME.bundle.pem that `formant cert client NAME` made for this \
                      client, or have a new one made";

impl ClientIdentity {
    /// Reads a client's bundle and checks that its parts belong together and are not expired.
    pub fn read(bundle: &Path) -> Result<Self, IdentityError> {
        Self::of(&files::read(bundle, BUNDLE)?, bundle)
    }

    /// The same from the text of a bundle; `bundle` is what errors call it.
    pub(crate) fn of(text: &[u8], bundle: &Path) -> Result<Self, IdentityError> {
        let refuse = |found: String| IdentityError::unusable(bundle, found, BUNDLE);
        let (authorities, certificate) = match certificates(bundle, text, BUNDLE)?.as_slice() {
            [authorities @ .., certificate] if !authorities.is_empty() => {
                (authorities.to_vec(), certificate.clone())
            }
            other => {
                let expected = "2: the authority's and the client's own";
                return Err(refuse(format!(
                    "it holds {} certificates, not {expected}",
                    other.len()
                )));
            }
        };
        let key = key(bundle, text, BUNDLE)?;
        let now = UnixTime::now();
        let verified = roots(&authorities).and_then(|roots| {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
            verifier.verify_client_cert(&certificate, &[], now).map(drop)
        });
        verified.map_err(|error| refuse(reason(&error)))?;
        let name = client_name(&certificate).map_err(refuse)?;
        let identity = Self { name, authorities, certificate, key };
        identity.client_config().map_err(|error| match error {
            IdentityError::Crypto { reason, .. } => refuse(reason),
            other => other,
        })?;
        Ok(identity)
    }

    /// The client's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When its certificate ends.
    pub fn expires(&self) -> Option<Timestamp> {
        expiry([&self.certificate])
    }

    /// A configuration that trusts only servers of the authority and shows them who this is.
    pub fn client_config(&self) -> Result<ClientConfig, IdentityError> {
        let fail = |error: Error| IdentityError::crypto("set up the client's TLS", reason(&error));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(fail)?
            .with_root_certificates(roots(&self.authorities).map_err(fail)?)
            .with_client_auth_cert(vec![self.certificate.clone()], self.key.clone_key())
            .map_err(fail)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Why nobody is let in for the moment.
const NO_LIST: &str = "the list of revoked certificates cannot be read";

/// Accepts the clients of the authority that are not revoked by now.
#[derive(Debug)]
struct Unrevoked {
    trusted: Arc<dyn ClientCertVerifier>,
    revocations: Arc<Revocations>,
}

impl ClientCertVerifier for Unrevoked {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trusted.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.trusted.verify_client_cert(end_entity, intermediates, now)?;
        let serial = Serial::of(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        match self.revocations.contains(&serial) {
            Ok(false) => Ok(verified),
            Ok(true) => Err(CertificateError::Revoked.into()),
            // Without a list there is no telling, so nobody is let in. Nor is anybody told that its
            // certificate is at fault: the list may be about to be replaced.
            Err(_) => Err(Error::General(NO_LIST.into())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.trusted.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.trusted.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    ring::default_provider().signature_verification_algorithms
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    Ok(roots)
}

/// When the first of some certificates ends.
fn expiry<'c>(
    certificates: impl IntoIterator<Item = &'c CertificateDer<'static>>,
) -> Option<Timestamp> {
    let ends = certificates.into_iter().filter_map(|der| Some(parse(der).ok()?.not_after));
    ends.min()
}

/// The authorities' certificates in a folder: of the one that signs, then of former ones that are still
/// trusted.
pub(crate) fn authorities(dir: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let path = dir.join(file::AUTHORITY);
    let text = files::read(&path, AUTHORITY_ABSENT)?;
    let authorities = certificates(&path, &text, AUTHORITY_ABSENT)?;
    if authorities.is_empty() {
        let found = "it holds no certificate";
        return Err(IdentityError::unusable(&path, found, AUTHORITY_ABSENT));
    }
    roots(&authorities)
        .map_err(|error| IdentityError::unusable(&path, reason(&error), AUTHORITY_ABSENT))?;
    for authority in &authorities {
        // Lists of revoked certificates are checked by it, and must not be blamed for it.
        parse(authority)
            .map_err(|found| IdentityError::unusable(&path, found, AUTHORITY_ABSENT))?;
    }
    Ok(authorities)
}

fn only_certificate(path: &Path, hint: &str) -> Result<CertificateDer<'static>, IdentityError> {
    let text = files::read(path, hint)?;
    match certificates(path, &text, hint)?.as_slice() {
        [one] => Ok(one.clone()),
        other => {
            let found = format!("it holds {} certificates, not 1", other.len());
            Err(IdentityError::unusable(path, found, hint))
        }
    }
}

fn certificates(
    path: &Path,
    text: &[u8],
    hint: &str,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|error| {
        IdentityError::unusable(path, format!("it is not a proper PEM file ({error})"), hint)
    })
}

fn key(path: &Path, text: &[u8], hint: &str) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(text)
        .map_err(|error| IdentityError::unusable(path, format!("it holds no key ({error})"), hint))
}

/// Why the TLS library refuses a certificate, in words.
fn reason(error: &Error) -> String {
    let Error::InvalidCertificate(found) = error else {
        return match error {
            Error::InconsistentKeys(_) => "the key is not that of the certificate".into(),
            other => other.to_string(),
        };
    };
    match found {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its time is over ({found})")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("its time has not begun; is the clock right? ({found})")
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the authority has not signed it".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is meant for the other end of the connection".into()
        }
        other => format!("it is not a proper certificate ({other})"),
    }
}
