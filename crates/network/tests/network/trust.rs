//! Mutual TLS: whoever has no certificate of the authority gets nothing.

use crate::house::{House, authority, identity, named, never, within};
use formant_network::NetworkError;
use formant_network::client::{Identity, JoinOptions, join};
use formant_network::identity::{ClientIdentity, ServerIdentity};
use formant_network::server::{NoName, RunningServer, Trust};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_of_the_authority_take_part_and_each_as_itself() {
    let house = House::new(2, "scd", "");
    let certs = house.folder.path().join("certs");
    let mut ours = authority(&certs, &["client-000", "client-001", "stranger"]);
    let theirs = house.folder.path().join("theirs");
    authority(&theirs, &["client-000"]);
    let (experiment, settings) = house.settings();
    let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
    let server = RunningServer::start(&experiment, settings, trust).await.unwrap();
    let address = server.address().to_string();
    let options = |identity: Identity, state: &str| JoinOptions {
        identity,
        state: house.folder.path().join(state),
        ..house.options(&address, 0)
    };
    // A certificate of the authority, but no client of this federation.
    let refused = join(options(identity(&certs, "stranger"), "s"), never());
    let error = within(refused).await.unwrap_err();
    assert!(matches!(error, NetworkError::Refused { .. }), "{error}");
    // Who does not trust the server, and whom it does not trust, is told at once and has got nothing.
    let bundle = |certs: &Path| {
        ClientIdentity::read(&certs.join("clients").join("client-000.bundle.pem")).unwrap()
    };
    for (identity, state, said) in [
        (identity(&theirs, "client-000"), "t", "another authority has made it"),
        (intruder(&certs, &theirs), "i", "another authority has made the certificate"),
        (Identity::of(&bundle(&certs), "elsewhere").unwrap(), "e", "with --server-name"),
        (Identity::Name("client-000".into()), "n", "join with --identity"),
    ] {
        let error = within(join(options(identity, state), never())).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!house.folder.path().join(state).join("run.json").exists());
    }
    let first = tokio::spawn(join(options(identity(&certs, "client-000"), "c0"), never()));
    let second = tokio::spawn(join(options(identity(&certs, "client-001"), "c1"), never()));
    let end = within(server.finish(never())).await.unwrap().unwrap();
    within(first).await.unwrap().unwrap().unwrap();
    within(second).await.unwrap().unwrap().unwrap();
    assert_eq!(end.rounds, 3);
    let state = named(&house.folder.path().join("server"), "server");
    assert_eq!(formant_network::fingerprint(&state), end.fingerprint);
    // Once revoked, a certificate opens nothing.
    ours.revoke("client-001").unwrap();
    let (experiment, settings) = house.settings();
    let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
    let server = RunningServer::start(&experiment, settings, trust).await.unwrap();
    let late = JoinOptions {
        server: server.address().to_string(),
        ..options(identity(&certs, "client-001"), "late")
    };
    let error = within(join(late, never())).await.unwrap_err().to_string();
    assert!(error.contains("the certificate is revoked"), "{error}");
    // The client may know before the server has counted it.
    within(async {
        while server.refused_connections() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!house.folder.path().join("late").join("run.json").exists());
    server.finish(std::future::ready(())).await.unwrap();
}

