//! Models that collapse, and runs that are taken back.

use super::{PATIENCE, Rogue, header, parts};
use crate::audit::{self, Entry};
use crate::client::{Accept, Identity, JoinOptions, Policy, Source, Summary, join};
use crate::server::{End, RunningServer, Trust};
use crate::wire::proto::UploadHeader;
use crate::wire::proto::order::Order;
use crate::wire::proto::verdict::Kind;
use crate::{NetworkError, Rollback, ServerSettings};
use formant_methods::Zoo;
use std::net::SocketAddr;
use std::path::Path;

const ROUNDS: u64 = 8;

async fn serve(folder: &Path, rollback: Option<Rollback>) -> Result<RunningServer, NetworkError> {
    serve_with(folder, rollback, "").await
}

async fn serve_with(
    folder: &Path,
    rollback: Option<Rollback>,
    section: &str,
) -> Result<RunningServer, NetworkError> {
    let text = format!(
        r#"
        rounds = {ROUNDS}
        data = {{ dataset = "mnist-small", clients = 2, samples = 400, min_samples = 50 }}
        network = {{ name = "mlp", hidden = [16] }}
        train = {{ batch = 10, epochs = 2, personal_epochs = 1, learning_rate = 0.05 }}
        [[method]]
        name = "ditto"
        [server]
        listen = "127.0.0.1:0"
        ops = ""
        linger = "60s"
        {section}
        "#
    );
    let (experiment, mut settings) =
        ServerSettings::parse(&text.parse().unwrap(), &Zoo::standard()).unwrap();
    settings.state = folder.join("server");
    settings.rollback = rollback;
    RunningServer::start(&experiment, settings, Trust::Names).await
}

/// An honest client, until it is stopped.
async fn take_part(
    folder: &Path,
    server: SocketAddr,
    client: usize,
    until: impl Future<Output = ()>,
) -> Result<Option<Summary>, NetworkError> {
    let name = format!("client-{client:03}");
    let lenient = "min_steps = 1\nmin_batch = 1\nmax_batch_share = 1";
    let options = JoinOptions {
        server: server.to_string(),
        identity: Identity::Name(name.clone()),
        source: Source::Rehearse { dir: None },
        zoo: Zoo::standard(),
        state: folder.join(name),
        rate_limit: None,
        policy: Policy::parse(&lenient.parse().unwrap(), &Zoo::standard()).unwrap(),
        accept: Accept::Anything,
        again: false,
    };
    tokio::time::timeout(PATIENCE, join(options, until)).await.unwrap()
}

/// A client that answers every round with the same model turned around, until the run is over.
async fn poison(server: &RunningServer, client: usize, samples: u64) {
    let method = Zoo::standard().build("ditto", &toml::Table::new()).unwrap().method;
    let mut rogue = Rogue::join(server, client).await;
    let mut poison = None;
    while let Ok(Some(order)) = rogue.orders.message().await {
        let Some(Order::Broadcast(order)) = order.order else { return };
        let bytes = if let Some(bytes) = &poison {
            bytes
        } else {
            let Some(got) = rogue.fetch(order.round).await else { continue };
            let mut upload = method.decode_upload(&got).unwrap();
            for vector in method.upload_vectors_mut(&mut upload).unwrap() {
                for w in vector.iter_mut() {
                    *w *= -20.0;
                }
            }
            poison.insert(upload.encode().unwrap())
        };
        let header = UploadHeader { round: order.round, samples, ..header(bytes) };
        assert_ne!(rogue.upload(parts(&header, bytes, 0)).await.0, Kind::Again);
    }
}

