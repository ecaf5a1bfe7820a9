//! Why a connection failed. What waiting does not mend, a client says at once.

use crate::error::NetworkError;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use std::error::Error;

/// An error that a new try will meet again: the two sides do not accept each other.
///
/// A client that was welcomed before has the right papers and the right address: then it is the way or
/// the server that is not as it was, and may be again. Only a revocation is meant for good.
pub(crate) fn lasting(
    (server, welcomed): (&str, bool),
    error: &(dyn Error + 'static),
) -> Option<NetworkError> {
    let (server, error) = (server.to_owned(), tls_error(error)?);
    let is_revoked =
        matches!(error, rustls::Error::AlertReceived(AlertDescription::CertificateRevoked));
    if welcomed && !is_revoked {
        return None;
    }
    match error {
        rustls::Error::InvalidCertificate(why) => {
            let (reason, hint) = distrust(why);
            Some(NetworkError::Distrusted { server, reason, hint })
        }
        rustls::Error::AlertReceived(alert) => {
            let (reason, hint) = refusal(*alert)?;
            Some(NetworkError::Refused { server, reason: reason.into(), hint })
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some(NetworkError::Distrusted {
                server,
                reason: "it does not speak TLS".into(),
                hint: "look at the port; a server that runs with --insecure takes clients with --insecure",
            })
        }
        _ => None,
    }
}

/// The same of a client without TLS: a server that wants it answers a plain greeting with an alert,
/// which is no frame of HTTP/2.
pub(crate) fn wants_tls(server: &str, error: &(dyn Error + 'static)) -> Option<NetworkError> {
    causes(error).contains("frame with invalid size").then(|| NetworkError::Refused {
        server: server.into(),
        reason: "it does not understand a client without TLS".into(),
        hint: "join with --identity BUNDLE, or look at the port",
    })
}

/// What this client has against the server's certificate.
fn distrust(why: &CertificateError) -> (String, &'static str) {
    use CertificateError as Why;
    let hint = match why {
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "give a name that its certificate has with --server-name, or make it one for this host: `formant cert server --host NAME`"
        }
        Why::UnknownIssuer | Why::BadSignature => {
            "another authority has made it: use the bundle that the server's authority has made for this client"
        }
        Why::Expired
        | Why::ExpiredContext { .. }
        | Why::NotValidYet
        | Why::NotValidYetContext { .. } => {
            "look at the clocks of both hosts, or give the server a new certificate: `formant cert server --host NAME`"
        }
        _ => "give the server a new certificate: `formant cert server --host NAME`",
    };
    (format!("its certificate does not hold: {why}"), hint)
}

/// What the server has against this client's certificate, if it is that.
fn refusal(alert: AlertDescription) -> Option<(&'static str, &'static str)> {
    use AlertDescription as Alert;
    let anew = "ask for a new certificate: `formant cert client NAME`";
    Some(match alert {
        Alert::CertificateRevoked => ("the certificate is revoked", anew),
        Alert::CertificateExpired => (
            "the certificate is not valid at this time, by the server's clock",
            "look at the clocks of both hosts, or ask for a new certificate: `formant cert client NAME`",
        ),
        Alert::UnknownCA | Alert::DecryptError => (
            "another authority has made the certificate",
            "use the bundle that the server's authority has made for this client",
        ),
        Alert::CertificateRequired
        | Alert::NoCertificate
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::AccessDenied => ("the certificate is not accepted", anew),
        _ => return None,
    })
}

/// The error of TLS that led to another.
fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An `io::Error` names as its source the source of what is in it.
        let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(found) = within.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// An error with everything that led to it, each thing said once.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
