//! The binary version of CIFAR-10 and CIFAR-100: records of label bytes and 3,072 pixels.

use crate::folder::{FileContent, Folder};
use crate::{CatalogueEntry, DataError, Images};

/// Training and test images: the last file of a set is its test file.
///
/// The format has no header, so a file that ends early at the end of a record is a smaller set, not
/// a broken one.
pub(crate) fn load(
    entry: &'static CatalogueEntry,
    folder: &Folder,
    label_bytes: usize,
) -> Result<(Images, Images), DataError> {
    let record = label_bytes + entry.shape.len();
    let part = |part: usize, files: &[&'static str]| {
        let mut pixels = Vec::new();
        let mut labels = Vec::new();
        for file in files {
            let content = folder.read(file, entry.most_samples[part] * record)?;
            append(entry, &content, label_bytes, &mut pixels, &mut labels)?;
        }
        Images::new(entry.shape, pixels, labels, entry.normalisation)
    };
    let (test_files, train_files) = match entry.files {
        [train @ .., test] => (std::slice::from_ref(test), train),
        [] => (&[][..], &[][..]),
    };
    Ok((part(0, train_files)?, part(1, test_files)?))
}

fn append(
    entry: &CatalogueEntry,
    file: &FileContent,
    label_bytes: usize,
    pixels: &mut Vec<u8>,
    labels: &mut Vec<u16>,
) -> Result<(), DataError> {
    let record = label_bytes + entry.shape.len();
    let length = file.bytes.len();
    if length == 0 || !length.is_multiple_of(record) {
        return Err(file.malformed(
            format!(
                "{length} bytes: {} records and {} bytes more (truncated, or trailing bytes)",
                length / record,
                length % record
            ),
            format!("one or more whole records of {record} bytes"),
        ));
    }
    pixels.reserve(length / record * entry.shape.len());
    for (i, bytes) in file.bytes.chunks_exact(record).enumerate() {
        // Of the coarse and the fine label of CIFAR-100, the fine one comes last.
        let label = bytes[label_bytes - 1];
        if usize::from(label) >= entry.classes {
            return Err(file.malformed(
                format!("the label {label} in record {i}"),
                format!("labels from 0 to {}", entry.classes - 1),
            ));
        }
        labels.push(u16::from(label));
        pixels.extend_from_slice(&bytes[label_bytes..]);
    }
    Ok(())
}
