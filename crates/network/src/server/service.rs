//! The gRPC service: finds out who asks and hands the request on.

use super::actor::Message;
use super::budget;
use super::core::Core;
use super::door::Stage;
use super::intake;
use super::listener::Peer;
use super::presence::Present;
use super::shelf::Cut;
use crate::audit::Entry;
use crate::wire::{NAME_KEY, VERSION, proto};
use formant_federation::Refusal;
use proto::federation_server::Federation;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::error;

/// Orders that may wait for a client that does not read.
const ORDERS: usize = 32;
/// Chunks that are ready before the network takes them.
const AHEAD: usize = 2;

pub(crate) struct Service {
    pub(crate) core: Arc<Core>,
}

/// Tells a client's name by its certificate, or why it has none; asked anew for every request, since a
/// certificate may have been revoked.
pub type Names = Arc<dyn Fn(&[u8]) -> Result<String, NoName> + Send + Sync>;

/// Why a certificate gives no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoName {
    /// It is revoked, or no client's: it makes no sense to come back with it.
    Refused(String),
    /// The server cannot tell at the moment.
    Unknown(String),
}

impl From<NoName> for Status {
    fn from(why: NoName) -> Self {
        match why {
            NoName::Refused(why) => Self::unauthenticated(why),
            NoName::Unknown(why) => Self::unavailable(why),
        }
    }
}

impl Service {
    /// Who asks. A client cannot say that it is another.
    fn client<T>(&self, request: &Request<T>, call: &str) -> Result<usize, Status> {
        let known = self.known(request);
        if let Err((client, status)) = &known
            && self.core.lines.take(Instant::now()).is_some()
        {
            self.core.note(Entry::Refused {
                client: client.map(|client| self.core.name(client).to_owned()),
                call: call.to_owned(),
                round: None,
                reason: format!("{:?}", status.code()),
                detail: status.message().to_owned(),
            });
        }
        known.map_err(|(_, status)| status)
    }

    /// The same; if it may not call, why not, and who it is as far as that is known.
    fn known<T>(&self, request: &Request<T>) -> Result<usize, (Option<usize>, Status)> {
        let client = self.named(request).map_err(|status| (None, status))?;
        let refuse = |status| Err((Some(client), status));
        if self.core.excluded.contains(&client) {
            return refuse(Status::permission_denied(Refusal::Excluded.sentence()));
        }
        if self.core.calls[client].take(Instant::now()).is_none() {
            return refuse(Status::resource_exhausted("too many calls a second"));
        }
        Ok(client)
    }

    fn named<T>(&self, request: &Request<T>) -> Result<usize, Status> {
        let peer = request.extensions().get::<Peer>();
        let name = if let Some(names) = self.core.door.names() {
            let certificate = peer.and_then(|peer| peer.0.certificate.as_deref());
            let certificate =
                certificate.ok_or_else(|| Status::unauthenticated("a certificate is needed"))?;
            names(certificate)?
        } else {
            let name = request.metadata().get(NAME_KEY).and_then(|name| name.to_str().ok());
            name.ok_or_else(|| Status::unauthenticated("a name is needed"))?.to_owned()
        };
        let client = self.core.place(&name).ok_or_else(|| {
            Status::permission_denied(format!("`{name}` is not a client of this federation"))
        })?;
        if let Some(Peer(pass)) = peer {
            self.core.door.known(pass, client);
        }
        Ok(client)
    }

    fn welcome(&self, client: usize) -> proto::Order {
        let settings = &self.core.wiring.settings;
        let welcome = proto::Welcome {
            client: client as u32,
            experiment: self.core.wiring.experiment.clone(),
            run: self.core.run.clone(),
            encoding: settings.packing.encoding.into(),
            precision: settings.packing.precision.into(),
            chunk: budget::received_chunk(settings) as u32,
            generation: self.core.generation,
            since: self.core.since,
        };
        proto::Order { order: Some(proto::order::Order::Welcome(welcome)) }
    }
}

type Chunks = ReceiverStream<Result<proto::Chunk, Status>>;

#[tonic::async_trait]
impl Federation for Service {
    type JoinStream = Control;
    type DownloadStream = Chunks;

