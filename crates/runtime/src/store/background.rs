//! The two threads between workers and disk: one writes behind them, one reads ahead of them.

use super::{ClientStore, Inner, Place, Stored};
use crate::RuntimeError;
use crate::sync::wait;
use formant_methods::Value;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

impl<'m> ClientStore<'m> {
    /// Starts both threads; they end when the returned value goes.
    pub(crate) fn in_background<'s>(
        self: &Arc<Self>,
        scope: &'s Scope<'s, '_>,
    ) -> Background<'s, 'm>
    where
        'm: 's,
    {
        let (writes, reads) = (self.clone(), self.clone());
        let threads = vec![
            scope.spawn(move || writes.guarded(Self::write_behind)),
            scope.spawn(move || reads.guarded(Self::read_ahead_of_workers)),
        ];
        Background { store: self.clone(), threads }
    }

    /// A thread that panics must not leave workers waiting for it.
    fn guarded(&self, work: impl FnOnce(&Self)) {
        struct Alarm<'a, 'm>(&'a ClientStore<'m>);
        impl Drop for Alarm<'_, '_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    let lost = std::io::Error::other("the thread that serves it panicked");
                    let error = RuntimeError::file("use", self.0.disk.folder(), lost);
                    self.0.fail(error);
                }
            }
        }
        let _alarm = Alarm(self);
        work(self);
    }

    /// The first failure stops the run: whoever asks next is told.
    fn fail(&self, error: RuntimeError) {
        let mut inner = self.lock();
        inner.failure.get_or_insert(Arc::new(error));
        drop(inner);
        self.moved.notify_all();
    }

    fn write_behind(&self) {
        let mut inner = self.lock();
        loop {
            if inner.closed || inner.failure.is_some() {
                return;
            }
            if let Some(job) = inner.begin_writing() {
                drop(inner);
                self.finish_writing(job);
                inner = self.lock();
            } else {
                inner = wait(&self.to_write, inner);
            }
        }
    }

    pub(super) fn finish_writing(&self, job: Job) {
        let Job { client, value } = job;
        let written = self.disk.write(&value);
        // Millions of floats go before the lock is taken.
        drop(value);
        match written {
            Ok(stored) => {
                let mut inner = self.lock();
                inner.writing.leave(stored.bytes);
                inner.states.insert(client, Place::Disk(stored));
                drop(inner);
                self.moved.notify_all();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Says whose states will be asked for next, and in which order, until the returned value goes.
    pub(crate) fn read_ahead(&self, clients: &[usize]) -> ReadAhead<'_, 'm> {
        let mut inner = self.lock();
        inner.expected = clients.iter().copied().collect();
        self.to_read.notify_one();
        ReadAhead { store: self }
    }

    fn read_ahead_of_workers(&self) {
        let mut buffer = Vec::new();
        let mut inner = self.lock();
        loop {
            if inner.closed || inner.failure.is_some() {
                return;
            }
            if let Some((client, stored)) = inner.begin_reading() {
                drop(inner);
                self.finish_reading(client, stored, &mut buffer);
                inner = self.lock();
            } else {
                inner = wait(&self.to_read, inner);
            }
        }
    }

    pub(super) fn finish_reading(&self, client: usize, stored: Stored, buffer: &mut Vec<u8>) {
        let read =
            self.disk.load(&stored, buffer).and_then(|()| Ok(self.method.decode_client(buffer)?));
        match read {
            Ok(value) => {
                self.lock().states.insert(client, Place::Ahead(value, stored));
                self.moved.notify_all();
            }
            Err(error) => self.fail(error),
        }
    }

    /// Gives up what was read for nothing.
    fn forget_ahead(&self) {
        self.lock().expected.clear();
        // After a failure nobody asks again, and the reader has left.
        let Ok(mut inner) = self.wait_until(|inner| {
            !inner.states.values().any(|place| matches!(place, Place::Reading(_)))
        }) else {
            return;
        };
        let mut unused: Vec<Value> = Vec::new();
        let inner = &mut *inner;
        for place in inner.states.values_mut() {
            if let Place::Ahead(_, stored) = place {
                let stored = stored.clone();
                inner.ahead.leave(stored.bytes);
                if let Place::Ahead(value, _) = std::mem::replace(place, Place::Disk(stored)) {
                    unused.push(value);
                }
            }
        }
    }
}

impl Inner {
    /// The next state to be written, which is the writer's from now on.
    pub(super) fn begin_writing(&mut self) -> Option<Job> {
        while let Some(client) = self.queue.pop_front() {
            // A state that was taken back in the meantime is not there, or waits further behind.
            match self.states.insert(client, Place::Writing) {
                Some(Place::Queued(value)) => return Some(Job { client, value }),
                Some(other) => drop(self.states.insert(client, other)),
                None => drop(self.states.remove(&client)),
            }
        }
        None
    }

    /// The next expected state that is only on disk, if there is room for it.
    pub(super) fn begin_reading(&mut self) -> Option<(usize, Stored)> {
        while let Some(&client) = self.expected.front() {
            if let Some(Place::Disk(stored)) = self.states.get(&client) {
                let stored = stored.clone();
                if !self.ahead.has_room(stored.bytes) {
                    return None;
                }
                self.expected.pop_front();
                self.ahead.enter(stored.bytes);
                self.states.insert(client, Place::Reading(stored.clone()));
                return Some((client, stored));
            }
            // In memory, or with a worker who was faster.
            self.expected.pop_front();
        }
        None
    }
}

/// A state on its way to the disk.
pub(super) struct Job {
    client: usize,
    value: Value,
}

/// The two threads of a store, which end with this.
pub(crate) struct Background<'s, 'm> {
    store: Arc<ClientStore<'m>>,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
}

impl Drop for Background<'_, '_> {
    fn drop(&mut self) {
        self.store.lock().closed = true;
        self.store.to_write.notify_all();
        self.store.to_read.notify_all();
        // The next store may work in the same file.
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// While this lives, expected states are read before they are asked for.
pub(crate) struct ReadAhead<'s, 'm> {
    store: &'s ClientStore<'m>,
}

impl Drop for ReadAhead<'_, '_> {
    fn drop(&mut self) {
        self.store.forget_ahead();
    }
}
