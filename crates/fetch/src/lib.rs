//! Fetches published datasets from where they are published.
//!
//! [`KNOWN`] lists them: their files, where they are, how long they are and what their checksums are. [`Known::fetch`]
//! puts them into the folder of the datasets in torchvision's layout. A file appears under its name when all
//! of it is there and its checksum is right; until then it is `NAME.part`, which the next attempt goes on with.

mod archive;
mod download;
mod error;
mod known;

pub use download::Progress;
pub use error::FetchError;
pub use known::{KNOWN, Known, Packing, Remote};

use std::path::{Path, PathBuf};

/// What has become of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it was there already.
    pub kept: bool,
}

impl Known {
    /// Sees to it that all files are in the folder of the datasets. `mirror` is an address that has them all and
    /// stands for the published ones.
    pub fn fetch(
        &self,
        dir: &Path,
        mirror: Option<&str>,
        progress: Progress<'_>,
    ) -> Result<Vec<Fetched>, FetchError> {
        let fetch = |remote: &Remote| {
            let path = remote.place(dir);
            let addresses = remote.addresses(mirror);
            let fetched = download::fetch(remote, &addresses, &path, &mut *progress);
            let kept = fetched.map_err(|why| match why {
                download::Failure::Disk(error) => error,
                download::Failure::Mirrors(reasons) => FetchError::Unreachable {
                    dataset: self.name,
                    file: remote.file,
                    reasons: reasons.concat(),
                    by_hand: self.by_hand(dir),
                },
            })?;
            archive::unpack(remote, &path)?;
            Ok(Fetched { path, kept })
        };
        self.files.iter().map(fetch).collect()
    }

    /// What to fetch by hand, a line each: address, place, length and checksum.
    pub fn by_hand(&self, dir: &Path) -> String {
        let lines = self.files.iter().map(|remote| {
            let address = remote.addresses(None).first().cloned().unwrap_or_default();
            let bytes = remote.bytes.map_or(String::new(), |bytes| format!("{bytes} bytes, "));
            format!("{address}\n  to {} ({bytes}MD5 {})", remote.place(dir).display(), remote.md5)
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
