//! CIFAR in every form in which it is handed out.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

use flate2::Compression;
use flate2::write::GzEncoder;
use formant_data::{CatalogueEntry, Dataset, Reading, Samples};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PIXELS: usize = 3_072;

fn pixels(n: usize) -> Vec<u8> {
    (0..PIXELS).map(|i| (i * 7 + n * 31) as u8).collect()
}

/// A batch as Python 3 writes it in protocol 3, without what nobody needs.
fn pickle(labels_key: &str, samples: &[(u8, usize)]) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let array =
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01".to_vec();
    let extents = [b"M", &(samples.len() as u16).to_le_bytes()[..], b"M\x00\x0c\x86"].concat();
    let kind = [b"cnumpy\ndtype\n".to_vec(), text("u1"), b"\x89\x88\x87R\x89".to_vec()].concat();
    let content: Vec<u8> = samples.iter().flat_map(|(_, n)| pixels(*n)).collect();
    let content = [b"B", &(content.len() as u32).to_le_bytes()[..], &content].concat();
    let labels: Vec<u8> = samples.iter().flat_map(|(label, _)| [b'K', *label]).collect();
    let begin = b"\x80\x03}(".to_vec();
    let data = [text("data"), array, extents, kind, content, b"tb".to_vec()].concat();
    [begin, data, text(labels_key), b"](".to_vec(), labels, b"eu.".to_vec()].concat()
}

fn records(label_bytes: usize, samples: &[(u8, usize)]) -> Vec<u8> {
    let record = |(label, n): &(u8, usize)| {
        let mut bytes = vec![0; label_bytes];
        bytes[label_bytes - 1] = *label;
        [bytes, pixels(*n)].concat()
    };
    samples.iter().flat_map(record).collect()
}

/// Names and contents of a set's files.
type Files = Vec<(String, Vec<u8>)>;

/// The files of CIFAR-10 with two pictures a batch, binary or Python.
fn cifar10(python: bool) -> Files {
    let samples = |batch: usize| [(batch as u8, batch), (9 - batch as u8, batch + 10)];
    let content = |batch| {
        if python { pickle("labels", &samples(batch)) } else { records(1, &samples(batch)) }
    };
    let end = if python { "" } else { ".bin" };
    let train = (1..=5).map(|batch| (format!("data_batch_{batch}{end}"), content(batch)));
    train.chain([(format!("test_batch{end}"), content(0))]).collect()
}

fn cifar100(python: bool) -> Files {
    let samples = [[(99, 1), (0, 2), (42, 3)], [(7, 4), (8, 5), (9, 6)]];
    let content = |part: usize| {
        if python { pickle("fine_labels", &samples[part]) } else { records(2, &samples[part]) }
    };
    let end = if python { "" } else { ".bin" };
    vec![(format!("train{end}"), content(0)), (format!("test{end}"), content(1))]
}

