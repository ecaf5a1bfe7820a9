//! Accepts connections: only so many, with a handshake that must end in time, each with the name that
//! its certificate says.

use super::core::Core;
use crate::stream::{Limits, Line, Metered};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection that was let in.
pub(crate) struct Guest {
    line: Line,
    peer: Peer,
    _place: OwnedSemaphorePermit,
}

/// Who is at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// The certificate, by which the name is known; none without TLS.
    pub(crate) certificate: Option<Arc<Vec<u8>>>,
}

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
) -> mpsc::Receiver<io::Result<Guest>> {
    let (guests, door) = mpsc::channel(16);
    let places = Arc::new(Semaphore::new(core.wiring.settings.max_clients));
    let limits = Limits::both(core.wiring.settings.rate_limit);
    tokio::spawn(async move {
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
            let Ok(place) = places.clone().try_acquire_owned() else {
                core.metrics.connections_refused.fetch_add(1, Relaxed);
                warn!(%from, "connection refused: there are max_clients already");
                continue;
            };
            let line = Metered::new(socket, core.metrics.traffic.clone(), limits.clone());
            let (tls, guests, core) = (tls.clone(), guests.clone(), core.clone());
            tokio::spawn(async move {
                match tokio::time::timeout(HANDSHAKE, shake(line, tls)).await {
                    Ok(Ok((line, peer))) => {
                        debug!(%from, "connected");
                        let _ = guests.send(Ok(Guest { line, peer, _place: place })).await;
                    }
                    Ok(Err(error)) => refused(&core, from, &error.to_string()),
                    Err(_) => refused(&core, from, "the handshake took too long"),
                }
            });
        }
    });
    door
}

fn refused(core: &Core, from: std::net::SocketAddr, why: &str) {
    core.metrics.connections_refused.fetch_add(1, Relaxed);
    warn!(%from, why, "connection refused");
}

async fn shake(line: Metered, tls: Option<TlsAcceptor>) -> io::Result<(Line, Peer)> {
    let Some(tls) = tls else { return Ok((Line::Plain(line), Peer::default())) };
    let line = tls.accept(line).await?;
    let certificates = line.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().map(|first| Arc::new(first.to_vec()));
    Ok((Line::Server(Box::new(line)), Peer { certificate }))
}
