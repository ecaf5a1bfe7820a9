//! IDX and NumPy files, shares, known datasets.

use crate::{open, read, refused, refused_with};
use flate2::Compression;
use flate2::write::GzEncoder;
use formant_data::{DataError, Portion, Share, Source, SourceOptions, Split, Wanted};
use formant_numerics::{Shape, Size};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const SMALL: Shape = Shape::new(1, 2, 3);

fn idx(kind: u8, extents: &[u32], content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, kind, extents.len() as u8];
    bytes.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
    [bytes, content.to_vec()].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes of an array as `numpy.save` writes it.
fn npy(kind: &str, extents: &[usize], content: &[u8]) -> Vec<u8> {
    let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
    let extents = extents.join(", ");
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({extents},), }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    [&bytes, text.as_bytes(), content].concat()
}

fn npz(path: &Path, arrays: &[(&str, Vec<u8>)], method: CompressionMethod) {
    let mut archive = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn npz(&self, arrays: &[(&str, Vec<u8>)]) -> PathBuf {
        let path = self.0.path().join("a.npz");
        npz(&path, arrays, CompressionMethod::Deflated);
        path
    }
}

fn counting(count: usize) -> Vec<u8> {
    (0..count).map(|i| i as u8).collect()
}

fn pixels(path: &Path, shape: Shape) -> Vec<u8> {
    read(&open(path).unwrap(), shape).unwrap().pixels
}

#[test]
fn idx_files_plain_and_packed_find_their_labels() {
    let dir = Folder::new();
    let images = idx(8, &[5, 2, 3], &counting(30));
    let labels = idx(8, &[5], &[4, 3, 2, 1, 0]);
    let plain = dir.write("train-images-idx3-ubyte", &images);
    let source = open(&plain).unwrap();
    let message = source.labels().unwrap_err().to_string();
    assert!(
        message.contains("train-labels-idx1-ubyte") && message.contains("--labels"),
        "{message}"
    );
    let packed = dir.write("train-images-idx3-ubyte.gz", &gzip(&images));
    dir.write("train-labels-idx1-ubyte.gz", &gzip(&labels));
    for path in [plain, packed] {
        let source = open(&path).unwrap();
        assert_eq!(source.labels().unwrap(), [4, 3, 2, 1, 0]);
        assert_eq!(source.shape(), Some(SMALL));
        let chunk = read(&source, SMALL).unwrap();
        assert_eq!((chunk.pixels, chunk.indices), (counting(30), vec![0, 1, 2, 3, 4]));
        assert_eq!(source.name(3), format!("{}[3]", path.display()));
    }
}

#[test]
fn labels_may_be_given() {
    let dir = Folder::new();
    let images = dir.write("pictures", &idx(8, &[2, 2, 3], &counting(12)));
    let wide = dir.write("wide.idx", &idx(0x0c, &[2], &[0, 0, 1, 0, 0, 0, 0, 7]));
    let numpy = dir.write("labels.npy", &npy("<i8", &[2, 1], &[&[9; 1][..], &[0; 15]].concat()));
    let with = |labels: &Path| {
        let labels = Some(labels.to_path_buf());
        Source::open(&images, &SourceOptions { labels, ..SourceOptions::default() })
    };
    assert_eq!(with(&wide).unwrap().labels().unwrap(), [256, 7]);
    assert_eq!(with(&numpy).unwrap().labels().unwrap(), [9, 0]);
    let message = |labels: &Path| {
        let message = with(labels).unwrap_err().to_string();
        assert!(message.contains("\nhint: "), "{message}");
        message
    };
    let three = dir.write("three", &idx(8, &[3], &[0; 3]));
    let hot = dir.write("hot.npy", &npy("|u1", &[2, 10], &[0; 20]));
    let real = dir.write("real.npy", &npy("<f4", &[2], &[0; 8]));
    let negative = dir.write("negative.npy", &npy("|i1", &[2], &[0, 255]));
    assert!(message(&three).contains("3 labels for 2 images"));
    assert!(message(&hot).contains("argmax"));
    assert!(message(&real).contains("real.npy[0]: 0 is not a class"));
    assert!(message(&negative).contains("negative.npy[1]: -1 is not a class"));
    assert!(message(&images).contains("labels have the extents"));
    assert!(message(&dir.0.path().join("absent")).contains("absent"));
}

