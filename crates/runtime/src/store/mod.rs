//! Client states, and what a server keeps: in memory up to a limit, on disk beyond it.
//!
//! States that leave memory share one file. A newer state of a client never overwrites one that the
//! last checkpoint names, so a checkpoint only has to say where states lie: see
//! [`crate::checkpoint`]. Which states stay in memory is stable from round to round (a state that
//! fits when it comes back stays), so a fleet that is a little too large does not read everything
//! from disk every round.
//!
//! Workers do not wait for the disk: one background thread writes what they give back, another
//! reads what they will ask for next ([`background`]). What lies in between is bounded, so memory
//! is bounded by the limit, three small queues and what the workers hold.

mod background;
mod disk;
mod proxy;
mod room;
mod server;
mod slots;
#[cfg(test)]
mod tests;
mod uploads;

pub(crate) use background::Background;
pub use disk::{ShareName, Stored};
pub use proxy::Proxy;
pub use room::Room;
pub(crate) use server::ServerStore;
pub(crate) use uploads::{Kept, Sender, Uploads};

use crate::RuntimeError;
use crate::sync::{lock, wait};
use disk::Disk;
use formant_methods::{ErasedMethod, MethodError, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Where a client's state is.
enum Place {
    /// In memory, and on disk too if that copy is still current.
    Memory(Value, Option<Stored>),
    /// In memory until the writer comes to it.
    Queued(Value),
    /// With the writer.
    Writing,
    /// Only on disk.
    Disk(Stored),
    /// With the reader.
    Reading(Stored),
    /// Read before it was asked for.
    Ahead(Value, Stored),
    /// With a worker, and on disk too if that copy was current when it was lent.
    Lent(Option<Stored>),
    /// With a worker, who made it: nobody has trained it yet.
    LentFresh,
}

/// The clients' states while one method runs.
pub(crate) struct ClientStore<'m> {
    method: &'m dyn ErasedMethod,
    disk: Arc<Disk>,
    room: Arc<Room>,
    /// Uploads that are there before their turn.
    pub(crate) early: Uploads<'m>,
    inner: Mutex<Inner>,
    /// There is something to write, or no more will come.
    to_write: Condvar,
    /// There is something to read and room for it, or no more will come.
    to_read: Condvar,
    /// A state that somebody may wait for has moved, or a queue has room.
    moved: Condvar,
}

struct Inner {
    states: HashMap<usize, Place>,
    /// Copies of the clients' newest uploads.
    sent: BTreeMap<usize, Stored>,
    /// Clients whose states are to be written; some may have been taken back since.
    queue: VecDeque<usize>,
    /// Bytes of states queued or with the writer.
    writing: Queue,
    /// Clients whose states will be asked for, in this order.
    expected: VecDeque<usize>,
    /// Bytes of states read ahead or with the reader.
    ahead: Queue,
    /// What went wrong in the background.
    failure: Option<Arc<RuntimeError>>,
    closed: bool,
}

/// Bytes in a queue, and the most that there may be.
#[derive(Debug, Default)]
struct Queue {
    used: u64,
    limit: u64,
    /// The most there ever were, which tests look at.
    peak: u64,
}

impl Queue {
    fn new(limit: u64) -> Self {
        Self { used: 0, limit, peak: 0 }
    }

    /// Whether a value may enter: one larger than the queue has to be alone.
    fn has_room(&self, bytes: u64) -> bool {
        self.used == 0 || self.used + bytes <= self.limit
    }

    fn enter(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    fn leave(&mut self, bytes: u64) {
        self.used -= bytes;
    }
}

impl Drop for ClientStore<'_> {
    /// Whoever shares the room, such as a store that goes on with these clients, has it again.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for place in inner.states.values() {
            if let Place::Memory(value, _) = place {
                self.room.leave_state(value.encoded_len().unwrap_or(0) as u64);
            }
        }
    }
}

impl<'m> ClientStore<'m> {
    /// An empty store over a folder, which must exist, for all clients.
    #[cfg(test)]
    pub(crate) fn new(folder: &Path, room: Arc<Room>, method: &'m dyn ErasedMethod) -> Self {
        Self::of_share(folder, ShareName::WHOLE, room, method)
    }

