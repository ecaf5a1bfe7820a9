//! One byte of a server's or a client's folder is changed: it is refused with the file's name, or the run ends with the
//! bits that it would have ended with.
//!
//! `FORMANT_FLIPS=1000 cargo test --workspace --test network flips` changes as many.

use crate::house::{House, never, within};
use formant_network::client::{Summary, join};
use formant_network::server::{End, RunningServer, Trust};
use formant_testing::{Fell, Flips, Whole};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Stops everybody in the middle of the run.
async fn stopped(house: &House) {
    let server = house.serve().await;
    let address = server.address().to_string();
    let (stop, _) = watch::channel(false);
    let clients: Vec<_> = (0..house.clients)
        .map(|client| tokio::spawn(join(house.options(&address, client), until(&stop))))
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
    let (experiment, mut settings) = house.settings();
    settings.state = root.join("server");
    let started = RunningServer::start(&experiment, settings, Trust::Names).await;
    let server = started.map_err(|error| error.to_string())?;
    let address = server.address().to_string();
    let (stop, _) = watch::channel(false);
    let clients: Vec<_> = (0..house.clients)
        .map(|client| {
            let mut options = house.options(&address, client);
            options.state = root.join(house.client_folder(client).file_name().unwrap());
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

#[tokio::test(flavor = "multi_thread")]
async fn folders_with_a_changed_byte_are_refused_or_lead_to_the_same_bits() {
    let house = Arc::new(House::new(2, "ditto", "chunk = \"1KiB\""));
    let expected = house.simulated();
    stopped(&house).await;
    std::fs::remove_dir_all(house.folder.path().join("simulated")).unwrap();
    // The server makes a damaged broadcast again, which has a test of its own.
    let rebuilt = |file: &Path| {
        file.starts_with("server/states") && file.to_string_lossy().contains("broadcast-")
    };
    let whole = Whole::of(house.folder.path(), rebuilt);
    let mut flips = Flips::new(3, 60);
    while let Some(flipped) = flips.next(&whole) {
        let what = flipped.to_string();
        let fell =
            match tokio::time::timeout(Duration::from_secs(300), go_on(&house, flipped.path()))
                .await
                .unwrap_or_else(|_| panic!("{what}: it hangs"))
            {
                Ok(()) => {
                    assert_eq!(
                        house.fingerprint_in(flipped.path()),
                        expected,
                        "{what}: other bits"
                    );
                    Fell::Harmless
                }
                Err(error) => {
                    assert!(flipped.is_named_by(&error), "{what}: {error}");
                    Fell::Detected
                }
            };
        flips.note(&flipped, fell);
    }
    println!("a server and its clients\n{flips}");
}

/// An upload's header holds its weight.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_claimed_samples_have_changed_does_not_count() {
    let house = Arc::new(House::new(2, "fedavg", ""));
    let server = house.serve().await;
    let address = server.address().to_string();
    // One of two: its upload is kept, and waits.
    let (stop, _) = watch::channel(false);
    let client = tokio::spawn(join(house.options(&address, 0), until(&stop)));
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
