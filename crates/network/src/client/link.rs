//! The client's connection: it joins, downloads what it is told to, sends what it is given, and comes
//! back for ever when it is lost.

use super::backoff::Backoff;
use super::handshake::{causes, lasting, wants_tls};
use super::mind::Notice;
use super::transfer::{self, Caller, Lost, Progress, Signer};
use crate::durable::Named;
use crate::error::NetworkError;
use crate::identity::ClientIdentity;
use crate::stream::{Limits, Line, Metered, Traffic};
use crate::wire::{VERSION, confused, proto, role_from_wire};
use hyper_util::rt::TokioIo;
use proto::federation_client::FederationClient;
use proto::order::Order;
use rustls::pki_types::ServerName;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, JoinSet};
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
/// How long transfers may take to end when the line is broken.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a farewell may take.
pub(super) const LEAVE: Duration = Duration::from_secs(5);
/// Bytes of one transfer that may be on their way unread.
const WINDOW: u32 = 1 << 20;

/// What the client is to send.
pub(crate) enum Command {
    /// An upload, from a file.
    Upload { round: u64, file: Named, samples: u64 },
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
    },
    /// It says its name, without encryption. Only on loopback.
    Name(String),
}

impl Identity {
    /// By a certificate; `server` is the host that must stand in the server's.
    pub fn of(identity: &ClientIdentity, server: &str) -> Result<Self, NetworkError> {
        let name = ServerName::try_from(server.to_owned()).map_err(|_| {
            NetworkError::setting(
                format!("`{server}` cannot be the name of a server"),
                "give the name in its certificate: a host name or an address",
            )
        })?;
        Ok(Self::Certificate { tls: Arc::new(identity.client_config()?), server: name })
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
    pub(crate) notices: Sender<Notice>,
}

/// Why a session has ended.
enum Ended {
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

/// What a task of a session has brought.
enum Brought {
    Broadcast { round: u64, role: formant_federation::Role, file: Option<Named> },
    Last { round: u64, file: Option<Named> },
    Verdict { round: u64, verdict: proto::Verdict },
}

impl Link {
    /// Stays connected until the run is over.
    pub(crate) async fn run(self, mut commands: UnboundedReceiver<Command>) {
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
            warn!(server = self.server, why, again_in = ?pause, "not connected");
            if self.notices.send(Notice::Disconnected).is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
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
                    Identity::Certificate { tls, server } => {
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
        lasting(&self.server, error).map_or_else(|| Ended::Lost(causes(error)), Ended::Refused)
    }

    /// One connection from its welcome to its end.
    async fn session(
        &self,
        channel: Channel,
        commands: &mut UnboundedReceiver<Command>,
        backoff: &mut Backoff,
    ) -> Ended {
        let name = match &self.identity {
            Identity::Name(name) => MetadataValue::try_from(name).ok(),
            Identity::Certificate { .. } => None,
        };
        let mut caller = FederationClient::with_interceptor(channel, Signer(name))
            .max_decoding_message_size(usize::MAX);
        let mut orders = match caller.join(proto::Hello { version: VERSION }).await {
            Ok(orders) => orders.into_inner(),
            // A server that wants TLS answers a plain greeting with an alert, which is no HTTP/2.
            Err(status)
                if matches!(self.identity, Identity::Name(_))
                    && status.message().starts_with("h2 protocol error") =>
            {
                return Ended::Refused(wants_tls(&self.server));
            }
            Err(status) => return self.rejected(&status),
        };
        let first = orders.message().await;
        let welcome = match first.map(|order| order.and_then(|order| order.order)) {
            Ok(Some(Order::Welcome(welcome))) => welcome,
            Ok(_) => return Ended::Refused(confused("the first order is no welcome")),
            Err(status) => return self.rejected(&status),
        };
        info!(server = self.server, "connected");
        // What was to be sent before the connection was lost is asked for anew.
        while commands.try_recv().is_ok() {}
        let mut session = Running {
            link: self,
            caller,
            chunk: (welcome.chunk as usize).clamp(1_024, 2 << 20),
            packing: (welcome.encoding, welcome.precision),
            tasks: JoinSet::new(),
            download: None,
            over: false,
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
                command = commands.recv() => if let Some(command) = command { session.send(command); None } else {
                    session.leave().await;
                    Some(Ended::Over)
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
                if let Ended::Lost(_) = ended {
                    session.drain().await;
                }
                return ended;
            }
        }
    }

    fn rejected(&self, status: &Status) -> Ended {
        let (server, reason) = (self.server.clone(), status.message().to_owned());
        let hint = match status.code() {
            Code::Unauthenticated => "ask for a new certificate: `formant cert client NAME`",
            Code::PermissionDenied => "the server's file lists its clients in server.clients",
            Code::FailedPrecondition => "run the same version of formant on both sides",
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

/// A session under way.
struct Running<'l> {
    link: &'l Link,
    caller: Caller,
    chunk: usize,
    packing: (i32, i32),
    tasks: JoinSet<Result<Brought, Lost>>,
    /// The broadcast that is coming: a newer one takes its place.
    download: Option<AbortHandle>,
    /// The run is over, and what the server had to give is here.
    over: bool,
}

impl Running<'_> {
    fn take(&mut self, order: proto::Order) -> Option<Ended> {
        match order.order {
            Some(Order::Broadcast(order)) => {
                let (round, role) = (order.round, role_from_wire(order.role()));
                let Some(file) = order.file else {
                    return Some(Ended::Refused(confused("a broadcast without a file")));
                };
                let (by, states) = (self.way(), self.link.states.clone());
                let task = self.tasks.spawn(async move {
                    let file = transfer::download(by, &states, round, file).await?;
                    Ok(Brought::Broadcast { round, role, file })
                });
                if let Some(older) = self.download.replace(task) {
                    older.abort();
                }
                None
            }
            Some(Order::Dismiss(order)) => self.dismissed(order),
            Some(Order::Welcome(_)) | None => {
                Some(Ended::Refused(confused("an order that is no order")))
            }
        }
    }

    fn dismissed(&mut self, order: proto::Dismiss) -> Option<Ended> {
        if order.cause() == proto::dismiss::Cause::Replaced {
            return Some(Ended::Refused(NetworkError::Refused {
                server: self.link.server.clone(),
                reason: "another process has joined under the same name".into(),
                hint: "run one client for each name",
            }));
        }
        // Nobody waits for an upload any more.
        self.tasks.abort_all();
        let Some(proto::Broadcast { round, file: Some(file), .. }) = order.last else {
            self.over = true;
            let told = self.link.notices.send(Notice::Dismissed { last: None });
            return told.is_err().then_some(Ended::Over);
        };
        let (by, states) = (self.way(), self.link.states.clone());
        self.tasks.spawn(async move {
            let file = transfer::download(by, &states, round, file).await?;
            Ok(Brought::Last { round, file })
        });
        None
    }

    /// What a transfer goes by.
    fn way(&self) -> (Caller, Arc<Progress>) {
        (self.caller.clone(), self.link.progress.clone())
    }

    fn send(&mut self, command: Command) {
        let (mut caller, progress) = self.way();
        let (chunk, states) = (self.chunk, self.link.states.clone());
        match command {
            Command::Upload { round, file, samples } => {
                let header = proto::UploadHeader {
                    round,
                    file: Some(proto::File { bytes: file.bytes, hash: file.hash_bytes() }),
                    encoding: self.packing.0,
                    precision: self.packing.1,
                    samples,
                };
                let path = states.join(&file.file);
                self.tasks.spawn(async move {
                    let verdict = transfer::upload((caller, progress), header, path, chunk).await?;
                    Ok(Brought::Verdict { round, verdict })
                });
            }
            Command::Fail { round, why } => {
                self.tasks.spawn(async move {
                    let told = caller.fail(proto::Failure { round, reason: why }).await;
                    let verdict = told.map_err(Lost::from)?.into_inner();
                    Ok(Brought::Verdict { round, verdict })
                });
            }
        }
    }

    /// On a broken line transfers end by themselves, once they have kept what had still arrived.
    async fn drain(&mut self) {
        let rest = async {
            while let Some(brought) = self.tasks.join_next().await {
                self.bring(brought);
            }
        };
        let _ = tokio::time::timeout(DRAIN, rest).await;
    }

    fn bring(
        &mut self,
        brought: Result<Result<Brought, Lost>, tokio::task::JoinError>,
    ) -> Option<Ended> {
        // A download that was given up for a newer one is no news.
        let brought = brought.ok()?;
        let notice = match brought {
            Err(lost) => return Some(lost.into()),
            // The server has a newer broadcast, of which it will tell.
            Ok(Brought::Broadcast { file: None, .. }) => return None,
            Ok(Brought::Broadcast { round, role, file: Some(file) }) => {
                Notice::Broadcast { round, role, file }
            }
            Ok(Brought::Last { round, file }) => {
                self.over = true;
                Notice::Dismissed { last: file.map(|file| (round, file)) }
            }
            Ok(Brought::Verdict { round, verdict }) => Notice::Verdict { round, verdict },
        };
        self.link.notices.send(notice).is_err().then_some(Ended::Over)
    }

    /// Tells the server not to wait, if the client has come to the end of the run.
    async fn leave(&mut self) {
        if self.over {
            let said = self.caller.leave(proto::Farewell {});
            let _ = tokio::time::timeout(LEAVE, said).await;
        }
    }
}
