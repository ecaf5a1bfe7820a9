//! Uploads between the worker that made them and the aggregation, and copies of them for personal
//! phases to come.

use super::{Store, Stored};
use crate::RuntimeError;
use formant_methods::Value;
use std::collections::BTreeMap;

/// An upload whose turn has not come.
pub(super) enum Waiting {
    Memory(Value),
    Disk(Stored),
}

/// Who sent an upload, and which round it answers.
type Sender = (usize, u64);

impl Store<'_> {
    /// Keeps an upload until it is aggregated. It goes to disk only where the aggregation falls
    /// behind: uploads are made in nearly the order in which they are read.
    pub(crate) fn put_upload(&self, from: Sender, value: Value) -> Result<(), RuntimeError> {
        let size = value.encoded_len()? as u64;
        {
            let mut inner = self.lock();
            let used = inner.uploaded.used + size;
            if used <= inner.uploaded.limit || inner.resident + used <= self.limit {
                inner.uploaded.enter(size);
                inner.uploads.insert(from, Waiting::Memory(value));
                return Ok(());
            }
        }
        let stored = self.disk.write(&value)?;
        self.lock().uploads.insert(from, Waiting::Disk(stored));
        Ok(())
    }

    /// Takes an upload out.
    pub(crate) fn take_upload(&self, from: Sender) -> Result<Option<Value>, RuntimeError> {
        let waiting = self.lock().uploads.remove(&from);
        match waiting {
            Some(Waiting::Memory(value)) => {
                let size = value.encoded_len()? as u64;
                self.lock().uploaded.leave(size);
                Ok(Some(value))
            }
            Some(Waiting::Disk(stored)) => {
                let value = self.method.decode_upload(&self.load(&stored)?)?;
                self.give_up(&stored);
                Ok(Some(value))
            }
            None => Ok(None),
        }
    }

    /// Keeps a copy of a client's newest upload, beside which it will train in a personal phase to
    /// come.
    pub(crate) fn put_sent(&self, client: usize, value: &Value) -> Result<(), RuntimeError> {
        let stored = self.disk.write(value)?;
        let before = self.lock().sent.insert(client, stored);
        if let Some(stored) = before {
            self.give_up(&stored);
        }
        Ok(())
    }

    /// A client's newest upload, if a copy was kept.
    pub(crate) fn sent(&self, client: usize) -> Result<Option<Value>, RuntimeError> {
        let stored = self.lock().sent.get(&client).cloned();
        let decode = |stored| Ok(self.method.decode_upload(&self.load(&stored)?)?);
        stored.map(decode).transpose()
    }

    /// Releases a part of the shared file, unless the last checkpoint names it.
    fn give_up(&self, stored: &Stored) {
        if !self.lock().pinned.contains(&stored.offset) {
            self.disk.release(stored);
        }
    }

    /// Writes all uploads that are not on disk yet; says where they and the copies are.
    pub(crate) fn persist_uploads(&self) -> Result<Kept, RuntimeError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let mut uploads = Vec::with_capacity(inner.uploads.len());
        for (from, waiting) in &mut inner.uploads {
            if let Waiting::Memory(value) = waiting {
                let stored = self.disk.write(value)?;
                inner.uploaded.leave(value.encoded_len()? as u64);
                *waiting = Waiting::Disk(stored);
            }
            if let Waiting::Disk(stored) = waiting {
                uploads.push((*from, stored.clone()));
            }
        }
        uploads.sort_by_key(|(from, _)| *from);
        Ok(Kept { uploads, sent: inner.sent.clone() })
    }

    /// Uploads and copies that a checkpoint left on disk.
    pub(crate) fn adopt_uploads(&self, kept: &Kept) {
        let mut inner = self.lock();
        for (from, stored) in &kept.uploads {
            inner.uploads.insert(*from, Waiting::Disk(stored.clone()));
        }
        inner.sent.clone_from(&kept.sent);
    }
}

/// Where uploads and copies lie.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    pub(crate) uploads: Vec<(Sender, Stored)>,
    pub(crate) sent: BTreeMap<usize, Stored>,
}

impl Kept {
    /// Who has sent any of it.
    pub(crate) fn clients(&self) -> impl Iterator<Item = usize> {
        let uploads = self.uploads.iter().map(|((client, _), _)| *client);
        uploads.chain(self.sent.keys().copied())
    }
}
