//! Uploads whose turn has not come: in memory as far as there is room, on disk beyond it.

use super::{Disk, Room, Stored};
use crate::RuntimeError;
use crate::sync::lock;
use formant_methods::{ErasedMethod, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Who sent an upload, and which round it answers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(from = "(usize, u64)", into = "(usize, u64)")]
pub struct Sender {
    pub(crate) client: usize,
    pub(crate) round: u64,
}

impl From<(usize, u64)> for Sender {
    fn from((client, round): (usize, u64)) -> Self {
        Self { client, round }
    }
}

impl From<Sender> for (usize, u64) {
    fn from(sender: Sender) -> Self {
        (sender.client, sender.round)
    }
}

/// Uploads between whoever made them and whoever reads them.
pub(crate) struct Uploads<'m> {
    method: &'m dyn ErasedMethod,
    disk: Arc<Disk>,
    room: Arc<Room>,
    waiting: Mutex<HashMap<Sender, Waiting>>,
}

enum Waiting {
    Memory(Value),
    Disk(Stored),
}

impl<'m> Uploads<'m> {
    pub(super) fn new(method: &'m dyn ErasedMethod, disk: Arc<Disk>, room: Arc<Room>) -> Self {
        Self { method, disk, room, waiting: Mutex::default() }
    }

    /// Keeps an upload until it is taken.
    pub(crate) fn put(&self, from: Sender, value: Value) -> Result<(), RuntimeError> {
        let waiting = if self.room.enter_upload(value.encoded_len()? as u64) {
            Waiting::Memory(value)
        } else {
            Waiting::Disk(self.disk.write(&value)?)
        };
        lock(&self.waiting).insert(from, waiting);
        Ok(())
    }

    /// Takes an upload out.
    pub(crate) fn take(&self, from: Sender) -> Result<Option<Value>, RuntimeError> {
        let waiting = lock(&self.waiting).remove(&from);
        match waiting {
            Some(Waiting::Memory(value)) => {
                self.room.leave_upload(value.encoded_len()? as u64);
                Ok(Some(value))
            }
            Some(Waiting::Disk(stored)) => {
                let value = self.method.decode_upload(&self.disk.read(&stored)?)?;
                self.disk.release(&stored);
                Ok(Some(value))
            }
            None => Ok(None),
        }
    }

    /// Writes all that are not on disk yet; says where they are.
    pub(crate) fn persist(&self) -> Result<Vec<(Sender, Stored)>, RuntimeError> {
        let mut waiting = lock(&self.waiting);
        let mut named = Vec::with_capacity(waiting.len());
        for (from, waiting) in &mut *waiting {
            if let Waiting::Memory(value) = waiting {
                let stored = self.disk.write(value)?;
                self.room.leave_upload(value.encoded_len()? as u64);
                *waiting = Waiting::Disk(stored);
            }
            if let Waiting::Disk(stored) = waiting {
                named.push((*from, stored.clone()));
            }
        }
        named.sort_by_key(|(from, _)| *from);
        Ok(named)
    }

    /// Uploads that a checkpoint left on disk.
    pub(crate) fn adopt(&self, kept: &[(Sender, Stored)]) {
        let kept = kept.iter().map(|(from, stored)| (*from, Waiting::Disk(stored.clone())));
        lock(&self.waiting).extend(kept);
    }
}

/// Where uploads lie, and copies of them for personal phases to come.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Kept {
    pub(crate) uploads: Vec<(Sender, Stored)>,
    pub(crate) sent: BTreeMap<usize, Stored>,
}

impl Kept {
    /// Who has sent any of it.
    pub(crate) fn clients(&self) -> impl Iterator<Item = usize> {
        let uploads = self.uploads.iter().map(|(from, _)| from.client);
        uploads.chain(self.sent.keys().copied())
    }
}
