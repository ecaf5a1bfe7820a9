//! A run or a federation in the browser while it is under way.
//!
//! [`Watch::start`] serves a small page on the loopback interface: what is going on now, for a server also who is
//! there and what was refused, and below it the report's own figures, drawn again whenever the event log has
//! grown. The page hears of it by server-sent events. Nothing is written, nothing is asked of the run: the
//! log and, of a server, `/status` are read.

mod error;
mod follow;
mod http;
mod line;
mod live;
pub mod status;

pub use error::WatchError;
pub use live::{Live, Score, State};

use follow::Follower;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A run folder, or the state folder of a server or a client.
    pub folder: Option<PathBuf>,
    /// Where a server answers `/status`.
    pub ops: Option<String>,
}

/// A page that is served.
pub struct Watch {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    server: JoinHandle<()>,
    follower: JoinHandle<()>,
}

impl Watch {
    /// Serves the page on this port of the loopback interface; 0 takes any that is free.
    pub async fn start(target: Target, port: u16) -> Result<Self, WatchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|source| WatchError::Port { port, source })?;
        let address = listener.local_addr().map_err(|source| WatchError::Port { port, source })?;
        let stop = Arc::new(AtomicBool::new(false));
        let (follower, seen) = Follower::new(target, stop.clone());
        let follower = tokio::task::spawn_blocking(move || follower.run());
        let server = tokio::spawn(http::serve(listener, address, seen));
        Ok(Self { address, stop, server, follower })
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Closes the page.
    pub async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.server.abort();
        let _ = self.follower.await;
    }
}
