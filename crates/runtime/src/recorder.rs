//! Writes the event log and tells whoever watches.

use crate::RuntimeError;
use crate::event::Event;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The event log's name in a run folder.
pub const EVENTS_FILE: &str = "events.jsonl";

/// Watches a run as it goes.
pub trait Observer: Sync {
    /// An event was recorded.
    fn event(&self, _event: &Event) {}
    /// A client finished its work for a round; called from worker threads.
    fn client_done(&self, _method: &str, _round: usize, _done: usize, _of: usize) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {}

/// The open event log.
pub(crate) struct Recorder<'o> {
    path: PathBuf,
    file: BufWriter<File>,
    observer: &'o dyn Observer,
}

impl<'o> Recorder<'o> {
    /// Opens the log and cuts off what lies beyond `keep` bytes: events after the checkpoint that a
    /// run resumes from will happen again.
    pub(crate) fn open(
        run_dir: &Path,
        keep: u64,
        observer: &'o dyn Observer,
    ) -> Result<Self, RuntimeError> {
        let path = run_dir.join(EVENTS_FILE);
        let fail = |source| RuntimeError::file("open", &path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(fail)?;
        let len = file.metadata().map_err(fail)?.len();
        if len < keep {
            return Err(RuntimeError::Damaged {
                found: format!("{len} bytes, but the checkpoint was written after {keep}"),
                hint: "the log was cut; restore it, or start the run again in a new folder".into(),
                path,
            });
        }
        file.set_len(keep).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { path, file: BufWriter::new(file), observer })
    }

    /// Appends an event.
    pub(crate) fn record(&mut self, event: &Event) -> Result<(), RuntimeError> {
        let fail = |source| RuntimeError::file("write", &self.path, source);
        serde_json::to_writer(&mut self.file, event).map_err(|error| fail(error.into()))?;
        self.file.write_all(b"\n").map_err(fail)?;
        self.observer.event(event);
        Ok(())
    }

    /// Makes everything so far durable and says how many bytes that is.
    pub(crate) fn sync(&mut self) -> Result<u64, RuntimeError> {
        let fail = |source| RuntimeError::file("write", &self.path, source);
        self.file.flush().map_err(fail)?;
        self.file.get_ref().sync_data().map_err(fail)?;
        self.file.stream_position().map_err(fail)
    }

    /// Hands everything so far to the operating system, so that a reader sees whole lines.
    pub(crate) fn flush(&mut self) -> Result<(), RuntimeError> {
        self.file.flush().map_err(|source| RuntimeError::file("write", &self.path, source))
    }

    pub(crate) fn observer(&self) -> &'o dyn Observer {
        self.observer
    }
}
