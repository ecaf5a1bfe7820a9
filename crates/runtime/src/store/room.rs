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

    /// Takes room for a state, if there is any beside uploads: these have their queue apart from it.
    pub(super) fn enter_state(&self, bytes: u64) -> bool {
        let mut used = lock(&self.used);
        let beyond = used.uploads.saturating_sub(self.queue());
        let fits = used.states + beyond + bytes <= self.limit;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_uploads_together_stay_within_the_limit_and_a_queue() {
        let room = Room::new(4 * QUEUE);
        // Uploads that are early take what nobody has.
        while room.enter_upload(QUEUE / 4) {}
        assert_eq!(room.used(), (0, 4 * QUEUE));
        // What they left is a queue's worth, and no more.
        let taken = (0..100).filter(|_| room.enter_state(QUEUE / 4)).count();
        assert_eq!((taken, room.used()), (4, (QUEUE, 4 * QUEUE)));
        // As they go, states come.
        for _ in 0..16 {
            room.leave_upload(QUEUE / 4);
        }
        while room.enter_state(QUEUE / 4) {}
        assert_eq!(room.used(), (4 * QUEUE, 0));
        // Uploads have their queue whatever states take.
        while room.enter_upload(QUEUE / 4) {}
        assert_eq!(room.used(), (4 * QUEUE, QUEUE));
    }
}
