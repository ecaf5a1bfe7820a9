//! What is in a file that has come.

use crate::{FetchError, Packing, Remote};
use flate2::read::GzDecoder;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use tar::Archive;

/// Takes out of an archive what is not there yet. The archive has been compared with its checksum.
pub(crate) fn unpack(remote: &Remote, path: &Path) -> Result<(), FetchError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let open = || {
        let file = File::open(path).map_err(|error| FetchError::file("read", path, error))?;
        Ok(BufReader::new(file))
    };
    let broken = |error: io::Error| FetchError::Archive {
        path: path.into(),
        found: format!("it cannot be unpacked into {} ({error})", folder.display()),
    };
    match remote.packing {
        Packing::Plain => Ok(()),
        Packing::Members(wanted) => {
            let left = members(GzDecoder::new(open()?), wanted, folder).map_err(broken)?;
            match left {
                None => Ok(()),
                Some(absent) => Err(FetchError::Archive {
                    path: path.into(),
                    found: format!("it does not hold {absent}"),
                }),
            }
        }
        Packing::Everything => once(path, || {
            let mut archive = Archive::new(GzDecoder::new(open()?));
            // Refuses paths that lead elsewhere.
            archive.unpack(folder).map_err(broken)
        }),
        Packing::Zip => once(path, || {
            let archive = zip::ZipArchive::new(open()?).map_err(io::Error::from);
            let extracted = archive.and_then(|mut archive| Ok(archive.extract(folder)?));
            extracted.map_err(broken)
        }),
    }
}

/// Does something that takes long unless it has been done for this file: a mark beside it says so.
fn once(path: &Path, work: impl FnOnce() -> Result<(), FetchError>) -> Result<(), FetchError> {
    let mark = path.with_extension("unpacked");
    if !mark.is_file() {
        work()?;
        fs::write(&mark, "").map_err(|error| FetchError::file("write", &mark, error))?;
    }
    Ok(())
}

/// Takes the wanted members out; the first that is not there. One that is on disk already is compared, so that
/// a file which was cut off or changed is made anew.
fn members(
    stream: impl Read,
    wanted: &'static [&'static str],
    folder: &Path,
) -> io::Result<Option<&'static str>> {
    let mut left: HashSet<&str> = wanted.iter().copied().collect();
    let mut archive = Archive::new(stream);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.to_string_lossy().into_owned();
        if !entry.header().entry_type().is_file() || !left.remove(name.trim_start_matches("./")) {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        let path = folder.join(name.trim_start_matches("./"));
        if fs::read(&path).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let part = path.with_extension("part");
        let mut file = File::create(&part)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&part, &path)?;
    }
    Ok(wanted.iter().copied().find(|name| left.contains(name)))
}
