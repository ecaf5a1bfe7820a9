use super::*;
use std::fs;
use tempfile::TempDir;

/// A log of some lines, with a manifest that names the last of them.
fn written(lines: u64) -> (TempDir, Head) {
    let folder = tempfile::tempdir().unwrap();
    let mut book = Book::open(folder.path(), &Head::default()).unwrap();
    for round in 1..=lines {
        let (client, hash) = (format!("c{}", round % 3), format!("{round:032x}"));
        let (norm, samples) = (0.5 * round as f64, 20);
        book.note(Entry::Kept { client, round, bytes: 7, hash, norm, samples, loss: None })
            .unwrap();
    }
    let head = book.sync().unwrap();
    name(&folder, &head);
    (folder, head)
}

fn name(folder: &TempDir, head: &Head) {
    let manifest = serde_json::json!({ "audit": head, "other": 3 });
    let path = folder.path().join("manifest.json");
    files::write_manifest(&path, &manifest, files::Synced::Nothing).unwrap();
}

fn problems(folder: &TempDir) -> Vec<String> {
    verify(folder.path(), None).unwrap().problems
}

fn change(folder: &TempDir, change: impl Fn(Vec<&str>) -> String) {
    let path = folder.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, change(text.lines().collect())).unwrap();
}

#[test]
fn what_was_written_holds_and_can_be_read() {
    let (folder, head) = written(5);
    let found = verify(folder.path(), Some(&head.chain)).unwrap();
    assert_eq!((found.head, found.problems), (head, vec![]));
    let read = records(folder.path()).unwrap();
    assert_eq!(read.len(), 5);
    assert_eq!((read[4].line, read[4].entry.client()), (5, Some("c2")));
}

type Change = fn(&mut Vec<&str>);

#[test]
fn every_change_is_found() {
    let joined = |lines: Vec<&str>| lines.join("\n") + "\n";
    let changes: [(Change, &str); 4] = [
        (|lines| lines[2..].rotate_left(1), "line 3"),
        (|lines| lines.swap(1, 2), "line 2"),
        (|lines| lines.truncate(3), "2 lines are missing at the end"),
        (|lines| lines.clear(), "5 lines are missing at the end"),
    ];
    for (how, said) in changes {
        let (folder, _) = written(5);
        change(&folder, |mut lines| {
            how(&mut lines);
            if lines.is_empty() { String::new() } else { joined(lines) }
        });
        assert!(problems(&folder)[0].contains(said), "{said}: {:?}", problems(&folder));
    }
    let (folder, _) = written(5);
    change(&folder, |lines| joined(lines).replace("\"samples\":20", "\"samples\":90"));
    assert!(problems(&folder)[0].contains("line 1: it was changed"), "{:?}", problems(&folder));
    // A whole log of somebody else's is not this one's.
    let (folder, _) = written(5);
    let (other, _) = written(5);
    fs::copy(other.path().join(FILE), folder.path().join(FILE)).unwrap();
    assert!(problems(&folder)[0].contains("manifest.json"), "{:?}", problems(&folder));
    let (folder, _) = written(5);
    let noted = verify(folder.path(), Some(&"ab".repeat(32))).unwrap();
    assert!(noted.problems[0].contains("somebody has noted it"), "{noted:?}");
}

#[test]
fn any_digit_that_flips_is_found() {
    let (folder, _) = written(3);
    let path = folder.path().join(FILE);
    let before = fs::read(&path).unwrap();
    for place in 0..before.len() {
        let mut bytes = before.clone();
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(!problems(&folder).is_empty(), "byte {place} of {}", before.len());
    }
}

#[test]
fn a_server_goes_on_behind_a_crash_and_says_what_is_no_crash() {
    let (folder, head) = written(2);
    let path = folder.path().join(FILE);
    // Written and never committed, and a line that was cut in the middle.
    let mut book = Book::open(folder.path(), &head).unwrap();
    book.note(Entry::Omitted { lines: 1 }).unwrap();
    drop(book);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend(b"{\"line\":4,\"at");
    fs::write(&path, bytes).unwrap();
    let mut book = Book::open(folder.path(), &head).unwrap();
    book.note(Entry::Omitted { lines: 2 }).unwrap();
    let head = book.sync().unwrap();
    assert_eq!(head.lines, 4);
    name(&folder, &head);
    assert_eq!(problems(&folder), Vec::<String>::new());
    // The end is cut off while no server runs: the next one does not cover it up.
    change(&folder, |lines| lines[..2].join("\n") + "\n");
    let mut book = Book::open(folder.path(), &head).unwrap();
    book.note(Entry::Omitted { lines: 3 }).unwrap();
    name(&folder, &book.sync().unwrap());
    assert!(problems(&folder).iter().any(|p| p.contains("2 lines are missing")));
}

#[test]
fn nobody_fills_the_log_and_others_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let mut book = Book::open(folder.path(), &Head::default()).unwrap();
    let refused = |client: Option<&str>| Entry::Refused {
        client: client.map(str::to_owned),
        call: "upload".into(),
        round: Some(3),
        reason: "late".into(),
        detail: "the round has closed".into(),
    };
    for _ in 0..1_000 {
        book.note(refused(Some("loud"))).unwrap();
        book.note(refused(None)).unwrap();
    }
    book.note(refused(Some("other"))).unwrap();
    book.turn_page().unwrap();
    book.note(refused(Some("loud"))).unwrap();
    let read = records(folder.path()).unwrap();
    let of = |client| read.iter().filter(|record| record.entry.client() == client).count();
    assert_eq!((of(Some("loud")), of(Some("other"))), (33, 1));
    assert!(read.iter().any(|record| record.entry == Entry::Omitted { lines: 2 * 968 }));
}
