//! Real handshakes over loopback between certificates that belong together and ones that do not.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_network::identity::{
    Authority, ClientIdentity, IdentityError, Revocations, Serial, ServerIdentity, Validity, file,
    peer_name,
};
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

type Peer = Vec<CertificateDer<'static>>;

fn days(days: u32) -> Validity {
    Validity::days(days).unwrap()
}

fn authority() -> (TempDir, Authority) {
    let dir = tempfile::tempdir().unwrap();
    let mut authority = Authority::create(dir.path(), days(100), false).unwrap();
    authority.issue_server(&["localhost", "127.0.0.1"], days(10)).unwrap();
    (dir, authority)
}

fn client(authority: &mut Authority, name: &str) -> ClientConfig {
    let issued = authority.issue_client(name, days(10)).unwrap();
    ClientIdentity::read(&issued.files.bundle).unwrap().client_config().unwrap()
}

/// A client that uses any certificate and key, without asking whether they are good.
fn careless_client(dir: &Path, certificate: &Path, key: &Path) -> ClientConfig {
    bare_client(dir)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_file(certificate).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap()
}

fn bare_client(dir: &Path) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.join(file::AUTHORITY)).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
}

/// Connects and sends a byte to and fro: in TLS 1.3 a client learns only afterwards that it is not
/// welcome. Gives the certificates that the server saw, or why server and client gave up.
async fn meet(
    server: &ServerIdentity,
    client: ClientConfig,
    host: &'static str,
) -> (Result<Peer, String>, Result<(), String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server.server_config().unwrap()));
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.map_err(|e| e.to_string())?;
        let byte = stream.read_u8().await.map_err(|e| e.to_string())?;
        stream.write_u8(byte + 1).await.map_err(|e| e.to_string())?;
        stream.shutdown().await.map_err(|e| e.to_string())?;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Ok(stream.get_ref().1.peer_certificates().unwrap().to_vec())
    };
    let call = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(host).unwrap();
        let connector = TlsConnector::from(Arc::new(client));
        let mut stream = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
        stream.write_u8(1).await.map_err(|e| e.to_string())?;
        assert_eq!(stream.read_u8().await.map_err(|e| e.to_string())?, 2);
        Ok(())
    };
    tokio::join!(serve, call)
}

/// The server must refuse, for a reason, and the client must get nothing.
async fn refused(server: &ServerIdentity, client: ClientConfig, reason: &str) {
    let (seen, got) = meet(server, client, "localhost").await;
    let refusal = seen.unwrap_err();
    assert!(refusal.contains(reason), "{refusal}");
    assert!(got.is_err());
}

#[tokio::test]
async fn a_client_of_the_authority_is_let_in_by_name() {
    let (dir, mut authority) = authority();
    let server = ServerIdentity::read(dir.path()).unwrap();
    for (host, name) in [("localhost", "hospital-1"), ("127.0.0.1", "hospital-2")] {
        let (seen, got) = meet(&server, client(&mut authority, name), host).await;
        got.unwrap();
        let seen = seen.unwrap();
        assert_eq!(peer_name(&seen).unwrap(), name);
        assert_eq!(server.revocations().admit(&seen).unwrap(), name);
        assert_eq!(Serial::of(&seen[0]).unwrap(), authority.list().last().unwrap().serial);
    }
}

#[tokio::test]
async fn the_client_refuses_another_host_and_another_authority() {
    let (dir, mut ours) = authority();
    let (other_dir, _other) = authority();
    let client = client(&mut ours, "a");
    let server = ServerIdentity::read(dir.path()).unwrap();
    let (_, got) = meet(&server, client.clone(), "example.org").await;
    assert!(got.unwrap_err().contains("not valid for name"));
    let impostor = ServerIdentity::read(other_dir.path()).unwrap();
    let (_, got) = meet(&impostor, client, "localhost").await;
    assert!(got.unwrap_err().contains("UnknownIssuer"));
}

#[tokio::test]
async fn strangers_and_the_nameless_are_refused() {
    let (dir, _ours) = authority();
    let (_other_dir, mut other) = authority();
    let server = ServerIdentity::read(dir.path()).unwrap();
    let stranger = other.issue_client("a", days(10)).unwrap().files;
    let config = careless_client(dir.path(), &stranger.certificate, &stranger.key);
    refused(&server, config, "UnknownIssuer").await;
    let config = bare_client(dir.path()).with_no_client_auth();
    refused(&server, config, "no certificates").await;
}

