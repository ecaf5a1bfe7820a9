//! A connection, plain or with TLS, whose bytes are counted and may be capped.

use crate::throttle::{PIECE, Throttle};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes that have gone over connections.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Received.
    pub received: AtomicU64,
    /// Sent.
    pub sent: AtomicU64,
}

/// Caps on both directions of a connection.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// On what comes.
    pub receive: Option<Throttle>,
    /// On what goes.
    pub send: Option<Throttle>,
}

impl Limits {
    /// The same cap on each direction; none without a rate.
    pub fn both(bytes_per_second: Option<u64>) -> Self {
        let cap = || bytes_per_second.map(Throttle::new);
        Self { receive: cap(), send: cap() }
    }
}

/// A socket whose bytes are counted and may be capped.
pub(crate) struct Metered {
    socket: TcpStream,
    traffic: Arc<Traffic>,
    receive: Gate,
    send: Gate,
}

impl Metered {
    pub(crate) fn new(socket: TcpStream, traffic: Arc<Traffic>, limits: Limits) -> Self {
        let _ = socket.set_nodelay(true);
        Self { socket, traffic, receive: Gate::new(limits.receive), send: Gate::new(limits.send) }
    }

    /// Waits until the other side has said something, and takes nothing of it.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }
}

/// One direction under a cap.
struct Gate {
    throttle: Option<Throttle>,
    closed: Option<Pin<Box<Sleep>>>,
}

impl Gate {
    fn new(throttle: Option<Throttle>) -> Self {
        Self { throttle, closed: None }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.closed {
            ready!(sleep.as_mut().poll(cx));
            self.closed = None;
        }
        Poll::Ready(())
    }

    fn pass(&mut self, bytes: usize) {
        if let Some(throttle) = &self.throttle {
            let now = Instant::now();
            let open = throttle.spend(bytes, now);
            self.closed = (open > now).then(|| Box::pin(sleep_until(open)));
        }
    }

    /// Most bytes that may go at once.
    fn piece(&self, wanted: usize) -> usize {
        if self.throttle.is_some() { wanted.min(PIECE) } else { wanted }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.receive.poll_open(cx));
        let before = buffer.filled().len();
        let room = this.receive.piece(buffer.remaining());
        if room == buffer.remaining() {
            ready!(Pin::new(&mut this.socket).poll_read(cx, buffer))?;
        } else {
            let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(room));
            ready!(Pin::new(&mut this.socket).poll_read(cx, &mut piece))?;
            let read = piece.filled().len();
            buffer.advance(read);
        }
        let read = buffer.filled().len() - before;
        this.traffic.received.fetch_add(read as u64, Ordering::Relaxed);
        this.receive.pass(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.send.poll_open(cx));
        let room = this.send.piece(bytes.len());
        let sent = ready!(Pin::new(&mut this.socket).poll_write(cx, &bytes[..room]))?;
        this.traffic.sent.fetch_add(sent as u64, Ordering::Relaxed);
        this.send.pass(sent);
        Poll::Ready(Ok(sent))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A connection under the protocol.
pub(crate) enum Line {
    Plain(Metered),
    Server(Box<tokio_rustls::server::TlsStream<Metered>>),
    Client(Box<tokio_rustls::client::TlsStream<Metered>>),
}

/// Does the same to whichever it is.
macro_rules! each {
    ($line:expr, $inner:ident => $do:expr) => {
        match $line {
            Line::Plain($inner) => $do,
            Line::Server($inner) => $do,
            Line::Client($inner) => $do,
        }
    };
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(&mut *self, line => Pin::new(line).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(&mut *self, line => Pin::new(line).poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, line => Pin::new(line).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, line => Pin::new(line).poll_shutdown(cx))
    }
}
