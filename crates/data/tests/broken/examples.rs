//! A small valid example of every format, made byte by byte or by the crate that is made for it.

use flate2::Compression;
use flate2::write::GzEncoder;
use formant_data::{Portion, Share};
use formant_numerics::Shape;
use image::{DynamicImage, ImageFormat, RgbImage};
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Data in some format, as the files of one folder.
pub(crate) struct Example {
    /// What the registry calls the format.
    pub(crate) format: &'static str,
    /// What the example is called.
    pub(crate) name: &'static str,
    /// The file that is opened; nothing if it is the folder.
    pub(crate) open: &'static str,
    /// Every file and its content.
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Example {
    /// Writes all files, and gives what is opened.
    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        for (name, bytes) in &self.files {
            put(folder, name, bytes);
        }
        if self.open.is_empty() { folder.into() } else { folder.join(self.open) }
    }
}

/// A folder for a moment: in memory where there is such a place, because thousands of files are written.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Writes one file of a folder.
pub(crate) fn put(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).unwrap();
    }
    fs::write(path, bytes).unwrap();
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// IDX numbers of bytes.
pub(crate) fn idx(extents: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, extents.len() as u8];
    bytes.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
    [bytes, content.to_vec()].concat()
}

/// The bytes of an array as `numpy.save` writes it.
pub(crate) fn npy(kind: &str, extents: &[usize], content: &[u8]) -> Vec<u8> {
    let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
    let extents = extents.join(", ");
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({extents},), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    [&bytes, text.as_bytes(), content].concat()
}

pub(crate) fn npz(arrays: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A tar archive of files of any name and kind.
pub(crate) fn tar(members: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, kind, bytes) in members {
        let mut header = tar::Header::new_ustar();
        // As it is: the builder would refuse names that climb out.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

/// A batch of CIFAR as Python 3 pickles it in protocol 3, without what nobody needs.
pub(crate) fn pickle(labels_key: &str, labels: &[u8]) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let array =
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01".to_vec();
    let extents = [b"K", &[labels.len() as u8][..], b"M\x00\x0c\x86"].concat();
    let kind = [b"cnumpy\ndtype\n".to_vec(), text("u1"), b"\x89\x88\x87R\x89".to_vec()].concat();
    let content = pixels(labels.len() * 3_072);
    let content = [b"B", &(content.len() as u32).to_le_bytes()[..], &content].concat();
    let labels: Vec<u8> = labels.iter().flat_map(|label| [b'K', *label]).collect();
    let data = [text("data"), array, extents, kind, content, b"tb".to_vec()].concat();
    let labels = [text(labels_key), b"](".to_vec(), labels, b"e".to_vec()].concat();
    // Everything that decides comes first, so that it is broken most often.
    [b"\x80\x03}(".to_vec(), labels, data, b"u.".to_vec()].concat()
}

/// The file that names the classes of CIFAR.
pub(crate) fn meta(key: &str, names: &[&str]) -> Vec<u8> {
    let text = |text: &str| [b"U", &[text.len() as u8][..], text.as_bytes()].concat();
    let names: Vec<u8> = names.iter().flat_map(|name| text(name)).collect();
    [b"\x80\x02}".to_vec(), text(key), b"](".to_vec(), names, b"es.".to_vec()].concat()
}

pub(crate) fn pixels(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 % 251) as u8).collect()
}

