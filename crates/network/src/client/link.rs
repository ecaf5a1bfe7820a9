//! The client's connection: it joins, downloads what it is told to, sends what it is given, and comes
//! back for ever when it is lost.

use super::backoff::Backoff;
use super::bound::Bound;
use super::handshake::{causes, lasting, wants_tls};
use super::mind::Notice;
use super::session::Running;
use super::transfer::{Caller, Lost, Progress, Signer};
use crate::error::NetworkError;
use crate::identity::ClientIdentity;
use crate::stream::{Limits, Line, Metered, Traffic};
use crate::wire::{VERSION, confused, proto};
use formant_runtime::files::Named;
use hyper_util::rt::TokioIo;
use proto::federation_client::FederationClient;
use proto::order::Order;
use rustls::pki_types::ServerName;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tracing::{info, warn};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Pings that find out whether the server is still there.
const PING: Duration = Duration::from_secs(10);
/// How long the answer to a ping may take; a line full of chunks answers late.
const PONG: Duration = Duration::from_secs(30);
/// A session that has lasted so long was a good one.
const STABLE: Duration = Duration::from_secs(10);
/// How long a farewell may take, and how often it is tried.
const LEAVE: Duration = Duration::from_secs(5);
const FAREWELLS: usize = 3;
/// Most bytes of a message: a chunk, its numbers and some room, or an experiment.
const MESSAGE: usize = 4 << 20;
/// Most bytes of an experiment, and of a run's name.
const EXPERIMENT: usize = 1 << 20;
const NAME: usize = 256;
/// Bytes of one transfer that may be on their way unread.
const WINDOW: u32 = 1 << 20;

/// What the client is to send.
pub(crate) enum Command {
    /// An upload, from a file.
    Upload { round: u64, file: Named, samples: u64, loss: Option<f64> },
    /// There will be none.
    Fail { round: u64, why: String },
}

/// How the client is known to the server.
#[derive(Clone)]
pub enum Identity {
    /// By its certificate.
    Certificate {
        /// The client's certificate, and which server's it accepts.
        tls: Arc<rustls::ClientConfig>,
        /// The name that must stand in the server's certificate.
        server: ServerName<'static>,
        /// The name in the client's.
        client: String,
    },
    /// It says its name, without encryption. Only on loopback.
    Name(String),
}

impl Identity {
    /// The client's own name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Certificate { client: name, .. } | Self::Name(name) => name,
        }
    }

    /// By a certificate; `server` is the host that must stand in the server's.
    pub fn of(identity: &ClientIdentity, server: &str) -> Result<Self, NetworkError> {
        let name = ServerName::try_from(server.to_owned()).map_err(|_| {
            NetworkError::setting(
                format!("`{server}` cannot be the name of a server"),
                "give the name in its certificate: a host name or an address",
            )
        })?;
        let (tls, client) = (Arc::new(identity.client_config()?), identity.name().to_owned());
        Ok(Self::Certificate { tls, server: name, client })
    }
}

/// Where and as whom.
pub(crate) struct Link {
    /// Host and port.
    pub(crate) server: String,
    pub(crate) identity: Identity,
    pub(crate) states: PathBuf,
    pub(crate) limits: Limits,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) progress: Arc<Progress>,
    /// What broadcasts may be: nothing is fetched before that is known.
    pub(crate) bound: watch::Sender<Option<Bound>>,
    /// Whether the server has let this client in before.
    pub(crate) welcomed: AtomicBool,
    pub(crate) notices: Sender<Notice>,
}

/// Why a session has ended.
pub(super) enum Ended {
    /// The line is gone, or the server is.
    Lost(String),
    /// The run is over.
    Over,
    /// It makes no sense to come back.
    Refused(NetworkError),
}

impl From<Lost> for Ended {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost.0)
    }
}

