//! One file from one of several addresses.

use crate::{FetchError, Remote};
use md5::{Digest, Md5};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;

/// Is told the name of the file, how many of its bytes are there and how many there are in all, if that is known.
pub type Progress<'p> = &'p mut dyn FnMut(&str, u64, Option<u64>);

/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const BLOCK: usize = 1 << 16;

/// Why a file is not there.
pub(crate) enum Failure {
    /// The disk, or another process: another address would not help.
    Disk(FetchError),
    /// What each address said.
    Mirrors(Vec<String>),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::Disk(error)
    }
}

/// How an attempt at an address ended without the file.
enum Setback {
    /// The disk, or another process.
    Disk(FetchError),
    /// The connection ended early; what has come is kept.
    Broken(String),
    /// This address does not have the file.
    Refused(String),
}

impl From<FetchError> for Setback {
    fn from(error: FetchError) -> Self {
        Self::Disk(error)
    }
}

/// Sees to it that a file is there; whether it was there already.
pub(crate) fn fetch(
    remote: &Remote,
    addresses: &[String],
    path: &Path,
    progress: Progress<'_>,
) -> Result<bool, Failure> {
    if path.is_file() && is_right(path, remote)? {
        return Ok(true);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| FetchError::file("create", folder, error))?;
    }
    let mut part = Part::of(path)?;
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(SILENCE))
        .timeout_recv_response(Some(SILENCE))
        .timeout_per_read(Some(SILENCE))
        .user_agent(concat!("formant/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let mut reasons = Vec::new();
    for address in addresses {
        let mut farthest = part.length()?;
        let reason = loop {
            match attempt(&agent, remote, address, &mut part, &mut *progress) {
                Ok(()) => {
                    part.rename_to(path)?;
                    return Ok(false);
                }
                Err(Setback::Disk(error)) => return Err(error.into()),
                // As long as more comes with every attempt, it goes on.
                Err(Setback::Broken(_)) if part.length()? > farthest => farthest = part.length()?,
                Err(Setback::Broken(reason) | Setback::Refused(reason)) => break reason,
            }
        };
        reasons.push(format!("\n{address}: {reason}"));
    }
    if part.length()? == 0 {
        part.remove();
    }
    Err(Failure::Mirrors(reasons))
}

/// Fetches what is missing of a file, and compares it with its checksum.
fn attempt(
    agent: &Agent,
    remote: &Remote,
    address: &str,
    part: &mut Part,
    progress: Progress<'_>,
) -> Result<(), Setback> {
    let mut have = part.length()?;
    if remote.bytes.is_some_and(|bytes| have > bytes) {
        part.cut(0)?;
        have = 0;
    }
    if have == 0 || remote.bytes != Some(have) {
        receive(agent, remote, address, part, have, progress)?;
    }
    let found = part.md5()?;
    if found == remote.md5 {
        return Ok(());
    }
    // Whatever it is, it is of no use to any address.
    part.cut(0)?;
    Err(Setback::Refused(format!(
        "another file came: its MD5 is {found}, and {} is published",
        remote.md5
    )))
}

fn receive(
    agent: &Agent,
    remote: &Remote,
    address: &str,
    part: &mut Part,
    mut have: u64,
    progress: Progress<'_>,
) -> Result<(), Setback> {
    let mut request = agent.get(address);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = request.call().map_err(|error| match error {
        ureq::Error::Timeout(_) => Setback::Broken("nothing came for a minute".into()),
        ureq::Error::TooManyRedirects => {
            Setback::Refused("it leads from one address to the next without end".into())
        }
        error => Setback::Refused(error.to_string()),
    })?;
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    match response.status().as_u16() {
        // The server does not know how to go on, and begins again.
        200 => have = 0,
        206 => {
            let range = header("content-range").unwrap_or_default();
            if have == 0 || !range.starts_with(&format!("bytes {have}-")) {
                part.cut(0)?;
                let found = format!("byte {have} was asked for, and {range:?} came");
                return Err(Setback::Refused(found));
            }
        }
        416 => {
            // Nothing is behind what is there already: it is the whole file, or of no use.
            if part.md5()? == remote.md5 {
                return Ok(());
            }
            part.cut(0)?;
            return Err(Setback::Refused(format!("it has no more than {have} bytes")));
        }
        status => return Err(Setback::Refused(format!("the server answers with status {status}"))),
    }
    let coming: Option<u64> = header("content-length").and_then(|length| length.parse().ok());
    if let (Some(coming), Some(expected)) = (coming, remote.bytes)
        && have + coming != expected
    {
        let all = have + coming;
        return Err(Setback::Refused(format!(
            "it has {all} bytes there, and {expected} are published"
        )));
    }
    part.cut(have)?;
    let total = remote.bytes.or(coming.map(|coming| have + coming));
    let mut body = response.into_body().into_reader();
    let mut block = vec![0; BLOCK];
    progress(remote.file, have, total);
    loop {
        let read = match body.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Setback::Broken(broken(have, total, &error.to_string()))),
        };
        if total.is_some_and(|total| have + read as u64 > total) {
            part.cut(0)?;
            let total = total.unwrap_or(have);
            return Err(Setback::Refused(format!("more than the {total} bytes come that it has")));
        }
        part.append(&block[..read])?;
        have += read as u64;
        progress(remote.file, have, total);
    }
    match total {
        Some(total) if have < total => Err(Setback::Broken(broken(have, Some(total), "it ended"))),
        _ => Ok(()),
    }
}

