//! Every call by which a server or a client writes fails, once or for good from then on. It is started again, and the run
//! ends with the bits of one that nobody disturbed: had anything been lost that somebody was told, it would not end.
//!
//! `FORMANT_FAULTS=all cargo test --workspace --test network faults` has every call fail, and not every few.

use crate::house::{House, within};
use formant_federation::Server;
use formant_network::client::join;
use formant_network::server::{RunningServer, Trust};
use formant_runtime::files::faults::{Faults, Lasting, Made};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Calls from one fault to the next.
fn stride() -> usize {
    if std::env::var("FORMANT_FAULTS").is_ok_and(|asked| asked == "all") { 1 } else { 17 }
}

/// A federation whose server comes back to the same place.
fn house() -> House {
    let mut house = House::new(2, "ditto", "chunk = \"8KiB\"\nlinger = \"20s\"");
    house.table.insert("rounds".into(), 2.into());
    house.set("server", "listen", free_address());
    house
}

/// An address that stays free while no server is there: below those that the system gives to connections.
fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next =
            std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let address = format!("127.0.0.1:{}", 12_000 + next % 20_000);
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Comes when a call has failed and whoever made it has had time to notice.
async fn failed(faults: &Faults) {
    let mut now = tokio::time::interval(Duration::from_millis(10));
    while !faults.have_failed() {
        now.tick().await;
    }
    now.tick().await;
}

/// Runs to the end, whatever fails; says whether anything did.
async fn run(house: &Arc<House>, folder: PathBuf, at: u64, lasting: Lasting) -> bool {
    let faults = Arc::new(Faults::below(&folder, at, lasting));
    let is_servers = folder == house.folder.path().join("server");
    let address = house.settings().1.listen.to_string();
    let clients: Vec<_> = (0..house.clients)
        .map(|client| {
            let (house, address) = (house.clone(), address.clone());
            let faults = (folder == house.client_folder(client)).then(|| faults.clone());
            tokio::spawn(async move {
                if let Some(faults) = faults {
                    let options = house.options(&address, client);
                    let stop = async {
                        failed(&faults).await;
                        // It may go on without what has failed, if that was for once.
                        if lasting == Lasting::Once {
                            std::future::pending::<()>().await;
                        }
                    };
                    if let Ok(Some(summary)) = join(options, stop).await {
                        return summary;
                    }
                    faults.mend();
                }
                loop {
                    let options = house.options(&address, client);
                    if let Some(summary) = join(options, std::future::pending()).await.unwrap() {
                        return summary;
                    }
                }
            })
        })
        .collect();
    let end = within(async {
        if is_servers {
            let (experiment, settings) = house.settings();
            let stop = async {
                failed(&faults).await;
                if lasting == Lasting::Once {
                    std::future::pending::<()>().await;
                }
            };
            if let Ok(server) = RunningServer::start(&experiment, settings, Trust::Names).await
                && let Ok(Some(end)) = server.finish(stop).await
            {
                return end;
            }
            faults.mend();
        }
        loop {
            if let Some(end) = house.serve().await.finish(std::future::pending()).await.unwrap() {
                return end;
            }
        }
    })
    .await;
    assert_eq!((end.rounds, end.stopped), (2, None));
    if is_servers {
        // The run is over; what follows is another session.
        faults.mend();
    }
    // The server's time may have been up before everybody knew.
    let again = house.serve().await;
    for client in clients {
        within(client).await.unwrap();
    }
    again.finish(std::future::ready(())).await.unwrap();
    faults.have_failed()
}

/// Has one call after the other fail in one of the folders.
async fn all(folder: fn(&House) -> PathBuf) {
    let expected = house().simulated();
    for lasting in [Lasting::Once, Lasting::FromThenOn] {
        let mut failures = 0;
        for at in (1..).step_by(stride()) {
            let house = Arc::new(house());
            if !run(&house, folder(&house), at, lasting).await {
                break;
            }
            failures += 1;
            assert_eq!(house.fingerprint(), expected, "{lasting:?}, call {at}");
        }
        println!("{lasting:?}: {failures} calls failed, one of {}", stride());
        assert!(failures > 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_loses_nothing_at_the_server() {
    all(|house| house.folder.path().join("server")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_loses_nothing_at_a_client() {
    all(|house| house.client_folder(0)).await;
}

/// What a power cut would leave of some files: whatever was written or named and not synced since.
#[derive(Default)]
struct Unsynced {
    content: HashSet<PathBuf>,
    names: HashSet<PathBuf>,
    manifests: usize,
}

impl Unsynced {
    /// Follows the calls of a folder; every manifest must find what it names on the disk.
    fn follow(&mut self, folder: &Path, made: &[Made]) {
        for call in made {
            let path = &call.path;
            match (call.call, &call.to) {
                ("open" | "write", _) => {
                    self.content.insert(path.clone());
                    self.names.insert(path.clone());
                }
                ("sync", _) => {
                    self.content.remove(path);
                }
                ("rename", Some(to)) => {
                    if to.ends_with("manifest.json") {
                        assert!(!self.content.contains(path), "a manifest that is not synced");
                        self.check(folder, call.content.as_ref().unwrap());
                    }
                    self.names.remove(path);
                    self.names.insert(to.clone());
                    if self.content.remove(path) {
                        self.content.insert(to.clone());
                    }
                }
                ("sync folder", _) => self.names.retain(|name| name.parent() != Some(path)),
                _ => {}
            }
        }
    }

    fn check(&mut self, folder: &Path, manifest: &[u8]) {
        self.manifests += 1;
        let manifest: Value = serde_json::from_slice(manifest).unwrap();
        let mut named = Vec::new();
        files_in(&manifest, &mut named);
        let mut paths: Vec<PathBuf> =
            named.into_iter().map(|name| folder.join("states").join(name)).collect();
        if let Some(machine) = manifest.get("machine") {
            let machine: Server = serde_json::from_value(machine.clone()).unwrap();
            let upload = |(client, round)| format!("uploads/{client}-{round}.upload");
            paths.extend(machine.kept().map(|kept| folder.join(upload(kept))));
        }
        for path in paths {
            assert!(!self.content.contains(&path), "{} is named, and not synced", path.display());
            assert!(!self.names.contains(&path), "{} may lose its name", path.display());
        }
    }
}

/// The files that a manifest names, wherever it does.
fn files_in(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let (Some(Value::String(file)), true) =
                (members.get("file"), members.contains_key("hash"))
            {
                into.push(file.clone());
            }
            members.values().for_each(|value| files_in(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| files_in(value, into)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_manifest_names_is_on_the_disk_before_it() {
    let house = House::new(2, "scd", "");
    let folders = [house.folder.path().join("server"), house.client_folder(0)];
    let watched = folders.each_ref().map(|folder| Faults::none_below(folder));
    within(house.run()).await;
    for (folder, watched) in folders.iter().zip(watched) {
        let mut unsynced = Unsynced::default();
        unsynced.follow(folder, &watched.made());
        assert!(unsynced.manifests > 3, "{} manifests", unsynced.manifests);
        // The folder itself has a name that stays.
        let synced = |made: &Made| made.call == "sync folder" && made.path == *folder;
        assert!(watched.made().iter().any(synced));
    }
}
