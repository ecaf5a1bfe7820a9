//! Small files that unfold to gigabytes, or claim to.

use crate::attempt;
use crate::examples::{gzip, idx, npy, npz, put, scratch, tar};
use std::io::{Cursor, Write};
use tar::EntryType::Regular;
use zip::CompressionMethod;

/// Bytes of a bomb, unfolded.
const GIGABYTES: usize = 6 << 30;

/// A gzip stream of a beginning and six gigabytes of zeros: one member again and again.
fn bomb(start: &[u8]) -> Vec<u8> {
    let zeros = gzip(&vec![0; 16 << 20]);
    [gzip(start), zeros.repeat(GIGABYTES / (16 << 20))].concat()
}

/// The error of a folder with these files.
fn refused(files: &[(&str, &[u8])], open: &str) -> String {
    let folder = scratch();
    for (name, bytes) in files {
        put(folder.path(), name, bytes);
    }
    match attempt(folder.path(), &folder.path().join(open), open) {
        Ok(_) => panic!("{open} was read"),
        Err(message) => message,
    }
}

/// Labels of two classes in turn.
fn two_classes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i % 2) as u8).collect()
}

#[test]
fn a_gzip_bomb_of_images_is_refused() {
    let images = "a-images-idx3-ubyte.gz";
    let labels = idx(&[4], &[0, 1, 0, 1]);
    // As many as there are, but no more than memory has.
    let honest = bomb(&idx(&[(GIGABYTES >> 20) as u32, 1_024, 1_024], &[]));
    let many = idx(&[(GIGABYTES >> 20) as u32], &two_classes(GIGABYTES >> 20));
    let message = refused(&[(images, &honest), ("a-labels-idx1-ubyte", &many)], images);
    assert!(message.contains("take 6144 MiB in memory, and 64 MiB are free"), "{message}");
    // More than the header says.
    let longer = bomb(&idx(&[4, 2, 2], &[0; 16]));
    let message = refused(&[(images, &longer), ("a-labels-idx1-ubyte", &labels)], images);
    assert!(message.contains("goes on after the 4 rows"), "{message}");
    // The labels of four images.
    let four = idx(&[4, 2, 2], &[0; 16]);
    let longer = bomb(&labels);
    let images = "a-images-idx3-ubyte";
    let message = refused(&[(images, &four), ("a-labels-idx1-ubyte.gz", &longer)], images);
    assert!(message.contains("goes on after the 4 rows"), "{message}");
}

#[test]
fn a_claim_of_images_is_not_an_image() {
    let images = "a-images-idx3-ubyte";
    for extents in [[u32::MAX, u32::MAX, u32::MAX], [1, u32::MAX, 1], [u32::MAX, 1, 1], [0, 0, 0]] {
        refused(&[(images, &idx(&extents, &[0; 16]))], images);
        refused(&[("a.gz", &gzip(&idx(&extents, &[0; 16])))], "a.gz");
    }
    for extents in [[usize::MAX, usize::MAX], [usize::MAX / 8, 1], [1 << 40, 4]] {
        refused(&[("x.npy", &npy("<f8", &extents, &[0; 64]))], "x.npy");
        let arrays = [("x", npy("<f8", &extents, &[0; 64])), ("y", npy("|u1", &[4], &[0; 4]))];
        refused(&[("a.npz", &npz(&arrays, CompressionMethod::Deflated))], "a.npz");
    }
}

#[test]
fn a_zip_bomb_is_refused() {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().large_file(true);
    let zeros = vec![0; 16 << 20];
    let rows = GIGABYTES / 8 / (1 << 20);
    for (name, header) in [
        ("x", npy("|u1", &[rows, 1 << 10, 1 << 10], &[])),
        ("y", npy("|u1", &[rows], &two_classes(rows))),
    ] {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(&header).unwrap();
        let blocks = if name == "x" { rows / 16 } else { 0 };
        (0..blocks).for_each(|_| archive.write_all(&zeros).unwrap());
    }
    let bytes = archive.finish().unwrap().into_inner();
    assert!(bytes.len() < 4 << 20);
    let message = refused(&[("a.npz", &bytes)], "a.npz");
    assert!(message.contains("take 768 MiB in memory"), "{message}");
}

