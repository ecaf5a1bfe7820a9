//! The server: one thread owns the run, tasks talk to clients.

mod actor;
mod aggregation;
mod budget;
mod collapse;
mod core;
mod door;
mod halves;
mod intake;
mod listener;
mod measure;
mod metrics;
mod ops;
mod plan;
mod presence;
mod progress;
mod refusals;
mod service;
mod shelf;
mod status;
#[cfg(test)]
mod tests;
pub(crate) mod upload;
pub(crate) mod vault;
mod verdict;

pub use status::{ClientStatus, Status};
pub use vault::End;

use crate::error::NetworkError;
use crate::identity::{IdentityError, Revocations, ServerIdentity};
use crate::settings::ServerSettings;
use crate::wire::proto::federation_server::FederationServer;
use actor::{Actor, Message, Over};
use core::Core;
use door::Door;
use formant_experiment::OneMethod;
use plan::Wiring;
use service::Service;
pub use service::{Names, NoName};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use vault::Vault;

/// Pings that find out whether a client is still there.
const PING: Duration = Duration::from_secs(10);
/// How long the answer to a ping may take; a line full of chunks answers late.
const PONG: Duration = Duration::from_secs(30);
/// Calls that one client may have under way.
const CALLS: u32 = 16;

/// How clients are known.
pub enum Trust {
    /// By certificates.
    Certificates {
        /// The server's certificate, and which clients' it accepts.
        tls: Arc<rustls::ServerConfig>,
        /// A client's name by its certificate, or why it has none; asked anew for every request.
        names: Names,
        /// The list by which they are told, whose number the server's folder remembers.
        revocations: Option<Arc<Revocations>>,
    },
    /// They say who they are, without encryption. Only on loopback.
    Names,
}

impl Trust {
    /// Lets in whoever the authority of a server's certificates has let in and has not revoked since.
    pub fn of(identity: &ServerIdentity) -> Result<Self, IdentityError> {
        let list = identity.revocations();
        let revocations = Some(list.clone());
        Ok(Self::Certificates {
            tls: Arc::new(identity.server_config()?),
            revocations,
            names: Arc::new(move |certificate: &[u8]| {
                // A client is told the reason, not the advice to whoever runs the server.
                let told = |error: IdentityError| match error {
                    // Without a list there is no telling; somebody may be about to mend it. Where it
                    // lies is nobody's business.
                    IdentityError::File { .. } | IdentityError::Unusable { .. } => {
                        NoName::Unknown("the list of revoked certificates cannot be read".into())
                    }
                    error => NoName::Refused(
                        error.to_string().lines().next().unwrap_or_default().to_owned(),
                    ),
                };
                list.admit(&[certificate.to_vec().into()]).map_err(told)
            }),
        })
    }
}

