//! States of clients whose rank does not see the run folder: it keeps them in a folder of its own, and what has changed
//! since the last checkpoint is carried to rank 0, which writes it into the run folder.

use crate::message::Carried;
use formant_runtime::executor::Held;
use formant_runtime::files::raw;
use formant_runtime::{Proxy, RuntimeError, ShareName, Stored};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// What a rank that does not see the run folder knows of what it has made durable.
#[derive(Default)]
pub(crate) struct Cache {
    /// What rank 0 has a copy of, by client and by whether it is its state.
    carried: BTreeMap<(usize, bool), Stored>,
    /// What rank 0 has given before a method begins.
    stowed: BTreeMap<(usize, bool), Stored>,
}

/// Where changes are looked for.
pub(crate) struct Carrier<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) held: &'a Held,
}

/// Beginning of the names of files that hold what rank 0 has given.
const STOWED: &str = "stowed-";

/// Shows a client's state and its copy of an upload, with the bytes of those that are new.
pub(crate) type Show<'s> =
    dyn FnMut(usize, Carried, Carried, &[u8]) -> Result<(), RuntimeError> + 's;

impl Cache {
    /// Keeps what rank 0 gives, for the method that begins next.
    pub(crate) fn stow(
        &mut self,
        folder: &Path,
        (client, is_state): (usize, bool),
        bytes: &[u8],
    ) -> Result<(), RuntimeError> {
        let hash = xxh3_64(bytes);
        let what = if is_state { "state" } else { "sent" };
        let file = format!("{STOWED}{client}-{what}-{hash:016x}.bin");
        let path = folder.join(&file);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        raw::open(&options, &path)
            .and_then(|mut file| raw::write_all(&mut file, &path, bytes))
            .map_err(|error| RuntimeError::file("write", &path, error))?;
        let stored = Stored { file, offset: 0, bytes: bytes.len() as u64, hash };
        self.stowed.insert((client, is_state), stored);
        Ok(())
    }

    /// What clients begin a method with, and everything that is named.
    pub(crate) fn begin(&mut self, clients: usize) -> (Held, Vec<Stored>) {
        self.carried = std::mem::take(&mut self.stowed);
        let mut held = Held { clients: vec![None; clients], sent: BTreeMap::new() };
        for ((client, is_state), stored) in &self.carried {
            if *is_state {
                held.clients[*client] = Some(stored.clone());
            } else {
                held.sent.insert(*client, stored.clone());
            }
        }
        (held, self.named())
    }

    /// Everything that the last checkpoint has.
    pub(crate) fn named(&self) -> Vec<Stored> {
        self.carried.values().cloned().collect()
    }

    /// Removes what was given for methods before this one.
    pub(crate) fn tidy(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_needed = || self.carried.values().any(|stored| stored.file == name);
            if name.starts_with(STOWED) && !is_needed() {
                // One too many costs space, not correctness.
                let _ = raw::remove_file(&entry.path());
            }
        }
    }

    /// Shows what has changed since the last time, client by client.
    pub(crate) fn carry(
        &mut self,
        carrier: &Carrier<'_>,
        show: &mut Show<'_>,
    ) -> Result<(), RuntimeError> {
        let states = carrier.held.clients.iter().enumerate();
        let mut clients: Vec<usize> =
            states.filter_map(|(id, state)| state.as_ref().map(|_| id)).collect();
        clients.extend(carrier.held.sent.keys());
        clients.sort_unstable();
        clients.dedup();
        for client in clients {
            let mut body = Vec::new();
            let state = carrier.held.clients.get(client).and_then(Option::as_ref);
            let state = self.news((client, true), state, carrier.folder, &mut body)?;
            let sent = carrier.held.sent.get(&client);
            let sent = self.news((client, false), sent, carrier.folder, &mut body)?;
            show(client, state, sent, &body)?;
        }
        Ok(())
    }

    fn news(
        &mut self,
        key: (usize, bool),
        stored: Option<&Stored>,
        folder: &Path,
        body: &mut Vec<u8>,
    ) -> Result<Carried, RuntimeError> {
        let Some(stored) = stored else { return Ok(Carried::Nothing) };
        if self.carried.get(&key) == Some(stored) {
            return Ok(Carried::Same);
        }
        let path = folder.join(&stored.file);
        let begin = body.len();
        let mut read = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(stored.offset))?;
            file.take(stored.bytes).read_to_end(body)
        };
        read().map_err(|error| RuntimeError::file("read", &path, error))?;
        if body.len() as u64 - begin as u64 != stored.bytes
            || xxh3_64(&body[begin..]) != stored.hash
        {
            return Err(RuntimeError::Damaged {
                path,
                found: format!(
                    "{} bytes at {} are not those that were written",
                    stored.bytes, stored.offset
                ),
                hint: "go on from the last checkpoint with `formant run --resume`".into(),
            });
        }
        self.carried.insert(key, stored.clone());
        Ok(Carried::New(stored.bytes))
    }
}

/// Rank 0's copies of what such a rank holds.
pub(crate) struct Copies {
    proxy: Proxy,
    copies: BTreeMap<(usize, bool), Stored>,
}

impl Copies {
    /// Of a rank whose states have a file of their own in the run folder.
    pub(crate) fn new(folder: &Path, share: ShareName, named: &[Stored]) -> Self {
        let proxy = Proxy::new(folder, share);
        proxy.sweep(named);
        Self { proxy, copies: BTreeMap::new() }
    }

    /// What such a rank is to be given: it is in the run folder already.
    pub(crate) fn give(
        &mut self,
        key: (usize, bool),
        stored: &Stored,
    ) -> Result<Vec<u8>, RuntimeError> {
        self.copies.insert(key, stored.clone());
        self.proxy.read(stored)
    }

    /// Takes in what was carried; gives where it is.
    pub(crate) fn take(
        &mut self,
        key: (usize, bool),
        carried: Carried,
        body: &mut &[u8],
    ) -> Result<Option<Stored>, RuntimeError> {
        let damaged = |why: &str| RuntimeError::Executor {
            place: format!("the state of client {}", key.0),
            why: why.into(),
        };
        match carried {
            Carried::Nothing => Ok(None),
            Carried::Same => {
                let copy = self.copies.get(&key).cloned();
                copy.map(Some).ok_or_else(|| damaged("its rank takes it for carried"))
            }
            Carried::New(length) => {
                let bytes =
                    usize::try_from(length).ok().and_then(|length| body.split_at_checked(length));
                let (bytes, rest) = bytes.ok_or_else(|| damaged("a part of it is missing"))?;
                *body = rest;
                let stored = self.proxy.write(bytes)?;
                if let Some(before) = self.copies.insert(key, stored.clone()) {
                    self.proxy.release(&before);
                }
                Ok(Some(stored))
            }
        }
    }

    /// Has what was carried reach the disk.
    pub(crate) fn sync(&self) -> Result<(), RuntimeError> {
        self.proxy.sync()
    }

    /// Keeps what a checkpoint names.
    pub(crate) fn sweep(&self, named: &[Stored]) {
        self.proxy.sweep(named);
    }
}
