//! The decoders of this crate that face a network or a file, as functions of any bytes. None may panic, and none may
//! take memory that its input merely claims. `fuzz/` feeds them, and so does the test below.

use crate::client::vault as client;
use crate::codec::{Packing, compress, expand};
use crate::identity::certificate::client_name;
use crate::identity::x509::{Revoked, attributes};
use crate::identity::{ClientIdentity, Ledger, Serial, x509};
use crate::server::upload::header_of;
use crate::server::vault as server;
use crate::settings::ServerSettings;
use crate::wire::proto;
use formant_experiment::Experiment;
use formant_methods::{ErasedMethod, Value, Zoo};
use formant_model::ModelFile;
use formant_numerics::Model;
use formant_runtime::seal::{Check, seal};
use formant_runtime::{Checkpoint, event::Event};
use prost::Message;
use proto::{Encoding, Precision};
use rustls::pki_types::CertificateDer;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// A decoder.
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Decodes any bytes.
    pub feed: fn(&[u8]),
    /// Some that it accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "upload_header", feed: upload_header, seeds: upload_headers },
    Target { name: "upload", feed: upload, seeds: uploads },
    Target { name: "broadcast", feed: broadcast, seeds: broadcasts },
    Target { name: "order", feed: order, seeds: orders },
    Target { name: "upload_part", feed: upload_part, seeds: upload_parts },
    Target { name: "server_manifest", feed: server_manifest, seeds: none },
    Target { name: "client_manifest", feed: client_manifest, seeds: none },
    Target { name: "checkpoint", feed: checkpoint, seeds: none },
    Target { name: "event", feed: event, seeds: events },
    Target { name: "model", feed: model, seeds: models },
    Target { name: "certificate", feed: certificate, seeds: none },
    Target { name: "revocations", feed: revocations, seeds: none },
    Target { name: "bundle", feed: bundle, seeds: none },
    Target { name: "ledger", feed: ledger, seeds: ledgers },
    Target { name: "experiment", feed: experiment, seeds: experiments },
    Target { name: "server_settings", feed: server_settings, seeds: experiments },
];

/// Most bytes that a message may hold here.
const LIMIT: u64 = 1 << 16;

static ZOO: LazyLock<Zoo> = LazyLock::new(Zoo::standard);

/// Methods whose messages differ.
static METHODS: LazyLock<Vec<Arc<dyn ErasedMethod>>> = LazyLock::new(|| {
    let built = ["fedavg", "scd", "feddyn", "fedrep", "fedgen"]
        .map(|name| ZOO.build(name, &toml::Table::new()).ok().map(|built| built.method));
    built.into_iter().flatten().collect()
});

fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

/// The first byte says how it is packed and whose it is.
fn packed(bytes: &[u8]) -> Option<(&dyn ErasedMethod, Packing, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let encoding = if first & 1 == 0 { Encoding::None } else { Encoding::Zstd };
    let precision = if first & 2 == 0 { Precision::F32 } else { Precision::F16 };
    let method = METHODS.get(usize::from(first >> 2) % METHODS.len())?;
    Some((&**method, Packing { encoding, precision }, rest))
}

fn tiny() -> Model {
    Model { parameters: vec![0.5, -1.0, 2.0, 0.25], buffers: vec![0.5, 1.0] }
}

/// The first message of every method in every packing.
fn messages(
    pack: impl Fn(&dyn ErasedMethod, Packing, &mut Value) -> Option<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for first in 0..4 * METHODS.len() as u8 {
        let begun = [first, 0];
        let Some((method, packing, _)) = packed(&begun) else { continue };
        let message = method.broadcast(&method.start_server(&tiny()));
        if let Some(bytes) =
            message.ok().and_then(|mut message| pack(method, packing, &mut message))
        {
            all.push([&[first], &bytes[..]].concat());
        }
    }
    all
}

fn upload(bytes: &[u8]) {
    let Some((method, packing, rest)) = packed(bytes) else { return };
    if let Ok(upload) = packing.unpack(method, rest.to_vec(), LIMIT) {
        let _ = method.upload_vectors(&upload);
        assert!(upload.encode().is_ok());
    }
}

fn uploads() -> Vec<Vec<u8>> {
    messages(|method, packing, message| packing.pack(method, message).ok())
}

