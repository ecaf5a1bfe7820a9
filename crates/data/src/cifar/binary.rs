//! The binary version: records of label bytes and 3,072 pixels.

use super::PIXELS;
use crate::folder::FileContent;
use crate::{DataError, Portion};

/// Appends the samples of a file.
///
/// The format has no header, so a file that ends early at the end of a record is a smaller set, not
/// a broken one.
pub(crate) fn append(
    file: &FileContent,
    label_bytes: usize,
    classes: usize,
    samples: &mut Portion,
) -> Result<(), DataError> {
    let record = label_bytes + PIXELS;
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
    samples.pixels.reserve(length / record * PIXELS);
    for (i, bytes) in file.bytes.chunks_exact(record).enumerate() {
        // Of the coarse and the fine label of CIFAR-100, the fine one comes last.
        let label = bytes[label_bytes - 1];
        if usize::from(label) >= classes {
            return Err(file.malformed(
                format!("the label {label} in record {i}"),
                format!("labels from 0 to {}", classes - 1),
            ));
        }
        samples.labels.push(u16::from(label));
        samples.pixels.extend_from_slice(&bytes[label_bytes..]);
    }
    Ok(())
}
