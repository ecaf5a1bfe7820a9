//! Files of `formant data import`: the same bits as the data, and nothing else is taken for them.

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{Dataset, Imported, Reading, Samples, SourceOptions, check, import};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn silent(_: usize, _: usize) {}

fn imported(source: &Path, out: &Path, reading: &Reading) -> Imported {
    import(source.to_str().unwrap(), None, out, reading, &mut silent).unwrap()
}

fn opened(path: &Path) -> Dataset {
    Dataset::open(path, &Reading::default(), &mut silent).unwrap()
}

/// What is said about a file that cannot be opened; it names the file and a remedy.
fn refused(path: &Path) -> String {
    let message = Dataset::open(path, &Reading::default(), &mut silent).unwrap_err().to_string();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(message.contains(name) && message.contains("\nhint: "), "{message}");
    message
}

/// CLASS/IMAGE.png of two classes, or CLIENT/CLASS/IMAGE.png.
fn pictures(folder: &Path, clients: &[&str]) -> PathBuf {
    let root = folder.join("pictures");
    for (nth, client) in clients.iter().enumerate() {
        for (class, shade) in [("cats", 10), ("dogs", 130)] {
            let folder = root.join(client).join(class);
            fs::create_dir_all(&folder).unwrap();
            for i in 0..7_u8 {
                let pixel = |x, y| image::Rgb([shade + i + nth as u8, 3 * x as u8, 9 * y as u8]);
                let name = format!("{nth}-{i}-{class}.png");
                image::RgbImage::from_fn(5, 3, pixel).save(folder.join(name)).unwrap();
            }
        }
    }
    root
}

/// Rows of real numbers with labels, as an `.npz` file would hold them.
fn numbers(folder: &Path) -> PathBuf {
    let values: Vec<f32> = (0..40 * 6).map(|i| (i * i) as f32 / 7.0).collect();
    let labels: Vec<i64> = (0..40).map(|i| i % 3).collect();
    let npy = |kind: &str, extents: &str, content: Vec<u8>| {
        let header =
            format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {extents}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        [bytes, header.into_bytes(), content].concat()
    };
    let path = folder.join("numbers.npz");
    let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    for (name, bytes) in [
        ("x.npy", npy("<f4", "(40, 6)", values.iter().flat_map(|v| v.to_le_bytes()).collect())),
        ("y.npy", npy("<i8", "(40,)", labels.iter().flat_map(|v| v.to_le_bytes()).collect())),
    ] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap();
    path
}

fn values(samples: &dyn Samples) -> Vec<u32> {
    let indices: Vec<u32> = (0..samples.len() as u32).rev().collect();
    let mut out = vec![0.0; indices.len() * samples.shape().len()];
    samples.gather(&indices, &mut out);
    out.into_iter().map(f32::to_bits).collect()
}

fn assert_same(mapped: &Dataset, read: &Dataset) {
    assert_eq!(mapped.description(), read.description());
    assert_eq!((&mapped.name, &mapped.owners), (&read.name, &read.owners));
    assert_eq!(mapped.remarks, read.remarks);
    for (mapped, read) in [(&mapped.train, &read.train), (&mapped.test, &read.test)] {
        assert_eq!(mapped.labels(), read.labels());
        assert!(values(&**mapped) == values(&**read));
        for i in 0..mapped.len() {
            assert_eq!(mapped.bytes(i), read.bytes(i));
            let bits = |samples: &dyn Samples| {
                samples.floats(i).map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            };
            assert_eq!(bits(&**mapped), bits(&**read));
        }
    }
}

#[test]
fn a_mapped_file_has_the_bits_of_its_source() {
    let dir = TempDir::new().unwrap();
    let by_client = SourceOptions { client: Some("folder".into()), ..SourceOptions::default() };
    let clients = Reading { options: by_client, threads: 3, ..Reading::default() };
    let fifth = Reading { test_fraction: 0.4, ..Reading::default() };
    for (source, reading) in [
        (pictures(dir.path(), &["ann", "bob"]), &clients),
        (pictures(&dir.path().join("plain"), &["."]), &Reading::default()),
        (numbers(dir.path()), &fifth),
    ] {
        let out = dir.path().join("one.formant");
        let said = imported(&source, &out, reading);
        let read = Dataset::read(&source, reading, &mut silent).unwrap();
        assert_same(&opened(&out), &read);
        assert_eq!((said.train, said.test), (read.train.len(), read.test.len()));
        assert_eq!(said.bytes, fs::metadata(&out).unwrap().len());
        let (checked, bytes) = check(&out).unwrap();
        assert_eq!((checked.train.len(), bytes), (said.train, said.bytes));

        // However often it is imported, also from itself and with other threads, the bytes are the same.
        let again = dir.path().join("two.formant");
        imported(&source, &again, &Reading { threads: 2, ..reading.clone() });
        assert!(fs::read(&out).unwrap() == fs::read(&again).unwrap());
    }
}

