//! Memory that client states and uploads in one process share.

use crate::sync::lock;
use std::sync::Mutex;

/// Most bytes in each queue between workers and disk: some models of the size that a client trains
/// in a tenth of a second. A single value that is larger passes alone.
const QUEUE: u64 = 16 << 20;

/// Memory that client states and uploads in one process share. What does not fit goes to disk.
#[derive(Debug)]
pub struct Room {
    limit: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    states: u64,
    uploads: u64,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, used: Mutex::default() }
    }

    /// Most bytes in one queue: whoever wants next to nothing in memory wants no queues either.
    pub(super) fn queue(&self) -> u64 {
        QUEUE.min(self.limit)
    }

    /// Takes room for a state, if there is any.
    pub(super) fn enter_state(&self, bytes: u64) -> bool {
        let mut used = lock(&self.used);
        let fits = used.states + bytes <= self.limit;
        used.states += if fits { bytes } else { 0 };
        fits
    }

    pub(super) fn leave_state(&self, bytes: u64) {
        lock(&self.used).states -= bytes;
    }

    /// Takes room for an upload: in the queue that uploads always have, or in what states leave.
    pub(super) fn enter_upload(&self, bytes: u64) -> bool {
        let mut used = lock(&self.used);
        let uploads = used.uploads + bytes;
        let fits = uploads <= self.queue() || used.states + uploads <= self.limit;
        used.uploads += if fits { bytes } else { 0 };
        fits
    }

    pub(super) fn leave_upload(&self, bytes: u64) {
        lock(&self.used).uploads -= bytes;
    }

    /// Bytes of states and of uploads in memory.
    #[cfg(test)]
    pub(super) fn used(&self) -> (u64, u64) {
        let used = lock(&self.used);
        (used.states, used.uploads)
    }
}
