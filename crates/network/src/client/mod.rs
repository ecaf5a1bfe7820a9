//! A client: one thread owns its state, one trains, tasks talk to the server.

mod backoff;
mod handshake;
mod link;
mod mind;
mod models;
mod plan;
mod session;
mod summary;
mod training;
mod transfer;
mod vault;

pub use link::Identity;
pub use summary::Summary;

use crate::error::NetworkError;
use crate::stream::{Limits, Traffic};
use formant_data::Share;
use link::Link;
use mind::{Notice, Waiting};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::oneshot;
use vault::Vault;

/// Where a client's samples come from.
pub enum Source {
    /// They are its own.
    Share(Box<Share>),
    /// Its share of the experiment's own dataset, divided as the simulator divides it.
    Rehearse {
        /// The folder of the datasets; without it, the usual one.
        dir: Option<PathBuf>,
    },
}

/// What a client needs.
pub struct JoinOptions {
    /// Host and port.
    pub server: String,
    /// How it is known.
    pub identity: Identity,
    /// Its data.
    pub source: Source,
    /// The folder that survives a crash.
    pub state: PathBuf,
    /// Most bytes per second in each direction.
    pub rate_limit: Option<u64>,
    /// Whether a folder whose run is over makes room for the server's new one.
    pub again: bool,
}

/// Takes part in a run until it is over. `None` if `shutdown` came first; then the state is kept, and
/// joining again goes on.
pub async fn join(
    options: JoinOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<Option<Summary>, NetworkError> {
    let (vault, begun) = Vault::open(&options.state)?;
    let name = options.identity.name().to_owned();
    let (notices, inbox) = std::sync::mpsc::channel();
    let (commands, orders) = tokio::sync::mpsc::unbounded_channel();
    let link = Arc::new(Link {
        server: options.server,
        identity: options.identity,
        states: vault.states(),
        limits: Limits::both(options.rate_limit),
        traffic: Arc::new(Traffic::default()),
        progress: Arc::default(),
        welcomed: AtomicBool::new(false),
        notices: notices.clone(),
    });
    let (ended, end) = oneshot::channel();
    let waiting = Waiting {
        vault,
        source: options.source,
        name,
        again: options.again,
        inbox,
        notices: notices.clone(),
        commands,
    };
    std::thread::spawn(move || ended.send(waiting.run(begun)));
    let connection = tokio::spawn(link.clone().run(orders));
    tokio::pin!(end);
    let outcome = tokio::select! {
        outcome = &mut end => outcome,
        () = shutdown => {
            let _ = notices.send(Notice::Stop);
            end.await
        }
    };
    connection.abort();
    if let Ok(Ok(Some(_))) = outcome {
        // The run is over and everything is kept: only now the server need not stay.
        link.farewell().await;
    }
    outcome.map_err(|_| NetworkError::Stopped { what: "client" })?
}
