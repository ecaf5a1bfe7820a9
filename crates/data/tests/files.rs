//! Reading the files of datasets, sound and broken.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

use flate2::Compression;
use flate2::write::GzEncoder;
use formant_data::{DataError, Dataset};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

fn idx_images(count: usize) -> Vec<u8> {
    let header = [0x803, count as u32, 28, 28].map(u32::to_be_bytes).concat();
    header.into_iter().chain((0..count * 784).map(|i| (i % 251) as u8)).collect()
}

fn idx_labels(labels: &[u8]) -> Vec<u8> {
    [[0x801, labels.len() as u32].map(u32::to_be_bytes).concat(), labels.to_vec()].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A folder with a sound set of four training and two test images.
struct Fixture {
    root: TempDir,
    raw: PathBuf,
}

impl Fixture {
    fn new(folder: &str) -> Self {
        let root = TempDir::new().unwrap();
        let raw = root.path().join(folder);
        fs::create_dir_all(&raw).unwrap();
        let fixture = Self { root, raw };
        fixture.put(TRAIN_IMAGES, &idx_images(4));
        fixture.put(TRAIN_LABELS, &idx_labels(&[3, 1, 4, 9]));
        fixture.put(TEST_IMAGES, &idx_images(2));
        fixture.put(TEST_LABELS, &idx_labels(&[0, 7]));
        fixture
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.raw.join(name), bytes).unwrap();
    }

    fn load(&self, name: &str) -> Result<Dataset, DataError> {
        Dataset::load(name, Some(self.root.path()))
    }
}