#[tokio::test]
async fn a_server_certificate_is_no_client_certificate() {
    let (dir, mut ours) = authority();
    let server = ServerIdentity::read(dir.path()).unwrap();
    let path = |name| dir.path().join(name);
    let config = careless_client(dir.path(), &path(file::SERVER), &path(file::SERVER_KEY));
    refused(&server, config, "does not allow extended key usage").await;

    // Nor the other way round.
    let files = ours.issue_client("a", days(10)).unwrap().files;
    fs::copy(&files.certificate, path(file::SERVER)).unwrap();
    fs::copy(&files.key, path(file::SERVER_KEY)).unwrap();
    let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("other end"), "{message}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let (dir, mut authority) = authority();
    let server = ServerIdentity::read(dir.path()).unwrap();
    let ago = |hours| Timestamp::now() - SignedDuration::from_hours(hours);
    let past = Validity::between(ago(2), ago(1));
    let files = authority.issue_client("late", past).unwrap().files;
    let config = careless_client(dir.path(), &files.certificate, &files.key);
    refused(&server, config, "xpired").await;
    let message = ClientIdentity::read(&files.bundle).unwrap_err().to_string();
    assert!(message.contains("late.bundle.pem") && message.contains("time is over"), "{message}");
    // What is over may be replaced.
    authority.issue_client("late", days(1)).unwrap();
    authority.issue_server(&["localhost"], past).unwrap();
    let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("server.pem") && message.contains("time is over"), "{message}");
}

#[tokio::test]
async fn a_running_server_notices_a_revocation() {
    let (dir, mut authority) = authority();
    let server = ServerIdentity::read(dir.path()).unwrap();
    let (bad, good) = (client(&mut authority, "bad"), client(&mut authority, "good"));
    let (seen, _) = meet(&server, bad.clone(), "localhost").await;
    let seen = seen.unwrap();
    assert_eq!(authority.revoke("bad").unwrap().len(), 1);

    // On the connection that is open already …
    let message = server.revocations().admit(&seen).unwrap_err().to_string();
    assert!(message.contains("certificate of bad") && message.contains("\nhint: "), "{message}");
    // … and on new ones.
    refused(&server, bad, "Revoked").await;
    let (seen, got) = meet(&server, good.clone(), "localhost").await;
    got.unwrap();
    assert_eq!(server.revocations().admit(&seen.unwrap()).unwrap(), "good");

    // The name may come back with a new certificate; the old one may not.
    let again = client(&mut authority, "bad");
    meet(&server, again, "localhost").await.1.unwrap();
    assert!(server.revocations().contains(&authority.list()[1].serial).unwrap());

    // Without the list there is no telling, so nobody gets in.
    fs::remove_file(dir.path().join(file::REVOKED)).unwrap();
    refused(&server, good, "list of revoked certificates cannot be read").await;
}

#[test]
fn a_list_of_another_authority_counts_for_nothing() {
    let (dir, _ours) = authority();
    let (other_dir, _other) = authority();
    let list = dir.path().join(file::REVOKED);
    fs::copy(other_dir.path().join(file::REVOKED), &list).unwrap();
    let message = Revocations::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("revoked.pem") && message.contains("not signed"), "{message}");
}

#[test]
fn an_authority_and_its_server_are_replaced_together() {
    let (dir, hosts) = (tempfile::tempdir().unwrap(), ["localhost"]);
    drop(Authority::create_with_server(dir.path(), days(10), false, &hosts).unwrap());
    let text = |name| fs::read_to_string(dir.path().join(name)).unwrap();
    let before = [text(file::AUTHORITY), text(file::SERVER)];
    // Hosts that cannot be certified leave what is there.
    assert!(Authority::create_with_server(dir.path(), days(10), true, &["a b"]).is_err());
    assert_eq!([text(file::AUTHORITY), text(file::SERVER)], before);
    let (made, server) = Authority::create_with_server(dir.path(), days(10), true, &hosts).unwrap();
    assert_eq!(made.list(), [server.entry]);
    assert_ne!(text(file::AUTHORITY), before[0]);
    ServerIdentity::read(dir.path()).unwrap();
    drop(made);
    assert_eq!(Authority::open(dir.path()).unwrap().list().len(), 1);
}

