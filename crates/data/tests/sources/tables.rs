//! Tables as text: CSV.

use super::refused_with;
use flate2::Compression;
use flate2::write::GzEncoder;
use formant_data::{
    Column, Dataset, Parts, Reading, Schema, Source, SourceOptions, Split, Values, Wanted,
};
use formant_numerics::Shape;
use std::io::Write as _;
use std::path::Path;

const PATIENTS: &str = "\
id,age,sex,\"blood, group\",hospital,class
1,30,f,A,north,ill
2,NA,m,B,south,well
3,50,,\"A\",north,well
4,40,f,?,east,ill
";

pub(crate) fn column(name: &str, categories: &[&str]) -> Column {
    let categories: Vec<String> = categories.iter().map(ToString::to_string).collect();
    Column { name: name.into(), categories: (!categories.is_empty()).then_some(categories) }
}

pub(crate) fn patients() -> SourceOptions {
    SourceOptions {
        client: Some("hospital".into()),
        exclude: vec!["id".into()],
        ..SourceOptions::default()
    }
}

/// The rows of a source as they were read.
pub(crate) fn rows(source: &Source) -> Vec<Vec<f32>> {
    let shape = source.shape().unwrap();
    let mut stream = source.stream(Wanted { shape, values: Values::Floats }, 1).unwrap();
    let mut rows = Vec::new();
    while let Some(chunk) = stream.next(2) {
        rows.extend(chunk.unwrap().floats.chunks(shape.len()).map(<[f32]>::to_vec));
    }
    rows
}

/// Opens text as a file of some name.
fn opened(name: &str, text: &str, options: &SourceOptions) -> Source {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let source = Source::open(&path, options).unwrap();
    // It is read again.
    assert!(rows(&source).len() == source.len());
    source
}

fn refused_text(text: impl AsRef<[u8]>, options: &SourceOptions) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    std::fs::write(&path, text).unwrap();
    let message = match Parts::open(&path, options) {
        Ok(_) => Dataset::read(
            &path,
            &Reading { options: options.clone(), ..Reading::default() },
            &mut |_, _| {},
        )
        .unwrap_err()
        .to_string(),
        Err(error) => error.to_string(),
    };
    assert!(message.contains("rows.csv") && message.contains("\nhint: "), "{message}");
    message
}

