//! Data as text and as pictures: `formant data show`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up should fail at once")]

use formant_data::show::{SheetRows, columns, overview, sheet, svg};
use formant_data::{
    Column, Dataset, Federation, Floats, Images, Normalisation, Owners, Partition, PartitionPlan,
    Repair, Schema,
};
use formant_numerics::Shape;
use std::sync::Arc;

fn pictures(shape: Shape, count: usize, names: &[&str]) -> Dataset {
    let images = |count: usize| {
        let labels = (0..count).map(|i| (i % names.len()) as u16).collect();
        let pixels = (0..count * shape.len()).map(|i| (i / 7) as u8).collect();
        Images::new(shape, pixels, labels, &vec![Normalisation::new(0.5, 0.25); shape.channels])
            .unwrap()
    };
    let names = names.iter().map(ToString::to_string).collect();
    Dataset::from_parts("pictures", names, images(count), images(6)).unwrap()
}

fn divided(dataset: Dataset, clients: usize) -> Federation {
    let plan = PartitionPlan {
        clients: Some(clients),
        partition: Partition::Dirichlet { alpha: 0.3 },
        part: None,
        samples: None,
        min_samples: 2,
        repair: Repair::Move,
        train_fraction: 0.6,
        validation_fraction: 0.2,
        seed: 1,
    };
    Federation::new(Arc::new(dataset), &plan).unwrap()
}

/// Two numbers and a category; a number and a category are missing in one row of four.
fn patients() -> Dataset {
    let column = |name: &str, categories: Option<[&str; 2]>| Column {
        name: name.into(),
        categories: categories.map(|names| names.map(String::from).to_vec()),
    };
    let schema = Schema {
        columns: vec![
            column("age", None),
            column("ward", Some(["a", "b"])),
            column("weight", None),
        ],
        label: "outcome".into(),
    };
    let rows = vec![
        [30.0, 1.0, 0.0, f32::NAN],
        [40.0, 0.0, 1.0, 70.0],
        [50.0, 0.0, 0.0, 80.0],
        [60.0, 1.0, 0.0, 90.0],
    ];
    let floats = |rows: &[[f32; 4]]| {
        let labels = (0..rows.len()).map(|i| (i % 2) as u16).collect();
        Floats::new(Shape::new(4, 1, 1), rows.concat(), labels, &[Normalisation::NONE; 4]).unwrap()
    };
    let names = vec!["no".to_string(), "yes".to_string()];
    let dataset =
        Dataset::from_parts("patients", names, floats(&rows), floats(&rows[..1])).unwrap();
    Dataset { schema: Some(schema), ..dataset }
}

#[test]
fn an_overview_says_what_there_is() {
    let owners = Owners { names: vec!["ann".into(), "bob".into()], of: vec![0; 30] };
    let dataset = Dataset {
        owners: Some(Arc::new(owners)),
        remarks: vec!["no test set is given".into()],
        ..pictures(Shape::new(3, 4, 5), 30, &["cat", "dog", "owl"])
    };
    let channel = "0.5 ± 0.25";
    assert_eq!(
        overview(&dataset),
        format!(
            "pictures
samples  30 to train, 6 global test
shape    3x4x5 (channels x height x width)
values   pixels from 0 to 255, mean ± deviation of a channel: {channel}, {channel}, {channel}
classes  3 with 10 to 10 training samples: cat, dog, owl
clients  2 exist: ann, bob
"
        )
    );
}

#[test]
fn columns_of_a_table_have_kind_mean_and_missing_share() {
    let patients = patients();
    let found = columns(&patients).unwrap();
    assert_eq!(found[0].mean.unwrap().0, 45.0);
    assert_eq!((found[0].missing, found[1].missing, found[2].missing), (0.0, 0.25, 0.25));
    assert_eq!(found[1].categories, Some(vec![("a".into(), 2), ("b".into(), 1)]));
    assert_eq!((found[2].mean.unwrap().0, found[1].mean), (80.0, None));
    let text = overview(&patients);
    let table = "
column  kind       missing  values
age     number       0.0 %  45.0000 ± 11.1803
ward    category    25.0 %  2 of them: a 2, b 1
weight  number      25.0 %  80.0000 ± 8.1650
";
    assert!(text.ends_with(table), "{text}");
    assert_eq!(columns(&pictures(Shape::new(1, 2, 2), 4, &["x"])), None);
}

#[test]
fn a_sheet_has_a_row_for_each_class_or_client() {
    let federation = divided(pictures(Shape::new(3, 10, 20), 40, &["cat", "dog", "owl"]), 4);
    let decoded = |rows| {
        let bytes = sheet(&federation, rows).unwrap().unwrap();
        image::load_from_memory(&bytes).unwrap().into_rgb8()
    };
    // Three times as large, and twelve of them behind names of three and of eight letters.
    let classes = decoded(SheetRows::Classes);
    assert_eq!(classes.dimensions(), (3 * 12 + 8 + 12 * 64, 4 + 3 * 34));
    assert_eq!(decoded(SheetRows::Clients).dimensions(), (8 * 12 + 8 + 12 * 64, 4 + 4 * 34));
    // The first pixel of the first sample, of each channel.
    let bytes = federation.dataset.train.bytes(0).unwrap();
    assert_eq!(classes.get_pixel(3 * 12 + 8, 4).0, [bytes[0], bytes[200], bytes[400]]);
    // The names are there: some ink in front of the samples.
    assert!((0..44).any(|x| (4..34).any(|y| classes.get_pixel(x, y).0 == [40, 40, 48])));
    assert!(sheet(&divided(patients(), 1), SheetRows::Classes).unwrap().is_none());
    // Large ones become small.
    let large = divided(pictures(Shape::new(1, 300, 200), 4, &["x"]), 2);
    let bytes = sheet(&large, SheetRows::Classes).unwrap().unwrap();
    assert_eq!(image::load_from_memory(&bytes).unwrap().height(), 4 + 68);
}

#[test]
fn a_map_shows_every_client() {
    let federation = divided(pictures(Shape::new(1, 1, 2), 4_000, &["a<b", "b", "c & d"]), 500);
    let map = svg(&federation);
    assert!(map.starts_with("<svg ") && map.ends_with("</svg>\n"));
    assert!(map.contains("4000 samples of 3 classes over 500 clients"), "{}", &map[..600]);
    assert!(map.contains(">a&lt;b</text>") && map.contains(">c &amp; d</text>"));
    // One cell for each class that a client holds, and a bar for each client.
    let held: usize = (0..500)
        .map(|c| {
            federation.label_counts(c, formant_data::Split::All).iter().filter(|n| **n > 0).count()
        })
        .sum();
    let cells: usize = map
        .lines()
        .filter(|line| line.starts_with("<path"))
        .map(|line| line.matches('M').count())
        .sum();
    assert_eq!(cells, held + 500);
    assert!(!map.contains("NaN"));
}