fn broadcast(bytes: &[u8]) {
    let Some((method, packing, rest)) = packed(bytes) else { return };
    let Ok(bytes) = expand(rest.to_vec(), packing.encoding, LIMIT) else { return };
    assert!(bytes.len() as u64 <= LIMIT);
    if let Ok(broadcast) = method.decode_broadcast(&bytes) {
        let _ = method.broadcast_vectors(&broadcast);
        assert!(broadcast.encode().is_ok());
    }
}

fn broadcasts() -> Vec<Vec<u8>> {
    messages(|_, packing, message| Some(compress(message.encode().ok()?, packing.encoding)))
}

/// With its check, so that there is something behind it.
fn upload_header(bytes: &[u8]) {
    let _ = header_of(bytes);
    let mut sealed = bytes.to_vec();
    if sealed.ends_with(b"}") && sealed.len() > 2 {
        seal(&mut sealed, Check::default());
        let _ = header_of(&sealed);
    }
}

fn upload_headers() -> Vec<Vec<u8>> {
    vec![
        br#"{"round":3,"bytes":52000,"hash":"00112233445566778899aabbccddeeff","samples":120}"#
            .to_vec(),
    ]
}

fn order(bytes: &[u8]) {
    if let Ok(order) = proto::Order::decode(bytes)
        && let Some(proto::order::Order::Welcome(welcome)) = &order.order
    {
        experiment(welcome.experiment.as_bytes());
        let _ = client::Terms::of(welcome).packing();
    }
    let _ = proto::Verdict::decode(bytes);
    let _ = proto::Chunk::decode(bytes);
}

fn orders() -> Vec<Vec<u8>> {
    use proto::order::Order;
    let welcome = proto::Welcome { client: 1, run: "r".into(), chunk: 1024, ..Default::default() };
    let file = Some(crate::wire::file_of(b"some bytes"));
    let broadcast = proto::Broadcast { round: 2, role: 0, file };
    [Order::Welcome(welcome), Order::Broadcast(broadcast)]
        .map(|order| proto::Order { order: Some(order) }.encode_to_vec())
        .to_vec()
}

fn upload_part(bytes: &[u8]) {
    let _ = proto::UploadPart::decode(bytes);
    let _ = proto::Hello::decode(bytes);
    let _ = proto::DownloadRequest::decode(bytes);
    let _ = proto::Failure::decode(bytes);
}

fn upload_parts() -> Vec<Vec<u8>> {
    use proto::upload_part::Part;
    let chunk = crate::wire::chunk(7, bytes::Bytes::from_static(b"abc"));
    let header = proto::UploadHeader {
        round: 1,
        file: Some(crate::wire::file_of(b"x")),
        samples: 9,
        ..Default::default()
    };
    [Part::Chunk(chunk), Part::Header(header)]
        .map(|part| proto::UploadPart { part: Some(part) }.encode_to_vec())
        .to_vec()
}

fn server_manifest(bytes: &[u8]) {
    if let Ok(manifest) = serde_json::from_slice::<server::Manifest>(bytes) {
        let _ = manifest.machine.kept().count();
        let rules = manifest.machine.protocol().clone();
        let _ = manifest.machine.fits(&rules);
    }
}

fn client_manifest(bytes: &[u8]) {
    if let Ok(mut manifest) = serde_json::from_slice::<client::Manifest>(bytes) {
        let _ = manifest.session.is_over();
        manifest.forget();
    }
    let _ = serde_json::from_slice::<client::Terms>(bytes).map(|terms| terms.packing());
}

fn checkpoint(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Checkpoint>(bytes);
}

fn event(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Event>(bytes);
}

fn events() -> Vec<Vec<u8>> {
    let finished = serde_json::to_vec(&Event::RunFinished { seconds: 1.5 });
    let started = serde_json::to_vec(&Event::MethodStarted { method: "scd".into() });
    [finished, started].into_iter().flatten().collect()
}

fn model(bytes: &[u8]) {
    if let Err(error) = ModelFile::from_bytes(bytes, "a.safetensors") {
        assert!(error.to_string().contains("hint: "), "{error}");
    }
}

fn models() -> Vec<Vec<u8>> {
    let header = br#"{"__metadata__":{"formant":"{\"format\":1,\"check\":\"0\"}"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    vec![[&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat()]
}

fn certificate(bytes: &[u8]) {
    let certificate = CertificateDer::from(bytes.to_vec());
    let _ = client_name(&certificate);
    let _ = Serial::of(&certificate);
    if let Some(read) = x509::Certificate::read(bytes) {
        let _ = attributes(&read.subject);
        let _ = read.uris();
    }
}