    async fn join(&self, request: Request<proto::Hello>) -> Result<Response<Control>, Status> {
        let client = self.client(&request, "join")?;
        let proto::Hello { version, born } = *request.get_ref();
        if version != VERSION {
            return Err(Status::failed_precondition(format!(
                "the client speaks version {version} of the protocol and the server {VERSION}"
            )));
        }
        let (orders, stream) = mpsc::channel(ORDERS);
        let _ = orders.try_send(Ok(self.welcome(client)));
        let session = self.core.sessions.fetch_add(1, Relaxed);
        let peer = request.extensions().get::<Peer>();
        let revoked = peer.map(|Peer(pass)| {
            pass.joined(session);
            pass.reached(Stage::Revoked)
        });
        let control = Control { core: self.core.clone(), client, session, orders: stream, revoked };
        join(&self.core, client, Present { session, born, orders })?;
        Ok(Response::new(control))
    }

    async fn download(
        &self,
        request: Request<proto::DownloadRequest>,
    ) -> Result<Response<Chunks>, Status> {
        self.client(&request, "download")?;
        let proto::DownloadRequest { round, offset } = *request.get_ref();
        let named = self.core.shelf.named(round).ok_or_else(|| {
            Status::not_found(format!("there is no broadcast of round {round} any more"))
        })?;
        if offset > named.bytes {
            return Err(Status::out_of_range(format!("{offset} of {} bytes", named.bytes)));
        }
        // From here on it is held: it can be sent to its end although a newer round takes its place.
        let cut = self.core.shelf.cut(round, named).await.map_err(|error| {
            error!(round, %error, "cannot read a broadcast");
            Status::unavailable("the broadcast cannot be read")
        })?;
        let (chunks, stream) = mpsc::channel(AHEAD);
        let patience = self.core.wiring.settings.idle_timeout;
        tokio::spawn(send_chunks(cut, offset, patience, chunks));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn resume(
        &self,
        request: Request<proto::UploadHeader>,
    ) -> Result<Response<proto::UploadOffset>, Status> {
        let client = self.client(&request, "resume")?;
        intake::resume(self.core.clone(), client, request.into_inner()).await.map(Response::new)
    }

    async fn upload(
        &self,
        request: Request<Streaming<proto::UploadPart>>,
    ) -> Result<Response<proto::Verdict>, Status> {
        let client = self.client(&request, "upload")?;
        intake::receive(self.core.clone(), client, request.into_inner()).await.map(Response::new)
    }

    async fn leave(
        &self,
        request: Request<proto::Farewell>,
    ) -> Result<Response<proto::Farewell>, Status> {
        let client = self.client(&request, "leave")?;
        self.core
            .actor
            .send(Message::Farewell { client })
            .map_err(|_| Status::unavailable("the server is stopping"))?;
        Ok(Response::new(proto::Farewell {}))
    }

    async fn fail(
        &self,
        request: Request<proto::Failure>,
    ) -> Result<Response<proto::Verdict>, Status> {
        let client = self.client(&request, "fail")?;
        let proto::Failure { round, reason } = request.into_inner();
        let why: String = reason.chars().take(500).collect();
        let failed = |reply| Message::Failed { client, round, why, reply: Some(reply) };
        match self.core.ask(failed).await {
            Err(fault) if fault.is_stopping() => Err(Status::unavailable(fault.detail)),
            verdict => Ok(Response::new(verdict.unwrap_or_else(|fault| fault.verdict()))),
        }
    }
}

fn join(core: &Core, client: usize, present: Present) -> Result<(), Status> {
    core.actor
        .send(Message::Joined { client, present })
        .map_err(|_| Status::unavailable("the server is stopping"))
}

/// Sends a broadcast from an offset on, as fast as somebody takes the chunks. A reader that stalls is given
/// up.
async fn send_chunks(
    cut: Arc<Cut>,
    offset: u64,
    patience: Duration,
    chunks: mpsc::Sender<Result<proto::Chunk, Status>>,
) {
    for chunk in cut.after(offset) {
        if chunks.send_timeout(Ok(chunk), patience).await.is_err() {
            return;
        }
    }
}

/// The control stream. When it is dropped, the client is gone.
pub(crate) struct Control {
    core: Arc<Core>,
    client: usize,
    session: u64,
    orders: mpsc::Receiver<Result<proto::Order, Status>>,
    /// Waits for the end of the client's certificate.
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream for Control {
    type Item = Result<proto::Order, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(revoked) = &mut self.revoked
            && revoked.as_mut().poll(cx).is_ready()
        {
            self.revoked = None;
            // Nothing that was on its way goes out any more.
            self.orders = mpsc::channel(1).1;
            return Poll::Ready(Some(Err(Status::unauthenticated("the certificate is revoked"))));
        }
        self.orders.poll_recv(cx)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let (client, session) = (self.client, self.session);
        let _ = self.core.actor.send(Message::Left { client, session });
    }
}
