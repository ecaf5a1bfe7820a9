//! What keeps a server from being held up, and what it says when it is.

use super::{Rogue, header, named, serve, whole};
use crate::wire::proto::verdict::Kind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What an operator's address answers to a request by some host.
async fn ask(server: &crate::server::RunningServer, path: &str, host: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(server.ops().unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_host_sees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "").await;
    let address = server.ops().unwrap().to_string();
    assert!(ask(&server, "/status", &address).await.starts_with("HTTP/1.1 200"));
    for path in ["/status", "/metrics", "/healthz"] {
        let answer = ask(&server, path, "evil.example:7701").await;
        assert!(answer.starts_with("HTTP/1.1 421") && !answer.contains("client-000"), "{answer}");
    }
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_client_does_not_hold_a_round_and_a_round_that_cannot_close_is_no_health() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "patience = \"300ms\"").await;
    let mut silent = Rogue::join(&server, 0).await;
    let good = silent.broadcast().await;
    // Nobody answers: the round is over its time and cannot close.
    let answer = tokio::time::timeout(super::PATIENCE, async {
        loop {
            let answer = ask(&server, "/healthz", "localhost").await;
            if !answer.starts_with("HTTP/1.1 200") {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let answer = answer.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(
        answer.contains("round 1 cannot close") && answer.contains("1 of 2 clients"),
        "{answer}"
    );
    // One answer is there and the other client is still silent: the round closes without it.
    let mut honest = Rogue::join(&server, 1).await;
    assert_eq!(honest.upload(whole(&good)).await.0, Kind::Accepted);
    let end = tokio::time::timeout(super::PATIENCE, server.finish(std::future::pending())).await;
    assert_eq!(end.unwrap().unwrap().unwrap().rounds, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_calls_too_often_is_told_to_come_again_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 2, "max_calls = 1").await;
    let mut loud = Rogue::join(&server, 0).await;
    let good = loud.broadcast().await;
    let mut told = 0;
    for _ in 0..30 {
        match loud.caller.resume(named(&loud.name, header(&good))).await {
            Ok(_) => {}
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
                told += 1;
            }
        }
    }
    assert!(told > 0);
    let mut other = Rogue::join(&server, 1).await;
    assert_eq!(other.upload(whole(&good)).await.0, Kind::Accepted);
    server.finish(std::future::ready(())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_broadcast_is_made_anew_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 1, "").await;
    let good = Rogue::join(&server, 0).await.broadcast().await;
    server.finish(std::future::ready(())).await.unwrap();
    let path = folder.path().join("server/states/broadcast-1.bin");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 0xff;
    std::fs::write(&path, bytes).unwrap();
    let server = serve(folder.path(), 1, "").await;
    // It compares the hash that the server has announced.
    assert_eq!(Rogue::join(&server, 0).await.broadcast().await, good);
    server.finish(std::future::ready(())).await.unwrap();
    // And if it is gone.
    std::fs::remove_file(&path).unwrap();
    let server = serve(folder.path(), 1, "").await;
    assert_eq!(Rogue::join(&server, 0).await.broadcast().await, good);
    server.finish(std::future::ready(())).await.unwrap();
}
