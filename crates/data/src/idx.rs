//! The IDX format of MNIST: a magic number, the extents (big-endian), then bytes.

use crate::catalogue::IDX_FILES;
use crate::folder::{FileContent, Folder};
use crate::{CatalogueEntry, DataError, Images};
use formant_numerics::Shape;

const IMAGE_MAGIC: u32 = 0x0803;
const LABEL_MAGIC: u32 = 0x0801;
const IMAGE_HEADER: usize = 16;
const LABEL_HEADER: usize = 8;

/// The first labels of the official files of sets that share their file names, train and test: a
/// data folder that directly holds one set would otherwise pass for the other.
const OPENINGS: [(&str, [[u8; 10]; 2]); 2] = [
    ("mnist", [[5, 0, 4, 1, 9, 2, 1, 3, 1, 4], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]]),
    ("fashion-mnist", [[9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]]),
];

/// Training and test images from the four files of a set.
pub(crate) fn load(
    entry: &'static CatalogueEntry,
    folder: &Folder,
) -> Result<(Images, Images), DataError> {
    let [train_images, train_labels, test_images, test_labels] = IDX_FILES;
    let part = |part: usize, images, labels| {
        let limits = limits(entry, part);
        let images = folder.read(images, limits.images)?;
        let labels = folder.read(labels, limits.labels)?;
        refuse_other_set(entry, &labels, part)?;
        pair(entry, images, &labels)
    };
    Ok((part(0, train_images, train_labels)?, part(1, test_images, test_labels)?))
}

/// How many bytes files may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) images: usize,
    pub(crate) labels: usize,
}

/// The lengths of the longest files of part 0 (train) or 1 (test).
pub(crate) fn limits(entry: &CatalogueEntry, part: usize) -> Limits {
    let samples = entry.most_samples[part];
    Limits { images: IMAGE_HEADER + samples * entry.shape.len(), labels: LABEL_HEADER + samples }
}

/// Images from the contents of an image file and of its label file.
pub(crate) fn pair(
    entry: &CatalogueEntry,
    images: FileContent,
    labels: &FileContent,
) -> Result<Images, DataError> {
    let image_count = image_count(&images, entry.shape)?;
    let label_count = label_count(labels, entry.classes)?;
    if image_count != label_count {
        return Err(labels.malformed(
            format!("{label_count} labels"),
            format!("{image_count}, one for each image of {}", images.name),
        ));
    }
    if image_count == 0 {
        return Err(images.malformed("no image", "at least one"));
    }
    let labels = labels.bytes[LABEL_HEADER..].iter().map(|&label| u16::from(label)).collect();
    let mut pixels = images.bytes;
    pixels.drain(..IMAGE_HEADER);
    Images::new(entry.shape, pixels, labels, entry.normalisation)
}

fn image_count(file: &FileContent, shape: Shape) -> Result<u32, DataError> {
    let [magic, count, height, width] = words(file, "images")?;
    check_magic(file, magic, IMAGE_MAGIC, "IDX images")?;
    if (height as usize, width as usize) != (shape.height, shape.width) {
        return Err(file.another(
            format!("images of {height}x{width} pixels"),
            format!("{}x{}", shape.height, shape.width),
        ));
    }
    check_length(file, IMAGE_HEADER, count, shape.len(), "images")?;
    Ok(count)
}

fn label_count(file: &FileContent, classes: usize) -> Result<u32, DataError> {
    let [magic, count] = words(file, "labels")?;
    check_magic(file, magic, LABEL_MAGIC, "IDX labels")?;
    check_length(file, LABEL_HEADER, count, 1, "labels")?;
    let labels = &file.bytes[LABEL_HEADER..];
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        Some(i) => Err(file.another(
            format!("the label {} at position {i}", labels[i]),
            format!("labels from 0 to {}", classes - 1),
        )),
        None => Ok(count),
    }
}

/// The big-endian words of the header.
fn words<const N: usize>(file: &FileContent, what: &str) -> Result<[u32; N], DataError> {
    let mut words = [0; N];
    let (chunks, _) = file.bytes.as_chunks::<4>();
    if chunks.len() < N {
        return Err(file.malformed(
            format!("{} bytes", file.bytes.len()),
            format!("a header of {} bytes and the {what}", 4 * N),
        ));
    }
    for (word, chunk) in words.iter_mut().zip(chunks) {
        *word = u32::from_be_bytes(*chunk);
    }
    Ok(words)
}

fn check_magic(file: &FileContent, found: u32, right: u32, kind: &str) -> Result<(), DataError> {
    if found == right {
        return Ok(());
    }
    Err(file.malformed(
        format!("the magic number {found:#010x}"),
        format!("{right:#010x} ({kind} of unsigned bytes)"),
    ))
}

fn check_length(
    file: &FileContent,
    header: usize,
    count: u32,
    size: usize,
    what: &str,
) -> Result<(), DataError> {
    // Two factors below 2^32 cannot overflow 128 bits, whatever the header claims.
    let claimed = header as u128 + u128::from(count) * size as u128;
    let length = file.bytes.len();
    if claimed == length as u128 {
        return Ok(());
    }
    let fault = if claimed > length as u128 { "truncated" } else { "trailing bytes" };
    Err(file.malformed(
        format!("{length} bytes ({fault})"),
        format!("{claimed} bytes for the {count} {what} of its header"),
    ))
}

fn refuse_other_set(
    entry: &CatalogueEntry,
    labels: &FileContent,
    part: usize,
) -> Result<(), DataError> {
    let payload = labels.bytes.get(LABEL_HEADER..).unwrap_or_default();
    match OPENINGS
        .iter()
        .find(|(name, opening)| *name != entry.name && payload.starts_with(&opening[part]))
    {
        Some((name, _)) => {
            Err(labels
                .malformed(format!("the labels of {name}"), format!("those of {}", entry.name)))
        }
        None => Ok(()),
    }
}
