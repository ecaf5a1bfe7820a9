//! Clients that do not keep to the rules, over real sockets.

mod attacks;
mod collapses;
mod door;

use super::{RunningServer, Trust};
use crate::ServerSettings;
use crate::client::{Accept, Identity, JoinOptions, Policy, Source, join};
use crate::wire::proto::federation_client::FederationClient;
use crate::wire::proto::upload_part::Part;
use crate::wire::proto::{self, verdict::Kind};
use crate::wire::{NAME_KEY, VERSION, chunk, file_of};
use bytes::Bytes;
use formant_methods::{ErasedMethod, Zoo};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

/// What takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(120);

async fn serve(folder: &Path, clients: usize, more: &str) -> RunningServer {
    serve_with(folder, clients, more, &[]).await
}

/// The same with some of the experiment's settings changed, each `from` something `to` another.
async fn serve_with(
    folder: &Path,
    clients: usize,
    more: &str,
    changes: &[(&str, &str)],
) -> RunningServer {
    let mut text = format!(
        r#"
        rounds = 1
        data = {{ dataset = "mnist-small", clients = {clients}, samples = {}, min_samples = 5 }}
        network = {{ name = "mlp", hidden = [8] }}
        train = {{ batch = 10, epochs = 1 }}
        federation = {{ min_success = 0.0 }}
        [[method]]
        name = "fedavg"
        [server]
        listen = "127.0.0.1:0"
        ops = "127.0.0.1:0"
        chunk = "4KiB"
        max_samples = 1000
        linger = "0s"
        {more}
        "#,
        20 * clients
    );
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let (experiment, mut settings) =
        ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard()).unwrap();
    settings.state = folder.join("server");
    RunningServer::start(&experiment, settings, Trust::Names).await.unwrap()
}

/// A client that says what it is told to say.
struct Rogue {
    caller: FederationClient<Channel>,
    name: String,
    /// The control stream, while it is there.
    orders: Streaming<proto::Order>,
}

impl Rogue {
    async fn join(server: &RunningServer, client: usize) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
        let mut caller = FederationClient::new(endpoint.connect().await.unwrap());
        let name = format!("client-{client:03}");
        let hello = named(&name, proto::Hello { version: VERSION, born: 1 });
        let mut orders = caller.join(hello).await.unwrap().into_inner();
        assert!(orders.message().await.unwrap().is_some(), "a welcome");
        Self { caller, name, orders }
    }

    /// The bytes of the first broadcast, which are a valid upload of FedAvg.
    async fn broadcast(&mut self) -> Vec<u8> {
        let order = self.orders.message().await.unwrap().unwrap().order.unwrap();
        let proto::order::Order::Broadcast(order) = order else { panic!("no broadcast") };
        let bytes = self.fetch(order.round).await.unwrap();
        assert_eq!(order.file.unwrap(), file_of(&bytes));
        bytes
    }

    /// A broadcast, if the server has it still.
    async fn fetch(&mut self, round: u64) -> Option<Vec<u8>> {
        let request = proto::DownloadRequest { round, offset: 0 };
        let chunks = self.caller.download(named(&self.name, request)).await;
        let mut chunks = chunks.ok()?.into_inner();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await.unwrap() {
            assert_eq!(chunk.offset, bytes.len() as u64);
            bytes.extend_from_slice(&chunk.data);
        }
        Some(bytes)
    }

    async fn upload(&mut self, parts: Vec<Part>) -> (Kind, String) {
        let parts = parts.into_iter().map(|part| proto::UploadPart { part: Some(part) });
        let mut request = Request::new(tokio_stream::iter(parts.collect::<Vec<_>>()));
        sign(&mut request, &self.name);
        let verdict = self.caller.upload(request).await.unwrap().into_inner();
        (verdict.kind(), verdict.reason)
    }

    async fn offset(&mut self, header: &proto::UploadHeader) -> u64 {
        let offset = self.caller.resume(named(&self.name, header.clone())).await.unwrap();
        offset.into_inner().offset
    }
}

fn named<T>(name: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    sign(&mut request, name);
    request
}

fn sign<T>(request: &mut Request<T>, name: &str) {
    request.metadata_mut().insert(NAME_KEY, name.parse().unwrap());
}

fn header(bytes: &[u8]) -> proto::UploadHeader {
    proto::UploadHeader { round: 1, file: Some(file_of(bytes)), samples: 10, ..Default::default() }
}