/// The samples that a client has claimed.
fn claimed(folder: &Path, client: usize) -> u64 {
    let manifest = std::fs::read(folder.join("server/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    manifest["samples"][client.to_string()].as_u64().unwrap()
}

async fn end(server: RunningServer) -> End {
    let end = tokio::time::timeout(PATIENCE, server.finish(std::future::pending())).await;
    end.unwrap().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_run_stops_and_goes_on_from_before_without_the_poisoner() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = serve(folder, None).await.unwrap();
    let address = server.address();
    // Both are honest for three rounds.
    let (one, two) = tokio::join!(
        take_part(folder, address, 0, server.wait_for_round(4)),
        take_part(folder, address, 1, server.wait_for_round(4)),
    );
    assert!(one.unwrap().is_none() && two.unwrap().is_none(), "the run goes on");
    // Then one of them sends what nobody has trained. The other is told of the end, and keeps its model.
    let samples = claimed(folder, 1);
    let (honest, ()) = tokio::join!(
        take_part(folder, address, 0, std::future::pending()),
        poison(&server, 1, samples),
    );
    assert!(honest.unwrap().is_some());
    let stopped = server.finish(std::future::ready(())).await.unwrap().unwrap();
    let log = std::fs::read_to_string(folder.join("server/events.jsonl")).unwrap();
    let why = stopped.stopped.clone().unwrap_or(log);
    assert!(why.contains("collapsed") && why.contains("server.collapse"), "{why}");
    assert!(stopped.rounds > 3, "{stopped:?}");

    // It is over, until it is taken back to a round that is kept, without clients that there are.
    let server = serve(folder, None).await.unwrap();
    assert!(server.status().await.unwrap().trouble.unwrap().contains("collapsed"));
    server.finish(std::future::ready(())).await.unwrap();
    let back = |round, name: &str| Some(Rollback { round, exclude: vec![name.to_owned()] });
    for (back, said) in [
        (back(99, "client-001"), ["--rollback 99", "choose one of"]),
        (back(3, "eve"), ["--exclude eve", "server.clients has client-000"]),
    ] {
        let error = serve(folder, back).await.err().unwrap().to_string();
        assert!(said.iter().all(|said| error.contains(said)), "{error}");
    }
    let server = serve(folder, back(3, "client-001")).await.unwrap();
    assert_eq!(server.status().await.unwrap().round, 4);
    let refused = take_part(folder, server.address(), 1, std::future::pending()).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("taken out of the run"), "{refused}");
    server.finish(std::future::ready(())).await.unwrap();

    // A stop and a start undo nothing of that. The honest client goes on with its own model.
    let server = serve(folder, None).await.unwrap();
    let status = server.status().await.unwrap();
    assert!(
        (status.round, status.generation) == (4, 1) && status.clients[1].excluded,
        "{status:?}"
    );
    let (summary, done) =
        tokio::join!(take_part(folder, server.address(), 0, std::future::pending()), end(server),);
    assert_eq!(summary.unwrap().unwrap().rounds, ROUNDS);
    assert_eq!((done.rounds, done.stopped), (ROUNDS, None));
    let log = folder.join("server");
    assert_eq!(audit::verify(&log, None).unwrap().problems, Vec::<String>::new());
    let entries = audit::records(&log).unwrap().into_iter().map(|record| record.entry);
    let mut after = entries.skip_while(|entry| !matches!(entry, Entry::RolledBack { .. }));
    let Some(Entry::RolledBack { round: 3, excluded, .. }) = after.next() else { panic!() };
    assert_eq!(excluded, ["client-001"]);
    let inside = after.filter_map(|entry| match entry {
        Entry::Aggregated { clients, .. } => Some(clients),
        _ => None,
    });
    assert_eq!(inside.collect::<Vec<_>>(), vec![["client-000"]; 5]);
    for name in ["server", "client-000"] {
        formant_report::RunLog::read(&folder.join(name).join("events.jsonl")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_noise_has_hidden_once_is_not_given_away_twice() {
    let folder = tempfile::tempdir().unwrap();
    let section = "[privacy]\nwhere = \"server\"\nclip = 1\nnoise_multiplier = 1";
    let begun = serve_with(folder.path(), None, section).await.unwrap();
    let _ = begun.finish(std::future::ready(())).await.unwrap();
    let back = Rollback { round: 0, exclude: Vec::new() };
    let refused = serve_with(folder.path(), Some(back), section).await;
    let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("--rollback 0: rounds with noise"), "{error}");
}
