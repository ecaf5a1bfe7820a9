//! What can be seen of a path without reading it: enough to tell its format.

use super::{array, image_file, refusal};
use crate::DataError;
use crate::share::file_error;
use image::ImageFormat;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The first bytes that a file is told by; a member of a tar archive begins within them.
const START: u64 = 1_024;

/// A file or a folder, and what tells its format.
pub(crate) struct Sight {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The first bytes of a file, decompressed if it is a gzip stream.
    pub(crate) start: Vec<u8>,
    /// Whether the file is a gzip stream.
    pub(crate) is_packed: bool,
    /// What a folder holds, sorted, without what is hidden. Folders end with a slash.
    pub(crate) entries: Vec<String>,
    is_folder: bool,
}

impl Sight {
    /// Looks at a path.
    pub(crate) fn of(path: &Path) -> Result<Self, DataError> {
        let fail = |source| file_error("read", path, source);
        let kind = std::fs::metadata(path).map_err(fail)?;
        let mut sight = Self {
            path: path.into(),
            start: Vec::new(),
            is_packed: false,
            entries: Vec::new(),
            is_folder: kind.is_dir(),
        };
        if kind.is_dir() {
            for entry in std::fs::read_dir(path).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if !name.starts_with('.') {
                    let slash = if entry.path().is_dir() { "/" } else { "" };
                    sight.entries.push(format!("{name}{slash}"));
                }
            }
            sight.entries.sort_unstable();
            return Ok(sight);
        }
        if !kind.is_file() {
            return Err(fail(std::io::Error::other("it is not a regular file")));
        }
        let file = File::open(path).map_err(fail)?;
        file.take(START).read_to_end(&mut sight.start).map_err(fail)?;
        if sight.start.starts_with(&[0x1f, 0x8b]) {
            sight.is_packed = true;
            sight.start.clear();
            let mut stream = array::opened(path)?.take(START);
            stream.read_to_end(&mut sight.start).map_err(|error| {
                let found = format!("its gzip stream is truncated or damaged ({error})");
                refusal(path.display(), found, "take another copy of the file")
            })?;
        }
        Ok(sight)
    }

    /// Whether it is a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Whether it is a folder that holds something of this name; folders end with a slash.
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.entries.binary_search_by(|entry| entry.as_str().cmp(name)).is_ok()
    }

    /// Whether one of some words, in quotes, is near the beginning of a file.
    pub(crate) fn mentions(&self, words: &[&str]) -> bool {
        let start = String::from_utf8_lossy(&self.start);
        words.iter().any(|word| start.contains(&format!("\"{word}\"")))
    }

    /// The end of its name in small letters, without the dot and without `.gz`.
    pub(crate) fn extension(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        name.rsplit_once('.').map_or(String::new(), |(_, end)| end.to_owned())
    }
}

/// What a file is that has a beginning of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Csv,
    Image,
    Parquet,
    Idx,
    Npy,
    Zip,
    Safetensors,
    Formant,
}

/// What a file is, by its first bytes. Its name may say anything.
pub(super) fn kind(path: &Path) -> Result<Kind, DataError> {
    let sight = Sight::of(path)?;
    sight.kind().ok_or_else(|| sight.unknown())
}

impl Sight {
    /// What a file is, if it is one of those with a beginning of their own.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self.start.as_slice() {
            start if start.starts_with(&crate::mapped::MAGIC) => Some(Kind::Formant),
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(Kind::Npy),
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Some(Kind::Zip),
            [0, 0, 0x08..=0x0e, 1..=8, ..] => Some(Kind::Idx),
            [_, _, _, _, _, 0, 0, 0, b'{', ..] => Some(Kind::Safetensors),
            [b'P', b'A', b'R', b'1', ..] => Some(Kind::Parquet),
            start if image_format(start).is_some_and(|f| IMAGES.contains(&f)) => Some(Kind::Image),
            [_, ..] if ["csv", "tsv"].contains(&self.extension().as_str()) => Some(Kind::Csv),
            _ => None,
        }
    }

    /// The error that it is nothing that can be used.
    pub(super) fn unknown(&self) -> DataError {
        unknown(&self.path, &self.start, image_format(&self.start))
    }
}

/// The formats of pictures that are read.
const IMAGES: [ImageFormat; 4] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Bmp];

fn image_format(start: &[u8]) -> Option<ImageFormat> {
    image::guess_format(start).ok()
}

fn unknown(path: &Path, start: &[u8], image: Option<ImageFormat>) -> DataError {
    let (found, remedy) = match image {
        Some(format) => {
            (format!("{format:?} images are not read"), "save it as PNG, JPEG, WebP or BMP")
        }
        None if start.is_empty() => ("the file is empty".into(), "take another copy of it"),
        None if image_file::is_named_so(path) => (
            "it is named like an image, but does not begin like one".into(),
            "take another copy of it",
        ),
        None => (
            "its format is not known".into(),
            "give images (PNG, JPEG, WebP, BMP), a folder of them, tables (.csv, .parquet), IDX, .npz or .npy files, or shares of `formant data export`",
        ),
    };
    refusal(path.display(), found, remedy)
}