#[test]
fn numbers_categories_labels_and_owners() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("patients.csv");
    std::fs::write(&path, PATIENTS).unwrap();
    let source = Source::open(&path, &patients()).unwrap();
    let schema = Schema {
        columns: vec![
            column("age", &[]),
            column("sex", &["f", "m"]),
            column("blood, group", &["A", "B"]),
        ],
        label: "class".into(),
    };
    assert_eq!(source.schema(), Some(&schema));
    assert_eq!(source.class_names().unwrap(), ["ill", "well"]);
    assert_eq!(source.labels().unwrap(), [0, 1, 1, 0]);
    let owners = source.owners().unwrap();
    assert_eq!(owners.names, ["east", "north", "south"]);
    assert_eq!(owners.of, [1, 2, 1, 0]);
    assert_eq!(source.shape(), Some(Shape::new(5, 1, 1)));
    assert!(source.name(0).ends_with("patients.csv:1"), "{}", source.name(0));
    let rows = rows(&source);
    assert_eq!(rows[0], [30.0, 1.0, 0.0, 1.0, 0.0]);
    assert!(rows[1][0].is_nan());
    assert_eq!(rows[1][1..], [0.0, 1.0, 0.0, 1.0]);
    assert_eq!(rows[2], [50.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(rows[3], [40.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_dataset_is_standardised() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("patients.csv");
    std::fs::write(&path, PATIENTS).unwrap();
    let reading = Reading { options: patients(), test_fraction: 0.0, ..Reading::default() };
    let dataset = Dataset::read(&path, &reading, &mut |_, _| {}).unwrap();
    let mut batch = vec![0.0; 5 * 4];
    dataset.train.gather(&[0, 1, 2, 3], &mut batch);
    // Channel after channel: ages first. The one that is missing is the mean.
    let deviation = (200.0_f32 / 3.0).sqrt();
    let ages = [-10.0 / deviation, 0.0, 10.0 / deviation, 0.0];
    for (found, wanted) in batch[..4].iter().zip(ages) {
        assert!((found - wanted).abs() < 1e-6, "{batch:?}");
    }
    assert_eq!(batch[4..8], [1.0, 0.0, 0.0, 1.0]);
    assert_eq!(dataset.owners.unwrap().names.len(), 3);
}

#[test]
fn separators_quotes_line_ends_and_gzip() {
    let expected = [vec![1.0, 2.5], vec![-3.0, 4e3]];
    let text = "a,b,y\n1,2.5,no\n-3,4e3,yes\n";
    let plain = SourceOptions::default();
    let cases = [
        ("rows.csv", text.to_owned()),
        ("rows.csv", text.replace(',', ";")),
        ("rows.tsv", text.replace(',', "\t")),
        ("rows.csv", text.replace('\n', "\r\n")),
        ("rows.csv", format!("\u{feff}{text}")),
        ("rows.csv", text.replace("a,b,y", "\"a\",\"b\",\"y\"")),
        ("rows.csv", text.trim_end().to_owned()),
        ("rows.CSV", format!("\n{}\n\n", text.replace(',', " , "))),
        // pandas' index.
        ("rows.csv", ",a,b,y\n0,1,2.5,no\n1,-3,4e3,yes\n".to_owned()),
    ];
    for (name, text) in cases {
        let source = opened(name, &text, &plain);
        assert_eq!(source.class_names().unwrap(), ["no", "yes"], "{text:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv.gz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    std::fs::write(&path, &packed).unwrap();
    assert_eq!(rows(&Source::open(&path, &plain).unwrap()), expected);
    for length in 1..packed.len() {
        std::fs::write(&path, &packed[..length]).unwrap();
        let message = Source::open(&path, &plain).unwrap_err().to_string();
        assert!(message.contains("hint: "), "{length}: {message}");
    }
}

#[test]
fn classes_may_be_numbers() {
    let source = opened("rows.csv", "x,Label\n1,10\n2,9\n3,-1\n4,9.0\n", &SourceOptions::default());
    assert_eq!(source.class_names().unwrap(), ["-1", "9", "10"]);
    assert_eq!(source.labels().unwrap(), [2, 1, 0, 1]);
    let message = refused_text("x,y\n1,0.5\n2,1\n", &SourceOptions::default());
    assert!(message.contains("real numbers, such as 0.5"), "{message}");
}

#[test]
fn parts_share_the_schema_of_the_training_part() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("train.csv", "c,x,y\nred,1,a\nblue,3,b\nred,5,b\n");
    // Another order, a category and a column that were never seen.
    write("test.csv", "new,y,x,c\n7,b,2,green\n8,a,4,blue\n");
    let reading = Reading::default();
    let dataset = Dataset::read(dir.path(), &reading, &mut |_, _| {}).unwrap();
    assert_eq!((dataset.train.len(), dataset.test.len()), (3, 2));
    assert_eq!(dataset.test.labels(), [1, 0]);
    let mut batch = vec![9.0; 6];
    dataset.test.gather(&[0, 1], &mut batch);
    assert_eq!(batch[..4], [0.0, 1.0, 0.0, 0.0]);
    let options = SourceOptions {
        schema: dataset.schema.clone(),
        split: Split::Test,
        ..SourceOptions::default()
    };
    let source = Source::open(dir.path(), &options).unwrap();
    assert_eq!(rows(&source), [[0.0, 0.0, 2.0], [1.0, 0.0, 4.0]]);
    write("test.csv", "y,x,c\nz,2,red\n");
    let message = Dataset::read(dir.path(), &reading, &mut |_, _| {}).unwrap_err().to_string();
    assert!(message.contains("the class \"z\""), "{message}");
}

#[test]
fn a_given_schema_decides() {
    let schema =
        Schema { columns: vec![column("x", &[]), column("c", &["1", "2"])], label: "y".into() };
    let options = SourceOptions { schema: Some(schema), ..SourceOptions::default() };
    let source = opened("rows.csv", "extra,c,x\n?,2,5\n?,3,\n", &options);
    let found = rows_of("extra,c,x\n?,2,5\n?,3,\n", &options);
    assert_eq!(found[0], [5.0, 0.0, 1.0]);
    assert!(found[1][0].is_nan() && found[1][1..] == [0.0, 0.0]);
    let message = source.labels().unwrap_err().to_string();
    assert!(message.contains("no column \"y\""), "{message}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    let shape = Shape::new(3, 1, 1);
    std::fs::write(&path, "c,y\n1,2\n").unwrap();
    let message = refused_with(&path, shape, &options);
    assert!(message.contains("no column \"x\"; its columns are \"c\", \"y\""), "{message}");
}

fn rows_of(text: &str, options: &SourceOptions) -> Vec<Vec<f32>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    std::fs::write(&path, text).unwrap();
    rows(&Source::open(&path, options).unwrap())
}

#[test]
fn what_cannot_be_used_is_named_with_its_line() {
    let plain = SourceOptions::default();
    let with =
        |label: &str| SourceOptions { label: Some(label.into()), ..SourceOptions::default() };
    let many: String =
        (0..300).fold("t,y\n".into(), |text, i| format!("{text}word{i},{}\n", i % 2));
    let cases: [(&[u8], SourceOptions, &str); 16] = [
        (
            b"a,b\n1,2\n",
            plain.clone(),
            "its columns are \"a\", \"b\"\nhint: name the column of the classes: data.label",
        ),
        (b"5.1,3.5,setosa\n4.9,3.0,setosa\n", plain.clone(), "the first line looks like data"),
        (b"39,Private,77516\n50,Private,83311\n", plain.clone(), "the first line looks like data"),
        (b"a,b\n1,2\n", with("z"), "no column \"z\""),
        (b"a,y\n1,2\n3\n", plain.clone(), "rows.csv:3: the row has 1 fields, and the header has 2"),
        (b"a,y\n1,2\n3,4,5\n", plain.clone(), "rows.csv:3: the row has 3 fields"),
        (b"a,y\n1,x\n3,NA\n", plain.clone(), "rows.csv:3: the column \"y\" has no label"),
        (b"a,y\n1,2\n\xff,4\n", plain.clone(), "rows.csv:3: the column \"a\" is not UTF-8"),
        (b"a,\xff,y\n1,2,3\n", plain.clone(), "UTF-8"),
        (b"a,a,y\n1,2,3\n", plain.clone(), "two columns are called \"a\""),
        (b"y\n1\n", plain.clone(), "no column that is a feature"),
        (b"a,y\n", plain.clone(), "it has no rows"),
        (b",,\n1,2,3\n", plain.clone(), "names no column"),
        (b"a,y\n1e300,1\n2,2\n", plain.clone(), "rows.csv:2: \"1e300\" in the column \"a\""),
        (
            b"a,y\n1,2\n",
            SourceOptions { exclude: vec!["b".into()], ..plain.clone() },
            "data.exclude",
        ),
        (many.as_bytes(), plain.clone(), "data.exclude = [\"t\"]"),
    ];
    for (text, options, part) in cases {
        let message = refused_text(text, &options);
        assert!(message.contains(part), "{message}");
    }
    let client = SourceOptions { client: Some("y".into()), ..plain.clone() };
    assert!(refused_text("a,y\n1,2\n", &client).contains("both the label and the client"));
    let client = SourceOptions { client: Some("c".into()), ..plain };
    assert!(refused_text("a,c,y\n1,,2\n", &client).contains("has no client"));
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_memory() {
    let mut text = b"a,y\n1,2\n\"3,4\n".to_vec();
    text.resize(40 << 20, b'x');
    let message = refused_text(&text, &SourceOptions::default());
    assert!(message.contains("rows.csv:3") && message.contains("quote"), "{message}");
}

#[test]
fn no_end_and_no_byte_makes_it_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.csv");
    let options = patients();
    let attempt = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let reading = Reading { options: options.clone(), ..Reading::default() };
        Dataset::read(Path::new(&path), &reading, &mut |_, _| {})
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    for length in 0..PATIENTS.len() {
        if let Err(message) = attempt(&PATIENTS.as_bytes()[..length]) {
            assert!(message.contains("hint: "), "{length}: {message}");
        }
    }
    for place in 0..PATIENTS.len() {
        for byte in [0, b'"', b',', b'\n', 0xff] {
            let mut bytes = PATIENTS.as_bytes().to_vec();
            bytes[place] = byte;
            if let Err(message) = attempt(&bytes) {
                assert!(message.contains("hint: "), "{place}: {message}");
            }
        }
    }
}