    /// The same for a share of the clients.
    pub(crate) fn of_share(
        folder: &Path,
        share: ShareName,
        room: Arc<Room>,
        method: &'m dyn ErasedMethod,
    ) -> Self {
        let disk = Arc::new(Disk::of_clients(folder, share));
        let early = Uploads::new(method, disk.clone(), room.clone());
        let inner = Inner {
            states: HashMap::new(),
            sent: BTreeMap::new(),
            queue: VecDeque::new(),
            writing: Queue::new(room.queue()),
            expected: VecDeque::new(),
            ahead: Queue::new(room.queue()),
            failure: None,
            closed: false,
        };
        Self {
            method,
            disk,
            room,
            early,
            inner: Mutex::new(inner),
            to_write: Condvar::new(),
            to_read: Condvar::new(),
            moved: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Waits until something holds, or until it never will because the background has failed.
    fn wait_until(
        &self,
        holds: impl Fn(&Inner) -> bool,
    ) -> Result<MutexGuard<'_, Inner>, RuntimeError> {
        let mut inner = self.lock();
        loop {
            if let Some(failure) = &inner.failure {
                return Err(RuntimeError::Background(failure.clone()));
            }
            if holds(&inner) {
                return Ok(inner);
            }
            inner = wait(&self.moved, inner);
        }
    }

    /// A state that a checkpoint left on disk.
    pub(crate) fn adopt(&self, client: usize, stored: Stored) {
        self.lock().states.insert(client, Place::Disk(stored));
    }

    /// Lends a client's state; the first time, `start` makes it.
    pub(crate) fn take(
        &self,
        client: usize,
        start: impl FnOnce() -> Value,
    ) -> Result<Value, RuntimeError> {
        let under_way = |inner: &Inner| {
            matches!(inner.states.get(&client), Some(Place::Writing | Place::Reading(_)))
        };
        let mut inner = self.wait_until(|inner| !under_way(inner))?;
        match inner.states.remove(&client) {
            None => {
                inner.states.insert(client, Place::LentFresh);
                drop(inner);
                Ok(start())
            }
            Some(Place::Memory(value, stored)) => {
                self.room.leave_state(value.encoded_len()? as u64);
                inner.states.insert(client, Place::Lent(stored));
                Ok(value)
            }
            Some(Place::Queued(value)) => {
                inner.writing.leave(value.encoded_len()? as u64);
                inner.states.insert(client, Place::Lent(None));
                self.moved.notify_all();
                Ok(value)
            }
            Some(Place::Ahead(value, stored)) => {
                inner.ahead.leave(stored.bytes);
                inner.states.insert(client, Place::Lent(Some(stored)));
                self.to_read.notify_one();
                Ok(value)
            }
            Some(Place::Disk(stored)) => {
                inner.states.insert(client, Place::Lent(Some(stored.clone())));
                drop(inner);
                Ok(self.method.decode_client(&self.disk.read(&stored)?)?)
            }
            Some(Place::Writing | Place::Reading(_) | Place::Lent(_) | Place::LentFresh) => {
                let (method, what) = (self.method.entry().name, "idle client state");
                Err(MethodError::WrongValue { method, what }.into())
            }
        }
    }

    /// Takes a state back. `changed` says whether the copy on disk, if any, is now stale.
    pub(crate) fn give_back(
        &self,
        client: usize,
        value: Value,
        changed: bool,
    ) -> Result<(), RuntimeError> {
        let size = value.encoded_len()? as u64;
        let mut inner = self.lock();
        let on_disk = match inner.states.remove(&client) {
            // Only looked at: it can be made again, so a client that never takes part costs
            // neither memory nor a file.
            Some(Place::LentFresh) if !changed => return Ok(()),
            Some(Place::Lent(stored)) if !changed => stored,
            Some(Place::Lent(Some(stale))) => {
                // Nothing will read it again; many rounds between checkpoints must not fill a disk.
                self.disk.release(&stale);
                None
            }
            _ => None,
        };
        if self.room.enter_state(size) {
            inner.states.insert(client, Place::Memory(value, on_disk));
            return Ok(());
        }
        if let Some(stored) = on_disk {
            inner.states.insert(client, Place::Disk(stored));
            return Ok(());
        }
        drop(inner);
        let mut inner = self.wait_until(|inner| inner.writing.has_room(size))?;
        inner.writing.enter(size);
        inner.states.insert(client, Place::Queued(value));
        inner.queue.push_back(client);
        self.to_write.notify_one();
        Ok(())
    }

    /// Writes every state that is not on disk yet and says where they are, `None` for clients that
    /// never took part. Called between rounds, when no state is lent.
    pub(crate) fn persist(&self, clients: usize) -> Result<Vec<Option<Stored>>, RuntimeError> {
        // A checkpoint names only whole states: first, the writer finishes.
        let mut inner = self.wait_until(|inner| inner.writing.used == 0)?;
        let inner = &mut *inner;
        let mut named = Vec::with_capacity(clients);
        for client in 0..clients {
            named.push(match inner.states.get_mut(&client) {
                Some(
                    Place::Disk(stored)
                    | Place::Reading(stored)
                    | Place::Ahead(_, stored)
                    | Place::Memory(_, Some(stored)),
                ) => Some(stored.clone()),
                Some(Place::Memory(value, on_disk @ None)) => {
                    Some(on_disk.insert(self.disk.write(value)?).clone())
                }
                _ => None,
            });
        }
        Ok(named)
    }

    /// Has what [`ClientStore::persist`] names reach the disk.
    pub(crate) fn sync(&self) -> Result<(), RuntimeError> {
        self.disk.sync()
    }

    /// Keeps a copy of a client's newest upload, beside which it will train in a personal phase to
    /// come.
    pub(crate) fn put_sent(&self, client: usize, value: &Value) -> Result<(), RuntimeError> {
        let stored = self.disk.write(value)?;
        let before = self.lock().sent.insert(client, stored);
        if let Some(stored) = before {
            self.disk.release(&stored);
        }
        Ok(())
    }

    /// A client's newest upload, if a copy was kept.
    pub(crate) fn sent(&self, client: usize) -> Result<Option<Value>, RuntimeError> {
        let stored = self.lock().sent.get(&client).cloned();
        let decode = |stored| Ok(self.method.decode_upload(&self.disk.read(&stored)?)?);
        stored.map(decode).transpose()
    }

    /// Where the copies are: all of them are on disk.
    pub(crate) fn all_sent(&self) -> BTreeMap<usize, Stored> {
        self.lock().sent.clone()
    }

    /// Copies that a checkpoint left on disk.
    pub(crate) fn adopt_sent(&self, sent: BTreeMap<usize, Stored>) {
        self.lock().sent = sent;
    }

    /// Keeps what a checkpoint names until the next one, and gives up all else. Called between
    /// rounds, after [`ClientStore::persist`] or when all states may go.
    pub(crate) fn sweep(&self, named: &[Stored]) {
        // What is still being written would come back. After a failure nothing is.
        drop(self.wait_until(|inner| inner.writing.used == 0));
        self.disk.sweep(named);
    }
}
