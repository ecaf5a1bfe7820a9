//! Where the files of a dataset lie, and reading them without trusting them.

use crate::{CatalogueEntry, DataError};
use etcetera::BaseStrategy;
use flate2::read::MultiGzDecoder;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The folder of the datasets: the explicit one, else that of the environment variable
/// `FORMANT_DATA`, else `formant` in the cache folder of the platform.
///
/// ```
/// use std::path::Path;
/// assert_eq!(formant_data::data_dir(Some(Path::new("sets"))), Path::new("sets"));
/// ```
pub fn data_dir(explicit: Option<&Path>) -> PathBuf {
    let cache = || etcetera::choose_base_strategy().ok().map(|strategy| strategy.cache_dir());
    chosen_dir(explicit, std::env::var_os("FORMANT_DATA"), cache)
}

fn chosen_dir(
    explicit: Option<&Path>,
    variable: Option<OsString>,
    cache: impl FnOnce() -> Option<PathBuf>,
) -> PathBuf {
    if let Some(dir) = explicit {
        return dir.to_path_buf();
    }
    match variable {
        // An empty variable is how a shell script says "unset".
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        // Without a home folder there is no cache: the working folder is the last resort.
        _ => cache().unwrap_or_default().join("formant"),
    }
}

/// The folder in which the files of one dataset were found.
pub(crate) struct Folder {
    dataset: &'static str,
    path: PathBuf,
    layout: String,
}

impl Folder {
    /// Chooses torchvision's subfolder or, when it holds none of the files, the folder itself. All
    /// files come from the same one, so that two sets with the same file names are never mixed.
    pub(crate) fn open(entry: &'static CatalogueEntry, data_dir: &Path) -> Result<Self, DataError> {
        let places = [data_dir.join(entry.folder), data_dir.to_path_buf()];
        let layout = format!(
            "expected layout: {}/{{{}}} (each plain or .gz, or directly in the data folder) below \
             the folder that --data-dir or FORMANT_DATA names, which is now {}",
            entry.folder,
            entry.files.join(", "),
            data_dir.display()
        );
        let found =
            places.iter().find_map(|place| Self::of(entry.name, place, entry.files, &layout));
        found.ok_or_else(|| Self::missing(entry, &places.each_ref().map(PathBuf::as_path), &layout))
    }

    /// A folder that holds any of some files.
    pub(crate) fn of(
        dataset: &'static str,
        path: &Path,
        files: &[&str],
        layout: &str,
    ) -> Option<Self> {
        let folder = Self { dataset, path: path.into(), layout: layout.into() };
        files.iter().any(|file| folder.has(file)).then_some(folder)
    }

    /// Whether it holds a file, plain or compressed.
    pub(crate) fn has(&self, file: &str) -> bool {
        candidates(&self.path, file).iter().any(|path| exists(path))
    }

    /// The error that none of some places holds a dataset.
    pub(crate) fn missing(
        entry: &'static CatalogueEntry,
        places: &[&Path],
        layout: &str,
    ) -> DataError {
        let places: Vec<String> = places.iter().map(|place| described(place)).collect();
        DataError::Missing {
            dataset: entry.name,
            file: entry.files.first().copied().unwrap_or_default(),
            looked_in: places.join(" and "),
            remedy: format!("put the files there or name their folder; {layout}"),
        }
    }

    /// Reads a file, plain or compressed, of at most `limit` bytes when decompressed.
    pub(crate) fn read(&self, file: &'static str, limit: usize) -> Result<FileContent, DataError> {
        let candidates = candidates(&self.path, file);
        let Some(path) = candidates
            .iter()
            .find(|p| p.is_file())
            .or_else(|| candidates.iter().find(|p| exists(p)))
        else {
            return Err(DataError::Missing {
                dataset: self.dataset,
                file,
                looked_in: described(&self.path),
                remedy: format!("put the file there; {}", self.layout),
            });
        };
        let unreadable = |source| DataError::Unreadable {
            path: path.clone(),
            source,
            remedy: format!("allow Formant to read it; {}", self.layout),
        };
        let kind = fs::metadata(path).map_err(unreadable)?;
        if !kind.is_file() {
            return Err(DataError::NotAFile {
                path: path.clone(),
                found: if kind.is_dir() { "a directory" } else { "a special file" },
                remedy: format!("put the file itself there; {}", self.layout),
            });
        }
        // Compression can add a little to what does not compress; beyond that the file is wrong.
        let most = limit + limit / 64 + 1_024;
        let mut bytes = Vec::new();
        let opened = File::open(path).map_err(unreadable)?;
        opened.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let remedy = format!("fetch the file again; {}", self.layout);
        FileContent::unpack(path.display().to_string(), bytes, limit, remedy)
    }
}