impl Link {
    /// Stays connected until the run is over.
    pub(crate) async fn run(self: Arc<Self>, mut commands: UnboundedReceiver<Command>) {
        let mut backoff = Backoff::new(&self.server);
        loop {
            let ended = match self.connect().await {
                Ok(channel) => self.session(channel, &mut commands, &mut backoff).await,
                Err(ended) => ended,
            };
            let why = match ended {
                Ended::Over => return,
                Ended::Refused(error) => {
                    let _ = self.notices.send(Notice::Failed(error));
                    return;
                }
                Ended::Lost(why) => why,
            };
            if self.progress.take() {
                backoff.reset();
            }
            let pause = backoff.next();
            let again_in = Duration::from_millis(pause.as_millis() as u64);
            warn!(server = self.server, why, ?again_in, "not connected");
            if self.notices.send(Notice::Disconnected).is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells the server not to wait for this client any more. If that fails it waits for nothing, but
    /// not for ever.
    pub(crate) async fn farewell(&self) {
        let said = async {
            for _ in 0..FAREWELLS {
                if let Ok(channel) = self.connect().await
                    && self.caller(channel).leave(proto::Farewell {}).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(Backoff::FIRST).await;
            }
        };
        let _ = tokio::time::timeout(LEAVE, said).await;
    }

    fn caller(&self, channel: Channel) -> Caller {
        let name = match &self.identity {
            Identity::Name(name) => MetadataValue::try_from(name).ok(),
            Identity::Certificate { .. } => None,
        };
        FederationClient::with_interceptor(channel, Signer(name)).max_decoding_message_size(MESSAGE)
    }

    async fn connect(&self) -> Result<Channel, Ended> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.server))
            .map_err(|error| Ended::Lost(error.to_string()))?
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let (server, identity) = (self.server.clone(), self.identity.clone());
        let (traffic, limits) = (self.traffic.clone(), self.limits.clone());
        let connector = tower::service_fn(move |_| {
            let socket = TcpStream::connect(server.clone());
            let (identity, traffic, limits) = (identity.clone(), traffic.clone(), limits.clone());
            async move {
                let line = Metered::new(socket.await?, traffic, limits);
                let line = match identity {
                    Identity::Name(_) => Line::Plain(line),
                    Identity::Certificate { tls, server, .. } => {
                        let mut line = TlsConnector::from(tls).connect(server, line).await?;
                        // The handshake ends before the server has seen our certificate. Its first
                        // words, or its refusal, come by themselves: they are waited for, not taken.
                        if line.fill_buf().await?.is_empty() {
                            return Err(std::io::ErrorKind::UnexpectedEof.into());
                        }
                        Line::Client(Box::new(line))
                    }
                };
                Ok::<_, std::io::Error>(TokioIo::new(line))
            }
        });
        match tokio::time::timeout(CONNECT, endpoint.connect_with_connector(connector)).await {
            Ok(connected) => connected.map_err(|error| self.broken(&error)),
            Err(_) => Err(Ended::Lost("the connection took too long".into())),
        }
    }

    /// A connection that failed.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> Ended {
        let welcomed = self.welcomed.load(Relaxed);
        let lasting = lasting((&self.server, welcomed), error).or_else(|| {
            let is_plain = matches!(self.identity, Identity::Name(_));
            if is_plain && !welcomed { wants_tls(&self.server, error) } else { None }
        });
        lasting.map_or_else(|| Ended::Lost(causes(error)), Ended::Refused)
    }

    /// One connection from its welcome to its end.
    async fn session(
        &self,
        channel: Channel,
        commands: &mut UnboundedReceiver<Command>,
        backoff: &mut Backoff,
    ) -> Ended {
        let mut caller = self.caller(channel);
        let mut orders = match caller.join(proto::Hello { version: VERSION, born: now() }).await {
            Ok(orders) => orders.into_inner(),
            Err(status) => return self.rejected(&status),
        };
        let first = orders.message().await;
        let welcome = match first.map(|order| order.and_then(|order| order.order)) {
            Ok(Some(Order::Welcome(welcome))) => welcome,
            Ok(_) => return Ended::Refused(confused("the first order is not a welcome")),
            Err(status) => return self.rejected(&status),
        };
        if let Err(excess) = sensible(&welcome) {
            return Ended::Refused(excess);
        }
        info!(server = self.server, "connected");
        self.welcomed.store(true, Relaxed);
        // What was to be sent before the connection was lost is asked for anew.
        while commands.try_recv().is_ok() {}
        let mut session = Running {
            link: self,
            caller,
            chunk: (welcome.chunk as usize).clamp(1_024, 2 << 20),
            packing: (welcome.encoding, welcome.precision),
            tasks: JoinSet::new(),
            download: None,
        };
        if self.notices.send(Notice::Connected(Box::new(welcome))).is_err() {
            return Ended::Over;
        }
        let welcomed = Instant::now();
        loop {
            let ended = tokio::select! {
                order = orders.message() => match order {
                    Ok(Some(order)) => session.take(order),
                    Ok(None) => Some(Ended::Lost("the server has closed the connection".into())),
                    Err(status) => Some(self.rejected(&status)),
                },
                command = commands.recv() => match command {
                    Some(command) => { session.send(command); None }
                    None => Some(Ended::Over),
                },
                Some(brought) = session.tasks.join_next() => {
                    // A welcome alone is no sign of health: with transfers that fail at once, every
                    // client would come back at the shortest pause.
                    if matches!(brought, Ok(Ok(_))) {
                        backoff.reset();
                    }
                    session.bring(brought)
                }
            };
            if welcomed.elapsed() >= STABLE {
                backoff.reset();
            }
            if let Some(ended) = ended {
                let is_lost = matches!(ended, Ended::Lost(_));
                return if is_lost && session.drain().await { Ended::Over } else { ended };
            }
        }
    }

    fn rejected(&self, status: &Status) -> Ended {
        let (server, reason) = (self.server.clone(), status.message().to_owned());
        let hint = match status.code() {
            Code::Unauthenticated => "ask for a new certificate: `formant cert client NAME`",
            Code::PermissionDenied => "the server's file lists its clients in server.clients",
            Code::FailedPrecondition => "run the same version of formant on both sides",
            // What tonic says of a message that is longer than it may be; it would come again.
            Code::OutOfRange => {
                return Ended::Refused(NetworkError::Excess {
                    what: "an order of the server".into(),
                    found: format!("more than may be ({reason})"),
                    most: format!("{MESSAGE} bytes"),
                });
            }
            _ => {
                return match std::error::Error::source(status) {
                    Some(source) => self.broken(source),
                    None => Ended::Lost(reason),
                };
            }
        };
        Ended::Refused(NetworkError::Refused { server, reason, hint })
    }
}

/// Refuses a welcome that nobody means.
fn sensible(welcome: &proto::Welcome) -> Result<(), NetworkError> {
    let texts =
        [("experiment", &welcome.experiment, EXPERIMENT), ("run's name", &welcome.run, NAME)];
    match texts.into_iter().find(|(_, text, most)| text.len() > *most) {
        None => Ok(()),
        Some((what, text, most)) => Err(NetworkError::Excess {
            what: format!("the server's {what}"),
            found: format!("{} bytes", text.len()),
            most: most.to_string(),
        }),
    }
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