#[test]
fn arrays_of_every_layout_give_the_same_images() {
    let dir = Folder::new();
    let shape = Shape::new(3, 2, 4);
    let planar = counting(2 * 24);
    let interleaved: Vec<u8> = (0..2)
        .flat_map(|n| (0..8).flat_map(move |p| (0..3).map(move |c| (n * 24 + c * 8 + p) as u8)))
        .collect();
    let wide: Vec<u8> = planar.iter().flat_map(|&b| i32::from(b).to_be_bytes()).collect();
    let real: Vec<u8> = planar.iter().flat_map(|&b| (f32::from(b) / 255.0).to_le_bytes()).collect();
    let files = [
        npy("|u1", &[2, 3, 2, 4], &planar),
        npy("|u1", &[2, 2, 4, 3], &interleaved),
        npy(">i4", &[2, 3, 2, 4], &wide),
        npy("<f4", &[2, 3, 2, 4], &real),
        idx(8, &[2, 3, 2, 4], &planar),
        gzip(&npy("|u1", &[2, 3, 2, 4], &planar)),
    ];
    for (i, bytes) in files.iter().enumerate() {
        assert_eq!(pixels(&dir.write("a", bytes), shape), planar, "file {i}");
    }
    // Another size and colour is fitted as a picture is.
    let chunk = read(&open(&dir.write("a", &files[1])).unwrap(), Shape::new(1, 2, 2)).unwrap();
    assert_eq!(
        (chunk.fitting.size, chunk.fitting.to_grey),
        (Some(Size { height: 2, width: 4 }), 2)
    );
}

#[test]
fn archives_by_their_usual_names_and_by_given_ones() {
    let dir = Folder::new();
    let images = |first: u8| npy("|u1", &[1, 2, 3], &[first; 6]);
    let label = |class: u8| npy("|u1", &[1], &[class]);
    let known: [(&str, &str); 4] =
        [("images", "labels"), ("x", "y"), ("arr_0", "arr_1"), ("test_images", "test_labels")];
    for (i, (x, y)) in known.into_iter().enumerate() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let path = dir.0.path().join("a.npz");
            npz(&path, &[(x, images(7)), (y, label(i as u8))], method);
            let source = open(&path).unwrap();
            assert_eq!(source.labels().unwrap(), [i as u16], "{x}");
            assert_eq!(read(&source, SMALL).unwrap().pixels, [7; 6], "{x}");
        }
    }
    let path = dir.npz(&[
        ("x_train", images(1)),
        ("y_train", label(1)),
        ("x_test", images(2)),
        ("y_test", label(2)),
        ("odd", images(3)),
        ("name", label(3)),
    ]);
    let with = |split, images: Option<&str>, labels: Option<&str>| {
        let (images_key, labels_key) = (images.map(Into::into), labels.map(Into::into));
        let options = SourceOptions { split, images_key, labels_key, ..SourceOptions::default() };
        let source = Source::open(&path, &options)?;
        let labels = source.labels()?.to_vec();
        Ok::<_, DataError>((read(&source, SMALL)?.pixels[0], labels))
    };
    assert_eq!(with(Split::Test, None, None).unwrap(), (2, vec![2]));
    assert_eq!(with(Split::Train, None, None).unwrap(), (1, vec![1]));
    assert_eq!(with(Split::Test, Some("odd"), Some("name")).unwrap(), (3, vec![3]));
    let message = with(Split::Test, Some("odd"), None).unwrap_err().to_string();
    assert!(message.contains("labels of odd: x_train, y_train"), "{message}");
    let message = with(Split::Test, Some("od"), None).unwrap_err().to_string();
    assert!(message.contains("no array od; it has x_train"), "{message}");
    let message = with(Split::Validation, None, None).unwrap_err().to_string();
    assert!(message.contains("--images-key"), "{message}");
}

#[test]
fn numbers_that_are_no_pixels_are_refused_with_their_place() {
    let dir = Folder::new();
    let reals = |values: [f32; 12]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let mut normalised = [0.5; 12];
    normalised[7] = -0.42;
    let real = dir.write("a.npy", &npy("<f4", &[2, 2, 3], &reals(normalised)));
    let message = refused(&real, SMALL);
    assert!(
        message.contains("a.npy[1]: -0.42") && message.contains("astype(\"uint8\")"),
        "{message}"
    );
    let wide: Vec<u8> = [0_i16, 1, 2, 3, 4, 256].iter().flat_map(|v| v.to_le_bytes()).collect();
    let wide = dir.write("b.npy", &npy("<i2", &[1, 2, 3], &wide));
    assert!(refused(&wide, SMALL).contains("b.npy[0]: 256 is not a pixel value"));
    let nan = dir.write("c.npy", &npy("<f4", &[1, 1, 1], &f32::NAN.to_le_bytes()));
    assert!(refused(&nan, SMALL).contains("NaN is not a pixel value"));
}

#[test]
fn extents_in_doubt_are_refused() {
    let dir = Folder::new();
    let doubtful = dir.write("a.npy", &npy("|u1", &[2, 5, 6, 7], &counting(420)));
    let message = refused(&doubtful, SMALL);
    assert!(message.contains("do not say which of them are channels"), "{message}");
    // A model of that very shape takes it.
    assert_eq!(pixels(&doubtful, Shape::new(5, 6, 7)).len(), 420);
    let two = dir.write("b.npy", &npy("|u1", &[1, 2, 5, 5], &counting(50)));
    assert!(refused(&two, SMALL).contains("do not say"));
    let flat = dir.write("c.npy", &npy("|u1", &[2, 784], &[0; 1568]));
    assert!(refused(&flat, SMALL).contains("784x1x1"));
}