#[test]
fn a_tar_bomb_is_refused() {
    // The header of a member, without its content.
    let header = |name: &str, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_entry_type(Regular);
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    for (name, size, part) in [
        ("cifar-10-batches-py/data_batch_1", 5 << 30, "claims 5368709120 bytes"),
        ("cifar-10-batches-py/data_batch_1", 900 << 20, "can have at most"),
        ("cifar-10-batches-py/readme.html", 5 << 30, "claims 5368709120 bytes"),
        ("cifar-10-batches-py/readme.html", 1000 << 20, "it goes on after"),
        ("cifar-10-batches-py/data_batch_1", 60 << 20, "it goes on after"),
    ] {
        let bytes = bomb(&header(name, size));
        let message = refused(&[("a.tar.gz", &bytes)], "a.tar.gz");
        // Zeros after a member are the end of an archive, and what follows it counts as well.
        assert!(message.contains(part) || message.contains("is not one of CIFAR"), "{message}");
    }
    // A name that is as long as it likes.
    let mut long = tar::Header::new_gnu();
    long.set_entry_type(tar::EntryType::GNULongName);
    long.set_size(900 << 20);
    long.set_cksum();
    refused(&[("a.tar.gz", &bomb(long.as_bytes()))], "a.tar.gz");
}

#[test]
fn a_packed_batch_of_cifar_is_not_unpacked_without_end() {
    let message = refused(&[("data_batch_1.gz", &bomb(b"\x80\x02"))], "");
    assert!(message.contains("trailing bytes beyond the largest possible content"), "{message}");
    let message = refused(&[("data_batch_1.bin.gz", &bomb(&[1]))], "");
    assert!(message.contains("at most 30730000 bytes"), "{message}");
}

#[test]
fn a_pickle_that_multiplies_is_refused() {
    // A long text, used again and again; a list in a list in a list; a program without end.
    let text = [&b"\x80\x04X\x00\x00\x10\x00"[..], &vec![b'a'; 1 << 20], b"\x94"].concat();
    let many = |step: &[u8], count: usize| [&text[..], &step.repeat(count), b"."].concat();
    let names = [
        &b"\x80\x02}U\x0blabel_names(X\x00\x10\x00\x00"[..],
        &[b'a'; 4_096],
        b"q\x00",
        &b"h\x00".repeat(60_000),
        b"ls.",
    ]
    .concat();
    for broken in [
        many(b"h\x00h\x00\x93", 300_000),
        many(b"]a", 0),
        many(b"2", 3_000_000),
        b"]".repeat(3 << 20),
        b"(".repeat(3 << 20),
    ] {
        refused(&[("data_batch_1", &broken)], "");
    }
    let message = refused(&[("batches.meta", &names), ("data_batch_1", b".")], "");
    assert!(message.contains("batches.meta") && message.contains("label_names"), "{message}");
}

#[test]
fn a_picture_that_claims_to_be_huge_is_refused() {
    // The header of a PNG: width and height, with the checksum that belongs to them.
    let chunk = |kind: &[u8], content: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(&[kind, content].concat());
        [&(content.len() as u32).to_be_bytes()[..], kind, content, &crc.sum().to_be_bytes()]
            .concat()
    };
    let size = 60_000_u32.to_be_bytes();
    let header = chunk(b"IHDR", &[&size[..], &size, &[8, 2, 0, 0, 0]].concat());
    let picture =
        [b"\x89PNG\r\n\x1a\n".to_vec(), header, chunk(b"IDAT", &[0x78, 0x9c]), chunk(b"IEND", &[])]
            .concat();
    let message = refused(&[("a/1.png", &picture), ("b/1.png", &picture)], "");
    assert!(
        message.contains("60000x60000") || message.contains("need more than 512 MiB"),
        "{message}"
    );
}

#[test]
fn links_and_paths_that_climb_out_of_an_archive_are_refused() {
    use tar::EntryType::{Link, Symlink};
    let batch = crate::examples::pickle("labels", &[1]);
    for (name, kind, part) in [
        ("../data_batch_1", Regular, "is not below the archive's own folder"),
        ("/data_batch_1", Regular, "is not below the archive's own folder"),
        ("a/../../data_batch_1", Regular, "is not below the archive's own folder"),
        ("a/data_batch_1", Symlink, "is a link"),
        ("a/data_batch_1", Link, "is a link"),
    ] {
        let message = refused(&[("a.tar", &tar(&[(name, kind, &batch)]))], "a.tar");
        assert!(message.contains(part), "{name}: {message}");
    }
    let twice = [("a/data_batch_1", Regular, &batch[..]), ("b/data_batch_1", Regular, &batch[..])];
    let message = refused(&[("a.tar", &tar(&twice))], "a.tar");
    assert!(message.contains("more than one member"), "{message}");
}
