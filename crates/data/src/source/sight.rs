//! What can be seen of a path without reading it: enough to tell its format.

use super::{array, refusal};
use crate::DataError;
use crate::share::file_error;
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
