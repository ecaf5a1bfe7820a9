//! A server that means harm, over real sockets: it says and sends what it is told to.

use crate::house::within;
use bytes::Bytes;
use formant_experiment::OneMethod;
use formant_methods::Zoo;
use formant_network::client::{Accept, Identity, JoinOptions, Policy, Source, Summary, join};
use formant_network::{NetworkError, ServerSettings};
use formant_numerics::Model;
use proto::federation_server::{Federation, FederationServer};
use proto::{Encoding, Precision};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The protocol as anybody can have it.
#[expect(
    unreachable_pub,
    clippy::pedantic,
    reason = "generated from proto/formant.proto, which is the documentation"
)]
mod proto {
    include!("../../proto/formant.v1.rs");
}

fn chunk(offset: u64, data: Bytes) -> proto::Chunk {
    let checksum = xxh3_64(&data);
    proto::Chunk { offset, data, checksum }
}

fn file_of(bytes: &[u8]) -> proto::File {
    proto::File { bytes: bytes.len() as u64, hash: xxh3_128(bytes).to_le_bytes().to_vec() }
}

/// What a server says.
#[derive(Clone)]
struct Script {
    welcome: proto::Welcome,
    broadcast: proto::Broadcast,
    /// What a download brings, again and again if it is to be endless.
    chunks: Vec<proto::Chunk>,
}

/// A server that keeps to its script.
struct Hostile {
    script: Script,
    /// Downloads that were begun.
    downloads: Arc<watch::Sender<u64>>,
    /// Uploads and failures that clients have offered.
    answers: Arc<AtomicU64>,
}

type Chunks = ReceiverStream<Result<proto::Chunk, Status>>;
type Orders = ReceiverStream<Result<proto::Order, Status>>;

#[tonic::async_trait]
impl Federation for Hostile {
    type JoinStream = Orders;
    type DownloadStream = Chunks;