/// The parts of an upload, from an offset on.
fn parts(header: &proto::UploadHeader, bytes: &[u8], from: usize) -> Vec<Part> {
    let chunks = bytes[from..].chunks(4_096).enumerate();
    let chunks = chunks.map(|(i, data)| {
        Part::Chunk(chunk((from + 4_096 * i) as u64, Bytes::copy_from_slice(data)))
    });
    std::iter::once(Part::Header(header.clone())).chain(chunks).collect()
}

fn whole(bytes: &[u8]) -> Vec<Part> {
    parts(&header(bytes), bytes, 0)
}

fn method() -> Arc<dyn ErasedMethod> {
    Zoo::standard().build("fedavg", &toml::Table::new()).unwrap().method
}

/// An upload with its first vector changed.
fn changed(bytes: &[u8], change: impl Fn(&mut Vec<f32>)) -> Vec<u8> {
    let mut upload = method().decode_upload(bytes).unwrap();
    change(method().upload_vectors_mut(&mut upload).unwrap().remove(0));
    upload.encode().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_with_its_reason_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 9, "").await;
    let good = Rogue::join(&server, 0).await.broadcast().await;
    let claim = |change: &dyn Fn(&mut proto::UploadHeader)| {
        let mut header = header(&good);
        change(&mut header);
        parts(&header, &good, 0)
    };
    // What is wrong in itself: each from a client of its own, since that client has then failed.
    let cases: Vec<(&str, Vec<Part>)> = vec![
        ("not-finite", whole(&changed(&good, |w| w[3] = f32::NAN))),
        ("not-finite", whole(&changed(&good, |w| w[0] = f32::INFINITY))),
        ("wrong-shape", whole(&changed(&good, |w| w.truncate(17)))),
        ("norm", whole(&changed(&good, |w| w[5] = 1e30))),
        ("malformed", whole(&[7; 100])),
        ("oversize", claim(&|header| header.file.as_mut().unwrap().bytes = 1 << 40)),
        ("samples", claim(&|header| header.samples = 1_001)),
        ("samples", claim(&|header| header.samples = 0)),
    ];
    for (client, (reason, parts)) in cases.into_iter().enumerate() {
        let mut rogue = Rogue::join(&server, client + 1).await;
        assert_eq!(rogue.upload(parts).await, (Kind::Refused, reason.to_owned()));
        // And it cannot have a second try.
        assert_eq!(rogue.upload(whole(&good)).await.1, "wrong-round");
    }
    // What is wrong with its way: it may be sent again.
    let mut rogue = Rogue::join(&server, 0).await;
    let mut damaged = whole(&good);
    let Part::Chunk(second) = &mut damaged[2] else { panic!("no chunk") };
    second.checksum += 1;
    let another = proto::UploadHeader { file: Some(file_of(b"another")), ..header(&good) };
    let another = proto::UploadHeader {
        file: Some(proto::File { bytes: good.len() as u64, ..another.file.unwrap() }),
        ..header(&good)
    };
    for (reason, parts) in [
        ("checksum", damaged),
        ("offset", parts(&header(&good), &good, 4_096 * 3)),
        ("checksum", parts(&another, &good, 0)),
        ("wrong-length", parts(&header(&good[..100]), &good, 0)),
        ("malformed", vec![whole(&good).remove(1)]),
        ("malformed", vec![Part::Header(header(&good)), Part::Header(header(&good))]),
    ] {
        assert_eq!(rogue.upload(parts).await, (Kind::Again, reason.to_owned()));
    }
    let wrong_round = claim(&|header| header.round = 7);
    assert_eq!(rogue.upload(wrong_round).await, (Kind::Refused, "wrong-round".to_owned()));
    assert_eq!(rogue.upload(whole(&good)).await.0, Kind::Accepted);
    // Of nine clients, eight have failed: the round is complete, and the run with it.
    let refused = server.core.metrics.refused();
    let end = tokio::time::timeout(PATIENCE, server.finish(std::future::pending())).await;
    let end = end.unwrap().unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (1, None));
    let counts: Vec<u64> =
        ["not-finite", "samples", "checksum", "wrong-round"].map(|reason| refused[reason]).to_vec();
    assert_eq!(counts, [2, 2, 2, 9], "{refused:?}");
    // What was refused for good is in the log, in the words of the verdict; what may be sent again, and
    // what answers no round, is not.
    let log = std::fs::read_to_string(folder.path().join("server/events.jsonl")).unwrap();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!((lines("\"event\":\"refused\""), lines("\"event\":\"client_failed\"")), (17, 0));
    assert_eq!((lines("\"reason\":\"not-finite\""), lines("\"reason\":\"checksum\"")), (2, 0));
    assert_eq!(lines("it has values that are not finite"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_client_fills_neither_the_log_nor_the_disks_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    let written = |file: &str| std::fs::metadata(folder.path().join("server").join(file)).unwrap();
    let committed = written("manifest.json").modified().unwrap();
    for round in 2..200 {
        let other = proto::UploadHeader { round, ..header(&good) };
        let answer = rogue.caller.resume(named(&rogue.name, other)).await.unwrap().into_inner();
        assert_eq!(answer.verdict.unwrap().reason, "wrong-round");
    }
    let lines = || {
        let log = std::fs::read_to_string(folder.path().join("server/events.jsonl")).unwrap();
        log.matches("\"event\":\"refused\"").count()
    };
    assert_eq!(lines(), 8);
    assert_eq!(written("manifest.json").modified().unwrap(), committed, "nothing was synced");
    // Somebody else is heard.
    let mut other = Rogue::join(&server, 1).await;
    let wrong = proto::UploadHeader { round: 7, ..header(&good) };
    for _ in 0..3 {
        other.caller.resume(named(&other.name, wrong.clone())).await.unwrap();
    }
    assert_eq!(lines(), 9);
    assert_eq!(server.core.metrics.refused()["wrong-round"], 198 + 3);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_where_it_was_cut_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    let (header, half) = (header(&good), 3 * 4_096);
    assert_eq!(rogue.offset(&header).await, 0);
    let cut: Vec<Part> = parts(&header, &good, 0).into_iter().take(4).collect();
    assert_eq!(rogue.upload(cut).await, (Kind::Again, "wrong-length".to_owned()));
    assert_eq!(rogue.offset(&header).await, half);
    drop(rogue);
    server.finish(std::future::ready(())).await.unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    assert_eq!(rogue.offset(&header).await, half);
    let rest = parts(&header, &good, half as usize);
    assert_eq!(rogue.upload(rest).await.0, Kind::Accepted);
    // It is kept: nothing of it need be sent a second time.
    let again = rogue.caller.resume(named(&rogue.name, header)).await.unwrap().into_inner();
    assert_eq!(again.verdict.unwrap().kind(), Kind::Kept);
    assert_eq!(rogue.upload(whole(&good)).await.0, Kind::Kept);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_while_an_upload_is_checked_spoils_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    // The same upload, offered with other words, again and again while it is on its way.
    let asking: Vec<_> = (0..8)
        .map(|i| {
            let (mut caller, name) = (rogue.caller.clone(), rogue.name.clone());
            let other = proto::UploadHeader { samples: 20 + i, ..header(&good) };
            tokio::spawn(async move {
                for _ in 0..40 {
                    let _ = caller.resume(named(&name, other.clone())).await;
                }
            })
        })
        .collect();
    let twice = {
        let mut twin = Rogue { caller: rogue.caller.clone(), ..Rogue::join(&server, 0).await };
        let good = good.clone();
        tokio::spawn(async move { twin.upload(whole(&good)).await.0 })
    };
    let kinds = [rogue.upload(whole(&good)).await.0, twice.await.unwrap()];
    let accepted = kinds.iter().filter(|kind| **kind == Kind::Accepted).count();
    if accepted == 0 {
        // The one was replaced on its way, and the other began where something lay already: whoever
        // goes on from there, as clients do, comes to the end.
        assert_eq!(kinds, [Kind::Again; 2]);
        let offset = rogue.offset(&header(&good)).await as usize;
        let rest = parts(&header(&good), &good, offset);
        assert_eq!(rogue.upload(rest).await.0, Kind::Accepted);
    }
    assert!(accepted < 2, "{kinds:?}");
    for task in asking {
        task.await.unwrap();
    }
    // Its weight is what it said first.
    let heavier = proto::UploadHeader { samples: 999, ..header(&good) };
    let verdict = rogue.caller.resume(named(&rogue.name, heavier)).await.unwrap().into_inner();
    assert_eq!(verdict.verdict.unwrap().reason, "samples");
    let mut other = Rogue::join(&server, 1).await;
    other.broadcast().await;
    assert_eq!(other.upload(whole(&good)).await.0, Kind::Accepted);
    let end = server.finish(std::future::pending()).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_connections_the_one_made_later_counts() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 1, "").await;
    let mut first = Rogue::join(&server, 0).await;
    first.broadcast().await;
    // A greeting that was under way for long does not take the place of a newer one.
    let late = named(&first.name, proto::Hello { version: VERSION, born: 0 });
    let mut late = first.caller.join(late).await.unwrap().into_inner();
    assert!(late.message().await.unwrap().is_some(), "a welcome");
    assert!(late.message().await.unwrap().is_none(), "and nothing more");
    assert!(server.status().await.unwrap().clients[0].present);
    // A newer one does.
    let newer = named(&first.name, proto::Hello { version: VERSION, born: 2 });
    let mut newer = first.caller.join(newer).await.unwrap().into_inner();
    assert!(newer.message().await.unwrap().is_some(), "a welcome");
    let order = first.orders.message().await.unwrap().unwrap().order.unwrap();
    let proto::order::Order::Dismiss(order) = order else { panic!("{order:?}") };
    assert_eq!(order.cause(), proto::dismiss::Cause::Replaced);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_drips_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 1, "idle_timeout = \"200ms\"").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    let (sender, stream) = tokio::sync::mpsc::channel(4);
    let first = proto::UploadPart { part: Some(Part::Header(header(&good))) };
    sender.send(first).await.unwrap();
    let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(stream));
    sign(&mut request, "client-000");
    let verdict = tokio::time::timeout(PATIENCE, rogue.caller.upload(request)).await;
    let verdict = verdict.unwrap().unwrap().into_inner();
    assert_eq!((verdict.kind(), verdict.reason.as_str()), (Kind::Again, "slow"));
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_other_versions_are_not_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 1, "").await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
    let mut caller = FederationClient::new(endpoint.connect().await.unwrap());
    let hello = proto::Hello { version: VERSION, born: 1 };
    let mut code = async |request| caller.join(request).await.unwrap_err().code();
    assert_eq!(code(Request::new(hello)).await, tonic::Code::Unauthenticated);
    assert_eq!(code(named("mallory", hello)).await, tonic::Code::PermissionDenied);
    let other = named("client-000", proto::Hello { version: VERSION + 1, born: 1 });
    assert_eq!(code(other).await, tonic::Code::FailedPrecondition);
    let request = proto::DownloadRequest { round: 1, offset: 0 };
    let refused = caller.download(named("mallory", request)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    // The client driver says why and does not come back.
    let options = JoinOptions {
        server: server.address().to_string(),
        identity: Identity::Name("mallory".into()),
        source: Source::Rehearse { dir: None },
        zoo: Zoo::standard(),
        state: folder.path().join("mallory"),
        rate_limit: None,
        policy: Policy::default(),
        accept: Accept::Nothing,
        again: false,
    };
    let error = join(options, std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("`mallory` is not a client") && error.contains("hint:"), "{error}");
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_is_for_loopback_only() {
    let folder = tempfile::tempdir().unwrap();
    let text = "data.clients = 2\n[[method]]\nname = \"fedavg\"\n[server]\nlisten = \"0.0.0.0:0\"";
    let (experiment, mut settings) =
        ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard()).unwrap();
    settings.state = folder.path().join("server");
    let started = RunningServer::start(&experiment, settings, Trust::Names).await;
    let error = started.err().unwrap().to_string();
    assert!(error.contains("server.listen = \"0.0.0.0:0\"` without TLS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_goes_on() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let _present = Rogue::join(&server, 1).await;
    let get = async |path: &str| {
        let mut socket = tokio::net::TcpStream::connect(server.ops().unwrap()).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(get("/healthz").await.ends_with("ok\n"));
    assert!(get("/metrics").await.contains("\nformant_clients_present 1\n"));
    assert!(get("/other").await.starts_with("HTTP/1.1 404"));
    let answer = get("/status").await;
    let status: super::Status =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((status.round, status.rounds, status.kept), (1, 1, 0));
    let present: Vec<bool> = status.clients.iter().map(|client| client.present).collect();
    assert_eq!(present, [false, true]);
    server.finish(std::future::ready(())).await.unwrap();
}