/// A client that trusts the server, but whose certificate is of another authority.
fn intruder(certs: &Path, theirs: &Path) -> Identity {
    let bundle = theirs.join("clients").join("client-000.bundle.pem");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certs.join("authority.pem")).unwrap()).unwrap();
    let own = CertificateDer::pem_file_iter(&bundle).unwrap().map(Result::unwrap).last().unwrap();
    let key = PrivateKeyDer::from_pem_file(&bundle).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .unwrap();
    let server = "localhost".try_into().unwrap();
    Identity::Certificate { tls: Arc::new(tls), server, client: "client-000".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_list_of_the_revoked_is_away_clients_wait() {
    let house = House::new(1, "fedavg", "");
    let certs = house.folder.path().join("certs");
    authority(&certs, &["client-000"]);
    let (experiment, settings) = house.settings();
    let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
    let (list, away) = (certs.join("revoked.pem"), certs.join("away.pem"));
    std::fs::rename(&list, &away).unwrap();
    let server = RunningServer::start(&experiment, settings, trust).await.unwrap();
    let options = house.options(&server.address().to_string(), 0);
    let options = JoinOptions { identity: identity(&certs, "client-000"), ..options };
    let client = tokio::spawn(join(options, never()));
    within(async {
        while server.refused_connections() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!client.is_finished());
    std::fs::rename(&away, &list).unwrap();
    assert_eq!(within(server.finish(never())).await.unwrap().unwrap().rounds, 3);
    within(client).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_certificate_does_not_talk_to_a_server_without_tls() {
    let house = House::new(1, "fedavg", "");
    let certs = house.folder.path().join("certs");
    authority(&certs, &["client-000"]);
    let (experiment, settings) = house.settings();
    let server = RunningServer::start(&experiment, settings, Trust::Names).await.unwrap();
    let options = house.options(&server.address().to_string(), 0);
    let options = JoinOptions { identity: identity(&certs, "client-000"), ..options };
    let error = within(join(options, never())).await.unwrap_err().to_string();
    assert!(error.contains("it does not speak TLS"), "{error}");
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_revoked_during_a_run_is_turned_out_and_the_others_go_on() {
    // The rounds want everybody and have no deadline.
    let house = House::new(2, "scd", "linger = \"0s\"\nmax_clients = 3");
    let certs = house.folder.path().join("certs");
    let mut ours = authority(&certs, &["client-000", "client-001"]);
    let (experiment, settings) = house.settings();
    let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
    let server = RunningServer::start(&experiment, settings, trust).await.unwrap();
    let address = server.address().to_string();
    // Whoever has no certificate takes nobody's place, however often it connects.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    let client = |client: usize| {
        let name = format!("client-{client:03}");
        let options = house.options(&address, client);
        tokio::spawn(join(JoinOptions { identity: identity(&certs, &name), ..options }, never()))
    };
    let revoked = client(1);
    // It has answered and waits for the next round, with nothing open but its control stream.
    within(async {
        while server.status().await.unwrap().kept == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    ours.revoke("client-001").unwrap();
    let error = within(revoked).await.unwrap().unwrap_err();
    assert!(matches!(error, NetworkError::Refused { .. }), "{error}");
    assert!(!server.status().await.unwrap().clients[1].present);
    let stays = client(0);
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (3, None));
    // The server does not stay, so it may be left without a goodbye.
    stays.abort();
}

#[test]
fn without_a_list_of_the_revoked_nobody_is_turned_away_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = authority(folder.path(), &["a", "b"]);
    let trust = Trust::of(&ServerIdentity::read(folder.path()).unwrap()).unwrap();
    let Trust::Certificates { names, .. } = trust else { panic!("no certificates") };
    let name = |client: &str| {
        let bundle = folder.path().join("clients").join(format!("{client}.bundle.pem"));
        let certificates = CertificateDer::pem_file_iter(bundle).unwrap();
        names(&certificates.map(Result::unwrap).last().unwrap())
    };
    ours.revoke("b").unwrap();
    assert_eq!(name("a").as_deref(), Ok("a"));
    assert!(matches!(name("b"), Err(NoName::Refused(_))));
    std::fs::remove_file(folder.path().join("revoked.pem")).unwrap();
    // Whoever is in stays, by the last list that there was; in a handshake nobody is let in.
    assert_eq!(name("a").as_deref(), Ok("a"));
    assert!(matches!(name("b"), Err(NoName::Refused(_))));
}

/// Connects as a client does, and waits for the server's first words.
async fn greet(address: std::net::SocketAddr, certs: &Path, name: &str) -> std::io::Result<()> {
    use tokio::io::AsyncReadExt;
    let bundle = certs.join("clients").join(format!("{name}.bundle.pem"));
    let tls = ClientIdentity::read(&bundle).unwrap().client_config().unwrap();
    let socket = tokio::net::TcpStream::connect(address).await?;
    let host = "localhost".try_into().unwrap();
    let mut line = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(host, socket).await?;
    line.read_u8().await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_keep_nobody_out() {
    let house = House::new(1, "fedavg", "");
    let certs = house.folder.path().join("certs");
    authority(&certs, &["client-000"]);
    let (experiment, settings) = house.settings();
    let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
    let server = RunningServer::start(&experiment, settings, trust).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(server.address()).await.unwrap());
    }
    // More than there are places, and from the same address: the first try gets in.
    within(greet(server.address(), &certs, "client-000")).await.unwrap();
    drop(silent);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_of_a_client_that_is_revoked_meanwhile_does_not_count() {
    let house = House::new(3, "fedavg", "linger = \"0s\"");
    let certs = house.folder.path().join("certs");
    let mut ours = authority(&certs, &["client-000", "client-001", "client-002"]);
    let serve = async || {
        let (experiment, settings) = house.settings();
        let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
        RunningServer::start(&experiment, settings, trust).await.unwrap()
    };
    let options = |address: String, client: usize| JoinOptions {
        identity: identity(&certs, &format!("client-{client:03}")),
        ..house.options(&address, client)
    };
    let server = serve().await;
    let client = tokio::spawn(join(options(server.address().to_string(), 1), never()));
    within(async {
        while server.status().await.unwrap().kept == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    client.abort();
    // It is revoked while no server runs, and does not come back: only what it has sent is there.
    server.finish(std::future::ready(())).await.unwrap();
    ours.revoke("client-001").unwrap();
    let server = serve().await;
    let address = server.address().to_string();
    let others = [0, 2].map(|client| tokio::spawn(join(options(address.clone(), client), never())));
    let end = within(server.finish(never())).await.unwrap().unwrap();
    assert_eq!((end.rounds, end.stopped), (3, None));
    others.iter().for_each(tokio::task::JoinHandle::abort);
    let records = formant_network::audit::records(&house.folder.path().join("server")).unwrap();
    let mut aggregated = 0;
    for record in records {
        if let formant_network::audit::Entry::Aggregated { clients, .. } = record.entry {
            assert_eq!(clients, ["client-000", "client-002"]);
            aggregated += 1;
        }
    }
    assert_eq!(aggregated, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_list_of_the_revoked_is_refused_after_a_restart_too() {
    let house = House::new(1, "fedavg", "");
    let certs = house.folder.path().join("certs");
    let mut ours = authority(&certs, &["client-000", "client-001"]);
    let list = certs.join("revoked.pem");
    let serve = async || {
        let (experiment, settings) = house.settings();
        let trust = Trust::of(&ServerIdentity::read(&certs).unwrap()).unwrap();
        RunningServer::start(&experiment, settings, trust).await
    };
    let older = std::fs::read(&list).unwrap();
    let server = serve().await.unwrap();
    // It is taken up while the server runs, and remembered.
    ours.revoke("client-001").unwrap();
    let newer = std::fs::read(&list).unwrap();
    let turned_away = greet(server.address(), &certs, "client-001").await;
    assert!(turned_away.is_err());
    server.finish(std::future::ready(())).await.unwrap();
    std::fs::write(&list, &older).unwrap();
    let Err(error) = serve().await else { panic!("an old list was taken back") };
    let error = error.to_string();
    assert!(error.contains("revoked.pem cannot be used: it is older than"), "{error}");
    assert!(error.contains("\nhint: "), "{error}");
    std::fs::write(&list, &newer).unwrap();
    serve().await.unwrap().finish(std::future::ready(())).await.unwrap();
    // What remembers it is not believed if it was changed.
    let note = house.folder.path().join("server/revocations.json");
    let text = std::fs::read_to_string(&note).unwrap();
    std::fs::write(&note, text.replacen("newest\":\"", "newest\":\"f", 1)).unwrap();
    let Err(error) = serve().await else { panic!("a changed number was believed") };
    let error = error.to_string();
    assert!(error.contains("revocations.json is damaged") && error.contains("\nhint: "), "{error}");
}
