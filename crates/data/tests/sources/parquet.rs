//! Parquet files as others write them: tables, shards, and pictures as Hugging Face keeps them.

use super::tables::{column, patients, rows};
use formant_data::{Dataset, Parts, Reading, Schema, Source, SourceOptions, Split};
use formant_numerics::Shape;
use image::{GrayImage, ImageFormat, Luma};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

/// A column's values and, if it may be empty, how deep each lies.
enum Values {
    Longs(Vec<i64>),
    Shorts(Vec<i32>),
    Doubles(Vec<f64>),
    Truths(Vec<bool>),
    Texts(Vec<Vec<u8>>),
}

type Written = (Values, Option<Vec<i16>>);

fn texts(words: &[&str]) -> Values {
    Values::Texts(words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

fn write(path: &Path, schema: &str, groups: &[Vec<Written>], properties: WriterProperties) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for group in groups {
        let mut rows = writer.next_row_group().unwrap();
        for (values, levels) in group {
            let mut column = rows.next_column().unwrap().unwrap();
            let levels = levels.as_deref();
            match values {
                Values::Longs(v) => column.typed::<Int64Type>().write_batch(v, levels, None),
                Values::Shorts(v) => column.typed::<Int32Type>().write_batch(v, levels, None),
                Values::Doubles(v) => column.typed::<DoubleType>().write_batch(v, levels, None),
                Values::Truths(v) => column.typed::<BoolType>().write_batch(v, levels, None),
                Values::Texts(v) => {
                    let v: Vec<ByteArray> = v.iter().map(|text| text.clone().into()).collect();
                    column.typed::<ByteArrayType>().write_batch(&v, levels, None)
                }
            }
            .unwrap();
            column.close().unwrap();
        }
        rows.close().unwrap();
    }
    writer.close().unwrap();
}

const PATIENTS: &str = "message rows {
    required int64 id;
    optional double age;
    optional binary sex (UTF8);
    required boolean smokes;
    required int32 beds (UINT_8);
    required binary hospital (STRING);
    required binary class (UTF8);
}";

/// Four rows in two groups.
fn patient_groups() -> Vec<Vec<Written>> {
    let group = |id: Vec<i64>,
                 age: &[f64],
                 ages: Vec<i16>,
                 sex: &[&str],
                 sexes: Vec<i16>,
                 smokes,
                 at: &[&str],
                 class: &[&str]| {
        let beds = vec![200; id.len()];
        vec![
            (Values::Longs(id), None),
            (Values::Doubles(age.to_vec()), Some(ages)),
            (texts(sex), Some(sexes)),
            (Values::Truths(smokes), None),
            (Values::Shorts(beds), None),
            (texts(at), None),
            (texts(class), None),
        ]
    };
    vec![
        group(
            vec![1, 2, 3],
            &[30.0, 50.0],
            vec![1, 0, 1],
            &["f", "m"],
            vec![1, 1, 0],
            vec![true, false, false],
            &["north", "south", "north"],
            &["ill", "well", "well"],
        ),
        group(vec![4], &[f64::NAN], vec![1], &["f"], vec![1], vec![true], &["east"], &["ill"]),
    ]
}

fn patients_file(path: &Path, properties: WriterProperties) {
    write(path, PATIENTS, &patient_groups(), properties);
}

#[test]
fn a_table_of_every_type_and_compression() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("patients.parquet");
    let schema = Schema {
        columns: vec![
            column("age", &[]),
            column("sex", &["f", "m"]),
            column("smokes", &["false", "true"]),
            column("beds", &[]),
        ],
        label: "class".into(),
    };
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let gzip = Compression::GZIP(parquet::basic::GzipLevel::default());
    for compression in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, gzip, Compression::LZ4_RAW]
    {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_writer_version(version);
            patients_file(&path, properties.build());
            let source = Source::open(&path, &patients()).unwrap();
            assert_eq!(source.schema(), Some(&schema));
            assert_eq!(source.labels().unwrap(), [0, 1, 1, 0]);
            assert_eq!(source.owners().unwrap().of, [1, 2, 1, 0]);
            let found = rows(&source);
            assert_eq!(found[0], [30.0, 1.0, 0.0, 0.0, 1.0, 200.0]);
            assert!(found[1][0].is_nan() && found[1][1..] == [0.0, 1.0, 1.0, 0.0, 200.0]);
            assert_eq!(found[2], [50.0, 0.0, 0.0, 1.0, 0.0, 200.0]);
            assert!(found[3][0].is_nan());
        }
    }
}

