//! What can go wrong.

use std::io;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The port is taken, or not allowed.
    #[error(
        "cannot listen on port {port} of the loopback interface: {source}\nhint: choose another one with --port, or 0 for any"
    )]
    Port {
        /// The port.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// No server answers.
    #[error(
        "no server answers at {address}: {source}\nhint: give the address of server.ops, on the machine of the server"
    )]
    Silent {
        /// Where it should be.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Something else answers.
    #[error("{address} is not a Formant server: {found}\nhint: give the address of server.ops")]
    NotAServer {
        /// Where it is.
        address: String,
        /// What it answers.
        found: String,
    },
}
