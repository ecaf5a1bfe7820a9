//! Uploads between the worker that made them and the aggregation.

use super::{Store, Stored};
use crate::RuntimeError;
use formant_methods::Value;

/// An upload whose turn has not come.
pub(super) enum Waiting {
    Memory(Value),
    Disk(Stored),
}

impl Store<'_> {
    /// Keeps an upload until it is aggregated. It goes to disk only where the aggregation falls
    /// behind: uploads are made in nearly the order in which they are read.
    pub(crate) fn put_upload(&self, client: usize, value: Value) -> Result<(), RuntimeError> {
        let size = value.encoded_len()? as u64;
        {
            let mut inner = self.lock();
            let used = inner.uploaded.used + size;
            if used <= inner.uploaded.limit || inner.resident + used <= self.limit {
                inner.uploaded.enter(size);
                inner.uploads.insert(client, Waiting::Memory(value));
                return Ok(());
            }
        }
        let stored = self.disk.write(&value)?;
        self.lock().uploads.insert(client, Waiting::Disk(stored));
        Ok(())
    }

    /// Takes an upload out.
    pub(crate) fn take_upload(&self, client: usize) -> Result<Option<Value>, RuntimeError> {
        let waiting = self.lock().uploads.remove(&client);
        match waiting {
            Some(Waiting::Memory(value)) => {
                let size = value.encoded_len()? as u64;
                self.lock().uploaded.leave(size);
                Ok(Some(value))
            }
            Some(Waiting::Disk(stored)) => {
                let value = self.method.decode_upload(&self.load(&stored)?)?;
                self.disk.release(&stored);
                Ok(Some(value))
            }
            None => Ok(None),
        }
    }
}