/// The message must name the file, what was found, what was expected, and how to set things right.
fn assert_message(error: &DataError, path: &Path, parts: &[&str]) {
    let message = error.to_string();
    assert!(message.contains(&path.display().to_string()), "{message}");
    for part in parts.iter().chain(&["--data-dir", "FORMANT_DATA", "expected layout: "]) {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn idx_files_are_read_plain_compressed_and_directly_in_the_folder() {
    for (name, folder) in
        [("mnist", "MNIST/raw"), ("mnist", ""), ("fashion-mnist", "FashionMNIST/raw")]
    {
        let fixture = Fixture::new(folder);
        fixture.put(&format!("{TRAIN_IMAGES}.gz"), &gzip(&idx_images(4)));
        fs::remove_file(fixture.raw.join(TRAIN_IMAGES)).unwrap();
        let dataset = fixture.load(name).unwrap();
        assert_eq!((dataset.name.as_str(), dataset.classes), (name, 10));
        assert_eq!(dataset.train.labels(), [3, 1, 4, 9]);
        assert_eq!(dataset.test.labels(), [0, 7]);
        assert_eq!(
            dataset.train.bytes(1).unwrap()[..3],
            [784 % 251, 785 % 251, 786 % 251].map(|b| b as u8)
        );
    }
}

#[test]
fn every_broken_idx_file_is_named_with_its_fault() {
    let mut wide = idx_images(4);
    wide[15] = 32;
    let mut gigantic = idx_images(4);
    gigantic[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut longer = idx_images(4);
    longer.push(0);
    let mut corrupt = gzip(&idx_images(4));
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 0xff;
    let whole = gzip(&idx_images(4));
    let cut = &whole[..whole.len() - 9];
    let bomb = gzip(&vec![0; 60_000 * 784 + 1_000]);

    let cases: &[(&str, &[u8], &[&str])] = &[
        (TRAIN_IMAGES, &idx_labels(&[0; 20]), &["0x00000801", "0x00000803"]),
        (TRAIN_IMAGES, &wide, &["28x32", "28x28"]),
        (TRAIN_IMAGES, &idx_images(4)[..3_000], &["3000 bytes (truncated)", "3152 bytes"]),
        (TRAIN_IMAGES, &longer, &["3153 bytes (trailing bytes)", "3152 bytes"]),
        (TRAIN_IMAGES, &[0, 0, 8], &["3 bytes", "a header of 16 bytes"]),
        (TRAIN_IMAGES, &[], &["0 bytes", "a header of 16 bytes"]),
        (TRAIN_IMAGES, &gigantic, &["4294967295 images", "truncated"]),
        (TRAIN_IMAGES, &corrupt, &["a broken gzip stream", "an intact one"]),
        (TRAIN_IMAGES, cut, &["a broken gzip stream", "an intact one"]),
        (TRAIN_IMAGES, &bomb, &["trailing bytes", "at most 47040016 bytes"]),
        (TRAIN_LABELS, &idx_labels(&[3, 1, 4, 10]), &["the label 10 at position 3", "0 to 9"]),
        (TRAIN_LABELS, &idx_labels(&[3, 1, 4]), &["3 labels", "4, one for each image of"]),
        (TRAIN_LABELS, &idx_images(1), &["0x00000803", "0x00000801"]),
        (TEST_LABELS, &idx_labels(&[0; 3])[..10], &["10 bytes (truncated)", "11 bytes"]),
        (TEST_LABELS, &[0, 0, 8, 1], &["4 bytes", "a header of 8 bytes"]),
    ];
    for (file, bytes, parts) in cases {
        let fixture = Fixture::new("MNIST/raw");
        fixture.put(file, bytes);
        let error = fixture.load("mnist").unwrap_err();
        assert!(matches!(error, DataError::Malformed { .. }), "{error:?}");
        assert_message(&error, &fixture.raw.join(file), parts);
        assert!(error.to_string().contains("fetch the file again"), "{error}");
    }
}

#[test]
fn bytes_after_a_gzip_stream_are_refused() {
    let fixture = Fixture::new("MNIST/raw");
    let padded = [gzip(&idx_images(4)), b"and more".to_vec()].concat();
    fixture.put(TRAIN_IMAGES, &padded);
    let error = fixture.load("mnist").unwrap_err();
    assert_message(&error, &fixture.raw.join(TRAIN_IMAGES), &["gzip"]);
}

#[test]
fn a_set_without_images_is_refused() {
    let fixture = Fixture::new("MNIST/raw");
    fixture.put(TRAIN_IMAGES, &idx_images(0));
    fixture.put(TRAIN_LABELS, &idx_labels(&[]));
    let error = fixture.load("mnist").unwrap_err();
    assert_message(&error, &fixture.raw.join(TRAIN_IMAGES), &["no image", "at least one"]);
}

#[test]
fn a_set_does_not_pass_for_another_with_the_same_file_names() {
    let fixture = Fixture::new("");
    fixture.put(TRAIN_IMAGES, &idx_images(10));
    fixture.put(TRAIN_LABELS, &idx_labels(&[5, 0, 4, 1, 9, 2, 1, 3, 1, 4]));
    assert!(fixture.load("mnist").is_ok());
    let error = fixture.load("fashion-mnist").unwrap_err();
    let path = fixture.raw.join(TRAIN_LABELS);
    assert_message(&error, &path, &["the labels of mnist", "those of fashion-mnist"]);
}

#[test]
fn an_absent_file_says_where_it_was_looked_for() {
    let fixture = Fixture::new("MNIST/raw");
    fs::remove_file(fixture.raw.join(TEST_LABELS)).unwrap();
    let error = fixture.load("mnist").unwrap_err();
    assert!(matches!(error, DataError::Missing { .. }), "{error:?}");
    assert_message(&error, &fixture.raw, &[TEST_LABELS, "put the file there"]);
}

#[test]
fn an_absent_set_says_where_it_was_looked_for() {
    let empty = TempDir::new().unwrap();
    for (name, file, folder) in [
        ("mnist", TRAIN_IMAGES, "MNIST/raw"),
        ("fashion-mnist", TRAIN_IMAGES, "FashionMNIST/raw"),
        ("cifar10", "data_batch_1.bin", "cifar-10-batches-bin"),
        ("cifar100", "train.bin", "cifar-100-binary"),
    ] {
        let error = Dataset::load(name, Some(empty.path())).unwrap_err();
        let path = empty.path().join(folder);
        assert_message(&error, &path, &[name, file, "(no such folder)", "put the files there"]);
    }
    let nowhere = empty.path().join("nowhere");
    let error = Dataset::load("mnist", Some(&nowhere)).unwrap_err();
    assert_message(&error, &nowhere, &["(no such folder)"]);
}

#[test]
fn a_file_in_place_of_the_data_folder_is_not_a_panic() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("file");
    fs::write(&file, b"x").unwrap();
    let error = Dataset::load("mnist", Some(&file)).unwrap_err();
    assert_message(&error, &file, &["(no such folder)"]);
}

#[test]
fn a_directory_in_place_of_a_file_is_named() {
    let fixture = Fixture::new("MNIST/raw");
    let path = fixture.raw.join(TRAIN_IMAGES);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = fixture.load("mnist").unwrap_err();
    assert!(matches!(error, DataError::NotAFile { .. }), "{error:?}");
    assert_message(&error, &path, &["a directory", "expected a regular file"]);
    // An unpacker that made the directory may have left the archive next to it.
    fixture.put(&format!("{TRAIN_IMAGES}.gz"), &gzip(&idx_images(4)));
    assert!(fixture.load("mnist").is_ok());
}

/// Records of CIFAR whose pixels are the number of their channel.
fn records(labels: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in labels {
        bytes.extend_from_slice(label);
        (0..3u8).for_each(|channel| bytes.extend([channel; 1_024]));
    }
    bytes
}

fn cifar10() -> (TempDir, PathBuf) {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("cifar-10-batches-bin");
    fs::create_dir(&folder).unwrap();
    for batch in 1..=5u8 {
        fs::write(folder.join(format!("data_batch_{batch}.bin")), records(&[&[batch], &[0]]))
            .unwrap();
    }
    fs::write(folder.join("test_batch.bin"), records(&[&[9]])).unwrap();
    (root, folder)
}

#[test]
fn cifar10_joins_its_batches_in_order() {
    let (root, _folder) = cifar10();
    let dataset = Dataset::load("cifar10", Some(root.path())).unwrap();
    assert_eq!(dataset.train.labels(), [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
    assert_eq!(dataset.test.labels(), [9]);
    let pixels = dataset.train.bytes(3).unwrap();
    assert_eq!([pixels[0], pixels[1_023], pixels[1_024], pixels[3_071]], [0, 0, 1, 2]);
}

#[test]
fn cifar100_uses_the_fine_label() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("train.bin"), records(&[&[19, 99], &[4, 0]])).unwrap();
    fs::write(root.path().join("test.bin.gz"), gzip(&records(&[&[0, 42]]))).unwrap();
    let dataset = Dataset::load("cifar100", Some(root.path())).unwrap();
    assert_eq!((dataset.train.labels(), dataset.test.labels()), (vec![99, 0], vec![42]));
    assert_eq!(dataset.class_names[42], "leopard");
}

#[test]
fn every_broken_cifar_file_is_named_with_its_fault() {
    let mut longer = records(&[&[1]]);
    longer.push(1);
    let too_many = vec![0; 10_001 * 3_073];
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("data_batch_3.bin", &[], &["0 bytes", "whole records of 3073 bytes"]),
        ("data_batch_3.bin", &records(&[&[1]])[..3_000], &["0 records and 3000 bytes more"]),
        ("data_batch_5.bin", &longer, &["1 records and 1 bytes more", "3073"]),
        ("test_batch.bin", &records(&[&[1], &[10]]), &["the label 10 in record 1", "0 to 9"]),
        ("test_batch.bin", &too_many, &["trailing bytes", "at most 30730000 bytes"]),
    ];
    for (file, bytes, parts) in cases {
        let (root, folder) = cifar10();
        fs::write(folder.join(file), bytes).unwrap();
        let error = Dataset::load("cifar10", Some(root.path())).unwrap_err();
        assert_message(&error, &folder.join(file), parts);
    }
}

#[test]
fn every_form_of_cifar_that_would_work_is_listed() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("cifar-10-batches-py")).unwrap();
    let error = Dataset::load("cifar10", Some(root.path())).unwrap_err();
    let forms = [
        "cifar-10-batches-py/{data_batch_1, ",
        "cifar-10-batches-bin/{data_batch_1.bin, ",
        "cifar-10-python.tar.gz",
        "cifar-10-binary.tar.gz",
    ];
    assert_message(&error, root.path(), &forms);
    // What is there in part is what was meant.
    fs::write(root.path().join("cifar-10-batches-py/data_batch_1"), b"N.").unwrap();
    let error = Dataset::load("cifar10", Some(root.path())).unwrap_err();
    let path = root.path().join("cifar-10-batches-py/data_batch_1");
    assert_message(&error, &path, &["None instead of a dictionary at byte 0"]);
}

#[test]
fn idx_files_of_another_shape_are_told_how_they_can_be_used() {
    for (file, bytes) in [
        (
            TRAIN_IMAGES,
            [[0x803, 4, 64, 64].map(u32::to_be_bytes).concat(), vec![0; 4 << 12]].concat(),
        ),
        (TRAIN_LABELS, idx_labels(&[3, 1, 4, 61])),
    ] {
        let fixture = Fixture::new("MNIST/raw");
        fixture.put(file, &bytes);
        let error = fixture.load("mnist").unwrap_err();
        let remedy = format!("set data.source = \"{}\"", fixture.raw.display());
        assert_message(
            &error,
            &fixture.raw.join(file),
            &["hint: to train on IDX files of any shape", &remedy],
        );
    }
}
