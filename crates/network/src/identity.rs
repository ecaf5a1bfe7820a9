//! Who is who: a small certificate authority, and what both ends of a connection need of it.
//!
//! One authority vouches for one federation. It gives the server a certificate for its host names
//! and every client a certificate for its name. The two ends then show each other their
//! certificates in every handshake, and each refuses whoever the authority does not vouch for.
//!
//! ```
//! use formant_network::identity::{Authority, ClientIdentity, ServerIdentity, Validity};
//!
//! let dir = tempfile::tempdir()?;
//! let mut authority = Authority::create(dir.path(), Validity::days(3_650)?, false)?;
//! authority.issue_server(&["localhost"], Validity::days(365)?)?;
//! let issued = authority.issue_client("hospital-1", Validity::days(365)?)?;
//!
//! let server = ServerIdentity::read(dir.path())?.server_config()?;
//! let client = ClientIdentity::read(&issued.files.bundle)?;
//! assert_eq!(client.name(), "hospital-1");
//! assert_eq!(server.alpn_protocols, client.client_config()?.alpn_protocols);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is | who needs it |
//! | --- | --- | --- |
//! | `authority.pem` | the authority's certificate, and behind it those of former authorities that are still trusted | server |
//! | `authority.key` | its key; whoever has it can admit anybody | nobody else |
//! | `issued.toml` | every certificate it gave out, and which are revoked | nobody else |
//! | `revoked.pem` | the revoked ones as a signed list (CRL) | server |
//! | `server.pem`, `server.key` | the server's certificate and key | server |
//! | `clients/NAME.bundle.pem` | all that a client needs, in one file | that client |
//! | `clients/NAME.pem`, `clients/NAME.key` | the same certificate and key for other tools | |

mod authority;
pub(crate) mod certificate;
mod change;
mod der;
mod error;
mod files;
mod issuer;
mod ledger;
mod names;
mod revocations;
mod tls;
mod validity;
pub(crate) mod x509;

pub use authority::{Authority, ClientFiles, IssuedClient, IssuedServer};
pub use certificate::{Serial, peer_name};
pub use error::IdentityError;
pub use ledger::{Entry, Kind, Ledger, Standing};
pub use names::DEFAULT_HOSTS;
pub use revocations::Revocations;
pub use tls::{ClientIdentity, ServerIdentity};
pub use validity::Validity;

/// The names of the files in a folder of certificates.
pub mod file {
    /// The authority's certificate.
    pub const AUTHORITY: &str = "authority.pem";
    /// The authority's key.
    pub const AUTHORITY_KEY: &str = "authority.key";
    /// Every certificate that was given out.
    pub const LEDGER: &str = "issued.toml";
    /// The signed list of revoked certificates.
    pub const REVOKED: &str = "revoked.pem";
    /// The server's certificate.
    pub const SERVER: &str = "server.pem";
    /// The server's key.
    pub const SERVER_KEY: &str = "server.key";
    /// The folder of the clients' certificates.
    pub const CLIENTS: &str = "clients";
}
