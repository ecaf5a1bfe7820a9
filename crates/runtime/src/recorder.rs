//! Writes the event log and tells whoever watches.

use crate::RuntimeError;
use crate::event::Event;
use crate::event_log::{EventLog, LogMark};
use std::path::Path;

/// Watches a run as it goes.
pub trait Observer: Sync {
    /// An event was recorded.
    fn event(&self, _event: &Event) {}
    /// A client finished its work for a round; called from worker threads.
    fn client_done(&self, _method: &str, _round: usize, _done: usize, _of: usize) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {}

/// The event log of a run that somebody watches.
pub(crate) struct Recorder<'o> {
    log: EventLog,
    observer: &'o dyn Observer,
}

impl<'o> Recorder<'o> {
    /// Opens the log and cuts off what lies behind the mark of the checkpoint that a run resumes from.
    pub(crate) fn open(
        run_dir: &Path,
        from: LogMark,
        observer: &'o dyn Observer,
    ) -> Result<Self, RuntimeError> {
        Ok(Self { log: EventLog::open(run_dir, from)?, observer })
    }

    /// Appends an event.
    pub(crate) fn record(&mut self, event: &Event) -> Result<(), RuntimeError> {
        self.log.write(event)?;
        self.observer.event(event);
        Ok(())
    }

    /// Makes everything so far durable and says where that is.
    pub(crate) fn sync(&mut self) -> Result<LogMark, RuntimeError> {
        self.log.sync()
    }

    /// Hands everything so far to the operating system, so that a reader sees whole lines.
    pub(crate) fn flush(&mut self) -> Result<(), RuntimeError> {
        self.log.flush()
    }

    pub(crate) fn observer(&self) -> &'o dyn Observer {
        self.observer
    }
}