fn broken(have: u64, total: Option<u64>, why: &str) -> String {
    let of = total.map_or(String::new(), |total| format!(" of {total}"));
    format!("the connection broke off after {have}{of} bytes ({why})")
}

/// A file that is not yet complete.
struct Part {
    file: File,
    path: PathBuf,
}

impl Part {
    /// `NAME.part` beside a file, with what an earlier attempt has left in it.
    fn of(path: &Path) -> Result<Self, FetchError> {
        let mut name = OsString::from(path.file_name().unwrap_or_default());
        name.push(".part");
        let part = path.with_file_name(name);
        let options =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&part);
        let file = options.map_err(|error| FetchError::file("write", &part, error))?;
        // Where files cannot be locked, nobody is kept out.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(FetchError::Busy { path: path.into() });
        }
        Ok(Self { file, path: part })
    }

    fn fail(&self, error: std::io::Error) -> FetchError {
        FetchError::file("write", &self.path, error)
    }

    fn length(&self) -> Result<u64, FetchError> {
        self.file.metadata().map(|data| data.len()).map_err(|error| self.fail(error))
    }

    /// Keeps the first bytes, and writes behind them from now on.
    fn cut(&mut self, length: u64) -> Result<(), FetchError> {
        let cut = self.file.set_len(length).and_then(|()| self.file.seek(SeekFrom::Start(length)));
        cut.map(drop).map_err(|error| self.fail(error))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all(bytes).map_err(|error| self.fail(error))
    }

    fn md5(&mut self) -> Result<String, FetchError> {
        let found = self.file.rewind().and_then(|()| md5_of(&mut self.file));
        found.map_err(|error| self.fail(error))
    }

    fn rename_to(&self, path: &Path) -> Result<(), FetchError> {
        let renamed = self.file.sync_all().and_then(|()| fs::rename(&self.path, path));
        renamed.map_err(|error| FetchError::file("write", path, error))
    }

    fn remove(&self) {
        // An empty file does no harm if it cannot be removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a file has the published length and checksum.
fn is_right(path: &Path, remote: &Remote) -> Result<bool, FetchError> {
    let fail = |error| FetchError::file("read", path, error);
    let mut file = File::open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    if remote.bytes.is_some_and(|bytes| bytes != length) {
        return Ok(false);
    }
    Ok(md5_of(&mut file).map_err(fail)? == remote.md5)
}

fn md5_of(file: &mut File) -> std::io::Result<String> {
    let (mut digest, mut block) = (Md5::new(), vec![0; BLOCK]);
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => digest.update(&block[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut text = String::new();
    for byte in digest.finalize() {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
