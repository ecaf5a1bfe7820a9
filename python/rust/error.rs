//! Errors on both sides of the boundary: Formant's become `formant.FormantError`, Python's end a run and come out as they were
//! raised.

use pyo3::prelude::*;
use std::cell::RefCell;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Formant's error as an exception; the text holds its hint.
pub(crate) fn raise(py: Python<'_>, text: impl Display) -> PyErr {
    let made = || {
        let class = py.import("formant._errors")?.getattr("FormantError")?;
        class.call1((text.to_string(),))
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

/// The same with whatever caused it, as `anyhow` prints it.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Exceptions that Python code raised inside runs, each under the text by which Formant's error names it. One place for all
/// runs of a process: two that raise the same text at once may get each other's, which look the same.
static FAULTS: Mutex<Vec<(String, PyErr)>> = Mutex::new(Vec::new());

/// More than threads that can fail before a run has ended.
const MOST: usize = 64;

fn faults() -> MutexGuard<'static, Vec<(String, PyErr)>> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line that raised it, in whoever's file is not the package's own.
fn place(py: Python<'_>, error: &PyErr) -> Option<String> {
    let traceback = error.traceback(py)?;
    let found = py.import("formant._errors").ok()?.call_method1("place", (traceback,)).ok()?;
    found.extract().ok()
}

/// Keeps an exception and gives the text that stands for it.
pub(crate) fn keep(py: Python<'_>, whose: &str, error: PyErr) -> String {
    let text = match place(py, &error) {
        Some(place) => format!("{whose} ({place}): {error}"),
        None => format!("{whose}: {error}"),
    };
    let mut kept = faults();
    if kept.len() >= MOST {
        kept.remove(0);
    }
    kept.push((text.clone(), error.clone_ref(py)));
    text
}

/// What was raised in one run where nothing could be said of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unsaid(Arc<Mutex<Vec<PyErr>>>);

thread_local! {
    /// What was raised on this thread last where nothing could be said, for a caller who can say it.
    static LATELY: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Of the run that this thread prepares: methods and engines are made on it, and keep theirs.
    static PREPARED: RefCell<Unsaid> = RefCell::default();
}

impl Unsaid {
    /// For a run that begins here.
    pub(crate) fn begin() -> Self {
        PREPARED.take();
        Self::here()
    }

    /// That of the run which is being prepared.
    pub(crate) fn here() -> Self {
        PREPARED.with_borrow(Clone::clone)
    }

    pub(crate) fn add(&self, py: Python<'_>, error: &PyErr) {
        LATELY.set(Some(error.clone_ref(py)));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error.clone_ref(py));
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Does something on this thread, and gives what Python code has raised in it where nothing could be said.
pub(crate) fn overheard<T>(work: impl FnOnce() -> T) -> (T, Option<PyErr>) {
    LATELY.take();
    let done = work();
    (done, LATELY.take())
}

/// The exception behind an error's text, if Python code raised it.
pub(crate) fn behind(text: &str) -> Option<PyErr> {
    let mut kept = faults();
    let at = kept.iter().position(|(known, _)| text.contains(known.as_str()))?;
    Some(kept.swap_remove(at).1)
}
