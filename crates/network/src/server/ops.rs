//! `/healthz`, `/metrics` and `/status` over plain HTTP, for operators and their machines.

use super::actor::Message;
use super::core::Core;
use super::status::Status;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

/// Longest time that one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at the same time.
const PLACES: usize = 32;

/// Serves until the task is dropped.
pub(crate) async fn serve(core: Arc<Core>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(PLACES));
    loop {
        // Whoever finds no place waits in the socket's queue.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            // Out of file handles: others may let go of theirs.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let core = core.clone();
        tokio::spawn(async move {
            let _place = place;
            let answer = service_fn(|request| answer(core.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), answer);
            let _ = tokio::time::timeout(PATIENCE, connection).await;
        });
    }
}

async fn answer(
    core: Arc<Core>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if !is_for_us(&request) {
        let said = "ask by an address of this machine, such as localhost or 127.0.0.1\n";
        let response = Response::builder().status(421).header("content-type", "text/plain");
        return Ok(response.body(Full::from(said)).unwrap_or_default());
    }
    let (code, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => match status(&core).await {
            Some(Status { trouble: Some(why), .. }) => (503, "text/plain", why + "\n"),
            Some(_) => (200, "text/plain", "ok\n".to_owned()),
            None => (503, "text/plain", "stopping\n".to_owned()),
        },
        (&Method::GET, "/metrics") => {
            (200, "text/plain; version=0.0.4; charset=utf-8", core.metrics.render())
        }
        (&Method::GET, "/status") => match status(&core).await {
            Some(status) => {
                (200, "application/json", serde_json::to_string(&status).unwrap_or_default())
            }
            None => (503, "text/plain", "stopping\n".to_owned()),
        },
        _ => (404, "text/plain", "there are /healthz, /metrics and /status\n".to_owned()),
    };
    let response = Response::builder().status(code).header("content-type", kind);
    Ok(response.body(Full::from(body)).unwrap_or_default())
}

/// Whether a request calls this machine by a name of its own. A page in an operator's browser may come from
/// a host whose name an attacker lets point here: its requests come from this machine, but by that name.
fn is_for_us(request: &Request<Incoming>) -> bool {
    let hosts: Vec<_> = request.headers().get_all("host").iter().collect();
    match hosts.as_slice() {
        // Only browsers are fooled, and they always say it.
        [] => request.uri().host().is_none_or(is_local),
        [host] => host.to_str().is_ok_and(is_local),
        _ => false,
    }
}

/// Whether a host, with or without a port, is this machine.
fn is_local(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|digit| digit.is_ascii_digit()) { name } else { host }
    });
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_address = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}

/// Asks the actor where the run stands.
pub(crate) async fn status(core: &Core) -> Option<Status> {
    let (reply, status) = oneshot::channel();
    core.actor.send(Message::Status { reply }).ok()?;
    tokio::time::timeout(PATIENCE, status).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for host in
            ["localhost", "LOCALHOST:7701", "127.0.0.1", "127.0.0.1:7701", "[::1]:7701", "[::1]"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7701",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost:evil",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