#[test]
fn shards_in_a_folder_data() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    let rows_of = |count: usize, from: i64| {
        let x = (0..count as i64).map(|i| from + i).collect();
        let y = (0..count as i64).map(|i| i % 2).collect();
        vec![(Values::Longs(x), None), (Values::Longs(y), None)]
    };
    let schema = "message rows { required int64 x; required int64 label; }";
    let names = r#"{"info": {"features": {"x": {}, "label": {"names": ["no", "yes", "never"], "_type": "ClassLabel"}}}}"#;
    let told = || {
        let entry = KeyValue::new("huggingface".to_owned(), names.to_owned());
        WriterProperties::builder().set_key_value_metadata(Some(vec![entry])).build()
    };
    for (name, count, from) in [
        ("train-00000-of-00002.parquet", 3, 10),
        ("train-00001-of-00002.parquet", 2_500, 20),
        ("validation-00000-of-00001.parquet", 2, 7),
    ] {
        write(&folder.join(name), schema, &[rows_of(count, from)], told());
    }
    let dataset = Dataset::read(dir.path(), &Reading::default(), &mut |_, _| {}).unwrap();
    assert_eq!((dataset.train.len(), dataset.test.len()), (2_503, 2));
    assert_eq!(dataset.class_names, ["no", "yes", "never"]);
    let options = SourceOptions { split: Split::Train, ..SourceOptions::default() };
    let source = Source::open(dir.path(), &options).unwrap();
    let found = rows(&source);
    assert_eq!((&found[2], &found[3], &found[2_502]), (&vec![12.0], &vec![20.0], &vec![2_519.0]));
    let message = Source::open(dir.path(), &SourceOptions::default()).unwrap_err().to_string();
    assert!(message.contains("no shard of the part Test"), "{message}");
}

fn picture(shade: u8, side: u32) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    GrayImage::from_pixel(side, side, Luma([shade]))
        .write_to(&mut bytes, ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

fn pictures_file(path: &Path, pictures: Vec<Vec<u8>>) {
    let schema = "message rows {
        optional group image { optional binary bytes; optional binary path (UTF8); }
        optional int64 label;
    }";
    let count = pictures.len();
    let levels = vec![2; count];
    let group = vec![
        (Values::Texts(pictures), Some(levels)),
        (Values::Texts(Vec::new()), Some(vec![1; count])),
        (Values::Longs((0..count as i64).map(|i| i % 2).collect()), Some(vec![1; count])),
    ];
    let names = r#"{"info": {"features": {"label": {"names": {"0": "cat", "1": "dog"}}}}}"#;
    let entry = KeyValue::new("huggingface".to_owned(), names.to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![entry]));
    write(path, schema, &[group], properties.build());
}

#[test]
fn pictures_as_hugging_face_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pictures.parquet");
    pictures_file(&path, (0..10).map(|i| picture(20 * i, 6)).collect());
    let mut found = Vec::new();
    for threads in [1, 3] {
        let reading = Reading { test_fraction: 0.0, threads, ..Reading::default() };
        let dataset = Dataset::read(&path, &reading, &mut |_, _| {}).unwrap();
        assert_eq!(dataset.class_names, ["cat", "dog"]);
        assert_eq!((dataset.shape, dataset.train.len()), (Shape::new(1, 6, 6), 10));
        let bytes: Vec<u8> = (0..10).map(|i| dataset.train.bytes(i).unwrap()[7]).collect();
        found.push(bytes);
        assert_eq!(dataset.train.labels(), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    }
    assert_eq!(found, [[0, 20, 40, 60, 80, 100, 120, 140, 160, 180]; 2]);
    // One of another size, and one that is broken.
    let mut pictures: Vec<_> = (0..4).map(|i| picture(i, 6)).collect();
    pictures[1] = picture(9, 12);
    pictures[2].truncate(40);
    pictures_file(&path, pictures);
    let source = Source::open(&path, &SourceOptions::default()).unwrap();
    let message = super::read(&source, Shape::new(1, 6, 6)).unwrap_err().to_string();
    assert!(message.contains("pictures.parquet:3: it is not a complete image"), "{message}");
    let options = SourceOptions { skip_bad: true, ..SourceOptions::default() };
    let source = Source::open(&path, &options).unwrap();
    let chunk = super::read(&source, Shape::new(1, 6, 6)).unwrap();
    assert_eq!((chunk.indices, chunk.skipped.len(), chunk.fitting.resized), (vec![0, 1, 3], 1, 1));
}

