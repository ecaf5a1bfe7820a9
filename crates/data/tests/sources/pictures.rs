//! Image files and folders.

use crate::{open, read, refused};
use formant_data::{Fitting, Source, SourceOptions, Split};
use formant_numerics::{Shape, Size};
use image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use std::fs;
use std::path::{Path, PathBuf};

const SMALL: Shape = Shape::new(1, 2, 3);

/// A grey picture whose pixels count up from a byte.
fn counting(width: u32, height: u32, first: u8) -> GrayImage {
    GrayImage::from_fn(width, height, |x, y| Luma([first + (y * width + x) as u8]))
}

fn save(folder: &Path, name: &str, first: u8) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    counting(3, 2, first).save(&path).unwrap();
    path
}

#[test]
fn every_format_without_loss_gives_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.png", "a.bmp"] {
        let path = save(dir.path(), name, 10);
        let source = open(&path).unwrap();
        let chunk = read(&source, SMALL).unwrap();
        assert_eq!(chunk.pixels, [10, 11, 12, 13, 14, 15], "{name}");
        assert!(chunk.fitting.is_empty() && source.name(0) == path.display().to_string());
        assert!(source.labels().unwrap_err().to_string().contains("CLASS/IMAGE.png"));
    }
    // WebP knows only colours.
    let path = dir.path().join("a.webp");
    RgbImage::from_fn(3, 2, |x, y| Rgb([x as u8, y as u8, 7])).save(&path).unwrap();
    let chunk = read(&open(&path).unwrap(), Shape::new(3, 2, 3)).unwrap();
    assert_eq!(chunk.pixels, [0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 1, 1, 7, 7, 7, 7, 7, 7]);
}

#[test]
fn the_content_decides_and_not_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("picture.dat");
    counting(3, 2, 5).save_with_format(&path, ImageFormat::Png).unwrap();
    assert_eq!(read(&open(&path).unwrap(), SMALL).unwrap().pixels[0], 5);
}

#[test]
fn colours_are_converted_and_alpha_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.png");
    RgbaImage::from_pixel(3, 2, Rgba([255, 0, 0, 9])).save(&path).unwrap();
    let grey = read(&open(&path).unwrap(), SMALL).unwrap();
    assert_eq!((grey.pixels, grey.fitting.to_grey), (vec![76; 6], 1));
    let path = dir.path().join("b.png");
    let deep = image::ImageBuffer::<Luma<u16>, _>::from_pixel(3, 2, Luma([0x8080]));
    DynamicImage::from(deep).save(&path).unwrap();
    let colour = read(&open(&path).unwrap(), Shape::new(3, 2, 3)).unwrap();
    assert_eq!((colour.pixels, colour.fitting.to_colour), (vec![0x80; 18], 1));
    let message = refused(&path, Shape::new(2, 2, 3));
    assert!(message.contains("2 channels") && message.contains("NumPy"), "{message}");
}

/// A JPEG with an EXIF entry that says how to turn it.
fn jpeg(picture: &GrayImage, orientation: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    let bytes = bytes.into_inner();
    let mut exif = vec![0xff, 0xe1, 0, 34];
    exif.extend(b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0");
    exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    [&bytes[..2], &exif, &bytes[2..]].concat()
}

#[test]
fn a_picture_stands_as_people_see_it() {
    let dir = tempfile::tempdir().unwrap();
    // Dark above, bright below.
    let picture = GrayImage::from_fn(16, 32, |_, y| Luma([if y < 16 { 0 } else { 250 }]));
    let read_at = |orientation, shape| {
        let path = dir.path().join(format!("{orientation}.jpg"));
        fs::write(&path, jpeg(&picture, orientation)).unwrap();
        read(&open(&path).unwrap(), shape).unwrap()
    };
    let upright = read_at(1, Shape::new(1, 32, 16)).pixels;
    assert!(upright[0] < 10 && upright[31 * 16] > 240);
    let turned = read_at(3, Shape::new(1, 32, 16)).pixels;
    assert!(turned[0] > 240 && turned[31 * 16] < 10);
    // Turned by a quarter: 32 wide, dark at the right.
    let quarter = read_at(6, Shape::new(1, 16, 32));
    assert!(quarter.fitting.is_empty(), "{:?}", quarter.fitting);
    assert!(quarter.pixels[0] > 240 && quarter.pixels[31] < 10);
}

#[test]
fn other_sizes_are_fitted_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), "a.png", 0);
    counting(6, 4, 0).save(dir.path().join("b.png")).unwrap();
    counting(9, 4, 0).save(dir.path().join("c.png")).unwrap();
    let chunk = read(&open(dir.path()).unwrap(), SMALL).unwrap();
    let expected = Fitting {
        resized: 2,
        size: Some(Size { height: 4, width: 6 }),
        sizes_differ: true,
        ..Fitting::default()
    };
    assert_eq!((chunk.fitting, chunk.pixels.len()), (expected, 18));
}