#[test]
fn nothing_good_is_overwritten() {
    let (dir, mut authority) = authority();
    authority.issue_client("Anna", days(10)).unwrap();
    for name in ["Anna", "anna"] {
        let error = authority.issue_client(name, days(10)).unwrap_err();
        assert!(matches!(error, IdentityError::Exists { .. }), "{error}");
        assert!(error.to_string().contains("\nhint: choose "), "{error}");
    }
    drop(authority);
    let key = fs::read(dir.path().join(file::AUTHORITY_KEY)).unwrap();
    let error = Authority::create(dir.path(), days(1), false).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(fs::read(dir.path().join(file::AUTHORITY_KEY)).unwrap(), key);

    let mut replaced = Authority::create(dir.path(), days(1), true).unwrap();
    assert_eq!(replaced.list(), []);
    replaced.issue_client("Anna", days(10)).unwrap();
    let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("the authority has not signed it"), "{message}");
}

#[test]
fn an_authority_that_is_opened_again_goes_on() {
    let (dir, mut authority) = authority();
    let first = authority.issue_client("a", days(1_000)).unwrap();
    // Nothing outlives the authority.
    assert_eq!(first.entry.expires.as_second(), authority.expires().as_second());
    drop(authority);
    let mut authority = Authority::open(dir.path()).unwrap();
    assert_eq!(authority.list().last(), Some(&first.entry));
    let second = authority.issue_client("b", days(1)).unwrap();
    ClientIdentity::read(&second.files.bundle).unwrap();
    assert_eq!(authority.revoke("a").unwrap().len(), 1);
    let revocations = Revocations::read(dir.path()).unwrap();
    assert!(revocations.contains(&first.entry.serial).unwrap());
    assert!(!revocations.contains(&second.entry.serial).unwrap());
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_key() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, mut authority) = authority();
    // A temporary file that a crash left behind must not lend its permissions.
    let clients = dir.path().join(file::CLIENTS);
    fs::create_dir(&clients).unwrap();
    fs::write(clients.join("a.key.tmp"), "").unwrap();
    let files = authority.issue_client("a", days(1)).unwrap().files;
    let secrets = [file::AUTHORITY_KEY, file::SERVER_KEY].map(|name| dir.path().join(name));
    for secret in secrets.iter().chain([&files.key, &files.bundle]) {
        let mode = fs::metadata(secret).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", secret.display());
    }
}

#[test]
fn damage_is_named_together_with_the_remedy() {
    for name in [file::AUTHORITY, file::SERVER, file::SERVER_KEY, file::REVOKED] {
        let (dir, _authority) = authority();
        let path = dir.path().join(name);
        let whole = fs::read_to_string(&path).unwrap();
        let begin = whole.lines().next().unwrap();
        let flipped = whole.replacen("\nM", "\nN", 1);
        for damaged in ["", "rubbish", begin, &whole[..whole.len() / 2], &flipped] {
            fs::write(&path, damaged).unwrap();
            let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
            assert!(message.contains(name), "{name}: {message}");
            assert!(message.contains("\nhint: "), "{message}");
        }
        fs::remove_file(&path).unwrap();
        let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("\nhint: "), "{message}");
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let (dir, mut authority) = authority();
    let files = authority.issue_client("a", days(1)).unwrap().files;
    let other = authority.issue_client("b", days(1)).unwrap().files;
    let message = ClientIdentity::read(&files.certificate).unwrap_err().to_string();
    assert!(message.contains("holds 1 certificates") && message.contains(".bundle.pem"));

    let bundle = fs::read_to_string(&files.bundle).unwrap();
    let key =
        |files: &formant_network::identity::ClientFiles| fs::read_to_string(&files.key).unwrap();
    fs::write(&files.bundle, bundle.replace(&key(&files), &key(&other))).unwrap();
    let message = ClientIdentity::read(&files.bundle).unwrap_err().to_string();
    assert!(message.contains("not that of the certificate"), "{message}");

    fs::copy(&other.key, dir.path().join(file::SERVER_KEY)).unwrap();
    let message = ServerIdentity::read(dir.path()).unwrap_err().to_string();
    assert!(message.contains("server.key") && message.contains("not that of"), "{message}");

    drop(authority);
    fs::copy(&other.key, dir.path().join(file::AUTHORITY_KEY)).unwrap();
    let message = Authority::open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("authority.key is not its key"), "{message}");
}

