//! Locks and waits that outlive a panic of another thread: it takes the run down anyway, and what
//! is guarded here is whole between any two statements.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'g, T>(condition: &Condvar, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
