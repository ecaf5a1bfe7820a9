//! The event log of a folder: every line sealed and chained to the one before. [`crate::Recorder`]
//! writes it.

use crate::RuntimeError;
use crate::event::Event;
use crate::files::raw;
use crate::seal::{self, Check};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The event log's name in a run folder.
pub const EVENTS_FILE: &str = "events.jsonl";

/// A place between two lines of a log: what a checkpoint or a manifest says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogMark {
    /// Length of the log up to here.
    pub bytes: u64,
    /// The check of the line before.
    pub check: Check,
}

/// Whether a log is synced before its mark is kept, which decides how it goes on after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// It is, as the simulator does: tables are made of it, so a line that is missing before the mark is
    /// damage, and the run does not go on.
    Synced,
    /// It is only handed to the operating system, as server and clients of a network do, since no state
    /// depends on it. A power cut may have taken its end; it goes on behind its last whole line.
    Unsynced,
}

impl LogMark {
    /// Where a folder's log goes on. Lines that have changed are damage, synced or not.
    pub fn resume(self, folder: &Path, tail: Tail) -> Result<Self, RuntimeError> {
        let hint = match tail {
            Tail::Synced => "restore the log, or start the run again in a new folder",
            Tail::Unsynced => "restore the whole folder from a copy",
        };
        let found = whole_lines(folder, self.bytes, hint)?;
        let damage = if found == self {
            return Ok(found);
        } else if found.bytes == self.bytes {
            "its lines are those of another run".to_owned()
        } else if tail == Tail::Unsynced {
            return Ok(found);
        } else {
            let (found, to) = (found.bytes, self.bytes);
            format!("{found} bytes of whole lines, but the checkpoint was written after {to}")
        };
        let path = folder.join(EVENTS_FILE);
        Err(RuntimeError::Damaged { path, found: damage, hint: hint.into() })
    }
}

/// An open event log.
#[derive(Debug)]
pub(crate) struct EventLog {
    path: PathBuf,
    file: BufWriter<Whole>,
    line: Vec<u8>,
    end: LogMark,
}

impl EventLog {
    /// Opens the log of a folder and cuts off what lies behind `from`: it will happen again.
    pub(crate) fn open(folder: &Path, from: LogMark) -> Result<Self, RuntimeError> {
        let path = folder.join(EVENTS_FILE);
        let fail = |source| RuntimeError::file("open", &path, source);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let mut file = raw::open(&options, &path).map_err(fail)?;
        raw::set_len(&file, &path, from.bytes).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let file = BufWriter::new(Whole { file, path: path.clone(), is_torn: false });
        Ok(Self { file, line: Vec::new(), end: from, path })
    }

    /// Appends an event; readers see it after a [`EventLog::flush`].
    pub(crate) fn write(&mut self, event: &Event) -> Result<(), RuntimeError> {
        let fail = |source| RuntimeError::file("write", &self.path, source);
        self.line.clear();
        serde_json::to_writer(&mut self.line, event).map_err(|error| fail(error.into()))?;
        let check = seal::seal(&mut self.line, self.end.check);
        self.line.push(b'\n');
        self.file.write_all(&self.line).map_err(fail)?;
        self.end = LogMark { bytes: self.end.bytes + self.line.len() as u64, check };
        Ok(())
    }

    /// Hands everything so far to the operating system, so that a reader sees whole lines.
    pub(crate) fn flush(&mut self) -> Result<(), RuntimeError> {
        self.file.flush().map_err(|source| RuntimeError::file("write", &self.path, source))
    }

    /// Makes everything so far durable and says where that is.
    pub(crate) fn sync(&mut self) -> Result<LogMark, RuntimeError> {
        self.flush()?;
        let synced = raw::sync_data(&self.file.get_ref().file, &self.path);
        synced.map_err(|source| RuntimeError::file("write", &self.path, source))?;
        Ok(self.end)
    }

    /// Where the log ends.
    pub(crate) fn end(&self) -> LogMark {
        self.end
    }
}