    async fn join(&self, _: Request<proto::Hello>) -> Result<Response<Orders>, Status> {
        let (orders, stream) = tokio::sync::mpsc::channel(8);
        let Script { welcome, broadcast, .. } = self.script.clone();
        tokio::spawn(async move {
            use proto::order::Order;
            for order in [Order::Welcome(welcome), Order::Broadcast(broadcast)] {
                let _ = orders.send(Ok(proto::Order { order: Some(order) })).await;
            }
            orders.closed().await;
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn download(
        &self,
        _: Request<proto::DownloadRequest>,
    ) -> Result<Response<Chunks>, Status> {
        self.downloads.send_modify(|count| *count += 1);
        let (sender, stream) = tokio::sync::mpsc::channel(8);
        let chunks = self.script.chunks.clone();
        tokio::spawn(async move {
            for chunk in chunks {
                if sender.send(Ok(chunk)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn resume(
        &self,
        _: Request<proto::UploadHeader>,
    ) -> Result<Response<proto::UploadOffset>, Status> {
        self.answers.fetch_add(1, Relaxed);
        Err(Status::unavailable("it has what it wanted"))
    }

    async fn upload(
        &self,
        _: Request<Streaming<proto::UploadPart>>,
    ) -> Result<Response<proto::Verdict>, Status> {
        self.answers.fetch_add(1, Relaxed);
        Err(Status::unavailable("it has what it wanted"))
    }

    async fn fail(&self, _: Request<proto::Failure>) -> Result<Response<proto::Verdict>, Status> {
        Err(Status::unavailable("it does not care"))
    }

    async fn leave(
        &self,
        _: Request<proto::Farewell>,
    ) -> Result<Response<proto::Farewell>, Status> {
        Ok(Response::new(proto::Farewell {}))
    }
}

const MODEST: &str =
    "network = { name = \"mlp\", hidden = [8] }\ntrain = { batch = 10, epochs = 2 }";

/// Of a method by its name, and its settings behind a comma.
fn experiment(method: &str, more: &str) -> OneMethod {
    let (name, settings) = method.split_once(", ").unwrap_or((method, ""));
    let text = format!(
        "rounds = 3\n{more}\n[data]\nsource = \"mnist-small\"\nclients = 2\nsamples = 200\n[[method]]\nname = \"{name}\"\n{settings}\n"
    );
    ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard()).unwrap().0
}

impl Script {
    /// An honest server of an experiment, which sends the model that everybody begins with.
    fn of(experiment: &OneMethod) -> Self {
        let described = experiment.data.origin.described().unwrap();
        let network =
            experiment.network.build(described.shape, described.class_names.len()).unwrap();
        let model =
            Model { parameters: vec![0.01; network.layout().parameters()], buffers: vec![] };
        Self::saying(experiment.for_clients(&described).unwrap().to_string()).sending(&model)
    }

    fn saying(experiment: String) -> Self {
        let welcome = proto::Welcome {
            client: 0,
            experiment,
            run: "a-run".into(),
            encoding: Encoding::None.into(),
            precision: Precision::F32.into(),
            chunk: 256 * 1024,
            generation: 0,
            since: 0,
        };
        Self { welcome, broadcast: proto::Broadcast::default(), chunks: Vec::new() }
    }

    /// A model as the first broadcast of FedAvg.
    fn sending(self, model: &Model) -> Self {
        let method = Zoo::standard().build("fedavg", &toml::Table::new()).unwrap().method;
        let broadcast = method.broadcast(&method.start_server(model)).unwrap();
        self.bytes(&broadcast.encode().unwrap())
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        let role = proto::Role::Participant.into();
        self.broadcast = proto::Broadcast { round: 1, role, file: Some(file_of(bytes)) };
        let parts = bytes.chunks(256 * 1024).enumerate();
        let parts =
            parts.map(|(i, part)| chunk(256 * 1024 * i as u64, Bytes::copy_from_slice(part)));
        self.chunks = parts.collect();
        self
    }

    fn declaring(mut self, bytes: u64) -> Self {
        self.broadcast.file.as_mut().unwrap().bytes = bytes;
        self
    }
}

/// What came of a client at a hostile server.
struct Met {
    outcome: Result<Option<Summary>, NetworkError>,
    folder: tempfile::TempDir,
    downloads: u64,
    answers: u64,
}

impl Met {
    fn refusal(&self) -> String {
        let error = self.outcome.as_ref().unwrap_err().to_string();
        assert!(error.contains("\nhint: "), "{error}");
        assert!(self.answers == 0, "an answer was given to {error}");
        error
    }

    /// Bytes that lie in the client's folder.
    fn kept(&self) -> u64 {
        fn size(path: &Path) -> u64 {
            let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            entries
                .map(
                    |path| if path.is_dir() { size(&path) } else { path.metadata().unwrap().len() },
                )
                .sum()
        }
        size(self.folder.path())
    }
}

/// A client without TLS joins, rehearsing; it is stopped after so many downloads.
async fn meet(script: Script, policy: Policy, patient: u64) -> Met {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let downloads = Arc::new(watch::Sender::new(0));
    let answers = Arc::new(AtomicU64::new(0));
    let hostile = Hostile { script, downloads: downloads.clone(), answers: answers.clone() };
    let service = FederationServer::new(hostile).max_encoding_message_size(usize::MAX);
    let guests = TcpListenerStream::new(listener);
    let serving = tokio::spawn(async move {
        let forever = std::future::pending::<()>();
        let server = tonic::transport::Server::builder();
        let _ = server.serve_with_incoming_shutdown(service, guests, forever).await;
    });
    let folder = tempfile::tempdir().unwrap();
    let options = JoinOptions {
        server: address,
        identity: Identity::Name("alice".into()),
        source: Source::Rehearse { dir: None },
        zoo: Zoo::standard(),
        state: folder.path().join("state"),
        rate_limit: None,
        policy,
        accept: Accept::Anything,
        again: false,
    };
    let mut begun = downloads.subscribe();
    let enough = async move {
        let _ = begun.wait_for(|count| *count >= patient).await;
    };
    let outcome = within(join(options, enough)).await;
    serving.abort();
    let downloads = *downloads.borrow();
    Met { outcome, folder, downloads, answers: answers.load(Relaxed) }
}

async fn refused(script: Script) -> Met {
    let met = meet(script, Policy::default(), u64::MAX).await;
    met.refusal();
    met
}

fn lenient(more: &str) -> Policy {
    let rules = format!(
        "min_steps = 1\nmin_batch = 1\nmax_batch_share = 1\nmax_parameters = 1_000_000_000_000_000\nmax_message = \"100TB\"\nmax_traffic = \"10000TB\"\n{more}"
    );
    Policy::parse(&rules.parse().unwrap(), &Zoo::standard()).unwrap()
}

/// The attack that rebuilt 36 of 41 images: one step over all of a client's samples, down a network with
/// more hidden units than samples.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_one_step_is_refused_before_anything_is_fetched() {
    let one_step = experiment(
        "fedavg",
        "network = { name = \"mlp\", hidden = [1000] }\ntrain = { batch = 65536, epochs = 1 }",
    );
    let met = refused(Script::of(&one_step)).await;
    let error = met.refusal();
    assert!(
        error.starts_with("`policy.min_steps = 4`: the server asks for 1 step of a shared phase"),
        "{error}"
    );
    assert!(error.contains("train.batch = 65536 and train.epochs = 1 on "), "{error}");
    assert_eq!(met.downloads, 0);
    assert!(!met.folder.path().join("state/events.jsonl").exists(), "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_beyond_the_rules_is_refused_with_the_rules_name() {
    for (method, more, rule) in [
        ("fedavg", "network = { name = \"mlp\", hidden = [70000] }", "policy.max_parameters"),
        ("fedavg", "train = { epochs = 101 }", "policy.max_epochs = 100"),
        ("ditto", "train = { personal_epochs = 9999 }", "policy.max_epochs = 100"),
        ("pfedme, steps = 60", MODEST, "policy.max_epochs = 100"),
        ("fedrep, head_epochs = 99", MODEST, "policy.max_epochs = 100"),
        ("fedbabu, finetune_epochs = 101", MODEST, "policy.max_epochs = 100"),
        ("fedgen", MODEST, "policy.send_label_counts = false"),
        ("fedavg", "train = { batch = 1 }", "policy.min_batch = 4"),
        ("scd", "network = { name = \"cnn\" }\ntrain = { batch = 1 }", "policy.min_batch = 4"),
        ("fedavg", "train = { batch = 100, epochs = 9 }", "policy.max_batch_share = 0.5"),
    ] {
        let asked = experiment(method, more);
        let described = asked.data.origin.described().unwrap();
        let text = asked.for_clients(&described).unwrap().to_string();
        let met = refused(Script::saying(text).bytes(b"")).await;
        assert!(met.refusal().contains(rule), "{}", met.refusal());
    }
    let pinned = format!("experiment = \"sha256:{}\"", "0".repeat(64));
    let met = meet(Script::of(&experiment("fedavg", MODEST)), lenient(&pinned), u64::MAX).await;
    assert!(met.refusal().contains("`policy.experiment = \"sha256:000"), "{}", met.refusal());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_that_unpacks_to_much_is_refused() {
    let bomb = zstd::encode_all(&vec![0u8; 64 << 20][..], 3).unwrap();
    let mut script = Script::of(&experiment("fedavg", MODEST)).bytes(&bomb);
    script.welcome.encoding = Encoding::Zstd.into();
    let met = refused(script).await;
    assert!(met.refusal().contains("unpacks to more than 1"), "{}", met.refusal());
    assert_eq!(met.downloads, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_lies_is_refused_before_a_byte_is_written() {
    let honest = Script::of(&experiment("fedavg", MODEST));
    let met = refused(honest.clone().declaring(1 << 50)).await;
    assert!(met.refusal().contains("1,125,899,906,842,624 bytes"), "{}", met.refusal());
    assert_eq!(met.downloads, 0);
    // More than was declared is not written either, however much comes.
    let mut more = honest.declaring(1_000);
    more.chunks = (0..64).map(|i| chunk(i << 20, Bytes::from(vec![7; 1 << 20]))).collect();
    let met = meet(more, Policy::default(), 3).await;
    assert!(met.outcome.as_ref().unwrap().is_none(), "it goes on trying");
    assert!(met.kept() < 50_000, "{} bytes", met.kept());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_another_network_is_refused() {
    let script = Script::of(&experiment("fedavg", MODEST));
    let short = Model { parameters: vec![0.0; 7], buffers: vec![0.0; 3] };
    let met = refused(script.clone().sending(&short)).await;
    assert!(met.refusal().contains("vectors of [7, 3] numbers"), "{}", met.refusal());
    // A length inside that is not there.
    let met = refused(script.bytes(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0])).await;
    assert!(met.kept() < 50_000, "{} bytes", met.kept());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_the_run_does_not_have_is_refused() {
    let mut script = Script::of(&experiment("fedavg", MODEST));
    script.broadcast.round = 5;
    let met = refused(script).await;
    assert!(met.refusal().contains("the round 5"), "{}", met.refusal());
    assert_eq!(met.downloads, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_too_long_are_not_taken_in() {
    let long = |bytes: usize| Script::saying(format!("# {}", "x".repeat(bytes))).bytes(b"");
    let met = refused(long(2 << 20)).await;
    assert!(met.refusal().contains("the server's experiment has 20971"), "{}", met.refusal());
    let met = refused(long(16 << 20)).await;
    assert!(met.refusal().contains("an order of the server has more"), "{}", met.refusal());
}

/// Whatever a policy permits, what does not fit is said and not tried.
#[tokio::test(flavor = "multi_thread")]
async fn networks_that_do_not_fit_into_memory_are_refused_with_their_size() {
    for (hidden, said) in [
        ("[1000000, 300000]", "of memory"),
        ("[1000000000, 1000000000]", "parameters"),
        ("[4000000000000000000, 4000000000000000000, 4000000000000000000]", "parameters"),
    ] {
        let network = format!("[network]\nname = \"mlp\"\nhidden = {hidden}\n");
        let text = format!(
            "rounds = 3\n{network}[data]\nsource = \"mnist-small\"\nclients = 2\nsamples = 200\n[[method]]\nname = \"fedavg\"\n"
        );
        let met = meet(Script::saying(text).bytes(b""), lenient(""), u64::MAX).await;
        assert!(met.refusal().contains(said), "{}", met.refusal());
        assert_eq!(met.downloads, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_chooses_which_files_are_opened() {
    let honest = experiment("fedavg", MODEST);
    let text = honest.for_clients(&honest.data.origin.described().unwrap()).unwrap().to_string();
    for wrong in
        ["source = \"/etc\"", "source = \"../private\"", "source = \"mnist-small\"\ndir = \"x\""]
    {
        let text = text.replace("source = \"mnist-small\"", wrong);
        let met = refused(Script::saying(text).bytes(b"")).await;
        assert!(met.refusal().contains("names a place on this machine"), "{}", met.refusal());
    }
}
