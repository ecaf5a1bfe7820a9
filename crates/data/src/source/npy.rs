//! NumPy's `.npy` files, and the same within `.npz` archives.

use super::array::{Array, Element, Place, opened};
use super::format::{Format, Parts};
use super::{Source, SourceOptions, idx, refusal};
use crate::DataError;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest header; NumPy's own have about a hundred bytes.
const MOST_HEADER: usize = 64 << 10;

pub(crate) const FORMAT: Format = Format {
    name: "NumPy array",
    summary: "an .npy file of images or rows, its labels in NAME-labels.npy or y….npy beside it",
    is_it: |sight| sight.kind() == Some(super::Kind::Npy),
    open: |sight, options| {
        let labels = options.labels.clone().or_else(|| beside(&sight.path));
        let options = SourceOptions { labels, ..options.clone() };
        Ok(Parts { train: open(&sight.path, &options)?, test: None })
    },
};

/// Where the labels of `x_train.npy` or `images.npy` are: `y_train.npy`, `labels.npy`.
fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".npy")?;
    let capital = name.strip_prefix('X').or_else(|| name.strip_prefix('x'));
    let names = [
        Some(format!("{stem}-labels.npy")),
        Some(format!("{stem}_labels.npy")),
        capital.map(|rest| format!("y{rest}")),
        name.contains("images").then(|| name.replace("images", "labels")),
    ];
    names.into_iter().flatten().map(|name| path.with_file_name(name)).find(|path| path.is_file())
}

/// Opens a file of images, whose labels are in another one.
pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Source, DataError> {
    let array = read(path)?;
    array.check_images()?;
    array.check_length()?;
    let labels = match &options.labels {
        Some(labels) => Ok(idx::read_labels(labels, array.len())?),
        None => Err((
            "an .npy file holds images without labels".into(),
            "name a file of labels with --labels, or store both with numpy.savez(file, images=…, labels=…)".into(),
        )),
    };
    Ok(idx::source(array, "NumPy", labels))
}

/// The header of a file.
pub(crate) fn read(path: &Path) -> Result<Array, DataError> {
    let origin = path.display().to_string();
    let Header { extents, element, length } = header(&mut opened(path)?, &origin)?;
    Ok(Array { origin, extents, element, place: Place::File(path.into(), length) })
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) extents: Vec<usize>,
    pub(crate) element: Element,
    /// Bytes of the header itself.
    pub(crate) length: u64,
}

/// Reads a header; the stream is then at the first number.
pub(crate) fn header(stream: &mut dyn Read, origin: &str) -> Result<Header, DataError> {
    let fail =
        |found: String| refusal(origin, found, "write it again with numpy.save or numpy.savez");
    let mut exactly = |count: usize| {
        let mut bytes = vec![0; count];
        let read = stream.read_exact(&mut bytes);
        read.map(|()| bytes).map_err(|error| fail(format!("it ends within its header ({error})")))
    };
    let start = exactly(8)?;
    if !start.starts_with(b"\x93NUMPY") {
        return Err(fail("it does not begin like a NumPy array".into()));
    }
    let wide = if start[6] >= 2 { 4 } else { 2 };
    let mut length = [0; 4];
    length[..wide].copy_from_slice(&exactly(wide)?);
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_HEADER {
        return Err(fail(format!("its header claims {length} bytes")));
    }
    let text = exactly(length)?;
    let text = String::from_utf8_lossy(&text);
    let unreadable = || fail(format!("its header is not readable: {}", text.trim()));
    let fortran = value(&text, "fortran_order").ok_or_else(unreadable)?.starts_with("True");
    let extents = extents(value(&text, "shape").ok_or_else(unreadable)?).ok_or_else(unreadable)?;
    let element = element(value(&text, "descr").ok_or_else(unreadable)?, origin)?;
    if fortran && extents.len() > 1 {
        return Err(refusal(
            origin,
            "its columns come first (Fortran order)".into(),
            "store numpy.ascontiguousarray(images)",
        ));
    }
    Ok(Header { extents, element, length: (8 + wide + length) as u64 })
}

/// What follows a key in the header, which is a dictionary of Python.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("'{key}':"))?;
    Some(rest.trim_start())
}

fn extents(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
    let extents: Vec<usize> = numbers.map(|n| n.parse().ok()).collect::<Option<_>>()?;
    // Their product must be a number of bytes.
    extents.iter().try_fold(8_usize, |a, &b| a.checked_mul(b))?;
    Some(extents)
}

fn element(text: &str, origin: &str) -> Result<Element, DataError> {
    let name = text.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
    let refuse = || {
        let shown = name.unwrap_or("a record");
        refusal(
            origin,
            format!("its numbers are of the type {shown}"),
            "store whole numbers or float32, in Python array.astype(\"uint8\")",
        )
    };
    let (order, rest) = name.and_then(|name| name.split_at_checked(1)).ok_or_else(refuse)?;
    let (kind, size) = rest.split_at_checked(1).ok_or_else(refuse)?;
    match (kind, size) {
        ("u" | "i", "1" | "2" | "4" | "8") | ("f", "4" | "8") => {
            let size = size.parse().map_err(|_| refuse())?;
            Ok(Element { kind: kind.as_bytes()[0], size, big_endian: order == ">" })
        }
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Header, DataError> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        header(&mut bytes.as_slice(), "a.npy")
    }

    #[test]
    fn headers_as_numpy_writes_them() {
        let bytes =
            parsed("{'descr': '|u1', 'fortran_order': False, 'shape': (10, 28, 28), }   \n")
                .unwrap();
        let element = Element { kind: b'u', size: 1, big_endian: false };
        assert_eq!(bytes, Header { extents: vec![10, 28, 28], element, length: 79 });
        let numbers = parsed("{'descr': '>i8', 'fortran_order': True, 'shape': (3,), }\n").unwrap();
        let expected = Element { kind: b'i', size: 8, big_endian: true };
        assert_eq!((numbers.extents, numbers.element), (vec![3], expected));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let cases = [
            ("{'descr': '<U5', 'fortran_order': False, 'shape': (3,), }", "the type <U5"),
            ("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,), }", "a record"),
            ("{'descr': '|u1', 'fortran_order': True, 'shape': (3, 4), }", "Fortran order"),
            ("{'descr': '|u1', 'fortran_order': False, 'shape': (3, -4), }", "not readable"),
            (
                "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
                "not readable",
            ),
            ("{'descr': '|u1'}", "not readable"),
        ];
        for (text, part) in cases {
            let message = parsed(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
        }
        let long = [&b"\x93NUMPY\x02\x00"[..], &u32::MAX.to_le_bytes()].concat();
        let message = header(&mut long.as_slice(), "a.npy").unwrap_err().to_string();
        assert!(message.contains("claims 4294967295 bytes"), "{message}");
    }
}