#[test]
fn broken_files_name_the_fault() {
    let dir = Folder::new();
    let whole = idx(8, &[5, 2, 3], &counting(30));
    let packed = gzip(&whole);
    let array = npy("|u1", &[5, 2, 3], &counting(30));
    let labels = idx(8, &[5], &[0; 5]);
    let mut long = array.clone();
    long.push(0);
    let cases: [(&str, Vec<u8>, &str); 12] = [
        ("idx cut", whole[..20].to_vec(), "truncated: 20 bytes"),
        ("idx header cut", whole[..10].to_vec(), "ends within its header"),
        ("idx long", [whole.clone(), vec![1]].concat(), "too long"),
        ("gz cut", packed[..packed.len() - 12].to_vec(), "truncated"),
        ("gz long", gzip(&[whole.clone(), vec![1]].concat()), "goes on after the 5 rows"),
        ("gz short", gzip(&whole[..30]), "ends in row"),
        ("idx none", idx(8, &[0, 2, 3], &[]), "holds 0 images"),
        ("idx empty", idx(8, &[3, 0, 3], &[]), "not those of images"),
        ("idx huge", gzip(&idx(8, &[u32::MAX; 3], &[])), "18446744065119617025 bytes each"),
        ("idx labels", labels, "a file of 5 labels"),
        ("npy cut", array[..array.len() - 1].to_vec(), "truncated"),
        ("npy long", long, "too long"),
    ];
    for (name, bytes, part) in cases {
        let message = refused(&dir.write("file", &bytes), SMALL);
        assert!(message.contains(part), "{name}: {message}");
    }
}

#[test]
fn broken_archives_name_the_fault() {
    let dir = Folder::new();
    let array = npy("|u1", &[5, 2, 3], &counting(30));
    let path = dir.0.path().join("a.npz");
    npz(&path, &[("images", array.clone())], CompressionMethod::Stored);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 30]).unwrap();
    assert!(refused(&path, SMALL).contains("not a complete .npz archive"));
    // One pixel changed: the archive's checksum tells.
    let mut changed = whole.clone();
    let place = whole.windows(4).position(|w| w == [10, 11, 12, 13]).unwrap();
    changed[place] = 99;
    fs::write(&path, changed).unwrap();
    assert!(refused(&path, SMALL).contains("its checksum is wrong"));
    // An array that claims more than the archive has.
    let liar = npy("|u1", &[5_000_000_000, 2, 3], &counting(30));
    assert!(refused(&dir.npz(&[("images", liar)]), SMALL).contains("the archive has"));
    // 50 MB of zeros in 50 kB are read image by image.
    let bomb = npy("|u1", &[100, 500, 1_000], &vec![0; 50_000_000]);
    let path = dir.npz(&[("images", bomb)]);
    assert!(fs::metadata(&path).unwrap().len() < 300_000);
    assert_eq!(pixels(&path, SMALL), vec![0; 600]);
    let path = dir.0.path().join("none.npz");
    npz(&path, &[], CompressionMethod::Stored);
    assert!(refused(&path, SMALL).contains("it holds no array"));
}

#[test]
fn shares_by_part() {
    let dir = Folder::new();
    let part =
        |labels: &[u16]| Portion { pixels: counting(labels.len() * 6), labels: labels.to_vec() };
    let share = Share::new(SMALL, part(&[1, 2, 3]), Portion::default(), part(&[7])).unwrap();
    let path = dir.0.path().join("client.safetensors");
    std::fs::write(&path, share.to_bytes().unwrap()).unwrap();
    let with = |split| Source::open(&path, &SourceOptions { split, ..SourceOptions::default() });
    assert_eq!(open(&path).unwrap().labels().unwrap(), [7]);
    assert_eq!(with(Split::Train).unwrap().labels().unwrap(), [1, 2, 3]);
    let all = with(Split::All).unwrap();
    assert_eq!(all.labels().unwrap(), [1, 2, 3, 7]);
    let expected = [counting(18), counting(6)].concat();
    assert_eq!(read(&all, SMALL).unwrap().pixels, expected);
    let options = SourceOptions { split: Split::Validation, ..SourceOptions::default() };
    let message = refused_with(&path, SMALL, &options);
    assert!(message.contains("no validation samples; it has train, test"), "{message}");
}

#[test]
fn a_known_dataset_is_its_test_set() {
    let source = Source::known("mnist-small", None, Split::Test).unwrap();
    let digits = formant_data::Dataset::load("mnist-small", None).unwrap();
    assert_eq!(
        (source.len(), source.class_names().unwrap()),
        (2_000, digits.class_names.as_slice())
    );
    assert_eq!(source.labels().unwrap(), digits.test.labels());
    let mut stream = source.stream(Wanted::pixels(digits.shape), 1).unwrap();
    let chunk = stream.next(100).unwrap().unwrap();
    assert_eq!(&chunk.pixels[99 * 784..], &*digits.test.bytes(99).unwrap());
    assert_eq!(Source::known("mnist-small", None, Split::Train).unwrap().len(), 8_000);
    assert!(Source::known("mnist-small", None, Split::Validation).is_err());
}
