//! Files of uploads: a header on the first line, then the bytes as they were sent.
//!
//! While it is on its way, an upload lies under the name of its client and round. The header makes
//! it resumable: it goes on only if the same bytes are offered again.

use super::core::Core;
use super::vault::UploadFile;
use super::verdict::Fault;
use crate::codec::Unpacking;
use crate::error::NetworkError;
use crate::wire::{confused, file_of, hex, is_file, proto};
use formant_federation::Refusal;
use formant_methods::{MethodError, Value};
use formant_numerics::vector::{all_finite, distance_squared, norm_squared};
use formant_runtime::RuntimeError;
use formant_runtime::files::{self, Synced, raw};
use formant_runtime::seal::{Check, seal, verify};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tokio::sync::OwnedMutexGuard;

/// What a client says about its upload before it sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) round: u64,
    pub(crate) bytes: u64,
    /// XXH3-128, as hexadecimal digits of the wire's bytes.
    pub(crate) hash: String,
    pub(crate) samples: u64,
}

/// Longest header that is read back.
const HEADER: usize = 512;

impl Header {
    pub(crate) fn of(header: &proto::UploadHeader) -> Self {
        let file = header.file.clone().unwrap_or_default();
        Self {
            round: header.round,
            bytes: file.bytes,
            hash: hex(&file.hash),
            samples: header.samples,
        }
    }
}

/// An upload on its way.
pub(crate) struct Part {
    path: PathBuf,
    /// Its name once it is.
    whole: PathBuf,
    file: File,
    header: Header,
    /// Bytes of the header's line.
    before: u64,
    /// Bytes that are there.
    pub(crate) offset: u64,
    /// Nobody else writes to the client's files meanwhile.
    turn: OwnedMutexGuard<()>,
}

impl Part {
    /// Opens what is there of an upload, or begins.
    pub(crate) fn open(
        uploads: &Path,
        client: usize,
        turn: OwnedMutexGuard<()>,
        header: &Header,
    ) -> Result<Self, RuntimeError> {
        let path = uploads.join(UploadFile::part(client, header.round).name());
        let whole = uploads.join(UploadFile::whole(client, header.round).name());
        let fail = |source| RuntimeError::file("write", &path, source);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = raw::open(files::private(&mut options), &path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let (before, offset) = match read_header(&mut file).map_err(fail)? {
            Some((kept, before)) if kept == *header && length <= before + header.bytes => {
                (before, length - before)
            }
            // Another upload, or a header that was cut off: begin anew.
            _ => (begin(&mut file, &path, header).map_err(fail)?, 0),
        };
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { path, whole, file, header: header.clone(), before, offset, turn })
    }

    /// How many bytes of an upload are there; changes nothing.
    pub(crate) fn look(
        uploads: &Path,
        client: usize,
        header: &Header,
    ) -> Result<u64, RuntimeError> {
        let path = uploads.join(UploadFile::part(client, header.round).name());
        let fail = |source| RuntimeError::file("read", &path, source);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            opened => opened.map_err(fail)?,
        };
        let length = file.metadata().map_err(fail)?.len();
        Ok(match read_header(&mut file).map_err(fail)? {
            Some((kept, before)) if kept == *header && length <= before + header.bytes => {
                length.saturating_sub(before)
            }
            _ => 0,
        })
    }

    /// Appends a chunk.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), RuntimeError> {
        let written = raw::write_all(&mut self.file, &self.path, data);
        written.map_err(|source| RuntimeError::file("write", &self.path, source))?;
        self.offset += data.len() as u64;
        Ok(())
    }

    /// Reads the whole and checks whether it may count.
    pub(crate) fn check(&mut self, core: &Core, client: usize, file: &proto::File) -> Checked {
        let fail = |source| RuntimeError::file("read", &self.path, source);
        let mut bytes = Vec::with_capacity(self.header.bytes as usize);
        self.file.seek(SeekFrom::Start(self.before)).map_err(fail)?;
        self.file.read_to_end(&mut bytes).map_err(fail)?;
        if !is_file(file, &bytes) {
            let detail = "the whole does not have the hash that was announced";
            return Ok(Err(Fault::on_the_way(Refusal::Checksum, detail)));
        }
        let packing = core.wiring.settings.packing;
        let method = &*core.wiring.method().method;
        let upload = match packing.unpack(method, bytes, core.limit) {
            Ok(upload) => upload,
            Err(error @ Unpacking::TooLarge(_)) => {
                return Ok(Err(Fault::in_content(Refusal::Oversize, error.to_string())));
            }
            Err(error) => {
                return Ok(Err(Fault::in_content(Refusal::Malformed, error.to_string())));
            }
        };
        let Some(broadcast) = core.broadcast(self.header.round)? else {
            let detail = format!("the broadcast of round {} is gone", self.header.round);
            return Ok(Err(Fault::in_content(Refusal::Late, detail)));
        };
        Ok(plausible(core, client, &upload, &broadcast))
    }

    /// Makes the upload durable under its final name; the turn goes on until the round knows.
    pub(crate) fn keep(self) -> Result<OwnedMutexGuard<()>, RuntimeError> {
        // The names of several are synced together, by the commit that lets them count.
        files::settle(&self.path, &self.whole, Synced::Content)?;
        Ok(self.turn)
    }

    /// Throws it away.
    pub(crate) fn discard(self) -> Result<(), RuntimeError> {
        files::remove(&self.path)
    }
}

