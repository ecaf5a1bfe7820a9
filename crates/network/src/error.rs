//! What can go wrong between a server and its clients.

use crate::client::Proposal;
use crate::identity::IdentityError;
use formant_data::DataError;
use formant_experiment::ExperimentError;
use formant_methods::{MethodError, schema::SchemaError};
use formant_runtime::RuntimeError;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A server or a client cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A file or a folder, or the run in it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A key of the section `[server]`.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The method, where no client can be blamed.
    #[error(transparent)]
    Method(#[from] MethodError),
    /// The client's own data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A certificate or a key.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A setting that does not go together with another.
    #[error("{problem}\nhint: {hint}")]
    Setting {
        /// The setting and its value.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// An address that cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}\nhint: choose another port, or stop what uses this one"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A state folder of something else.
    #[error("{path} belongs to another run: {found}\nhint: {hint}", path = path.display())]
    Foreign {
        /// The state folder.
        path: PathBuf,
        /// What differs, with both values.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// A state folder whose run is over, at a server that has a new one.
    #[error(
        "{path} belongs to the run {over}, which is over, and the server has the new run {now}\nhint: join with a new folder (--state), or with --again, which moves the old run into {path}/archive",
        path = path.display()
    )]
    Over {
        /// The state folder.
        path: PathBuf,
        /// Its run.
        over: String,
        /// The server's.
        now: String,
    },
    /// The server asks for more than this client's policy lets it.
    #[error("`{rule}`: the server asks for {asked}\nhint: {remedy}")]
    Policy {
        /// The rule with its value.
        rule: String,
        /// What the server asks.
        asked: String,
        /// What to do.
        remedy: String,
    },
    /// Nobody here has approved the experiment yet.
    #[error(
        "`{name}` at {server} is not approved here: its hash is {hash}\nhint: look at what it is, compare the hash with the one that the server's operator sees (`formant status`), and join with --accept {hash}",
        name = proposal.name, server = proposal.server, hash = proposal.hash
    )]
    Unapproved {
        /// What would run.
        proposal: Box<Proposal>,
    },
    /// The server sends more than there can be.
    #[error(
        "{what} has {found}, and there can be {most}: nothing of it was kept\nhint: run the same version of formant on both sides; a server that does so on purpose means harm"
    )]
    Excess {
        /// What it sends.
        what: String,
        /// How much.
        found: String,
        /// How much there can be, and of what.
        most: String,
    },
    /// The server does not let this client in.
    #[error("{server} refuses this client: {reason}\nhint: {hint}")]
    Refused {
        /// The server's address.
        server: String,
        /// What it says.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// The server is not the one that this client was to talk to, or cannot show that it is.
    #[error("this client does not trust {server}: {reason}\nhint: {hint}")]
    Distrusted {
        /// The server's address.
        server: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// The other side has said something that makes no sense.
    #[error(
        "the other side of the connection does not keep to the protocol: {what}\nhint: run the same version of formant on both sides"
    )]
    Confused {
        /// What it was.
        what: String,
    },
    /// A thread is gone.
    #[error(
        "the {what} has stopped\nhint: the log above says why; start it again, its state is kept"
    )]
    Stopped {
        /// Which.
        what: &'static str,
    },
}

impl NetworkError {
    pub(crate) fn setting(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Setting { problem: problem.into(), hint: hint.into() }
    }
}