fn revocations(bytes: &[u8]) {
    if let Some(list) = Revoked::read(bytes) {
        assert!(list.serials.len() <= bytes.len());
    }
}

fn bundle(bytes: &[u8]) {
    if let Err(error) = ClientIdentity::of(bytes, Path::new("a.bundle.pem")) {
        assert!(error.to_string().contains("hint: "), "{error}");
    }
}

fn ledger(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Ledger::parse(text, Path::new("issued.toml"));
    }
}

fn ledgers() -> Vec<Vec<u8>> {
    let text = "[[certificate]]\nkind = \"client\"\nname = \"a\"\nserial = \"01\"\nexpires = \"2100-01-01T00:00:00Z\"\n";
    vec![text.into()]
}

fn table(bytes: &[u8]) -> Option<toml::Table> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn experiment(bytes: &[u8]) {
    let Some(table) = table(bytes) else { return };
    if let Err(error) = Experiment::parse_for_network(&table, &[], &ZOO) {
        assert!(error.to_string().contains("hint: "), "{error}");
    }
}

fn server_settings(bytes: &[u8]) {
    let Some(table) = table(bytes) else { return };
    if let Err(error) = ServerSettings::parse(&table, &ZOO) {
        assert!(error.to_string().contains("hint: "), "{error}");
    }
}

fn experiments() -> Vec<Vec<u8>> {
    let server = include_str!("../../../examples/deploy/server.toml");
    let quick = "rounds = 2\n[data]\ndataset = \"mnist-small\"\nclients = 3\n[train]\nbatch = 8\nschedule = \"cosine\"\n[[method]]\nname = \"scd\"\nlambda_p = 30\n[server]\nchunk = \"64KiB\"\n";
    vec![server.into(), quick.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Authority, Validity};
    use std::path::PathBuf;

    /// What is committed for a target.
    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// A certificate, a list and a bundle of an authority that is made for the occasion.
    fn issued(name: &str) -> Vec<Vec<u8>> {
        use rustls::pki_types::CertificateRevocationListDer;
        use rustls::pki_types::pem::PemObject;
        let dir = tempfile::tempdir().unwrap();
        let days = Validity::days(30).unwrap();
        let mut authority = Authority::create(dir.path(), days, false).unwrap();
        let files = authority.issue_client("alice", days).unwrap().files;
        authority.issue_client("bob", days).unwrap();
        authority.revoke("bob").unwrap();
        let read = |path: &Path| std::fs::read(path).unwrap();
        match name {
            "certificate" => {
                vec![CertificateDer::from_pem_slice(&read(&files.certificate)).unwrap().to_vec()]
            }
            "revocations" => {
                let text = read(&dir.path().join("revoked.pem"));
                vec![CertificateRevocationListDer::from_pem_slice(&text).unwrap().to_vec()]
            }
            "bundle" => vec![read(&files.bundle)],
            "ledger" => vec![read(&dir.path().join("issued.toml"))],
            _ => Vec::new(),
        }
    }

    #[test]
    fn no_decoder_stumbles_over_what_it_did_not_expect() {
        for target in TARGETS {
            let seeds = [(target.seeds)(), corpus(target.name), issued(target.name)].concat();
            assert!(!seeds.is_empty(), "{} has no seeds", target.name);
            let began = std::time::Instant::now();
            formant_testing::mutate(target.name, &seeds, 1_500, &target.feed);
            println!("{:16} {:>6.1} s", target.name, began.elapsed().as_secs_f64());
        }
    }

    #[test]
    fn seeds_are_accepted() {
        let is_upload = |bytes: &Vec<u8>| {
            let (method, packing, rest) = packed(bytes).unwrap();
            packing.unpack(method, rest.to_vec(), LIMIT).is_ok()
        };
        // Some methods send back more than they get; the fuzzer has to find that.
        let (all, accepted) = (uploads().len(), uploads().iter().filter(|b| is_upload(b)).count());
        assert!(accepted > all / 2, "{accepted} of {all}");
        for bytes in broadcasts() {
            let (method, packing, rest) = packed(&bytes).unwrap();
            method
                .decode_broadcast(&expand(rest.to_vec(), packing.encoding, LIMIT).unwrap())
                .unwrap();
        }
        for bytes in issued("certificate") {
            assert_eq!(client_name(&CertificateDer::from(bytes)).unwrap(), "alice");
        }
    }
}
