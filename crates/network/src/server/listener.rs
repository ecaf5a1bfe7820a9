//! Accepts connections: only so many, with a handshake that must end in time, each with the name that
//! its certificate says. A connection takes a place only once its handshake is done, so that whoever has
//! no certificate cannot keep out those who have.

use super::core::Core;
use super::door::{Pass, Stage};
use super::halves::Halves;
use crate::audit::Entry;
use crate::stream::{Limits, Line, Metered};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

/// How long a handshake may take, and until its first byte: a client speaks first.
const HANDSHAKE: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_secs(2);
/// How long, and how much of, a client that was refused is still listened to.
const HEARING: Duration = Duration::from_secs(1);
const UNHEARD: u64 = 64 * 1024;

/// A connection that was let in.
pub(crate) struct Guest {
    line: Line,
    peer: Peer,
    /// Waits until the connection is to be closed.
    cut: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer(pub(crate) Arc<Pass>);

impl Connected for Guest {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            self.cut = Box::pin(std::future::ready(()));
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.line).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(cx)
    }
}

/// Accepts for ever; the stream of guests goes to tonic.
pub(crate) fn accept(
    core: Arc<Core>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
) -> (mpsc::Receiver<io::Result<Guest>>, JoinHandle<()>) {
    let (guests, door) = mpsc::channel(16);
    let places = Arc::new(Semaphore::new(core.wiring.settings.max_clients));
    let halves = Arc::new(Halves::default());
    let limits = Limits::both(core.wiring.settings.rate_limit);
    let accepting = tokio::spawn(async move {
        while !guests.is_closed() {
            let (socket, from) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of file handles: others may let go of theirs.
                        warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
                () = guests.closed() => return,
            };
            let mut place = halves.enter(from.ip());
            let line = Metered::new(socket, core.metrics.traffic.clone(), limits.clone());
            let (tls, guests, core) = (tls.clone(), guests.clone(), core.clone());
            let places = places.clone();
            tokio::spawn(async move {
                let shaken = tokio::select! {
                    shaken = tokio::time::timeout(HANDSHAKE, shake(line, tls)) => shaken,
                    _ = &mut place.lost => {
                        refused(&core, from, "too many handshakes at the same time");
                        return;
                    }
                };
                let let_in = match shaken {
                    Ok(Ok((line, certificate))) => seat(&core, places, line, certificate),
                    Ok(Err((error, line))) => {
                        refused(&core, from, &error.to_string());
                        hear_out(line).await;
                        return;
                    }
                    Err(_) => Err("the handshake took too long".to_owned()),
                };
                drop(place);
                match let_in {
                    Ok(guest) => {
                        debug!(%from, "connected");
                        let _ = guests.send(Ok(guest)).await;
                    }
                    Err(why) => refused(&core, from, &why),
                }
            });
        }
    });
    (door, accepting)
}

/// Gives a connection a place, or says why it gets none.
fn seat(
    core: &Core,
    places: Arc<Semaphore>,
    line: Line,
    certificate: Option<Vec<u8>>,
) -> Result<Guest, String> {
    let place = places.try_acquire_owned().map_err(|_| "there are max_clients already")?;
    let pass = core.door.enter(certificate).ok_or("its certificate has too many connections")?;
    Ok(Guest { line, cut: pass.reached(Stage::Cut), peer: Peer(pass), _place: place })
}

fn refused(core: &Core, from: std::net::SocketAddr, why: &str) {
    core.metrics.connections_refused.fetch_add(1, Relaxed);
    // Whoever knocks as fast as it can fills no log.
    let Some(more) = core.lines.take(Instant::now()) else { return };
    warn!(%from, why, more, "connection refused");
    core.note(Entry::Refused {
        client: None,
        call: "connect".into(),
        round: None,
        reason: "connection".into(),
        detail: format!("{}: {why}", from.ip()),
    });
}

/// Gives the line and the certificate at its other end, if it has TLS; or why not, and the line.
async fn shake(
    line: Metered,
    tls: Option<TlsAcceptor>,
) -> Result<(Line, Option<Vec<u8>>), (io::Error, Metered)> {
    let Some(tls) = tls else { return Ok((Line::Plain(line), None)) };
    match tokio::time::timeout(FIRST, line.readable()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err((error, line)),
        Err(_) => return Err((io::Error::other("it says nothing"), line)),
    }
    let line = tls.accept(line).into_fallible().await?;
    let certificates = line.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().map(|first| first.to_vec());
    Ok((Line::Server(Box::new(line)), certificate))
}

/// Reads what a refused client still says. Closed with words unread, a connection is reset, and the
/// alert that says why is lost on its way.
async fn hear_out(mut line: Metered) {
    let rest = async {
        let _ = line.shutdown().await;
        let _ = tokio::io::copy(&mut line.take(UNHEARD), &mut tokio::io::sink()).await;
    };
    let _ = tokio::time::timeout(HEARING, rest).await;
}