#[test]
fn two_at_once_forget_no_certificate() {
    let (dir, authority) = authority();
    drop(authority);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let dir = dir.path();
            scope.spawn(move || {
                let mut authority = Authority::open(dir).unwrap();
                authority.issue_client(&format!("c{i}"), days(1)).unwrap();
            });
        }
    });
    assert_eq!(Authority::open(dir.path()).unwrap().list().len(), 5);
}

/// Whether a client's bundle and a server's folder accept each other.
async fn accept(dir: &Path, bundle: &Path) -> bool {
    let server = ServerIdentity::read(dir).unwrap();
    let client = ClientIdentity::read(bundle).unwrap().client_config().unwrap();
    let met = meet(&server, client, "localhost").await;
    met.0.is_ok() && met.1.is_ok()
}

#[tokio::test]
async fn an_authority_gives_way_to_another_while_both_are_trusted() {
    let (dir, mut authority) = authority();
    let old = authority.issue_client("a", days(10)).unwrap().files.bundle;
    let kept = dir.path().join("old.pem");
    fs::copy(&old, &kept).unwrap();
    authority.succeed(days(200)).unwrap();
    drop(authority);
    let mut authority = Authority::open(dir.path()).unwrap();
    // The server still shows what the old one has signed, to clients who know nothing else.
    assert!(accept(dir.path(), &kept).await);
    let (new, _) = authority.renew_client("a", days(10), false).unwrap();
    assert!(accept(dir.path(), &new.files.bundle).await);
    authority.renew_server(days(10)).unwrap();
    assert!(accept(dir.path(), &new.files.bundle).await);
    assert_eq!(authority.retire_former().unwrap(), 1);
    assert_eq!(authority.retire_former().unwrap(), 0);
    assert!(accept(dir.path(), &new.files.bundle).await);
    assert!(!accept(dir.path(), &kept).await);
}

#[tokio::test]
async fn a_renewed_certificate_has_the_name_and_another_key() {
    let (dir, mut authority) = authority();
    let bundle = authority.issue_client("a", days(1)).unwrap().files.bundle;
    let before = dir.path().join("before.pem");
    fs::copy(&bundle, &before).unwrap();
    let (renewed, retired) = authority.renew_client("a", days(20), false).unwrap();
    assert_eq!(retired, []);
    let [old, new] = [&before, &bundle].map(|path| ClientIdentity::read(path).unwrap());
    assert_eq!((old.name(), new.name()), ("a", "a"));
    assert!(new.expires() > old.expires() && renewed.entry.expires == new.expires().unwrap());
    let [old_key, new_key] = [&before, &bundle]
        .map(|path| PrivateKeyDer::from_pem_file(path).unwrap().secret_der().to_vec());
    assert_ne!(old_key, new_key);
    assert!(accept(dir.path(), &before).await && accept(dir.path(), &bundle).await);
    // The one before can be taken back at once, and what is taken back is not renewed.
    assert_eq!(authority.renew_client("a", days(20), true).unwrap().1.len(), 2);
    assert!(!accept(dir.path(), &before).await && accept(dir.path(), &bundle).await);
    authority.revoke("a").unwrap();
    for name in ["a", "b"] {
        let error = authority.renew_client(name, days(20), false).unwrap_err().to_string();
        assert!(error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn an_older_list_of_the_revoked_is_not_taken_back() {
    let (dir, mut authority) = authority();
    authority.issue_client("a", days(10)).unwrap();
    let list = dir.path().join(file::REVOKED);
    let older = fs::read(&list).unwrap();
    let revocations = Revocations::read(dir.path()).unwrap();
    let certificate = CertificateDer::pem_file_iter(dir.path().join("clients/a.pem")).unwrap();
    let serial = Serial::of(&certificate.map(Result::unwrap).next().unwrap()).unwrap();
    assert!(!revocations.contains(&serial).unwrap());
    authority.revoke("a").unwrap();
    assert!(revocations.contains(&serial).unwrap());
    fs::write(&list, &older).unwrap();
    let error = revocations.contains(&serial).unwrap_err().to_string();
    assert!(error.contains("older than the list") && error.contains("\nhint: "), "{error}");
}