/// Whether an upload may count; outside, whether that could be found out.
pub(crate) type Checked = Result<Result<f64, Fault>, NetworkError>;

/// Gives how far it is from the broadcast.
fn plausible(core: &Core, client: usize, upload: &Value, broadcast: &Value) -> Result<f64, Fault> {
    let method = &*core.wiring.method().method;
    let malformed = |error: MethodError| Fault::in_content(Refusal::Malformed, error.to_string());
    let sent = method.upload_vectors(upload).map_err(malformed)?;
    if !sent.iter().all(|vector| all_finite(vector)) {
        let reason = Refusal::NotFinite;
        return Err(Fault::in_content(reason, reason.sentence()));
    }
    let network = core.wiring.task.engine.network();
    method.check_upload(client, upload, broadcast, network).map_err(|error| {
        let reason = match error {
            MethodError::Variance { .. } => Refusal::Variance,
            _ => Refusal::WrongShape,
        };
        Fault::in_content(reason, error.to_string())
    })?;
    let got = method.broadcast_vectors(broadcast).map_err(malformed)?;
    let (mut change, mut norm) = (0.0, 0.0);
    for (sent, got) in sent.iter().zip(&got) {
        // A body without its head is shorter than the broadcast.
        let shared = sent.len().min(got.len());
        change += distance_squared(&sent[..shared], &got[..shared]) + norm_squared(&sent[shared..]);
        norm += norm_squared(got);
    }
    let (change, most) =
        (change.sqrt(), core.wiring.settings.max_norm_ratio * norm.sqrt().max(1.0));
    if change > most {
        let detail = format!("it is {change:.3e} from the broadcast, and {most:.3e} is the most");
        return Err(Fault::in_content(Refusal::Norm, detail));
    }
    Ok(change)
}

/// Reads an upload that was accepted.
pub(crate) fn read_kept(
    core: &Core,
    uploads: &Path,
    client: usize,
    round: u64,
) -> Result<(Header, Value), NetworkError> {
    let path = uploads.join(UploadFile::whole(client, round).name());
    let fail = |source| RuntimeError::file("read", &path, source);
    let mut file = File::open(&path).map_err(fail)?;
    let damaged = || RuntimeError::Damaged {
        found: "it is not what was accepted".into(),
        hint: "restore the whole state folder from a copy".into(),
        path: path.clone(),
    };
    let (header, before) = read_header(&mut file).map_err(fail)?.ok_or_else(damaged)?;
    file.seek(SeekFrom::Start(before)).map_err(fail)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 != header.bytes || hex(&file_of(&bytes).hash) != header.hash {
        return Err(damaged().into());
    }
    let method = &*core.wiring.method().method;
    // It was small enough when it came, whatever the limit is now.
    let upload = core
        .wiring
        .settings
        .packing
        .unpack(method, bytes, u64::MAX / 2)
        .map_err(|error| confused(format!("{}: {error}", path.display())))?;
    Ok((header, upload))
}

fn begin(file: &mut File, path: &Path, header: &Header) -> std::io::Result<u64> {
    let mut line = serde_json::to_vec(header)?;
    // What it claims is its weight: the bytes behind it have a hash, and so has the line.
    seal(&mut line, Check::default());
    line.push(b'\n');
    raw::set_len(file, path, 0)?;
    file.rewind()?;
    raw::write_all(file, path, &line)?;
    Ok(line.len() as u64)
}

/// The header and the length of its line, if there is one.
fn read_header(file: &mut File) -> std::io::Result<Option<(Header, u64)>> {
    file.rewind()?;
    let mut start = Vec::new();
    match file.take(HEADER as u64).read_to_end(&mut start) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let Some(end) = start.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    Ok(header_of(&start[..end]).map(|header| (header, end as u64 + 1)))
}

/// The header in a line, if it is as it was written.
pub(crate) fn header_of(line: &[u8]) -> Option<Header> {
    verify(line, Check::default()).ok()?;
    serde_json::from_slice(line).ok()
}
