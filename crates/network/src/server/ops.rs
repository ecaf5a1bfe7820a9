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
    let (code, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => match status(&core).await {
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

/// Asks the actor where the run stands.
pub(crate) async fn status(core: &Core) -> Option<Status> {
    let (reply, status) = oneshot::channel();
    core.actor.send(Message::Status { reply }).ok()?;
    tokio::time::timeout(PATIENCE, status).await.ok()?.ok()
}