pub(crate) fn picture(format: ImageFormat, shade: u8) -> Vec<u8> {
    let picture = RgbImage::from_fn(6, 5, |x, y| image::Rgb([shade, 9 * x as u8, 11 * y as u8]));
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(picture).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// The JSON of iNaturalist for these pictures, in two categories in turn.
pub(crate) fn listing(pictures: &[&str]) -> Vec<u8> {
    let image = |(id, name): (usize, &&str)| {
        format!(r#"{{"id": {id}, "width": 6, "file_name": "{name}", "user_id": {}}}"#, id % 3)
    };
    let annotation =
        |id: usize| format!(r#"{{"id": {id}, "image_id": {id}, "category_id": {}}}"#, 10 + id % 2);
    let images: Vec<String> = pictures.iter().enumerate().map(image).collect();
    let annotations: Vec<String> = (0..pictures.len()).map(annotation).collect();
    format!(
        r#"{{"info": {{"year": 2017}}, "images": [{}], "annotations": [{}], "categories": [{{"id": 10, "name": "Parus major", "supercategory": "Aves"}}, {{"id": 11, "name": "Vulpes vulpes", "supercategory": "Mammalia"}}]}}"#,
        images.join(", "),
        annotations.join(", ")
    )
    .into_bytes()
}

/// A file of LEAF: users with samples of so many numbers.
pub(crate) fn leaf(users: &[(&str, usize)], length: usize) -> Vec<u8> {
    let sample = |i: usize| {
        let numbers: Vec<String> = (0..length).map(|k| format!("0.{}", (i + k) % 10)).collect();
        format!("[{}]", numbers.join(", "))
    };
    let data = users.iter().map(|(name, count)| {
        let x: Vec<String> = (0..*count).map(sample).collect();
        let y: Vec<String> = (0..*count).map(|i| (i % 2).to_string()).collect();
        format!(r#""{name}": {{"x": [{}], "y": [{}]}}"#, x.join(", "), y.join(", "))
    });
    let data: Vec<String> = data.collect();
    let names: Vec<String> = users.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let counts: Vec<String> = users.iter().map(|(_, count)| count.to_string()).collect();
    format!(
        r#"{{"users": [{}], "num_samples": [{}], "user_data": {{{}}}}}"#,
        names.join(", "),
        counts.join(", "),
        data.join(", ")
    )
    .into_bytes()
}

fn share(labels: &[u16]) -> Vec<u8> {
    let part =
        |labels: &[u16]| Portion { pixels: pixels(labels.len() * 4), labels: labels.to_vec() };
    let (shape, validation) = (Shape::new(1, 2, 2), part(&[0]));
    Share::new(shape, part(labels), validation, part(&[1])).unwrap().to_bytes().unwrap()
}

fn named(files: Vec<(&str, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// The five batches and the test batch of CIFAR-10.
pub(crate) fn cifar10(batch: impl Fn(u8) -> Vec<u8>, end: &str) -> Vec<(String, Vec<u8>)> {
    let train = (1..=5).map(|n| (format!("data_batch_{n}{end}"), batch(n)));
    train.chain([(format!("test_batch{end}"), batch(0))]).collect()
}

fn packed(folder: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let names: Vec<String> = files.iter().map(|(name, _)| format!("{folder}/{name}")).collect();
    let members: Vec<_> = names
        .iter()
        .zip(files)
        .map(|(name, (_, bytes))| (name.as_str(), tar::EntryType::Regular, bytes.as_slice()))
        .collect();
    gzip(&tar(&members))
}

/// One or more of every format.
pub(crate) fn examples() -> Vec<Example> {
    [of_idx(), of_numpy(), of_shares(), of_cifar(), of_rows(), of_trees()]
        .into_iter()
        .flatten()
        .collect()
}

fn of_idx() -> Vec<Example> {
    let (images, labels) = (idx(&[6, 2, 3], &pixels(36)), idx(&[6], &[0, 1, 2, 0, 1, 2]));
    vec![
        Example {
            format: "IDX",
            name: "IDX",
            open: "a-images-idx3-ubyte",
            files: named(vec![
                ("a-images-idx3-ubyte", images.clone()),
                ("a-labels-idx1-ubyte", labels.clone()),
            ]),
        },
        Example {
            format: "IDX",
            name: "IDX, packed",
            open: "a-images-idx3-ubyte.gz",
            files: named(vec![
                ("a-images-idx3-ubyte.gz", gzip(&images)),
                ("a-labels-idx1-ubyte.gz", gzip(&labels)),
            ]),
        },
        Example {
            format: "IDX folder",
            name: "IDX folder",
            open: "",
            files: named(vec![
                ("train-images-idx3-ubyte", images.clone()),
                ("train-labels-idx1-ubyte", labels.clone()),
                ("t10k-images-idx3-ubyte", images),
                ("t10k-labels-idx1-ubyte", labels),
            ]),
        },
    ]
}

fn of_numpy() -> Vec<Example> {
    let rows: Vec<u8> = (0..24).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
    let (rows, classes) = (npy("<f4", &[6, 4], &rows), npy("|u1", &[6], &[0, 1, 0, 1, 0, 1]));
    let pictures = npy("|u1", &[6, 5, 6, 3], &pixels(540));
    vec![
        Example {
            format: "NumPy archive",
            name: "NumPy archive, stored",
            open: "a.npz",
            files: named(vec![(
                "a.npz",
                npz(&[("x", rows.clone()), ("y", classes.clone())], CompressionMethod::Stored),
            )]),
        },
        Example {
            format: "NumPy archive",
            name: "NumPy archive, deflated, with a test set",
            open: "a.npz",
            files: named(vec![(
                "a.npz",
                npz(
                    &[
                        ("x_train", pictures.clone()),
                        ("y_train", classes.clone()),
                        ("x_test", pictures),
                        ("y_test", classes.clone()),
                    ],
                    CompressionMethod::Deflated,
                ),
            )]),
        },
        Example {
            format: "NumPy array",
            name: "NumPy array",
            open: "x.npy",
            files: named(vec![("x.npy", rows), ("y.npy", classes)]),
        },
    ]
}

fn of_shares() -> Vec<Example> {
    vec![
        Example {
            format: "share",
            name: "share",
            open: "a.safetensors",
            files: named(vec![("a.safetensors", share(&[0, 1, 0, 1]))]),
        },
        Example {
            format: "shares",
            name: "shares",
            open: "",
            files: named(vec![
                ("a.safetensors", share(&[0, 1, 0, 1])),
                ("b.safetensors", share(&[1, 1, 2])),
            ]),
        },
    ]
}

fn of_cifar() -> Vec<Example> {
    let record = |n: u8| [vec![n], pixels(3_072)].concat();
    let python = || cifar10(|n| pickle("labels", &[n]), "");
    let hundred = || {
        let [train, test] = [&[99, 7][..], &[42]].map(|labels| pickle("fine_labels", labels));
        named(vec![("train", train), ("test", test)])
    };
    vec![
        Example {
            format: "CIFAR",
            name: "CIFAR-10, Python",
            open: "",
            files: [python(), named(vec![("batches.meta", meta("label_names", &["a"; 10]))])]
                .concat(),
        },
        Example { format: "CIFAR", name: "CIFAR-100, Python", open: "", files: hundred() },
        Example {
            format: "CIFAR",
            name: "CIFAR-10, binary",
            open: "",
            files: cifar10(record, ".bin"),
        },
        Example {
            format: "CIFAR archive",
            name: "CIFAR-10, archive",
            open: "cifar-10-python.tar.gz",
            files: named(vec![(
                "cifar-10-python.tar.gz",
                packed("cifar-10-batches-py", &python()),
            )]),
        },
        Example {
            format: "CIFAR archive",
            name: "CIFAR-100, archive without gzip",
            open: "cifar-100.tar",
            files: named(vec![("cifar-100.tar", {
                let files = hundred();
                let member =
                    |nth: usize, name| (name, tar::EntryType::Regular, files[nth].1.as_slice());
                tar(&[member(0, "cifar-100-python/train"), member(1, "cifar-100-python/test")])
            })]),
        },
    ]
}

const ROWS: &str =
    "height,colour,kind\n1.5,red,ash\n2,blue,beech\n,red,ash\n4,,beech\n5,blue,ash\n";

/// A Parquet file of so many rows.
pub(crate) fn parquet(count: usize) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message rows { required double height; required binary label (UTF8); }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema.into(), std::sync::Arc::default()).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let heights: Vec<f64> =
        (0..count).map(|i| (i * 7 % 5) as f64 + 10.0 * (i % 2) as f64).collect();
    column.typed::<DoubleType>().write_batch(&heights, None, None).unwrap();
    column.close().unwrap();
    let kinds: Vec<ByteArray> =
        (0..count).map(|i| ByteArray::from(["ash", "beech"][i % 2])).collect();
    let mut column = rows.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&kinds, None, None).unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// Tables, and what is made of data by an import.
fn of_rows() -> Vec<Example> {
    let imported = || {
        let folder = scratch();
        let (table, out) = (folder.path().join("rows.csv"), folder.path().join("rows.formant"));
        put(folder.path(), "rows.csv", ROWS.replace("kind", "label").as_bytes());
        formant_data::import(
            table.to_str().unwrap(),
            None,
            &out,
            &formant_data::Reading::default(),
            &mut |_, _| {},
        )
        .unwrap();
        fs::read(out).unwrap()
    };
    let labelled = || ROWS.replace("kind", "label").into_bytes();
    let example = |format, open, files| Example { format, name: format, open, files: named(files) };
    vec![
        example("CSV", "rows.csv", vec![("rows.csv", labelled())]),
        example("CSV folder", "", vec![("train.csv", labelled()), ("test.csv", labelled())]),
        example("Parquet", "rows.parquet", vec![("rows.parquet", parquet(4))]),
        example(
            "Parquet folder",
            "",
            vec![("train-0.parquet", parquet(4)), ("test-0.parquet", parquet(4))],
        ),
        example("formant", "rows.formant", vec![("rows.formant", imported())]),
    ]
}

/// Pictures and JSON files in folders.
fn of_trees() -> Vec<Example> {
    let png = |shade| picture(ImageFormat::Png, shade);
    let jpeg = |shade| picture(ImageFormat::Jpeg, shade);
    let birds = ["birds/0.jpg", "birds/1.jpg", "birds/2.png"];
    vec![
        Example {
            format: "iNaturalist",
            name: "iNaturalist",
            open: "",
            files: named(vec![
                ("train2017.json", listing(&birds)),
                ("val2017.json", listing(&birds[..2])),
                (birds[0], jpeg(1)),
                (birds[1], jpeg(50)),
                (birds[2], png(99)),
            ]),
        },
        Example {
            format: "LEAF",
            name: "LEAF",
            open: "",
            files: named(vec![
                ("train/a.json", leaf(&[("f0001", 3), ("f0002", 2)], 5)),
                ("train/b.json", leaf(&[("f0003", 2)], 5)),
                ("test/a.json", leaf(&[("f0001", 1)], 5)),
            ]),
        },
        Example {
            format: "image folder",
            name: "image folder",
            open: "",
            files: named(vec![
                ("cats/0.png", png(3)),
                ("cats/1.jpg", jpeg(70)),
                ("dogs/0.webp", picture(ImageFormat::WebP, 200)),
                ("dogs/1.bmp", picture(ImageFormat::Bmp, 100)),
            ]),
        },
    ]
}
