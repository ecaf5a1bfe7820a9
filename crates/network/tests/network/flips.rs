//! One byte of a server's or a client's folder is changed: it is refused with the file's name, or the run ends with the
//! bits that it would have ended with.
//!
//! `FORMANT_FLIPS=1000 cargo test --workspace --test network flips` changes as many.

use crate::house::{House, authority, identity, never, within};
use formant_network::audit;
use formant_network::client::{JoinOptions, Summary, join};
use formant_network::identity::{Authority, ClientIdentity, ServerIdentity};
use formant_network::server::{End, RunningServer, Trust};
use formant_testing::{Fell, Flipped, Flips, Whole};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What a client joins with whose folder and certificate lie below a folder.
fn options(house: &House, root: &Path, address: &str, client: usize) -> JoinOptions {
    let name = format!("client-{client:03}");
    JoinOptions {
        identity: identity(&root.join("certs"), &name),
        state: root.join(&name),
        ..house.options(address, client)
    }
}

/// The server whose folders lie there.
async fn serve(house: &House, root: &Path) -> Result<RunningServer, String> {
    let (experiment, mut settings) = house.settings();
    settings.state = root.join("server");
    let ours = ServerIdentity::read(&root.join("certs")).map_err(|error| error.to_string())?;
    let trust = Trust::of(&ours).map_err(|error| error.to_string())?;
    let started = RunningServer::start(&experiment, settings, trust).await;
    started.map_err(|error| error.to_string())
}

/// Stops everybody in the middle of the run.
async fn stopped(house: &House) {
    let root = house.folder.path();
    let server = serve(house, root).await.unwrap();
    let address = server.address().to_string();
    let (stop, _) = watch::channel(false);
    let clients: Vec<_> = (0..house.clients)
        .map(|client| tokio::spawn(join(options(house, root, &address, client), until(&stop))))
        .collect();
    within(server.wait_for_round(2)).await;
    stop.send_replace(true);
    for client in clients {
        within(client).await.unwrap().unwrap();
    }
    within(server.finish(std::future::ready(()))).await.unwrap();
}

