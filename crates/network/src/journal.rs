//! An event log that goes on after a crash.

use formant_runtime::{EventLog, LogMark, RuntimeError, recover};
use std::path::Path;
use tracing::warn;

/// Opens the log of a folder where its manifest says, or behind its last whole line if a power cut
/// has taken the rest: a log is not synced, because no state depends on it.
pub(crate) fn open(folder: &Path, to: LogMark) -> Result<EventLog, RuntimeError> {
    let from = recover(folder, to)?;
    if from != to {
        warn!(kept = from.bytes, lost = to.bytes - from.bytes, "the event log has lost its end");
    }
    EventLog::open(folder, from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_runtime::EVENTS_FILE;
    use formant_runtime::event::Event;
    use std::fs::OpenOptions;
    use std::io::Write;

    #[test]
    fn what_a_manifest_does_not_know_of_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let event = Event::RunFinished { seconds: 1.0 };
        let mut log = open(folder.path(), LogMark::default()).unwrap();
        log.record(&event).unwrap();
        let one = log.end();
        log.record(&event).unwrap();
        let two = log.end();
        drop(log);
        assert_eq!(open(folder.path(), one).unwrap().end(), one);
        let path = folder.path().join(EVENTS_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), one.bytes);
        // Cut in the middle of a line, and shorter than the manifest says.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"ev").unwrap();
        assert_eq!(open(folder.path(), two).unwrap().end(), one);
    }
}
