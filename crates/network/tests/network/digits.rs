//! What a server or a client goes on from is as it was written, to the last digit.

use crate::house::{House, never, within};
use formant_network::client::join;
use formant_network::server::{RunningServer, Trust};
use formant_report::RunLog;
use formant_runtime::seal::{Check, verify};
use std::path::Path;

/// The file with each of its digits changed in turn.
fn changes(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let digits = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit());
    digits.map(|at| {
        let mut changed = bytes.to_vec();
        changed[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
        changed
    })
}

/// Every changed digit breaks the check of a manifest; gives some files that were changed so.
fn some_changes(file: &Path) -> Vec<Vec<u8>> {
    let whole = std::fs::read(file).unwrap();
    verify(&whole, Check::default()).unwrap();
    let all: Vec<Vec<u8>> = changes(&whole).collect();
    assert!(all.len() > 20, "{} has {} digits", file.display(), all.len());
    assert!(all.iter().all(|changed| verify(changed, Check::default()).is_err()));
    all.into_iter().step_by(37).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_digit_in_a_state_folder_is_refused() {
    let house = House::new(2, "ditto", "");
    within(house.run()).await;
    let server = house.folder.path().join("server");
    for name in ["run.json", "manifest.json", "events.jsonl"] {
        let file = server.join(name);
        let whole = std::fs::read(&file).unwrap();
        let changed = if name == "events.jsonl" {
            changes(&whole).step_by(101).collect()
        } else {
            some_changes(&file)
        };
        for changed in changed {
            std::fs::write(&file, changed).unwrap();
            let (experiment, settings) = house.settings();
            let started = RunningServer::start(&experiment, settings, Trust::Names).await;
            let error = started.err().unwrap().to_string();
            assert!(error.contains(name) && error.contains(" is damaged: "), "{error}");
            assert!(error.contains("\nhint: restore the whole"), "{error}");
        }
        std::fs::write(&file, whole).unwrap();
    }
    // Nobody listens there: a folder is looked at before anybody is called.
    let nowhere = "127.0.0.1:9";
    let client = house.client_folder(0);
    for name in ["run.json", "manifest.json"] {
        let file = client.join(name);
        let whole = std::fs::read(&file).unwrap();
        for changed in some_changes(&file) {
            std::fs::write(&file, changed).unwrap();
            let error =
                within(join(house.options(nowhere, 0), never())).await.unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(" is damaged: "), "{error}");
        }
        std::fs::write(&file, whole).unwrap();
    }
    // Both logs are whole, and chained over the whole run.
    for folder in [server, client] {
        let log = RunLog::read(&folder.join("events.jsonl")).unwrap();
        assert!(!log.truncated && log.seconds.is_some());
    }
}
