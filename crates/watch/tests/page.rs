//! The page over a real socket, of a log that grows.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_runtime::event::{Event, RunStarted};
use formant_runtime::{LogMark, Quiet, Recorder};
use formant_watch::{Target, Watch};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

fn header() -> RunStarted {
    serde_json::from_str(
        r#"{"format":3,"formant":"0.1.0","name":"a <b>run</b>","seed":7,"rounds":2,"config":{},"network":"lenet5",
        "parameters":9,"dataset":"mnist","split":"test","global_test":0,"clients":[null,null],"names":["alice","bob"],
        "side":"server","methods":[{"label":"fedavg","name":"fedavg","title":"FedAvg","generic":true,"personal":false,
        "hyper_parameters":{}}]}"#,
    )
    .unwrap()
}

fn target(folder: &Path) -> Target {
    Target { folder: Some(folder.into()), ops: None }
}

async fn ask(url: &str, request: &str, host: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut socket = TcpStream::connect(address).await.unwrap();
    let host = if host.is_empty() { address } else { host };
    let text = format!("{request} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Reads events until one has what is asked for.
async fn heard(events: &mut BufReader<TcpStream>, wanted: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(events.read_line(&mut line).await.unwrap() > 0, "the events ended before {wanted}");
        if line.starts_with("data: ") && line.contains(wanted) {
            return line;
        }
    }
}

#[tokio::test]
async fn a_log_that_grows_is_told_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::start(target(folder.path()), 0).await.unwrap();
    let url = watch.url();
    assert!(ask(&url, "GET /report", "").await.starts_with("HTTP/1.1 404"), "no log, no report");
    let address = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut socket = TcpStream::connect(address).await.unwrap();
    let text = format!("GET /events HTTP/1.1\r\nhost: {address}\r\n\r\n");
    socket.write_all(text.as_bytes()).await.unwrap();
    let mut events = BufReader::new(socket);
    heard(&mut events, "\"state\":\"waiting\"").await;

    let mut recorder = Recorder::open(folder.path(), LogMark::default(), &Quiet).unwrap();
    recorder.record_now(&Event::RunStarted(Box::new(header()))).unwrap();
    let (method, participants) = ("fedavg".to_owned(), vec![0, 1]);
    let opened = Event::RoundStarted { method: method.clone(), round: 1, participants };
    recorder.record_now(&opened).unwrap();
    let begun = heard(&mut events, "\"state\":\"begun\"").await;
    assert!(begun.contains("\"side\":\"server\"") && begun.contains("\"rounds\":[0,2]"), "{begun}");
    let (reason, detail) = ("late".to_owned(), None);
    let refused = Event::Refused { method, round: 1, client: 1, bytes: None, reason, detail };
    recorder.record_now(&refused).unwrap();
    let told = heard(&mut events, "\"refused\":1").await;
    assert!(told.contains("upload of bob for round 1 refused: late"), "{told}");
    let report = ask(&url, "GET /report", "").await;
    assert!(report.contains("a &lt;b&gt;run&lt;/b&gt;") && report.contains("bob"), "{report}");
    recorder.record_now(&Event::RunFinished { seconds: 1.0 }).unwrap();
    heard(&mut events, "\"state\":\"over\"").await;
    drop(events);
    watch.end().await;
}

#[tokio::test]
async fn others_cannot_read_along_and_nobody_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::start(target(folder.path()), 0).await.unwrap();
    let url = watch.url();
    assert!(ask(&url, "GET /", "evil.example:80").await.starts_with("HTTP/1.1 421"));
    assert!(ask(&url, "POST /", "").await.starts_with("HTTP/1.1 405"));
    assert!(ask(&url, "GET /../events.jsonl", "").await.starts_with("HTTP/1.1 404"));
    let page = ask(&url, "GET /", "").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy"), "{page}");
    assert!(!page.to_lowercase().contains("<script>"), "no script in the page itself");
    for asset in ["GET /page.js", "GET /page.css", "GET /live"] {
        assert!(ask(&url, asset, "").await.starts_with("HTTP/1.1 200"), "{asset}");
    }
    // The port is in use: the next page says so.
    let port = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    let error = Watch::start(target(folder.path()), port).await.err().unwrap().to_string();
    assert!(error.contains("--port"), "{error}");
    watch.end().await;
}

#[test]
fn what_answers_but_is_no_server_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut socket, _) = listener.accept().unwrap();
        let mut asked = [0; 512];
        let _ = socket.read(&mut asked).unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
    });
    let error = formant_watch::status::fetch(&address).unwrap_err().to_string();
    answering.join().unwrap();
    assert!(error.contains("is not a Formant server") && error.contains("\nhint: "), "{error}");
    let error = formant_watch::status::fetch(&address).unwrap_err().to_string();
    assert!(error.contains("no server answers at"), "{error}");
}
