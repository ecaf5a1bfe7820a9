//! The page over plain HTTP, to this machine alone.

use crate::follow::Seen;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

/// Connections at the same time: some pages, each with its events.
const PLACES: usize = 64;
/// Time between two signs of life.
const BEAT: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("../assets/page.html");
const SCRIPT: &str = include_str!("../assets/page.js");
const STYLE: &str = include_str!("../assets/page.css");

/// Only what comes from here, no scripts in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Body = BoxBody<Bytes, Infallible>;

/// Serves until the task is dropped.
pub(crate) async fn serve(listener: TcpListener, address: SocketAddr, seen: watch::Receiver<Seen>) {
    let places = Arc::new(Semaphore::new(PLACES));
    let hosts: Arc<[String]> =
        ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", address.port())).into();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((socket, _)) = listener.accept().await else {
            // Out of file handles: others may let go of theirs.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (seen, hosts) = (seen.clone(), hosts.clone());
        tokio::spawn(async move {
            let _place = place;
            let answer = service_fn(|request| {
                let response = answer(&request, &hosts, &seen);
                async move { Ok::<_, Infallible>(response) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), answer)
                .await;
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    hosts: &[String],
    seen: &watch::Receiver<Seen>,
) -> Response<Body> {
    // A page of somebody else whose name leads to this machine must not read along.
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| hosts.iter().any(|own| own.eq_ignore_ascii_case(host))) {
        return respond(421, "text/plain", "this page is for this machine alone\n");
    }
    if request.method() != Method::GET {
        return respond(405, "text/plain", "this page can only be read\n");
    }
    match request.uri().path() {
        "/" => respond(200, "text/html; charset=utf-8", PAGE),
        "/page.js" => respond(200, "text/javascript; charset=utf-8", SCRIPT),
        "/page.css" => respond(200, "text/css; charset=utf-8", STYLE),
        "/live" => respond(200, "application/json", live(&seen.borrow())),
        "/report" => match seen.borrow().report.clone() {
            Some(report) => respond(200, "text/html; charset=utf-8", report.to_string()),
            None => respond(404, "text/plain", "there is no log yet\n"),
        },
        "/events" => events(seen),
        _ => respond(404, "text/plain", "there are /, /live, /report and /events\n"),
    }
}

fn live(seen: &Seen) -> String {
    serde_json::to_string(&seen.live).unwrap_or_default()
}

fn respond(code: u16, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_SECURITY_POLICY, POLICY);
    response.body(Full::new(body.into()).boxed()).unwrap_or_default()
}

/// What is going on now, and then whenever it has changed.
fn events(seen: &watch::Receiver<Seen>) -> Response<Body> {
    let changes = WatchStream::new(seen.clone());
    let told = changes.map(|seen| format!("event: live\ndata: {}\n\n", live(&seen)));
    // Without a sign of life nobody would notice a reader that has gone.
    let told = told.timeout_repeating(tokio::time::interval(BEAT));
    let told = told.map(|told| told.unwrap_or_else(|_| ": still here\n\n".to_owned()));
    let frames = told.map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    let response = Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .header(header::CACHE_CONTROL, "no-store");
    response.body(BodyExt::boxed(StreamBody::new(frames))).unwrap_or_default()
}