fn put(folder: &Path, files: &Files) {
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

fn packed(path: &Path, folder: &str, files: &Files) {
    let encoder = GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast());
    let mut archive = tar::Builder::new(encoder);
    // The order in an archive is any.
    for (name, bytes) in files.iter().rev() {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, format!("{folder}/{name}"), bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap().flush().unwrap();
}

fn content(samples: &dyn Samples) -> Vec<u8> {
    (0..samples.len()).flat_map(|i| samples.bytes(i).unwrap().into_owned()).collect()
}

fn assert_same(a: &Dataset, b: &Dataset) {
    assert_eq!(a.class_names, b.class_names);
    assert_eq!(a.shape, b.shape);
    for (a, b) in [(&a.train, &b.train), (&a.test, &b.test)] {
        assert_eq!(a.labels(), b.labels());
        assert_eq!(a.normalisation(), b.normalisation());
        assert!(content(&**a) == content(&**b));
    }
}

fn read(path: &Path) -> Dataset {
    Dataset::read(path, &Reading::default(), &mut |_, _| {}).unwrap()
}

#[test]
fn all_forms_of_a_set_are_the_same() {
    for (name, numbers, files) in
        [("cifar10", "10", cifar10 as fn(bool) -> Files), ("cifar100", "100", cifar100)]
    {
        let (binary_folder, python_folder) = match numbers {
            "10" => ("cifar-10-batches-bin", "cifar-10-batches-py"),
            _ => ("cifar-100-binary", "cifar-100-python"),
        };
        let reference = TempDir::new().unwrap();
        put(&reference.path().join(binary_folder), &files(false));
        let expected = Dataset::load(name, Some(reference.path())).unwrap();
        let first = expected.train.bytes(0).unwrap();
        assert_eq!(first.as_ref(), pixels(1));
        assert_same(&read(&reference.path().join(binary_folder)), &expected);
        let forms: [(&str, bool, Option<String>); 4] = [
            (python_folder, true, None),
            (".", true, None),
            (python_folder, true, Some(format!("cifar-{numbers}-python.tar.gz"))),
            (binary_folder, false, Some(format!("cifar-{numbers}-binary.tar.gz"))),
        ];
        for (folder, python, archive) in forms {
            let root = TempDir::new().unwrap();
            let source = root.path().join(archive.as_deref().unwrap_or(folder));
            if archive.is_some() {
                packed(&source, folder, &files(python));
            } else {
                put(&source, &files(python));
            }
            assert_same(&Dataset::load(name, Some(root.path())).unwrap(), &expected);
            assert_same(&read(&source), &expected);
            assert!(CatalogueEntry::named(name).unwrap().is_in(root.path()));
        }
    }
}

/// CIFAR-10 whose test batch is one of the pickles beside this file.
fn with_test_batch(pickle: &str) -> (TempDir, PathBuf) {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("cifar-10-batches-py");
    put(&folder, &cifar10(true));
    fs::remove_file(folder.join("test_batch")).unwrap();
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pickles").join(pickle);
    fs::copy(made, folder.join("test_batch.gz")).unwrap();
    (root, folder)
}

#[test]
fn pickles_of_every_protocol_are_read() {
    for pickle in [
        "python-2.gz",
        "protocol-0.gz",
        "protocol-1.gz",
        "protocol-2.gz",
        "protocol-3.gz",
        "protocol-4.gz",
        "protocol-5.gz",
    ] {
        let (_root, folder) = with_test_batch(pickle);
        let dataset = read(&folder);
        assert_eq!(dataset.test.labels(), [6, 9], "{pickle}");
        assert!(content(&*dataset.test) == [pixels(0), pixels(1)].concat(), "{pickle}");
    }
}

#[test]
fn classes_are_named_by_the_files() {
    let meta = |names: &[&str]| {
        let texts =
            names.iter().flat_map(|name| [b"U", &[name.len() as u8][..], name.as_bytes()].concat());
        [b"\x80\x02}U\x0blabel_names](".to_vec(), texts.collect(), b"es.".to_vec()].concat()
    };
    let (root, folder) = with_test_batch("python-2.gz");
    let own: Vec<String> = (0..10).map(|class| format!("thing_{class}")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    fs::write(folder.join("batches.meta"), meta(&own)).unwrap();
    assert_eq!(read(&folder).class_names, own);
    // By its name, the set is the one of the catalogue.
    let known = Dataset::load("cifar10", Some(root.path())).unwrap().class_names;
    assert_eq!(known[0], "airplane");
    let alike: Vec<String> = known.iter().map(|name| name.replace(' ', "_")).collect();
    let alike: Vec<&str> = alike.iter().map(String::as_str).collect();
    fs::write(folder.join("batches.meta"), meta(&alike)).unwrap();
    assert_eq!(read(&folder).class_names, known);
    // Labels count the names.
    fs::write(folder.join("batches.meta"), meta(&own[..5])).unwrap();
    let message = Dataset::read(&folder, &Reading::default(), &mut |_, _| {}).unwrap_err();
    assert!(message.to_string().contains("labels from 0 to 4"), "{message}");
}

#[test]
fn an_archive_of_another_set_is_not_taken_for_it() {
    let root = TempDir::new().unwrap();
    packed(&root.path().join("cifar-10-python.tar.gz"), "cifar-100-python", &cifar100(true));
    let message = Dataset::load("cifar10", Some(root.path())).unwrap_err().to_string();
    assert!(
        message.contains("the files of cifar100, expected those of cifar10\nhint: "),
        "{message}"
    );
    let other = root.path().join("photos.tar.gz");
    packed(&other, "photos", &vec![("a.png".into(), vec![1, 2, 3])]);
    let message = Dataset::read(&other, &Reading::default(), &mut |_, _| {}).unwrap_err();
    assert!(message.to_string().contains("hint: unpack it, and name the folder"), "{message}");
}
