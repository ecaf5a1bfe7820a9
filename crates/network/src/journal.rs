//! The event log of a server or a client, which goes on after a crash.

use formant_runtime::{EVENTS_FILE, LogMark, Quiet, Recorder, RuntimeError, Tail, files};
use std::path::Path;
use tracing::warn;

/// Opens the log of a folder where its manifest says, or behind its last whole line if a power cut
/// has taken the rest: the log is not synced, because no state depends on it.
pub(crate) fn open(folder: &Path, mark: LogMark) -> Result<Recorder<'static>, RuntimeError> {
    let from = mark.resume(folder, Tail::Unsynced)?;
    if from != mark {
        warn!(kept = from.bytes, lost = mark.bytes - from.bytes, "the event log has lost its end");
    }
    files::create_secret(&folder.join(EVENTS_FILE))?;
    Recorder::open(folder, from, &Quiet)
}
