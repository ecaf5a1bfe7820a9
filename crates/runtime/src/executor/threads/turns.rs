//! Work that must happen in the order of the jobs, done by whichever worker has the job.

use crate::sync::{lock, wait};
use core::time::Duration;
use std::sync::{Condvar, Mutex};
use std::time::Instant;

/// Something that jobs change one after the other, whenever they get there.
pub(super) struct Turns<T> {
    inner: Mutex<Inner<T>>,
    moved: Condvar,
}

struct Inner<T> {
    next: usize,
    /// A job ended without its turn, or its turn went wrong; nobody's turn comes after it.
    broken: bool,
    /// How long jobs have been at their turns, added up.
    spent: Duration,
    value: T,
}

impl<T> Turns<T> {
    pub(super) fn new(value: T) -> Self {
        let inner = Inner { next: 0, broken: false, spent: Duration::ZERO, value };
        Self { inner: Mutex::new(inner), moved: Condvar::new() }
    }

    /// How long jobs have waited for their turns and been at them, added up. What happens in a turn is mostly waiting
    /// too: for what others have to show first, or until it may be shown to others.
    pub(super) fn spent(&self) -> Duration {
        lock(&self.inner).spent
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
    /// broke the order fails the whole. A change that fails breaks it too: what those behind it would
    /// change, or wait for, is not as they expect it.
    pub(super) fn take<E>(mut self, change: impl FnOnce(&mut T) -> Result<(), E>) -> Result<(), E> {
        let begun = Instant::now();
        let mut inner = lock(&self.turns.inner);
        while inner.next != self.index && !inner.broken {
            inner = wait(&self.turns.moved, inner);
        }
        let mut outcome = Ok(());
        if !inner.broken {
            outcome = change(&mut inner.value);
            inner.broken = outcome.is_err();
            inner.next += 1;
        }
        inner.spent += begun.elapsed();
        self.taken = true;
        drop(inner);
        self.turns.moved.notify_all();
        outcome
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
    use std::convert::Infallible;

    fn push(i: usize) -> impl FnOnce(&mut Vec<usize>) -> Result<(), Infallible> {
        move |seen| {
            seen.push(i);
            Ok(())
        }
    }

    #[test]
    fn turns_come_in_order_whoever_is_first() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for i in (0..20).rev() {
                let turn = turns.turn(i);
                scope.spawn(move || turn.take(push(i)));
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
                scope.spawn(move || turn.take(push(i)));
            }
            drop(turns.turn(1));
        });
        let seen = turns.into_inner();
        assert!(seen.is_empty() || seen == [0], "{seen:?}");
    }

    #[test]
    fn a_turn_that_goes_wrong_is_the_last_one() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for i in [3, 2, 1, 0] {
                let turn = turns.turn(i);
                scope.spawn(move || {
                    let outcome = turn.take(|seen| {
                        seen.push(i);
                        if i == 1 { Err("on purpose") } else { Ok(()) }
                    });
                    assert_eq!(outcome.is_err(), i == 1, "who comes later is not to blame");
                });
            }
        });
        assert_eq!(turns.into_inner(), [0, 1]);
    }

    #[test]
    fn time_at_turns_is_told() {
        let turns = Turns::new(());
        let took = Duration::from_millis(2);
        let busy = |(): &mut ()| {
            let begun = Instant::now();
            while begun.elapsed() < took {
                std::hint::spin_loop();
            }
            Ok::<_, Infallible>(())
        };
        for i in 0..2 {
            turns.turn(i).take(busy).unwrap();
        }
        assert!(turns.spent() >= took * 2);
    }
}
