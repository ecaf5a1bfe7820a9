//! Names of clients and of the server's hosts.

use super::IdentityError;
use rcgen::SanType;
use rustls::pki_types::DnsName;
use std::net::IpAddr;

/// The hosts of a server that nobody named: this machine, as it calls itself.
pub const DEFAULT_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The longest name of a client; X.509 allows no longer common name.
const LONGEST: usize = 64;

/// What stands before a client's name in the alternative name of its certificate.
const CLIENT_URI: &str = "urn:formant:client:";

/// A name that is safe as a file name, in a URI and in a log.
pub(crate) fn check_client(name: &str) -> Result<(), IdentityError> {
    let refuse = |reason: &str, hint: &str| {
        Err(IdentityError::Value {
            key: "client name",
            value: format!("{name:?}"),
            reason: reason.into(),
            hint: hint.into(),
        })
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > LONGEST {
        return refuse("it must have between 1 and 64 letters", "choose another name");
    }
    if let Some(bad) = name.chars().find(|&c| !allowed(c)) {
        let reason = format!("it contains {bad:?}");
        return refuse(&reason, "use the letters a-z and A-Z, digits, and - _ .");
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return refuse("it must begin with a letter or a digit", "choose another name");
    }
    // The bundle of the client `a` is a.bundle.pem, which would be the certificate of `a.bundle`.
    if name.to_ascii_lowercase().ends_with(".bundle") {
        return refuse("it ends like the name of a bundle", "leave out .bundle");
    }
    Ok(())
}

/// The URI that names a client in its certificate.
pub(crate) fn client_uri(name: &str) -> String {
    format!("{CLIENT_URI}{name}")
}

/// The client that a URI names, if it names a proper one.
pub(crate) fn client_of(uri: &str) -> Option<&str> {
    uri.strip_prefix(CLIENT_URI).filter(|name| check_client(name).is_ok())
}

/// A host as it stands in the server's certificate.
pub(crate) fn host(name: &str) -> Result<SanType, IdentityError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let refuse = |reason: &str| IdentityError::Value {
        key: "host",
        value: format!("{name:?}"),
        reason: reason.into(),
        hint: "name the host as the clients will call it, such as --host fed.example.org or \
               --host 192.0.2.7, without a port"
            .into(),
    };
    DnsName::try_from(name).map_err(|_| refuse("it is neither a host name nor an IP address"))?;
    let name = name.try_into().map_err(|_| refuse("it is not ASCII"))?;
    Ok(SanType::DnsName(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_client_names() {
        let longest = "x".repeat(64);
        for good in ["a", "hospital-1", "A_b.c", "7", &longest] {
            check_client(good).unwrap();
            assert_eq!(client_of(&client_uri(good)), Some(good));
        }
        let long = "x".repeat(65);
        for bad in ["", ".", "..", "-a", "a/b", "a b", "ä", "a\n", "a.bundle", "A.Bundle", &long] {
            let message = check_client(bad).unwrap_err().to_string();
            assert!(message.contains(&format!("{bad:?}")), "{message}");
            assert!(message.contains("\nhint: "), "{message}");
            assert_eq!(client_of(&client_uri(bad)), None);
        }
        assert_eq!(client_of("urn:other:a"), None);
    }

    #[test]
    fn hosts_are_names_or_addresses() {
        assert!(matches!(host("fed.example.org"), Ok(SanType::DnsName(_))));
        assert!(matches!(host("::1"), Ok(SanType::IpAddress(_))));
        for bad in ["", "a:80", "https://a", "ä.org", "a b", "*.org"] {
            let message = host(bad).unwrap_err().to_string();
            assert!(message.contains(&format!("{bad:?}")), "{message}");
        }
    }
}
