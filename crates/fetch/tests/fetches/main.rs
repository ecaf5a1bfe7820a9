//! Fetching from servers that answer well, late, wrongly or not at all.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

mod archives;
mod server;

use formant_fetch::{FetchError, Fetched, KNOWN, Known, Packing, Remote};
use md5::{Digest, Md5};
use server::{Answer, Server};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn leak<T: ?Sized>(value: Box<T>) -> &'static T {
    Box::leak(value)
}

fn md5(bytes: &[u8]) -> &'static str {
    let digits =
        Md5::digest(bytes).iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    leak(digits.into_boxed_str())
}

fn content() -> Vec<u8> {
    (0..200_000_u32).map(|i| (i.wrapping_mul(i) / 7) as u8).collect()
}

/// A dataset of one file that is published at some servers.
fn published(bytes: &[u8], packing: Packing, servers: &[&Server]) -> Known {
    let mirrors: Vec<&'static str> =
        servers.iter().map(|server| leak(server.base.clone().into_boxed_str())).collect();
    let remote = Remote {
        file: "set.bin",
        folder: "Set/raw",
        bytes: Some(bytes.len() as u64),
        md5: md5(bytes),
        mirrors: leak(mirrors.into_boxed_slice()),
        packing,
    };
    Known { name: "set", files: leak(Box::new([remote])) }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        self.dir().join("Set/raw/set.bin")
    }

    fn part(&self) -> PathBuf {
        self.dir().join("Set/raw/set.bin.part")
    }

    fn fetch(&self, known: &Known) -> Result<Vec<Fetched>, FetchError> {
        known.fetch(self.dir(), None, &mut |_, _, _| {})
    }

    /// What is said when nothing can be fetched: the reason, and how to get the file by hand.
    fn refused(&self, answers: &[Answer]) -> (String, Server) {
        let server = Server::new(&content(), answers);
        let known = published(&content(), Packing::Plain, &[&server]);
        let message = self.fetch(&known).unwrap_err().to_string();
        let path = self.file().display().to_string();
        for part in
            ["set.bin of set cannot be fetched\nhttp://127", "\nhint: ", &path, md5(&content())]
        {
            assert!(message.contains(part), "{message}");
        }
        assert!(!self.file().exists());
        (message, server)
    }
}

#[test]
fn a_file_is_fetched_once() {
    let (place, server) = (Place::new(), Server::new(&content(), &[Answer::Well]));
    let known = published(&content(), Packing::Plain, &[&server]);
    let mut seen = Vec::new();
    let fetched = known.fetch(place.dir(), None, &mut |file, done, of| {
        seen.push((file.to_owned(), done, of));
    });
    assert_eq!(fetched.unwrap(), [Fetched { path: place.file(), kept: false }]);
    assert!(fs::read(place.file()).unwrap() == content() && !place.part().exists());
    assert_eq!(seen.first().unwrap(), &("set.bin".to_owned(), 0, Some(200_000)));
    assert_eq!(seen.last().unwrap(), &("set.bin".to_owned(), 200_000, Some(200_000)));
    assert_eq!(place.fetch(&known).unwrap(), [Fetched { path: place.file(), kept: true }]);
    assert_eq!(server.requests(), ["/sets/set.bin"]);

    // One that has changed is fetched again.
    fs::write(place.file(), b"something else").unwrap();
    assert!(!place.fetch(&known).unwrap()[0].kept);
    assert!(fs::read(place.file()).unwrap() == content());
}

#[test]
fn another_address_may_stand_for_the_published_ones() {
    let (place, server) = (Place::new(), Server::new(&content(), &[Answer::Well]));
    let known = published(&content(), Packing::Plain, &[]);
    known.fetch(place.dir(), Some(&format!("{}/", server.base)), &mut |_, _, _| {}).unwrap();
    assert!(fs::read(place.file()).unwrap() == content());
    assert_eq!(server.requests(), ["/sets/set.bin"]);
}

#[test]
fn a_broken_connection_is_taken_up_where_it_ended() {
    let place = Place::new();
    let answers = [Answer::Breaks(70_000), Answer::Breaks(50_000), Answer::Well];
    let server = Server::new(&content(), &answers);
    place.fetch(&published(&content(), Packing::Plain, &[&server])).unwrap();
    assert!(fs::read(place.file()).unwrap() == content());
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "{requests:?}");
    assert_eq!(requests[0], "/sets/set.bin");
    assert_eq!(requests[1], "/sets/set.bin from 70000");
    assert_eq!(requests[2], "/sets/set.bin from 120000");
}

#[test]
fn what_has_come_is_kept_for_the_next_command_and_the_next_mirror() {
    let place = Place::new();
    let (message, _) = place.refused(&[Answer::Breaks(70_000), Answer::Breaks(0)]);
    assert!(message.contains("broke off after 70000 of 200000 bytes"), "{message}");
    assert_eq!(fs::metadata(place.part()).unwrap().len(), 70_000);
    let absent = Server::new(&content(), &[Answer::Status(404)]);
    let server = Server::new(&content(), &[Answer::Well]);
    place.fetch(&published(&content(), Packing::Plain, &[&absent, &server])).unwrap();
    assert!(fs::read(place.file()).unwrap() == content() && !place.part().exists());
    assert_eq!(absent.requests(), ["/sets/set.bin from 70000"]);
    assert_eq!(server.requests(), ["/sets/set.bin from 70000"]);
}

