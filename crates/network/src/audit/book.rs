//! Who writes the audit log: the thread that owns the run.

use super::{END, Entry, FILE, Head, KEY, Record, chained, scan};
use crate::error::NetworkError;
use formant_runtime::{RuntimeError, files};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Lines about one client, or about strangers, while one round is open, that it could have as many of as it
/// likes.
const MOST: u64 = 32;

/// The open log.
pub(crate) struct Book {
    path: PathBuf,
    file: File,
    head: Head,
    is_synced: bool,
    /// Lines of which a client decides how many there are, while the open round is open.
    noise: BTreeMap<Option<String>, u64>,
    omitted: u64,
}

impl Book {
    /// Opens the log of a folder, which stood at `expected` when its manifest was written. What a server
    /// has written since stays; a line that was cut in the middle by a crash goes. One that is not as it was
    /// written is kept under another name; the log goes on behind its last good line, and says so.
    pub(crate) fn open(folder: &Path, expected: &Head) -> Result<Self, NetworkError> {
        let path = folder.join(FILE);
        let found = scan(&path, Some(expected), &mut |_, _| ())?;
        let fail = |source| RuntimeError::file("open", &path, source);
        if found.fault.is_some() && path.exists() {
            // What is there is evidence: nothing of it is lost.
            let seconds = Timestamp::now().as_second();
            let aside = folder.join(format!("audit-damaged-{seconds}.jsonl"));
            std::fs::copy(&path, aside).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let mut file = files::private(&mut options).open(&path).map_err(fail)?;
        file.set_len(found.head.bytes).map_err(fail)?;
        file.seek(SeekFrom::End(0)).map_err(fail)?;
        let (noise, omitted) = (BTreeMap::new(), 0);
        let mut book = Self { path, file, head: found.head, is_synced: true, noise, omitted };
        if let Some(found) = found.fault {
            tracing::error!(log = %book.path.display(), found, "the audit log is not as it was written");
            book.write(Entry::Damaged { found, expected: expected.clone() })?;
        }
        Ok(book)
    }

    /// Writes a line. Of lines that a client can cause at will there are only so many in a round.
    pub(crate) fn note(&mut self, entry: Entry) -> Result<(), NetworkError> {
        if matches!(entry, Entry::Joined { .. } | Entry::Refused { .. } | Entry::Failed { .. }) {
            let count = self.noise.entry(entry.client().map(str::to_owned)).or_default();
            *count += 1;
            if *count > MOST {
                self.omitted += 1;
                return Ok(());
            }
        }
        self.write(entry)
    }

    /// Another round is open: everybody may be heard again.
    pub(crate) fn turn_page(&mut self) -> Result<(), NetworkError> {
        self.noise.clear();
        match std::mem::take(&mut self.omitted) {
            0 => Ok(()),
            lines => self.write(Entry::Omitted { lines }),
        }
    }

    fn write(&mut self, entry: Entry) -> Result<(), NetworkError> {
        let fail = |source| RuntimeError::file("write", &self.path, source);
        let record = Record { line: self.head.lines + 1, at: Timestamp::now(), entry };
        let mut line = serde_json::to_vec(&record).map_err(|error| fail(error.into()))?;
        line.pop();
        let chain = chained(&self.head.chain, &line);
        line.extend([KEY, &chain, END, "\n"].concat().into_bytes());
        self.file.write_all(&line).map_err(fail)?;
        let (lines, bytes) = (record.line, self.head.bytes + line.len() as u64);
        self.head = Head { lines, bytes, chain };
        self.is_synced = false;
        Ok(())
    }

    /// Makes the log durable and says where it stands: a manifest may name no line that a power cut takes.
    pub(crate) fn sync(&mut self) -> Result<Head, NetworkError> {
        if !self.is_synced {
            let synced = self.file.sync_data();
            synced.map_err(|source| RuntimeError::file("write", &self.path, source))?;
            self.is_synced = true;
        }
        Ok(self.head.clone())
    }
}