/// The file under the buffer. Once a write has failed there are no others: what follows a torn line would not be
/// taken for what it is, and a buffer that is dropped tries again.
#[derive(Debug)]
struct Whole {
    file: File,
    path: PathBuf,
    is_torn: bool,
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.is_torn {
            return Err(std::io::Error::other("an earlier write has failed"));
        }
        let written = raw::write_all(&mut self.file, &self.path, bytes);
        self.is_torn = written.is_err();
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Verifies the whole lines in the first `limit` bytes of a log and says where the last one ends. A
/// log that is not there has none.
fn whole_lines(folder: &Path, limit: u64, hint: &str) -> Result<LogMark, RuntimeError> {
    let path = folder.join(EVENTS_FILE);
    let fail = |source| RuntimeError::file("read", &path, source);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LogMark::default()),
        Err(error) => return Err(fail(error)),
    };
    let mut lines = BufReader::new(file).take(limit);
    let (mut end, mut line) = (LogMark::default(), Vec::new());
    for number in 1.. {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(fail)?;
        let Some(object) = line.strip_suffix(b"\n") else { break };
        let check = seal::verify(object, end.check).map_err(|broken| RuntimeError::Damaged {
            path: path.clone(),
            found: format!("line {number}: {broken}"),
            hint: hint.into(),
        })?;
        end = LogMark { bytes: end.bytes + line.len() as u64, check };
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lines, and where each ends.
    fn log(folder: &Path) -> [LogMark; 3] {
        let mut log = EventLog::open(folder, LogMark::default()).unwrap();
        [1.0, 2.0, 3.0].map(|seconds| {
            log.write(&Event::RunFinished { seconds }).unwrap();
            log.flush().unwrap();
            log.end()
        })
    }

    #[test]
    fn a_log_that_goes_on_is_the_log_of_one_session() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let marks = log(one.path());
        log(two.path());
        let mut again = EventLog::open(two.path(), marks[0]).unwrap();
        for seconds in [2.0, 3.0] {
            again.write(&Event::RunFinished { seconds }).unwrap();
        }
        assert_eq!(again.sync().unwrap(), marks[2]);
        let read = |folder: &tempfile::TempDir| std::fs::read(folder.path().join(EVENTS_FILE));
        assert_eq!(read(&one).unwrap(), read(&two).unwrap());
        for tail in [Tail::Synced, Tail::Unsynced] {
            assert_eq!(marks[1].resume(one.path(), tail).unwrap(), marks[1]);
            assert_eq!(marks[2].resume(one.path(), tail).unwrap(), marks[2]);
            let elsewhere = LogMark { check: marks[0].check, ..marks[1] };
            let error = elsewhere.resume(one.path(), tail).unwrap_err().to_string();
            assert!(
                error.contains("those of another run") && error.contains("\nhint: "),
                "{error}"
            );
        }
    }

    #[test]
    fn a_log_that_has_lost_its_end_goes_on_behind_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let recover = |mark: LogMark| mark.resume(folder.path(), Tail::Unsynced);
        assert_eq!(recover(LogMark::default()).unwrap(), LogMark::default());
        let marks = log(folder.path());
        let path = folder.path().join(EVENTS_FILE);
        let whole = std::fs::read(&path).unwrap();
        for mark in marks {
            assert_eq!(recover(mark).unwrap(), mark);
        }
        for end in marks[1].bytes..marks[2].bytes {
            // Cut, and with zeros where the rest should be.
            let mut cut = whole[..end as usize].to_vec();
            std::fs::write(&path, &cut).unwrap();
            assert_eq!(recover(marks[2]).unwrap(), marks[1], "cut at {end}");
            cut.resize(whole.len(), 0);
            std::fs::write(&path, &cut).unwrap();
            assert_eq!(recover(marks[2]).unwrap(), marks[1], "zeros from {end}");
            let error = marks[2].resume(folder.path(), Tail::Synced).unwrap_err().to_string();
            assert!(error.contains("but the checkpoint was written after"), "{error}");
        }
        // A changed line is not a lost end.
        let mut changed = whole.clone();
        let digit = whole.iter().rposition(|byte| *byte == b'3').unwrap();
        changed[digit] = b'4';
        std::fs::write(&path, &changed).unwrap();
        let error = recover(marks[2]).unwrap_err().to_string();
        assert!(error.contains("is damaged: line 3: its check"), "{error}");
    }
}