#[test]
fn a_file_is_imported_from_an_imported_one() {
    let dir = TempDir::new().unwrap();
    let (one, two) = (dir.path().join("one.formant"), dir.path().join("two.formant"));
    imported(Path::new("mnist-small"), &one, &Reading::default());
    imported(&one, &two, &Reading::default());
    let known = Dataset::load("mnist-small", None).unwrap();
    assert_same(&opened(&one), &known);
    let two = opened(&two);
    assert_eq!(two.description(), known.description());
    assert!(values(&*two.train) == values(&*known.train));
}

#[test]
fn a_cut_or_longer_file_is_refused() {
    let dir = TempDir::new().unwrap();
    let (whole, other) = (dir.path().join("whole.formant"), dir.path().join("other.formant"));
    let clients = SourceOptions { client: Some("folder".into()), ..SourceOptions::default() };
    let reading = Reading { options: clients, ..Reading::default() };
    imported(&pictures(dir.path(), &["ann", "bob"]), &whole, &reading);
    let bytes = fs::read(&whole).unwrap();
    fs::write(&other, &bytes).unwrap();
    let file = fs::File::options().write(true).open(&other).unwrap();
    for length in (0..bytes.len()).rev() {
        file.set_len(length as u64).unwrap();
        let message = refused(&other);
        let cut = if length < 64 { "it ends after" } else { "it is cut off" };
        assert!(message.contains(cut), "{length}: {message}");
        assert!(check(&other).is_err());
    }
    fs::write(&other, [&bytes[..], b"x"].concat()).unwrap();
    assert!(refused(&other).contains("1 bytes follow"));
    fs::write(&other, [&bytes[..], &bytes].concat()).unwrap();
    refused(&other);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let dir = TempDir::new().unwrap();
    let (whole, other) = (dir.path().join("whole.formant"), dir.path().join("other.formant"));
    for source in [pictures(dir.path(), &["."]), numbers(dir.path())] {
        imported(&source, &whole, &Reading::default());
        let bytes = fs::read(&whole).unwrap();
        fs::write(&other, &bytes).unwrap();
        let mut file = fs::File::options().write(true).open(&other).unwrap();
        let mut set = |place: usize, byte: u8| {
            file.seek(SeekFrom::Start(place as u64)).unwrap();
            file.write_all(&[byte]).unwrap();
        };
        for (place, &byte) in bytes.iter().enumerate() {
            set(place, byte ^ (1 << (place % 8)));
            refused(&other);
            set(place, byte);
        }
        opened(&other);
    }
}

#[test]
fn another_file_of_that_name_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("notes.formant");
    fs::write(&path, "x".repeat(100)).unwrap();
    assert!(refused(&path).contains("it does not begin as a file of `formant data import` does"));
    let path = dir.path().join("notes.txt");
    fs::write(&path, "x".repeat(100)).unwrap();
    let message = check(&path).unwrap_err().to_string();
    assert!(
        message.contains("notes.txt") && message.contains("hint: name a file that"),
        "{message}"
    );
    let message = check(&dir.path().join("absent")).unwrap_err().to_string();
    assert!(message.contains("cannot read"), "{message}");
}

#[test]
fn an_import_that_fails_leaves_nothing_and_replaces_nothing() {
    let dir = TempDir::new().unwrap();
    let source = pictures(dir.path(), &["."]);
    let out = dir.path().join("out").join("set.formant");
    fs::create_dir(out.parent().unwrap()).unwrap();
    imported(&source, &out, &Reading::default());
    let before = fs::read(&out).unwrap();
    fs::write(source.join("dogs/broken.png"), b"\x89PNG\r\n\x1a\nno picture").unwrap();
    let error =
        import(source.to_str().unwrap(), None, &out, &Reading::default(), &mut silent).unwrap_err();
    assert!(error.to_string().contains("broken.png"), "{error}");
    assert!(fs::read(&out).unwrap() == before);
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1);

    // Left out, it leaves a gap in the file and none in the data.
    let options = SourceOptions { skip_bad: true, ..SourceOptions::default() };
    let reading = Reading { options, ..Reading::default() };
    // What a crash has left is no obstacle.
    fs::write(out.with_file_name(".set.formant.part"), vec![7; 100_000]).unwrap();
    imported(&source, &out, &reading);
    assert_same(&opened(&out), &Dataset::read(&source, &reading, &mut silent).unwrap());
    assert!(
        opened(&out).remarks.iter().any(|remark| remark.contains("1 samples that cannot be read"))
    );
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn two_imports_do_not_write_one_file() {
    let dir = TempDir::new().unwrap();
    let (source, out) = (pictures(dir.path(), &["."]), dir.path().join("set.formant"));
    let part = fs::File::create(dir.path().join(".set.formant.part")).unwrap();
    part.try_lock().unwrap();
    let error =
        import(source.to_str().unwrap(), None, &out, &Reading::default(), &mut silent).unwrap_err();
    assert!(error.to_string().contains("another import writes it"), "{error}");
    part.unlock().unwrap();
    imported(&source, &out, &Reading::default());
}
