//! One connection of a client: its own certificate, its own address, and an end that nobody is told of.

use super::wire::proto::federation_client::FederationClient;
use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{Shutdown, SocketAddr, TcpStream as Socket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

/// As the real client has them.
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(10);
const WINDOW: u32 = 1 << 20;
const MESSAGE: usize = 4 << 20;

pub(crate) type Caller = FederationClient<Channel>;

/// A connection that is there.
pub(crate) struct Line {
    pub(crate) caller: Caller,
    /// The same socket, to cut it.
    socket: Socket,
}

impl Line {
    /// Connects as the real client does.
    pub(crate) async fn to(
        server: SocketAddr,
        from: SocketAddr,
        tls: Arc<ClientConfig>,
    ) -> anyhow::Result<Self> {
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let connector = tower::service_fn(move |_| {
            let (tls, keep) = (tls.clone(), keep.clone());
            async move {
                let socket = TcpSocket::new_v4()?;
                socket.set_reuseaddr(true)?;
                socket.bind(from)?;
                let line = socket.connect(server).await?;
                line.set_nodelay(true)?;
                // A second handle to the same socket.
                let line = line.into_std()?;
                *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.try_clone()?);
                let line = tokio::net::TcpStream::from_std(line)?;
                let name = ServerName::IpAddress(server.ip().into());
                let mut line = TlsConnector::from(tls).connect(name, line).await?;
                // The handshake ends before the server has seen the client's certificate.
                if line.fill_buf().await?.is_empty() {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                Ok::<_, std::io::Error>(TokioIo::new(line))
            }
        });
        let endpoint = Endpoint::from_shared(format!("http://{server}"))?
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let connect = endpoint.connect_with_connector(connector);
        let channel = tokio::time::timeout(CONNECT, connect).await.context("no connection")??;
        let socket = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let socket = socket.context("a connection without a socket")?;
        Ok(Self {
            caller: FederationClient::new(channel).max_decoding_message_size(MESSAGE),
            socket,
        })
    }

    /// Cuts the connection as a broken line does: no word of TLS or HTTP/2 says that it ends.
    pub(crate) fn cut(&self) {
        // One that the server has closed already is cut.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
