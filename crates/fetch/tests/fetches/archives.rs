//! Files that hold other files.

use crate::server::{Answer, Server};
use crate::{Place, published};
use flate2::Compression;
use flate2::write::GzEncoder;
use formant_fetch::Packing;
use std::fs;
use std::io::Write;
use std::path::Path;

const WANTED: Packing = Packing::Members(&["batches/one.bin", "batches/two.bin"]);

fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // `append_data` refuses names that an archive of somebody else may have.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn fetched(place: &Place, archive: &[u8], packing: Packing) -> Result<(), String> {
    let server = Server::new(archive, &[Answer::Well]);
    let fetched = place.fetch(&published(archive, packing, &[&server]));
    fetched.map(drop).map_err(|error| error.to_string())
}

#[test]
fn members_are_taken_out_and_put_right() {
    let place = Place::new();
    let archive = tar_gz(&[
        ("batches/one.bin", b"1"),
        ("batches/readme", b"?"),
        ("./batches/two.bin", b"22"),
    ]);
    fetched(&place, &archive, WANTED).unwrap();
    let folder = place.dir().join("Set/raw/batches");
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!((read("one.bin"), read("two.bin")), (b"1".to_vec(), b"22".to_vec()));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    // What has changed since then, with the same length.
    fs::write(folder.join("two.bin"), b"23").unwrap();
    fetched(&place, &archive, WANTED).unwrap();
    assert_eq!(read("two.bin"), b"22");
}

#[test]
fn an_archive_without_its_members_is_refused() {
    let message =
        fetched(&Place::new(), &tar_gz(&[("batches/one.bin", b"1")]), WANTED).unwrap_err();
    assert!(message.contains("set.bin: it does not hold batches/two.bin\nhint: "), "{message}");
    let whole = tar_gz(&[("batches/one.bin", &[7; 10_000])]);
    let message = fetched(&Place::new(), &whole[..whole.len() / 2], WANTED).unwrap_err();
    assert!(message.contains("set.bin: it cannot be unpacked into"), "{message}");
}

#[test]
fn nothing_is_written_elsewhere() {
    let place = Place::new();
    let archive = tar_gz(&[("../../escaped", b"!"), ("images/a.jpg", b"a")]);
    fetched(&place, &archive, Packing::Everything).unwrap();
    assert_eq!(fs::read(place.dir().join("Set/raw/images/a.jpg")).unwrap(), b"a");
    assert!(!place.dir().join("escaped").exists());
    assert!(!Path::new("../../escaped").exists());

    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("train.json", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(b"{}").unwrap();
    let zip = zip.finish().unwrap().into_inner();
    let place = Place::new();
    fetched(&place, &zip, Packing::Zip).unwrap();
    let file = place.dir().join("Set/raw/train.json");
    assert_eq!(fs::read(&file).unwrap(), b"{}");
    // What takes long is done once.
    fs::remove_file(&file).unwrap();
    fetched(&place, &zip, Packing::Zip).unwrap();
    assert!(!file.exists());
}
