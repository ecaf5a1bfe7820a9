//! What is well-formed and wrong all the same.

use crate::attempt;
use crate::examples::{cifar10, examples, leaf, listing, pickle, picture, put, scratch};
use formant_data::{Dataset, Reading, SourceOptions};
use image::ImageFormat;
use std::path::Path;

fn refused(folder: &Path) -> String {
    match attempt(folder, folder, "a folder") {
        Ok(_) => panic!("{} was read", folder.display()),
        Err(message) => message,
    }
}

/// An example of a format with one file replaced.
fn with(name: &str, file: &str, bytes: &[u8]) -> tempfile::TempDir {
    let folder = scratch();
    let all = examples();
    all.iter().find(|example| example.name == name).unwrap().write(folder.path());
    put(folder.path(), file, bytes);
    folder
}

#[test]
fn labels_out_of_range_are_named() {
    for (name, file, bytes, part) in [
        ("CIFAR-10, Python", "data_batch_3", pickle("labels", &[10]), "the label 10 in labels[0]"),
        ("CIFAR-10, Python", "data_batch_3", pickle("labels", &[]), "extents [0, 3072]"),
        ("CIFAR-10, Python", "data_batch_3", pickle("fine_labels", &[1]), "without \"labels\""),
        ("CIFAR-100, Python", "test", pickle("fine_labels", &[1, 100]), "the label 100 in fine_labels[1]"),
        ("LEAF", "train/b.json", br#"{"user_data": {"u": {"x": [[1,2,3,4,5]], "y": [-1]}}}"#.to_vec(), "-1 is not a class"),
        ("LEAF", "train/b.json", br#"{"user_data": {"u": {"x": [[1,2,3,4,5]], "y": [70000]}}}"#.to_vec(), "70000 is not a class"),
        ("LEAF", "train/b.json", br#"{"user_data": {"u": {"x": ["text"], "y": [0]}}}"#.to_vec(), "texts"),
        ("LEAF", "train/b.json", br#"{"user_data": {"u": {"x": [[1e99,2,3,4,5]], "y": [0]}}}"#.to_vec(), "too large"),
        ("LEAF", "train/b.json", leaf(&[("u", 2)], 6), "6 numbers where others have 5"),
        ("LEAF", "train/b.json", br#"{"users": ["u", "v"], "user_data": {}}"#.to_vec(), "lists 2 users"),
        ("LEAF", "train/b.json", br#"{"users": ["u"]}"#.to_vec(), "user_data"),
        ("LEAF", "train/b.json", [&b"["[..]; 300].concat(), "line 1 column"),
        ("iNaturalist", "train2017.json", listing(&["../secret.png"]), "not below the folder"),
        ("iNaturalist", "train2017.json", listing(&["/etc/secret.png"]), "not below the folder"),
        ("iNaturalist", "train2017.json", listing(&["birds/9.jpg"]), "1 of its 1 pictures are not there, such as birds/9.jpg"),
        ("iNaturalist", "train2017.json", listing(&[]), "it lists 0 pictures"),
        ("iNaturalist", "train2017.json", br#"{"images": [{"id": "one"}]}"#.to_vec(), "without a number (id)"),
        ("iNaturalist", "train2017.json", br#"{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "a"}]}"#.to_vec(), "has no annotation"),
        ("iNaturalist", "train2017.json", br#"{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "category_id": 2}], "categories": [{"id": 1, "name": "a"}]}"#.to_vec(), "the category 2, which is not listed"),
    ] {
        let folder = with(name, file, &bytes);
        let message = refused(folder.path());
        assert!(message.contains(part), "{name}: {message}");
    }
}

#[test]
fn a_pickle_that_would_run_something_runs_nothing() {
    let marker = scratch();
    let path = marker.path().join("it-ran");
    let code = format!("cposix\nsystem\n(S'touch {}'\ntR.", path.display());
    let folder = with("CIFAR-10, Python", "data_batch_2", code.as_bytes());
    let message = refused(folder.path());
    assert!(
        message.contains("a Python object made by posix.system instead of a dictionary"),
        "{message}"
    );
    assert!(!path.exists());
    // The same as the pixels.
    let within =
        [&b"\x80\x02}(U\x06labels]K\x01aU\x04data"[..], &code.as_bytes()[..code.len() - 1], b"u."]
            .concat();
    let folder = with("CIFAR-10, Python", "data_batch_2", &within);
    let message = refused(folder.path());
    assert!(
        message.contains("data: a Python object made by posix.system")
            && message.contains("at byte "),
        "{message}"
    );
    assert!(!path.exists());
}

#[test]
fn an_absent_batch_is_named() {
    let folder = scratch();
    for (name, bytes) in cifar10(|n| pickle("labels", &[n]), "").iter().skip(1) {
        put(folder.path(), name, bytes);
    }
    let message = refused(folder.path());
    assert!(message.contains("the file data_batch_1 is absent"), "{message}");
}

#[test]
fn a_json_file_beside_pictures_is_nothing_special() {
    let folder = scratch();
    for name in ["train/cats/0.png", "train/dogs/0.png", "test/cats/1.png", "test/dogs/1.png"] {
        put(folder.path(), name, &picture(ImageFormat::Png, 3));
    }
    put(folder.path(), "train/notes.json", b"{\"by\": \"me\"}");
    put(folder.path(), "train.json", b"{\"lr\": 0.1}");
    let read = attempt(folder.path(), folder.path(), "a folder").unwrap();
    assert_eq!((read.train.len(), read.test.len()), (2, 2));
}

#[test]
#[cfg(unix)]
fn links_that_lead_back_are_followed_once() {
    use std::os::unix::fs::symlink;
    let folder = scratch();
    for name in ["cats/0.png", "cats/1.png", "dogs/0.png", "dogs/1.png"] {
        put(folder.path(), name, &picture(ImageFormat::Png, 3));
    }
    symlink(folder.path(), folder.path().join("cats/all")).unwrap();
    symlink("loop", folder.path().join("dogs/loop")).unwrap();
    symlink("nowhere.png", folder.path().join("dogs/lost")).unwrap();
    let read = attempt(folder.path(), folder.path(), "links").unwrap();
    assert_eq!(read.train.len() + read.test.len(), 4);
    symlink("nowhere", folder.path().join("dogs/2.png")).unwrap();
    let message = refused(folder.path());
    assert!(message.contains("dogs/2.png"), "{message}");
}

#[test]
fn pictures_and_samples_have_the_owners_that_their_files_name() {
    let read = |folder: &Path, client: Option<&str>| {
        let options = SourceOptions { client: client.map(Into::into), ..Default::default() };
        let reading = Reading { options, ..Default::default() };
        Dataset::read(folder, &reading, &mut |_, _| {})
    };
    let folder = with("LEAF", "train/a.json", &leaf(&[("f0001", 3), ("f0002", 2)], 784));
    put(folder.path(), "train/b.json", &leaf(&[("f0003", 2), ("f0001", 1)], 784));
    put(folder.path(), "test/a.json", &leaf(&[("f0001", 1)], 784));
    let dataset = read(folder.path(), None).unwrap();
    let owners = dataset.owners.unwrap();
    assert_eq!(owners.names, ["f0001", "f0002", "f0003"]);
    assert_eq!(owners.of, [0, 0, 0, 1, 1, 2, 2, 0]);
    assert_eq!(dataset.shape, formant_numerics::Shape::new(1, 28, 28));
    assert_eq!(dataset.train.labels(), [0, 1, 0, 0, 1, 0, 1, 0]);
    let mut first = vec![0.0; 784];
    dataset.train.gather(&[2], &mut first);
    let raw = |k: usize| ((2 + k) % 10) as f32 / 10.0;
    let way = dataset.train.normalisation()[0];
    let same = |(k, value): (usize, &f32)| (value * way.std + way.mean - raw(k)).abs() < 1e-5;
    assert!(first.iter().enumerate().all(same));

    let folder = with("iNaturalist", "unused", &[]);
    let dataset = read(folder.path(), Some("user_id")).unwrap();
    assert_eq!(dataset.class_names, ["Parus major", "Vulpes vulpes"]);
    assert_eq!(dataset.train.labels(), [0, 1, 0]);
    let owners = dataset.owners.unwrap();
    assert_eq!(
        (owners.names.clone(), owners.of.clone()),
        (vec!["0".to_owned(), "1".into(), "2".into()], vec![0, 1, 2])
    );
    assert!(read(folder.path(), None).unwrap().owners.is_none());
    let message = read(folder.path(), Some("rights_holder")).unwrap_err().to_string();
    assert!(message.contains("\"rights_holder\"") && message.contains("hint: "), "{message}");
}
