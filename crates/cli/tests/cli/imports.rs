//! Data that are brought, fetched and looked at.

use crate::terminal::Terminal;
use crate::workshop::{DIGITS, idx, picture};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Twenty pictures of three digits, in a folder each.
fn photos(terminal: &Terminal) {
    let mut taken = [0; 3];
    for i in 0..DIGITS.train.len() {
        let label = DIGITS.train.label(i);
        if label < 3 && taken[label] < 20 {
            taken[label] += 1;
            let name = ["zero", "one", "two"][label];
            let path = terminal.path(&format!("photos/{name}/{i}.png"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            picture(&*DIGITS.train, i).save(path).unwrap();
        }
    }
}

#[test]
fn help_texts() {
    let terminal = Terminal::new();
    let help = |words: &[&str]| terminal.succeed(&[words, &["--help"]].concat()).stdout;
    let pages = [["data", "import"], ["data", "check"], ["data", "get"]].map(|words| help(&words));
    snapshot!(pages.join("\n"));
}

#[test]
fn a_folder_becomes_one_file() {
    let terminal = Terminal::new();
    photos(&terminal);
    let said = terminal.succeed(&["data", "import", "photos", "photos.formant"]);
    assert_eq!(said.stderr, "");
    let checked = terminal.succeed(&["data", "check", "photos.formant"]).stdout;
    assert!(
        checked.starts_with("photos.formant: as written, 48 training and 12 test samples\nread "),
        "{checked}"
    );
    let again = terminal.formant(&["data", "import", "photos", "photos.formant"]);
    assert_eq!(again.code, Some(1));
    let folder = terminal.formant(&["data", "import", "photos", "photos"]);
    let absent = terminal.formant(&["data", "import", "pictures", "other.formant"]);
    let foreign = terminal.formant(&["data", "check", "photos/one"]);
    snapshot!([said.stdout, again.stderr, folder.stderr, absent.stderr, foreign.stderr].join("\n"));

    let args = ["data", "import", "photos", "photos.formant", "--force", "--json", "--size", "8x8"];
    let said: Value = serde_json::from_str(&terminal.succeed(&args).stdout).unwrap();
    assert_eq!((&said["train"], &said["test"]), (&48.into(), &12.into()));
    assert_eq!(said["shape"], serde_json::json!({ "channels": 1, "height": 8, "width": 8 }));
    let checked = terminal.succeed(&["data", "check", "photos.formant", "--json"]).stdout;
    let checked: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["bytes"], said["bytes"]);

    // A bit of a sample that has changed.
    let mut bytes = std::fs::read(terminal.path("photos.formant")).unwrap();
    bytes[100] ^= 4;
    std::fs::write(terminal.path("photos.formant"), bytes).unwrap();
    let damaged = terminal.formant(&["data", "check", "photos.formant"]);
    assert!(
        damaged
            .stderr
            .contains("photos.formant: the training samples, from byte 64, are not as written"),
        "{damaged:?}"
    );
    assert!(damaged.stderr.contains("hint: take another copy"), "{damaged:?}");
}

#[test]
fn the_file_trains_as_its_source_does() {
    let terminal = Terminal::new();
    photos(&terminal);
    terminal.succeed(&["data", "import", "photos", "photos.formant", "--threads", "3"]);
    let fingerprints = |source: &str, out: &str, threads: &str| {
        let source = format!("data.source={source}");
        let args = [
            "run",
            "--set",
            &source,
            "--set",
            "rounds=2",
            "--set",
            "data.clients=3",
            "--method",
            "fedavg",
            "--method",
            "ditto",
            "--out",
            out,
            "--threads",
            threads,
            "--json",
            "--quiet",
        ];
        let said: Value = serde_json::from_str(&terminal.succeed(&args).stdout).unwrap();
        assert_eq!(said["fingerprints"].as_object().unwrap().len(), 2);
        said["fingerprints"].clone()
    };
    let read = fingerprints("photos", "runs/read", "1");
    assert_eq!(fingerprints("photos.formant", "runs/mapped", "2"), read);
}

#[test]
fn any_source_is_shown() {
    let terminal = Terminal::new();
    photos(&terminal);
    terminal.succeed(&["data", "import", "photos", "photos.formant"]);
    let show = |source: &str, more: &[&str]| {
        let args =
            ["data", "show", source, "--set", "data.clients=3", "--set", "data.min_samples=2"];
        terminal.succeed(&[&args, more].concat()).stdout
    };
    let shown = show("photos", &["--png", "sheet.png", "--svg", "map.svg"]);
    assert_eq!(shown, show("photos.formant", &["--png", "sheets.png", "--rows", "client"]));
    snapshot!(shown);
    let sheet = image::open(terminal.path("sheet.png")).unwrap();
    let clients = image::open(terminal.path("sheets.png")).unwrap();
    // Twelve digits of twice their size in each of three rows, behind names of four and of eight letters.
    assert_eq!((sheet.width(), sheet.height()), (4 * 12 + 8 + 12 * 60, 4 + 3 * 60));
    assert_eq!((clients.width(), clients.height()), (8 * 12 + 8 + 12 * 60, 4 + 3 * 60));
    let map = std::fs::read_to_string(terminal.path("map.svg")).unwrap();
    assert!(map.starts_with("<svg ") && map.contains(">zero</text>"), "{map}");
    let taken = terminal.formant(&["data", "show", "photos", "--svg", "map.svg"]);
    assert!(
        taken.stderr.contains("map.svg exists already\n hint: name another file, or"),
        "{taken:?}"
    );

    let json: Value = serde_json::from_str(&show("photos", &["--json"])).unwrap();
    assert_eq!((&json["train"], &json["test"]), (&48.into(), &12.into()));
    assert_eq!(json["classes"][2], serde_json::json!({ "name": "zero", "train": 16, "test": 4 }));
    let held = json["clients"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|client| client["labels"].as_array().unwrap());
    assert_eq!(held.map(|count| count.as_u64().unwrap()).sum::<u64>(), 48);
}

#[test]
fn a_file_of_idx_is_shown_too() {
    let terminal = Terminal::new();
    std::fs::write(terminal.path("x-images-idx3-ubyte"), idx(&[40, 2, 2], &[9; 160])).unwrap();
    let labels: Vec<u8> = (0..40).map(|i| i % 4).collect();
    std::fs::write(terminal.path("x-labels-idx1-ubyte"), idx(&[40], &labels)).unwrap();
    let args = [
        "data",
        "show",
        "x-images-idx3-ubyte",
        "--set",
        "data.clients=2",
        "--set",
        "data.min_samples=2",
    ];
    let shown = terminal.succeed(&args).stdout;
    assert!(shown.contains("samples  32 to train, 8 global test\nshape    1x2x2"), "{shown}");
}

#[test]
fn what_cannot_be_fetched_is_listed() {
    let terminal = Terminal::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let first = BufReader::new(stream.try_clone().unwrap()).lines().next().unwrap().unwrap();
        stream
            .write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .unwrap();
        first
    });
    let mirror = format!("{base}/pub");
    let said = terminal.formant(&["data", "get", "mnist", "--mirror", &mirror]);
    assert_eq!(said.code, Some(1));
    assert_eq!(server.join().unwrap(), "GET /pub/train-images-idx3-ubyte.gz HTTP/1.1");
    let unknown = terminal.formant(&["data", "get", "imagenet"]);
    snapshot!([said.stderr.replace(&base, "[ADDRESS]"), unknown.stderr].join("\n"));
}