/// The decompressed content of a file, and what error messages about it need.
#[derive(Debug)]
pub(crate) struct FileContent {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    remedy: String,
}

impl FileContent {
    /// Decompresses the bytes if they are a gzip stream: neither an IDX file nor a CIFAR record can
    /// begin like one. What is longer than `limit` is refused, not read.
    pub(crate) fn unpack(
        name: String,
        raw: Vec<u8>,
        limit: usize,
        remedy: String,
    ) -> Result<Self, DataError> {
        let mut content = Self { name, bytes: raw, remedy };
        if content.bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let mut decoder = MultiGzDecoder::new(content.bytes.as_slice()).take(limit as u64 + 1);
            if let Err(error) = decoder.read_to_end(&mut plain) {
                let found =
                    format!("a broken gzip stream after {} good bytes ({error})", plain.len());
                return Err(content.malformed(found, "an intact one"));
            }
            content.bytes = plain;
        }
        if content.bytes.len() > limit {
            return Err(content.malformed(
                "trailing bytes beyond the largest possible content",
                format!("at most {limit} bytes"),
            ));
        }
        Ok(content)
    }

    /// The error that this file does not hold what it should.
    pub(crate) fn malformed(
        &self,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> DataError {
        DataError::Malformed {
            file: self.name.clone(),
            found: found.into(),
            expected: expected.into(),
            remedy: self.remedy.clone(),
        }
    }
}

impl FileContent {
    /// The error that this may be a file of IDX, but not one of the set that it is taken for.
    pub(crate) fn another(&self, found: String, expected: String) -> DataError {
        let folder = Path::new(&self.name).parent().unwrap_or(Path::new(""));
        let folder = folder.display();
        DataError::Malformed {
            file: self.name.clone(),
            found,
            expected,
            remedy: format!(
                "to train on IDX files of any shape and number of classes, set data.source = \"{folder}\"; \
                 otherwise {}",
                self.remedy
            ),
        }
    }
}

fn candidates(folder: &Path, file: &str) -> [PathBuf; 2] {
    [folder.join(file), folder.join(format!("{file}.gz"))]
}

/// Whether a folder holds all of some files, plain or compressed.
pub(crate) fn holds_all(folder: &Path, files: &[&str]) -> bool {
    files.iter().all(|file| candidates(folder, file).iter().any(|path| path.is_file()))
}

/// Whether something is there. What cannot be inspected counts as well: reading it then says why.
fn exists(path: &Path) -> bool {
    !matches!(fs::metadata(path),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn described(folder: &Path) -> String {
    let remark = if folder.is_dir() { "" } else { " (no such folder)" };
    format!("{}{remark}", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explicit_folder_wins_then_the_variable_then_the_cache() {
        let cache = || Some(PathBuf::from("cache"));
        let variable = || Some(OsString::from("variable"));
        let explicit = Some(Path::new("explicit"));
        assert_eq!(chosen_dir(explicit, variable(), cache), Path::new("explicit"));
        assert_eq!(chosen_dir(None, variable(), cache), Path::new("variable"));
        assert_eq!(chosen_dir(None, Some(OsString::new()), cache), Path::new("cache/formant"));
        assert_eq!(chosen_dir(None, None, cache), Path::new("cache/formant"));
        assert_eq!(chosen_dir(None, None, || None), Path::new("formant"));
    }
}
