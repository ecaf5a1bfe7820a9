//! Reading certificates.

use super::x509::Certificate;
use super::{IdentityError, names};
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// The number that an authority gives to one certificate only, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Serial(String);

impl Serial {
    /// The serial number of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let certificate = parse(certificate).map_err(|found| IdentityError::Peer { found })?;
        Ok(Self::from_bytes(certificate.serial))
    }

    /// From the bytes in a certificate or a CRL, which may begin with zeros.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
        let mut digits = String::new();
        for byte in &bytes[start..] {
            let _ = write!(digits, "{byte:02x}");
        }
        Self(digits)
    }

    /// The bytes again; none when the text, which may come from a file, is no such number.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let digits = self.0.as_bytes();
        let pairs = digits.chunks(2).map(|pair| {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        pairs.collect::<Option<Vec<u8>>>().filter(|bytes| !bytes.is_empty())
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The client's name from the certificates that it showed in a handshake, its own first.
///
/// Nothing is verified here: the handshake has done that.
pub fn peer_name(certificates: &[CertificateDer<'_>]) -> Result<String, IdentityError> {
    let own = own(certificates)?;
    client_name(own).map_err(|found| IdentityError::Peer { found })
}

/// A peer's own certificate.
pub(crate) fn own<'a, 'd>(
    certificates: &'a [CertificateDer<'d>],
) -> Result<&'a CertificateDer<'d>, IdentityError> {
    certificates.first().ok_or_else(|| IdentityError::Peer { found: "it showed none".into() })
}

/// A client's name, or what is wrong with its certificate.
pub(crate) fn client_name(certificate: &CertificateDer<'_>) -> Result<String, String> {
    let uris = parse(certificate)?.uris()?;
    let mut clients = uris.into_iter().filter_map(names::client_of);
    match (clients.next(), clients.next()) {
        (Some(name), None) => Ok(name.to_owned()),
        (None, _) => Err("it names no client".into()),
        (Some(one), Some(other)) => Err(format!("it names two clients, {one} and {other}")),
    }
}

/// A certificate, or what is wrong with it.
pub(crate) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<Certificate<'a>, String> {
    Certificate::read(certificate).ok_or_else(|| "it is not an X.509 certificate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn serials_forget_leading_zeros_and_come_back() {
        let serial = Serial::from_bytes(&[0, 0x0a, 0xff]);
        assert_eq!(serial.to_string(), "0aff");
        assert_eq!(serial.to_bytes().unwrap(), [0x0a, 0xff]);
        for bad in ["", "a", "0g", "é0", "0aé"] {
            assert_eq!(Serial(bad.into()).to_bytes(), None, "{bad}");
        }
    }

    #[test]
    fn no_certificate_is_no_client() {
        let message = peer_name(&[]).unwrap_err().to_string();
        assert!(message.contains("showed none") && message.contains("\nhint: "), "{message}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error(bytes: Vec<u8>) {
            let certificate = CertificateDer::from(bytes);
            prop_assert!(peer_name(&[certificate]).is_err());
        }
    }
}
