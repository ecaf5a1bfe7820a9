//! An event log that goes on after a crash.

use formant_runtime::event::Event;
use formant_runtime::{EVENTS_FILE, RuntimeError};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// `events.jsonl`, open.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Journal {
    /// Opens the log and cuts off what lies beyond `keep` bytes, which will happen again. A log that a
    /// power cut has made shorter goes on behind its last whole line.
    pub(crate) fn open(folder: &Path, keep: u64) -> Result<Self, RuntimeError> {
        let path = folder.join(EVENTS_FILE);
        let fail = |source| RuntimeError::file("open", &path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(fail)?;
        let mut bytes = file.metadata().map_err(fail)?.len().min(keep);
        if bytes < keep {
            let mut text = Vec::new();
            file.read_to_end(&mut text).map_err(fail)?;
            let last = text.iter().rposition(|byte| *byte == b'\n');
            bytes = last.map_or(0, |at| at as u64 + 1);
        }
        file.set_len(bytes).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { path, file, bytes })
    }

    /// Appends an event.
    pub(crate) fn record(&mut self, event: &Event) -> Result<(), RuntimeError> {
        let fail = |source| RuntimeError::file("write", &self.path, source);
        let mut line = serde_json::to_vec(event).map_err(|error| fail(error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// How long the log is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_manifest_does_not_know_of_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let event = Event::RunFinished { seconds: 1.0 };
        let mut log = Journal::open(folder.path(), 0).unwrap();
        log.record(&event).unwrap();
        let one = log.bytes();
        log.record(&event).unwrap();
        drop(log);
        assert_eq!(Journal::open(folder.path(), one).unwrap().bytes(), one);
        let path = folder.path().join(EVENTS_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), one);
        // Cut in the middle of a line, and shorter than the manifest says.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"ev").unwrap();
        assert_eq!(Journal::open(folder.path(), 10_000).unwrap().bytes(), one);
    }
}
