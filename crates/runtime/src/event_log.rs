//! The event log of a folder: every line sealed and chained to the one before.

use crate::RuntimeError;
use crate::event::Event;
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

/// An open event log.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: BufWriter<File>,
    line: Vec<u8>,
    end: LogMark,
}

impl EventLog {
    /// Opens the log of a folder and cuts off what lies behind `from`: it will happen again.
    pub fn open(folder: &Path, from: LogMark) -> Result<Self, RuntimeError> {
        let path = folder.join(EVENTS_FILE);
        let fail = |source| RuntimeError::file("open", &path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(fail)?;
        file.set_len(from.bytes).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { file: BufWriter::new(file), line: Vec::new(), end: from, path })
    }

    /// Appends an event; readers see it after a [`EventLog::flush`].
    pub fn write(&mut self, event: &Event) -> Result<(), RuntimeError> {
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
    pub fn flush(&mut self) -> Result<(), RuntimeError> {
        self.file.flush().map_err(|source| RuntimeError::file("write", &self.path, source))
    }

    /// Appends an event and flushes.
    pub fn record(&mut self, event: &Event) -> Result<(), RuntimeError> {
        self.write(event)?;
        self.flush()
    }

    /// Makes everything so far durable and says where that is.
    pub fn sync(&mut self) -> Result<LogMark, RuntimeError> {
        self.flush()?;
        let synced = self.file.get_ref().sync_data();
        synced.map_err(|source| RuntimeError::file("write", &self.path, source))?;
        Ok(self.end)
    }

    /// Where the log ends.
    pub fn end(&self) -> LogMark {
        self.end
    }
}

/// Checks that a folder's log is, up to a mark, what was written; the table of a run depends on it.
pub(crate) fn verify(folder: &Path, to: LogMark) -> Result<(), RuntimeError> {
    let hint = "restore the log, or start the run again in a new folder";
    let found = whole_lines(folder, to.bytes, hint)?;
    if found == to {
        return Ok(());
    }
    let found = if found.bytes == to.bytes {
        "its lines are those of another run".to_owned()
    } else {
        let (found, to) = (found.bytes, to.bytes);
        format!("{found} bytes of whole lines, but the checkpoint was written after {to}")
    };
    Err(RuntimeError::Damaged { path: folder.join(EVENTS_FILE), found, hint: hint.into() })
}

/// Where a log goes on that is not synced when its mark is written: at the mark, or behind the last
/// whole line if a power cut has taken the rest.
pub fn recover(folder: &Path, to: LogMark) -> Result<LogMark, RuntimeError> {
    let hint = "restore the whole folder from a copy";
    let found = whole_lines(folder, to.bytes, hint)?;
    if found.bytes == to.bytes && found.check != to.check {
        return Err(RuntimeError::Damaged {
            path: folder.join(EVENTS_FILE),
            found: "its lines are those of another run".into(),
            hint: hint.into(),
        });
    }
    Ok(found)
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
            log.record(&Event::RunFinished { seconds }).unwrap();
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
        verify(one.path(), marks[1]).unwrap();
        verify(one.path(), marks[2]).unwrap();
        let elsewhere = LogMark { check: marks[0].check, ..marks[1] };
        let error = verify(one.path(), elsewhere).unwrap_err().to_string();
        assert!(error.contains("those of another run") && error.contains("\nhint: "), "{error}");
        assert!(recover(one.path(), elsewhere).is_err());
    }

    #[test]
    fn a_log_that_has_lost_its_end_goes_on_behind_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(recover(folder.path(), LogMark::default()).unwrap(), LogMark::default());
        let marks = log(folder.path());
        let path = folder.path().join(EVENTS_FILE);
        let whole = std::fs::read(&path).unwrap();
        for mark in marks {
            assert_eq!(recover(folder.path(), mark).unwrap(), mark);
        }
        for end in marks[1].bytes..marks[2].bytes {
            // Cut, and with zeros where the rest should be.
            let mut cut = whole[..end as usize].to_vec();
            std::fs::write(&path, &cut).unwrap();
            assert_eq!(recover(folder.path(), marks[2]).unwrap(), marks[1], "cut at {end}");
            cut.resize(whole.len(), 0);
            std::fs::write(&path, &cut).unwrap();
            assert_eq!(recover(folder.path(), marks[2]).unwrap(), marks[1], "zeros from {end}");
            assert!(verify(folder.path(), marks[2]).is_err());
        }
        // A changed line is no lost end.
        let mut changed = whole.clone();
        let digit = whole.iter().rposition(|byte| *byte == b'3').unwrap();
        changed[digit] = b'4';
        std::fs::write(&path, &changed).unwrap();
        let error = recover(folder.path(), marks[2]).unwrap_err().to_string();
        assert!(error.contains("is damaged: line 3: its check"), "{error}");
    }
}