/// What reading a file to train on says.
fn attempt(path: &Path, options: &SourceOptions) -> Result<(), String> {
    let reading = Reading { options: options.clone(), ..Reading::default() };
    Dataset::read(path, &reading, &mut |_, _| {}).map(|_| ()).map_err(|error| error.to_string())
}

#[test]
fn types_that_are_not_numbers_or_texts_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    let cases = [
        ("required int32 day (DATE)", "DATE"),
        ("required int64 day (TIMESTAMP_MILLIS)", "TIMESTAMP_MILLIS"),
        ("required int32 price (DECIMAL(5, 2))", "DECIMAL"),
        ("repeated int32 tags", "a list"),
        ("required group both { required int32 one; }", "a structure"),
    ];
    for (first, part) in cases {
        let schema = format!(
            "message rows {{ {first}{} required int64 y; }}",
            if first.ends_with('}') { "" } else { ";" }
        );
        let values = || {
            if first.contains("int64") {
                Values::Longs(vec![1, 2])
            } else {
                Values::Shorts(vec![1, 2])
            }
        };
        let schema_type = parse_message_type(&schema).unwrap();
        if first.contains("repeated") {
            let file = File::create(&path).unwrap();
            let mut writer =
                SerializedFileWriter::new(file, Arc::new(schema_type), Arc::default()).unwrap();
            let mut rows = writer.next_row_group().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&[1, 2], Some(&[1, 1]), Some(&[0, 1])).unwrap();
            column.close().unwrap();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&[1], None, None).unwrap();
            column.close().unwrap();
            rows.close().unwrap();
            writer.close().unwrap();
        } else {
            write(
                &path,
                &schema,
                &[vec![(values(), None), (Values::Longs(vec![0, 1]), None)]],
                WriterProperties::default(),
            );
        }
        let message = attempt(&path, &SourceOptions::default()).unwrap_err();
        let named = message.to_uppercase().contains(&part.to_uppercase());
        assert!(named && message.contains("data.exclude"), "{message}");
    }
}

#[test]
fn rows_without_what_they_need_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    let schema = "message rows { required double x; optional int64 y; required binary t; }";
    let file = |x: Vec<f64>, y: Vec<i64>, levels, t: Vec<Vec<u8>>| {
        let group = vec![
            (Values::Doubles(x), None),
            (Values::Longs(y), Some(levels)),
            (Values::Texts(t), None),
        ];
        write(&path, schema, &[group], WriterProperties::default());
        attempt(&path, &SourceOptions::default()).unwrap_err()
    };
    let word = || vec![b"a".to_vec(), b"b".to_vec()];
    let message = file(vec![1.0, 2.0], vec![1], vec![1, 0], word());
    assert!(message.contains("rows.parquet:2: the column \"y\" has no label"), "{message}");
    let message = file(vec![1.0, f64::INFINITY], vec![1, 2], vec![1, 1], word());
    assert!(message.contains("rows.parquet:2: inf in the column \"x\""), "{message}");
    let message = file(vec![1.0, 2.0], vec![1, 2], vec![1, 1], vec![b"a".to_vec(), vec![0xff]]);
    assert!(message.contains("rows.parquet:2: the column \"t\" is not UTF-8"), "{message}");
}

#[test]
fn what_is_cut_or_changed_is_refused_and_never_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("patients.parquet");
    patients_file(&path, WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let whole = std::fs::read(&path).unwrap();
    let options = patients();
    for length in 4..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let message = attempt(&path, &options).unwrap_err();
        assert!(message.contains("patients.parquet") && message.contains("hint: "), "{message}");
    }
    // A changed byte may mean another value, or nothing at all; it must not mean a panic.
    for place in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            std::fs::write(&path, &bytes).unwrap();
            if let Err(message) = attempt(&path, &options) {
                assert!(message.contains("hint: "), "{place}: {message}");
            }
        }
    }
}

#[test]
fn a_footer_that_claims_too_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.parquet");
    patients_file(&path, WriterProperties::default());
    let whole = std::fs::read(&path).unwrap();
    let end = whole.len();
    let mut bytes = whole.clone();
    bytes[end - 8..end - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let message = Parts::open(&path, &patients()).unwrap_err().to_string();
    assert!(message.contains("its footer claims 4294967295"), "{message}");
    bytes[end - 4..].copy_from_slice(b"PARE");
    std::fs::write(&path, &bytes).unwrap();
    assert!(attempt(&path, &patients()).unwrap_err().contains("encrypted"));
    std::fs::write(&path, b"PAR1").unwrap();
    assert!(attempt(&path, &patients()).unwrap_err().contains("truncated"));
}
