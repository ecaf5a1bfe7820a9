//! A model as a NumPy archive: `numpy.load(file)["conv1.weight"]`.
//!
//! The archive is a zip of one `.npy` file for each tensor, uncompressed because trained weights do not
//! shrink. All of PyTorch's state is there, so the arrays load with `strict=True`; next to them is the
//! card as `formant.json`.

use crate::file::{counters, values};
use crate::{ModelError, ModelFile};
use formant_numerics::Layout;
use std::io::{Cursor, Write};
use zip::result::ZipResult;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// The member that holds the card.
const CARD: &str = "formant.json";

/// The bytes of the archive; the same for the same model.
pub(crate) fn encode(file: &ModelFile, layout: &Layout) -> Result<Vec<u8>, ModelError> {
    let fail = |found: String| ModelError::Export { format: "npz", found };
    let card =
        serde_json::to_vec(&file.card.versioned()).map_err(|error| fail(error.to_string()))?;
    archive(file, layout, &card).map_err(|error| fail(error.to_string()))
}

fn archive(file: &ModelFile, layout: &Layout, card: &[u8]) -> ZipResult<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut member = |name: &str, header: &[u8], data: &[u8]| -> ZipResult<()> {
        let len = header.len() as u64 + data.len() as u64;
        // No clock: the same model is the same file.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(u32::try_from(len).is_err());
        zip.start_file(name, options)?;
        zip.write_all(header)?;
        Ok(zip.write_all(data)?)
    };
    for (tensor, bytes) in values(layout, &file.model) {
        member(&format!("{}.npy", tensor.name), &header("<f4", &tensor.shape), &bytes)?;
    }
    for name in counters(layout) {
        member(&format!("{name}.npy"), &header("<i8", &[]), &0_i64.to_le_bytes())?;
    }
    member(CARD, &[], card)?;
    Ok(zip.finish()?.into_inner())
}

/// What precedes the values in a `.npy` file of version 1.0: type and shape as a Python literal, filled up
/// with blanks so that the values begin at a multiple of 64 bytes.
fn header(dtype: &str, shape: &[usize]) -> Vec<u8> {
    let mut extents = shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if shape.len() == 1 {
        // The comma that makes a tuple of one number.
        extents.push(',');
    }
    let text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({extents}), }}");
    let before = b"\x93NUMPY\x01\x00".len() + 2;
    let len = (before + text.len() + 1).next_multiple_of(64) - before;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // Four extents of 20 digits each fit into 16 bits many times over.
    bytes.extend((len as u16).to_le_bytes());
    bytes.extend(format!("{text:<width$}\n", width = len - 1).into_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_numpy() {
        let bytes = header("<f4", &[6, 1, 5, 5]);
        assert_eq!(bytes.len() % 64, 0);
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&bytes[10..]).unwrap();
        assert_eq!(
            text.trim_end_matches(' ').trim_end(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 1, 5, 5), }"
        );
        assert!(text.ends_with('\n') && text.len() == 0x76);
        assert!(header("<f4", &[6]).windows(14).any(|part| part == b"'shape': (6,),"));
        assert!(header("<i8", &[]).windows(12).any(|part| part == b"'shape': (),"));
    }
}