#[test]
fn a_server_that_cannot_go_on_begins_again() {
    let (place, server) = (Place::new(), Server::new(&content(), &[Answer::Whole]));
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.part(), &content()[..1_000]).unwrap();
    place.fetch(&published(&content(), Packing::Plain, &[&server])).unwrap();
    assert!(fs::read(place.file()).unwrap() == content());
    assert_eq!(server.requests(), ["/sets/set.bin from 1000"]);

    // One that always ends at the same place is given up.
    let (message, server) = Place::new().refused(&[Answer::Ends(1_000)]);
    assert!(message.contains("broke off after 1000 of 200000 bytes"), "{message}");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_wrong_length_is_refused() {
    for (length, says) in [(199_999, "it has 199999 bytes there"), (200_001, "it has 200001 bytes")]
    {
        let place = Place::new();
        let (message, _) = place.refused(&[Answer::Other(vec![7; length])]);
        assert!(message.contains(says), "{message}");
        assert!(!place.part().exists());
    }
    let place = Place::new();
    let longer = [content(), b"more".to_vec()].concat();
    let (message, _) = place.refused(&[Answer::Unmeasured(longer)]);
    assert!(message.contains("more than the 200000 bytes"), "{message}");
    assert!(!place.part().exists());
}

#[test]
fn another_file_is_refused_and_not_kept() {
    let place = Place::new();
    let other = vec![1; 200_000];
    let (message, _) = place.refused(&[Answer::Other(other.clone())]);
    assert!(message.contains("another file came: its MD5 is"), "{message}");
    assert!(message.contains(md5(&other)) && !place.part().exists(), "{message}");

    // The next mirror is not asked to go on with it.
    let (bad, good) =
        (Server::new(&other, &[Answer::Well]), Server::new(&content(), &[Answer::Well]));
    place.fetch(&published(&content(), Packing::Plain, &[&bad, &good])).unwrap();
    assert_eq!(good.requests(), ["/sets/set.bin"]);

    // A part that is longer than the file, and one that is as long and wrong.
    for wrong in [vec![1; 200_001], other] {
        fs::remove_file(place.file()).unwrap();
        fs::write(place.part(), wrong).unwrap();
        let (one, two) =
            (Server::new(&content(), &[Answer::Well]), Server::new(&content(), &[Answer::Well]));
        place.fetch(&published(&content(), Packing::Plain, &[&one, &two])).unwrap();
        assert!(fs::read(place.file()).unwrap() == content());
    }
}

#[test]
fn a_part_from_elsewhere_is_refused() {
    let place = Place::new();
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.part(), &content()[..1_000]).unwrap();
    let (message, _) = place.refused(&[Answer::Elsewhere]);
    assert!(message.contains("byte 1000 was asked for, and \"bytes 0-1/2\" came"), "{message}");
    // Nothing is behind what is there.
    fs::write(place.part(), &content()[..1_000]).unwrap();
    let (message, _) = place.refused(&[Answer::Status(416)]);
    assert!(message.contains("it has no more than 1000 bytes"), "{message}");
}

#[test]
fn a_whole_part_of_unknown_length_is_the_file() {
    let (place, server) = (Place::new(), Server::new(&content(), &[Answer::Well]));
    let known = published(&content(), Packing::Plain, &[&server]);
    let [remote] = known.files else { panic!() };
    let remote = Remote { bytes: None, ..*remote };
    let known = Known { files: leak(Box::new([remote])), ..known };
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.part(), content()).unwrap();
    place.fetch(&known).unwrap();
    assert!(fs::read(place.file()).unwrap() == content());
    assert_eq!(server.requests(), ["/sets/set.bin from 200000"]);
    fs::write(place.file(), b"cut").unwrap();
    place.fetch(&known).unwrap();
    assert!(fs::read(place.file()).unwrap() == content());
}

#[test]
fn refusals_are_reported() {
    for (answer, says) in [
        (Answer::Status(404), "the server answers with status 404"),
        (Answer::Status(500), "the server answers with status 500"),
        (Answer::Loop, "it leads from one address to the next without end"),
    ] {
        let place = Place::new();
        let (message, _) = place.refused(&[answer]);
        assert!(message.contains(says), "{message}");
        assert!(!place.part().exists());
    }
}

#[test]
fn without_a_network_it_says_what_to_put_where() {
    let place = Place::new();
    // Nobody listens there: the listener is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let known = Known::named("mnist").unwrap();
    let error = known.fetch(place.dir(), Some(&format!("http://{gone}")), &mut |_, _, _| {});
    let message = error.unwrap_err().to_string();
    for remote in known.files {
        let place = remote.place(place.dir()).display().to_string();
        for part in [&remote.addresses(None)[0], &place, remote.md5] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    assert!(message.contains("(9912422 bytes, MD5 f68b3c2dcbeaaa9fbdd348bbdeb94873)"), "{message}");
    let message = Known::named("imagenet").unwrap_err().to_string();
    assert!(message.contains("mnist, fashion-mnist, cifar10, cifar100, inat2017"), "{message}");
}

#[test]
fn two_processes_do_not_write_one_file() {
    let (place, server) = (Place::new(), Server::new(&content(), &[Answer::Well]));
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    let part = fs::File::create(place.part()).unwrap();
    part.try_lock().unwrap();
    let known = published(&content(), Packing::Plain, &[&server]);
    let message = place.fetch(&known).unwrap_err().to_string();
    assert!(message.contains("another process fetches"), "{message}");
}

#[test]
fn every_known_file_has_a_checksum_and_an_address() {
    for remote in KNOWN.iter().flat_map(|known| known.files) {
        assert!(
            remote.md5.len() == 32 && remote.md5.bytes().all(|b| b"0123456789abcdef".contains(&b))
        );
        assert!(
            !remote.mirrors.is_empty() && remote.mirrors.iter().all(|at| at.starts_with("http"))
        );
    }
}
