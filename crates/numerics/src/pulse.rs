//! How work is followed and ended from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How whoever waits for some training or scoring follows it and ends it, batch by batch. Neither changes
/// what is computed, but for work that is ended: nothing of that may be used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pulse<'a> {
    /// Set by whoever wants the work to end with the batch under way.
    pub stop: Option<&'a AtomicBool>,
    /// Goes up by the samples of each batch that is done.
    pub samples: Option<&'a AtomicU64>,
}

impl Pulse<'_> {
    /// Nobody waits.
    pub const NONE: Self = Self { stop: None, samples: None };

    /// Whether the work is to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// So many samples more are done.
    pub fn count(&self, samples: u64) {
        if let Some(done) = self.samples {
            done.fetch_add(samples, Ordering::Relaxed);
        }
    }
}