/// A server at work.
pub struct RunningServer {
    address: SocketAddr,
    ops: Option<SocketAddr>,
    linger: Duration,
    core: Arc<Core>,
    over: watch::Receiver<Over>,
    actor: oneshot::Receiver<Result<(), NetworkError>>,
    stop: Option<oneshot::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningServer {
    /// Opens the state folder, goes on where its run stands, and listens.
    pub async fn start(
        experiment: &OneMethod,
        settings: ServerSettings,
        trust: Trust,
    ) -> Result<Self, NetworkError> {
        let (tls, names, revocations) = match trust {
            Trust::Certificates { tls, names, revocations } => {
                (Some(TlsAcceptor::from(tls)), Some(names), revocations)
            }
            Trust::Names => (None, None, None),
        };
        if tls.is_none() && !settings.listen.ip().is_loopback() {
            return Err(NetworkError::setting(
                format!("`server.listen = \"{}\"` without TLS", settings.listen),
                "make certificates with `formant cert`, or listen on 127.0.0.1",
            ));
        }
        let folder = settings.state.clone();
        let wiring = Wiring::new(experiment, settings)?;
        let (vault, manifest) = Vault::open(&folder, &wiring)?;
        if let Some(revocations) = revocations {
            revocations.remember(&vault.folder)?;
        }
        if manifest.end.is_some() {
            tracing::warn!(
                run = vault.run,
                state = %folder.display(),
                "the run of this folder is over: its last model is handed out, nothing is trained; a new federation needs a new folder (server.state or --state)"
            );
        }
        let listener = bind(wiring.settings.listen).await?;
        let ops = match wiring.settings.ops {
            Some(ops) => Some(bind(ops).await?),
            None => None,
        };
        let (sender, inbox) = std::sync::mpsc::channel();
        let door = Door::new(names);
        if tls.is_some() {
            door.remember(&vault.folder)?;
        }
        let core = Arc::new(Core::new(wiring, &vault, &manifest, sender, door));
        let (over_sender, over) = watch::channel(Over::default());
        let (ended, actor_end) = oneshot::channel();
        let actor = Actor::new(core.clone(), vault, manifest, inbox, over_sender)?;
        std::thread::spawn(move || ended.send(actor.run()));
        let mut running = Self {
            address: local(&listener)?,
            ops: ops.as_ref().map(local).transpose()?,
            linger: core.wiring.settings.linger,
            core: core.clone(),
            over,
            actor: actor_end,
            stop: None,
            tasks: Vec::new(),
        };
        if let Some(ops) = ops {
            running.tasks.push(tokio::spawn(ops::serve(core.clone(), ops)));
        }
        if tls.is_some() {
            running.tasks.push(tokio::spawn(door::patrol(core.clone())));
        }
        running.serve(core, listener, tls);
        Ok(running)
    }

    fn serve(&mut self, core: Arc<Core>, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let (guests, accepting) = listener::accept(core.clone(), listener, tls);
        let guests = ReceiverStream::new(guests);
        self.tasks.push(accepting);
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        // A chunk, its numbers and some room.
        let message = budget::received_chunk(&core.wiring.settings) + 64 * 1024;
        let window = budget::window(&core.wiring.settings) as u32;
        let service = FederationServer::new(Service { core })
            .max_decoding_message_size(message)
            .max_encoding_message_size(usize::MAX);
        let server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PONG))
            .initial_stream_window_size(window)
            .initial_connection_window_size(window)
            .max_concurrent_streams(CALLS)
            .serve_with_incoming_shutdown(service, guests, async {
                let _ = stopped.await;
            });
        self.tasks.push(tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::error!(%error, "the listener has stopped");
            }
        }));
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The hash by which clients approve the experiment.
    pub fn experiment_hash(&self) -> &str {
        &self.core.wiring.hash
    }

    /// Where operators look.
    pub fn ops(&self) -> Option<SocketAddr> {
        self.ops
    }

    /// Where the run stands; `None` if the server is stopping.
    pub async fn status(&self) -> Option<Status> {
        ops::status(&self.core).await
    }

    /// Connections that were not let in.
    pub fn refused_connections(&self) -> u64 {
        self.core.metrics.connections_refused.load(Relaxed)
    }

    /// Waits until a round is open, or the run is over.
    pub async fn wait_for_round(&self, round: u64) {
        let mut opened = self.core.opened.subscribe();
        // An error means that the actor is gone, and with it what is waited for.
        let _ = opened.wait_for(|open| *open >= round).await;
    }

    /// Waits for the end of the run, and then for clients that do not know of it yet, but not for
    /// ever. `None` if `shutdown` came first; then the state is kept and the run can go on.
    pub async fn finish(
        mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Option<End>, NetworkError> {
        let (linger, mut over) = (self.linger, self.over.clone());
        let done = async {
            if over.wait_for(|over| over.end.is_some()).await.is_ok() {
                let told = over.wait_for(|over| over.everybody_knows);
                let _ = tokio::time::timeout(linger, told).await;
            }
        };
        let failed = tokio::select! {
            () = done => None,
            () = shutdown => None,
            ended = &mut self.actor => Some(ended),
        };
        self.close(failed).await
    }

    async fn close(
        mut self,
        failed: Option<Result<Result<(), NetworkError>, oneshot::error::RecvError>>,
    ) -> Result<Option<End>, NetworkError> {
        let stopped = || NetworkError::Stopped { what: "server" };
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = if let Some(ended) = failed {
            ended
        } else {
            let _ = self.core.actor.send(Message::Stop);
            (&mut self.actor).await
        };
        for task in self.tasks {
            task.abort();
            // What it holds, such as a port, is free once it is gone.
            let _ = task.await;
        }
        ended.map_err(|_| stopped())??;
        Ok(self.over.borrow().end.clone())
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, NetworkError> {
    TcpListener::bind(address).await.map_err(|source| NetworkError::Listen { address, source })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, NetworkError> {
    listener.local_addr().map_err(|source| NetworkError::Listen {
        address: SocketAddr::from(([0, 0, 0, 0], 0)),
        source,
    })
}