fn until(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + use<> {
    let mut stop = stop.subscribe();
    async move {
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

/// Goes on in a copy of the folders; the first refusal is the answer.
async fn go_on(house: &Arc<House>, root: &Path) -> Result<(), String> {
    let certs = root.join("certs");
    for client in 0..house.clients {
        let bundle = certs.join(format!("clients/client-{client:03}.bundle.pem"));
        ClientIdentity::read(&bundle).map_err(|error| error.to_string())?;
    }
    let server = serve(house, root).await?;
    let address = server.address().to_string();
    let (stop, _) = watch::channel(false);
    let clients: Vec<_> = (0..house.clients)
        .map(|client| {
            let options = options(house, root, &address, client);
            let (stop, ended) = (stop.clone(), until(&stop));
            tokio::spawn(async move {
                let outcome: Result<Option<Summary>, String> =
                    join(options, ended).await.map_err(|error| error.to_string());
                if outcome.is_err() {
                    stop.send_replace(true);
                }
                outcome
            })
        })
        .collect();
    let end: Result<Option<End>, String> =
        within(server.finish(until(&stop))).await.map_err(|error| error.to_string());
    if end.is_err() {
        stop.send_replace(true);
    }
    let mut outcomes = Vec::new();
    for client in clients {
        outcomes.push(within(client).await.unwrap());
    }
    end?;
    for outcome in outcomes {
        outcome?;
    }
    Ok(())
}

/// Whether an error says which file it is about. Of certificates and keys it may be the other one of a pair
/// that does not fit.
fn names(error: &str, flipped: &Flipped) -> bool {
    let fits = |name: &str| error.contains(name) && error.contains("\nhint: ");
    let pairs = ["authority.pem", "authority.key", "server.pem", "server.key"];
    flipped.is_named_by(error)
        || (flipped.file().starts_with("certs") && pairs.iter().any(|name| fits(name)))
}

/// Goes on in a copy in which something is changed, and says what came of it.
async fn outcome(house: &Arc<House>, flipped: &Flipped, expected: &str) -> Fell {
    let root = flipped.path();
    let file = flipped.file();
    let is_book = file.ends_with(audit::FILE);
    let verify = || audit::verify(&root.join("server"), None).unwrap().problems;
    if is_book {
        assert_ne!(verify(), [""; 0], "{flipped}: nobody sees it");
    }
    let gone_on = tokio::time::timeout(Duration::from_secs(300), go_on(house, root)).await;
    match gone_on.unwrap_or_else(|_| panic!("{flipped}: it hangs")) {
        Ok(()) => assert_eq!(house.fingerprint_in(root), expected, "{flipped}: other bits"),
        Err(error) => {
            assert!(names(&error, flipped), "{flipped}: {error}");
            return Fell::Detected;
        }
    }
    if is_book {
        // The run does not depend on it. What was changed is not covered up by what has been written since.
        assert_ne!(verify(), [""; 0], "{flipped}: nobody sees it any more");
        return Fell::Detected;
    }
    // The authority's own files are nothing to a run.
    if file.starts_with("certs")
        && let Err(error) = Authority::open(&root.join("certs"))
    {
        assert!(names(&error.to_string(), flipped), "{flipped}: {error}");
        return Fell::Detected;
    }
    Fell::Harmless
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_with_a_changed_byte_are_refused_or_lead_to_the_same_bits() {
    let house = Arc::new(House::new(2, "ditto", "chunk = \"1KiB\""));
    let expected = house.simulated();
    drop(authority(&house.folder.path().join("certs"), &["client-000", "client-001"]));
    stopped(&house).await;
    std::fs::remove_dir_all(house.folder.path().join("simulated")).unwrap();
    let whole = Whole::of(house.folder.path(), |_| false);
    let mut flips = Flips::new(3, 90);
    while let Some(flipped) = flips.next(&whole) {
        let fell = outcome(&house, &flipped, &expected).await;
        flips.note(&flipped, fell);
    }
    println!("a server and its clients\n{flips}");
}

/// Every kind of file that only its own check could find changed.
#[tokio::test(flavor = "multi_thread")]
async fn what_looks_like_a_revoked_certificate_is_a_damaged_one() {
    let house = Arc::new(House::new(2, "fedavg", ""));
    drop(authority(&house.folder.path().join("certs"), &["client-000", "client-001"]));
    stopped(&house).await;
    let kept = house.folder.path().join("server/certificates/0.json");
    let text = std::fs::read_to_string(&kept).unwrap();
    // A byte of the certificate in the middle of it.
    let at = text[text.len() / 2..].find(|c: char| c.is_ascii_digit()).unwrap() + text.len() / 2;
    let mut changed = text.into_bytes();
    changed[at] = b'0' + (changed[at] - b'0' + 1) % 10;
    std::fs::write(&kept, changed).unwrap();
    let error = go_on(&house, house.folder.path()).await.unwrap_err();
    assert!(error.contains("0.json is damaged") && error.contains("\nhint: "), "{error}");
}

/// An upload's header holds its weight.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_claimed_samples_have_changed_does_not_count() {
    let house = Arc::new(House::new(2, "fedavg", ""));
    let root = house.folder.path();
    drop(authority(&root.join("certs"), &["client-000", "client-001"]));
    let server = serve(&house, root).await.unwrap();
    let address = server.address().to_string();
    // One of two: its upload is kept, and waits.
    let (stop, _) = watch::channel(false);
    let client = tokio::spawn(join(options(&house, root, &address, 0), until(&stop)));
    let uploads = house.folder.path().join("server/uploads");
    let kept = uploads.join("0-1.upload");
    within(async {
        while server.status().await.is_none_or(|status| status.kept == 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    stop.send_replace(true);
    within(client).await.unwrap().unwrap();
    within(server.finish(std::future::ready(()))).await.unwrap();
    let bytes = std::fs::read(&kept).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let line = std::str::from_utf8(&bytes[..end]).unwrap();
    let at = line.find("\"samples\":").unwrap() + "\"samples\":".len();
    let mut changed = bytes.clone();
    changed[at] = b'0' + (changed[at] - b'0') % 9 + 1;
    std::fs::write(&kept, changed).unwrap();
    let error = within(go_on(&house, house.folder.path())).await.unwrap_err();
    assert!(error.contains("0-1.upload is damaged") && error.contains("\nhint: "), "{error}");
    // As it came, it counts.
    std::fs::write(&kept, bytes).unwrap();
    within(go_on(&house, house.folder.path())).await.unwrap();
    assert_eq!(house.fingerprint(), house.simulated());
}

/// What a client has not sent yet may have been damaged meanwhile: it says so and does not offer it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_was_damaged_before_it_was_sent_is_named() {
    let house = Arc::new(House::new(2, "fedavg", ""));
    let server = house.serve().await;
    let address = server.address().to_string();
    let (stop, _) = watch::channel(false);
    // So slowly that it cannot have been sent when it is there.
    let mut slow = house.options(&address, 0);
    slow.rate_limit = Some(30_000);
    let client = tokio::spawn(join(slow, until(&stop)));
    let manifest = house.client_folder(0).join("manifest.json");
    let upload = house.client_folder(0).join("states/upload-1.bin");
    within(async {
        let named =
            || std::fs::read_to_string(&manifest).is_ok_and(|text| text.contains("upload-1.bin"));
        while !named() {
            tokio::task::yield_now().await;
        }
        // Nobody takes it any more.
        server.finish(std::future::ready(())).await.unwrap();
    })
    .await;
    stop.send_replace(true);
    within(client).await.unwrap().unwrap();
    let mut bytes = std::fs::read(&upload).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&upload, bytes).unwrap();
    // Nobody listens there any more: a folder is looked at before anybody is called.
    let joined = within(join(house.options(&address, 0), never())).await;
    let error = joined.unwrap_err().to_string();
    assert!(error.contains("upload-1.bin is damaged") && error.contains("\nhint: "), "{error}");
}
