//! Work that must happen in the order of the jobs, done by whichever worker has the job.

use crate::sync::{lock, wait};
use std::sync::{Condvar, Mutex};

/// Something that jobs change one after the other, whenever they get there.
pub(super) struct Turns<T> {
    inner: Mutex<Inner<T>>,
    moved: Condvar,
}

struct Inner<T> {
    next: usize,
    /// A job ended without its turn; nobody's turn comes after it.
    broken: bool,
    value: T,
}

impl<T> Turns<T> {
    pub(super) fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { next: 0, broken: false, value }), moved: Condvar::new() }
    }

    /// Announces job `index`. Jobs must be started in order: a turn waits for all before it.
    pub(super) fn turn(&self, index: usize) -> Turn<'_, T> {
        Turn { turns: self, index, taken: false }
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> T {
        let inner = self.inner.into_inner();
        inner.unwrap_or_else(std::sync::PoisonError::into_inner).value
    }
}

/// One job's turn. Dropped without being taken (the job failed), it releases those behind it.
pub(super) struct Turn<'t, T> {
    turns: &'t Turns<T>,
    index: usize,
    taken: bool,
}

impl<T> Turn<'_, T> {
    /// Waits for the turn and takes it; does nothing if it never comes, because then the job that
    /// broke the order fails the whole.
    pub(super) fn take<R>(mut self, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut inner = lock(&self.turns.inner);
        while inner.next != self.index && !inner.broken {
            inner = wait(&self.turns.moved, inner);
        }
        let done = (!inner.broken).then(|| {
            let done = change(&mut inner.value);
            inner.next += 1;
            done
        });
        self.taken = true;
        drop(inner);
        self.turns.moved.notify_all();
        done
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if !self.taken {
            lock(&self.turns.inner).broken = true;
            self.turns.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order_whoever_is_first() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for i in (0..20).rev() {
                let turn = turns.turn(i);
                scope.spawn(move || turn.take(|seen| seen.push(i)));
            }
        });
        assert_eq!(turns.into_inner(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_lost_turn_releases_all_behind_it() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for i in [3, 2, 0] {
                let turn = turns.turn(i);
                scope.spawn(move || turn.take(|seen| seen.push(i)));
            }
            drop(turns.turn(1));
        });
        let seen = turns.into_inner();
        assert!(seen.is_empty() || seen == [0], "{seen:?}");
    }
}
