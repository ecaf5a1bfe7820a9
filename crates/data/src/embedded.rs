//! The set `mnist-small`, compiled into the library. `embedded/make.py` makes its files.

use crate::folder::FileContent;
use crate::{CatalogueEntry, DataError, Images, idx};

/// A compressed file.
#[derive(Clone, Copy)]
struct Packed<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

/// Image and label files of train and test.
const FILES: [[Packed<'static>; 2]; 2] = [
    [
        Packed {
            name: "train-images",
            bytes: include_bytes!("../embedded/train-images-idx3-ubyte.gz"),
        },
        Packed {
            name: "train-labels",
            bytes: include_bytes!("../embedded/train-labels-idx1-ubyte.gz"),
        },
    ],
    [
        Packed {
            name: "t10k-images",
            bytes: include_bytes!("../embedded/t10k-images-idx3-ubyte.gz"),
        },
        Packed {
            name: "t10k-labels",
            bytes: include_bytes!("../embedded/t10k-labels-idx1-ubyte.gz"),
        },
    ],
];

/// Training and test images. The checksum of gzip and the lengths of IDX are verified on the way:
/// an error here means that the library itself was damaged.
pub(crate) fn load(entry: &CatalogueEntry) -> Result<(Images, Images), DataError> {
    let part = |part: usize| {
        let limits = idx::limits(entry, part);
        let [images, labels] = FILES[part];
        idx::pair(entry, unpack(images, limits.images)?, &unpack(labels, limits.labels)?)
    };
    Ok((part(0)?, part(1)?))
}

fn unpack(Packed { name, bytes }: Packed<'_>, limit: usize) -> Result<FileContent, DataError> {
    let name = format!("{name}, embedded in the library,");
    FileContent::unpack(name, bytes.to_vec(), limit, "build or install Formant again".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_files_stay_small() {
        let total: usize = FILES.iter().flatten().map(|file| file.bytes.len()).sum();
        assert!(total <= 2_000_000, "{total} bytes");
    }

    #[test]
    fn damage_is_noticed() {
        let Packed { name, bytes } = FILES[0][1];
        let mut damaged = bytes.to_vec();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x10;
        let message = unpack(Packed { name, bytes: &damaged }, 8_008).unwrap_err().to_string();
        assert!(message.contains("train-labels") && message.contains("again"), "{message}");
    }
}
