//! A client's own data, brought into what a server describes.
#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use formant_data::{Dataset, Description, Normalisation, OwnSplit, Reading, SourceOptions, Values};
use formant_numerics::Shape;
use std::path::Path;
use tempfile::TempDir;

const SPLIT: OwnSplit =
    OwnSplit { train_fraction: 0.5, validation_fraction: 0.25, seed: 3, client: 1 };

fn described(classes: &[&str]) -> Description {
    Description {
        shape: Shape::new(1, 4, 4),
        class_names: classes.iter().map(ToString::to_string).collect(),
        normalisation: vec![Normalisation::new(0.5, 0.25)],
        values: Values::Bytes,
        schema: None,
    }
}

/// So many pictures of a class, all of one shade, in a size of their own.
fn pictures(folder: &Path, class: &str, count: u32, shade: u8) {
    std::fs::create_dir_all(folder.join(class)).unwrap();
    for i in 0..count {
        let picture = image::GrayImage::from_pixel(6 + i % 2, 6, image::Luma([shade]));
        picture.save(folder.join(class).join(format!("{i}.png"))).unwrap();
    }
}

fn own(
    description: &Description,
    path: &Path,
) -> Result<(Dataset, formant_data::ClientData), formant_data::DataError> {
    description.own(path, &Reading::default(), SPLIT, &mut |_, _| {})
}

#[test]
fn classes_are_matched_by_name_and_pictures_resized() {
    let dir = TempDir::new().unwrap();
    pictures(dir.path(), "dog", 8, 200);
    pictures(dir.path(), "ant", 4, 10);
    // The client lacks a class, and has the others in another order.
    let (dataset, data) = own(&described(&["dog", "cat", "ant"]), dir.path()).unwrap();
    assert_eq!((dataset.train.len(), dataset.shape), (12, Shape::new(1, 4, 4)));
    assert_eq!((data.train.len(), data.validation.len(), data.test.len()), (6, 3, 3));
    for i in 0..12 {
        let shade = dataset.train.bytes(i).unwrap()[0];
        assert_eq!(dataset.train.label(i), if shade == 200 { 0 } else { 2 });
    }
    // The server's normalisation, not the client's own.
    assert_eq!(dataset.train.normalisation(), [Normalisation::new(0.5, 0.25)]);
    assert_eq!(own(&described(&["dog", "cat", "ant"]), dir.path()).unwrap().1, data);
}

#[test]
fn a_test_part_is_what_models_are_judged_on() {
    let dir = TempDir::new().unwrap();
    pictures(&dir.path().join("train"), "dog", 6, 1);
    pictures(&dir.path().join("train"), "cat", 3, 2);
    pictures(&dir.path().join("test"), "cat", 2, 3);
    let (dataset, data) = own(&described(&["cat", "dog"]), dir.path()).unwrap();
    assert_eq!((data.train.len(), data.validation.len()), (6, 3));
    assert_eq!(data.test, [9, 10]);
    assert!(data.test.iter().all(|&i| dataset.train.bytes(i as usize).unwrap()[0] == 3));
}

#[test]
fn rows_are_encoded_by_the_servers_columns() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    };
    let servers = write(
        "all.csv",
        "a,b,y\n1,red,no\n3,blue,yes\n5,red,no\n7,blue,yes\n2,red,no\n6,blue,yes\n",
    );
    let reading = Reading { test_fraction: 0.0, ..Reading::default() };
    let described = Dataset::read(&servers, &reading, &mut |_, _| {}).unwrap().description();
    // Other columns, another order, a colour that the server has never seen, a number that is missing.
    let clients =
        write("mine.csv", "extra,y,b,a\n9,yes,green,3\n9,no,red,\n9,no,red,1\n9,yes,blue,2\n");
    let (dataset, data) = own(&described, &clients).unwrap();
    assert_eq!(dataset.description(), described);
    assert_eq!(data.size(formant_data::Split::All), 4);
    let mut rows = vec![0.0; 4 * 3];
    dataset.train.gather(&[0, 1, 2, 3], &mut rows);
    let n = described.normalisation[0];
    let scaled = |x: f32| (x - n.mean) / n.std;
    assert_eq!(rows[..4], [scaled(3.0), 0.0, scaled(1.0), scaled(2.0)]);
    // blue, red
    assert_eq!(rows[4..], [0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    let labels: Vec<usize> = (0..4).map(|i| dataset.train.label(i)).collect();
    assert_eq!(labels, [1, 0, 0, 1]);
}

#[test]
fn what_the_federation_does_not_know_is_refused() {
    let dir = TempDir::new().unwrap();
    pictures(dir.path(), "wolf", 3, 1);
    let message = own(&described(&["dog", "cat"]), dir.path()).unwrap_err().to_string();
    assert!(
        message.contains("\"wolf\"") && message.contains("hint: the federation has"),
        "{message}"
    );
    let table = dir.path().join("t.csv");
    std::fs::write(&table, "a,y\n1,dog\n2,cat\n").unwrap();
    let message = own(&described(&["dog", "cat"]), &table).unwrap_err().to_string();
    assert!(message.contains("hint: "), "{message}");
    let labelled = SourceOptions { label: Some("nothing".into()), ..SourceOptions::default() };
    let reading = Reading { options: labelled, ..Reading::default() };
    let refused = described(&["dog"]).own(&table, &reading, SPLIT, &mut |_, _| {});
    assert!(refused.unwrap_err().to_string().contains("nothing"));
}
