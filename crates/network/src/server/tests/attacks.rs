//! Uploads that would spoil a model or a round.

use super::{PATIENCE, Rogue, changed, header, named, parts, serve, serve_with, whole};
use crate::audit;
use crate::server::End;
use crate::wire::proto::{self, verdict::Kind};
use std::path::Path;

async fn end(server: crate::server::RunningServer) -> End {
    let end = tokio::time::timeout(PATIENCE, server.finish(std::future::pending())).await;
    end.unwrap().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variance_below_zero_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let network = ("name = \"mlp\", hidden = [8]", "name = \"resnet18\", width = 4");
    let server = serve_with(folder.path(), 2, "", &[network]).await;
    let good = Rogue::join(&server, 1).await.broadcast().await;
    let mut upload = super::method().decode_upload(&good).unwrap();
    let mut vectors = super::method().upload_vectors_mut(&mut upload).unwrap();
    let buffers = vectors.pop().unwrap();
    let variance = buffers.iter().position(|value| *value == 1.0).unwrap();
    buffers[variance] = -1e-3;
    let bad = upload.encode().unwrap();
    let mut rogue = Rogue::join(&server, 0).await;
    assert_eq!(rogue.upload(whole(&bad)).await, (Kind::Refused, "variance".to_owned()));
    let mut honest = Rogue::join(&server, 1).await;
    assert_eq!(honest.upload(whole(&good)).await.0, Kind::Accepted);
    assert_eq!(end(server).await.stopped, None);
    let log = std::fs::read_to_string(folder.path().join("server/events.jsonl")).unwrap();
    assert!(log.contains("running_var") && log.contains("no variance is below zero"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_nobody_knows_and_rounds_that_there_are_not_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 4, "").await;
    let good = Rogue::join(&server, 3).await.broadcast().await;
    let claim = |change: &dyn Fn(&mut proto::UploadHeader)| {
        let mut header = header(&good);
        change(&mut header);
        parts(&header, &good, 0)
    };
    for (client, (reason, parts)) in [
        ("malformed", claim(&|header| header.encoding = 7)),
        ("malformed", claim(&|header| header.precision = -1)),
        ("wrong-round", claim(&|header| header.round = 0)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut rogue = Rogue::join(&server, client).await;
        assert_eq!(rogue.upload(parts).await, (Kind::Refused, reason.to_owned()));
    }
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_upload_is_no_round_where_everybody_else_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let share = ("min_success = 0.0", "min_success = 0.5");
    let server = serve_with(folder.path(), 4, "", &[share]).await;
    let mut poisoner = Rogue::join(&server, 0).await;
    let bytes = poisoner.broadcast().await;
    let far = changed(&bytes, |w| w.iter_mut().for_each(|w| *w *= -90.0));
    assert_eq!(poisoner.upload(whole(&far)).await.0, Kind::Accepted);
    for client in 1..4 {
        let mut honest = Rogue::join(&server, client).await;
        let failure = proto::Failure { round: 1, reason: "diverged".into() };
        honest.caller.fail(named(&honest.name, failure)).await.unwrap();
    }
    let end = end(server).await;
    let why = end.stopped.unwrap();
    assert_eq!(end.rounds, 0, "nothing was aggregated");
    assert!(why.contains("only 1 of 4") && why.contains("federation.min_success = 0.5"), "{why}");
}

fn entries(folder: &Path) -> Vec<audit::Entry> {
    let server = folder.join("server");
    let found = audit::verify(&server, None).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    audit::records(&server).unwrap().into_iter().map(|record| record.entry).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_what_came_and_what_became_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    let nan = changed(&good, |w| w[3] = f32::NAN);
    assert_eq!(rogue.upload(whole(&nan)).await.0, Kind::Refused);
    let mut honest = Rogue::join(&server, 1).await;
    let near = changed(&good, |w| w[0] += 0.5);
    assert_eq!(honest.upload(whole(&near)).await.0, Kind::Accepted);
    let hash = crate::wire::hex(&crate::wire::file_of(&near).hash);
    end(server).await;
    let entries = entries(folder.path());
    let of = |name: &str| {
        let about = entries.iter().filter(move |entry| entry.client() == Some(name));
        about.cloned().collect::<Vec<_>>()
    };
    let [audit::Entry::Joined { .. }, audit::Entry::Refused { reason, .. }] = &of("client-000")[..]
    else {
        panic!("{entries:?}")
    };
    assert_eq!(reason, "not-finite");
    let [audit::Entry::Joined { .. }, audit::Entry::Kept { hash: kept, norm, samples, .. }] =
        &of("client-001")[..]
    else {
        panic!("{entries:?}")
    };
    assert_eq!((kept, *samples), (&hash, 10));
    assert!((norm - 0.5).abs() < 1e-3, "{norm}");
    let went_in = entries.iter().any(|entry| {
        matches!(entry, audit::Entry::Aggregated { round: 1, clients, .. } if *clients == ["client-001"])
    });
    assert!(went_in, "{entries:?}");
    assert!(matches!(entries.last(), Some(audit::Entry::Ended { rounds: 1, stopped: None })));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_keeps_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    fn look(folder: &Path, seen: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look(&path, seen);
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            // The lock is empty.
            assert!(name == "lock" || mode.trailing_zeros() >= 6, "{name}: {mode:o}");
            seen.push(name);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let mut rogue = Rogue::join(&server, 0).await;
    let good = rogue.broadcast().await;
    let cut: Vec<_> = whole(&good).into_iter().take(3).collect();
    assert_eq!(rogue.upload(cut).await.0, Kind::Again);
    assert_eq!(Rogue::join(&server, 1).await.upload(whole(&good)).await.0, Kind::Accepted);
    let mut seen = Vec::new();
    look(&folder.path().join("server"), &mut seen);
    for name in ["manifest.json", "events.jsonl", "audit.jsonl", "0-1.part", "1-1.upload"] {
        assert!(seen.iter().any(|seen| seen == name), "{name}: {seen:?}");
    }
    server.finish(std::future::ready(())).await.unwrap();
}