#[test]
fn a_folder_is_read_by_name_and_its_folders_are_classes() {
    let dir = tempfile::tempdir().unwrap();
    for (name, first) in
        [("dog/2.png", 20), ("cat/b/1.png", 10), ("cat/2.PNG", 0), ("emu/x.bmp", 30)]
    {
        save(dir.path(), name, first);
    }
    fs::write(dir.path().join("dog/notes.txt"), "no image").unwrap();
    fs::write(dir.path().join(".hidden.png"), "no image").unwrap();
    let source = open(dir.path()).unwrap();
    let chunk = read(&source, SMALL).unwrap();
    let firsts: Vec<u8> = chunk.pixels.iter().step_by(6).copied().collect();
    assert_eq!(firsts, [0, 10, 20, 30]);
    assert_eq!(source.class_names().unwrap(), ["cat", "dog", "emu"]);
    assert_eq!(source.labels().unwrap(), [0, 0, 1, 2]);

    save(dir.path(), "stray.png", 0);
    let source = open(dir.path()).unwrap();
    assert_eq!(source.len(), 5);
    assert!(source.labels().unwrap_err().to_string().contains("stray.png is not in a folder"));
}

#[test]
fn a_folder_of_train_and_test_stands_for_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["train/a/1.png", "train/a/2.png", "train/b/1.png", "test/b/1.png"] {
        save(dir.path(), name, 0);
    }
    let with = |split| {
        let options = SourceOptions { split, ..SourceOptions::default() };
        Source::open(dir.path(), &options)
    };
    assert_eq!((with(Split::Train).unwrap().len(), with(Split::Test).unwrap().len()), (3, 1));
    assert_eq!(with(Split::Test).unwrap().class_names().unwrap(), ["b"]);
    let message = with(Split::Validation).unwrap_err().to_string();
    assert!(message.contains("folders test, train, and not val"), "{message}");
}

#[test]
fn files_in_a_row_are_one_source() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (save(dir.path(), "b.png", 1), save(dir.path(), "a.png", 2));
    let folder = dir.path().join("more");
    save(&folder, "c.png", 3);
    let options = SourceOptions::default();
    let sources = Source::open_all(&[a.clone(), b, folder, a], &options).unwrap();
    let lengths: Vec<_> = sources.iter().map(Source::len).collect();
    assert_eq!(lengths, [2, 1, 1]);
    let firsts: Vec<u8> =
        read(&sources[0], SMALL).unwrap().pixels.iter().step_by(6).copied().collect();
    assert_eq!(firsts, [1, 2]);
}

#[test]
fn a_bad_image_is_named_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["a.png", "b.png", "c.png"].into_iter().enumerate() {
        save(dir.path(), name, i as u8);
    }
    let bad = dir.path().join("b.png");
    let whole = fs::read(&bad).unwrap();
    fs::write(&bad, &whole[..whole.len() / 2]).unwrap();
    let message = refused(dir.path(), SMALL);
    assert!(message.contains("b.png: it is not a complete image"), "{message}");
    let options = SourceOptions { skip_bad: true, ..SourceOptions::default() };
    let chunk = read(&Source::open(dir.path(), &options).unwrap(), SMALL).unwrap();
    assert_eq!((chunk.indices, chunk.skipped.len()), (vec![0, 2], 1));
    assert_eq!((chunk.pixels[0], chunk.pixels[6]), (0, 2));
}

#[test]
fn what_is_no_image_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        refused(&path, SMALL)
    };
    let cases = [
        (at("a.png", b"<html>not found</html>"), "does not begin like one"),
        (at("empty.png", b""), "the file is empty"),
        (at("a.gif", b"GIF89a\x01\0\x01\0\0\0\0;"), "Gif images are not read"),
        (at("a.txt", b"1,2,3\n"), "its format is not known"),
        (at("cut.jpg", &jpeg(&counting(8, 8, 0), 1)[..90]), "not a complete image"),
        (refused(&dir.path().join("absent.png"), SMALL), "absent.png: No such file"),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "{message}");
    }
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(refused(&empty, SMALL).contains("the folder is empty"));
    fs::write(empty.join("t10k-images-idx3-ubyte"), "").unwrap();
    assert!(refused(&empty, SMALL).contains("t10k-images-idx3-ubyte"));
}

#[test]
fn a_picture_that_claims_to_be_huge_is_not_believed() {
    // A PNG header of 60000 x 60000 pixels, and no more.
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = b"IHDR".to_vec();
    header.extend([60_000_u32.to_be_bytes(), 60_000_u32.to_be_bytes()].concat());
    header.extend([8, 2, 0, 0, 0]);
    let mut crc = flate2::Crc::new();
    crc.update(&header);
    png.extend(13_u32.to_be_bytes());
    png.extend(&header);
    png.extend(crc.sum().to_be_bytes());
    png.extend(b"\0\0\0\0IDAT\x35\xaf\x06\x1e");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.png");
    fs::write(&path, png).unwrap();
    let message = refused(&path, SMALL);
    assert!(message.contains("need more than 512 MiB"), "{message}");
}
