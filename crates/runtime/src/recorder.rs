//! Writes the event log and tells whoever watches: of the simulator, of a server and of a client.

use crate::event::Event;
use crate::event_log::{EventLog, LogMark};
use crate::{Progress, RuntimeError};
use std::path::Path;
use std::sync::Arc;

/// Watches a run as it goes.
pub trait Observer: Sync {
    /// An event was recorded.
    fn event(&self, _event: &Event) {}
    /// A run begins or goes on; how far it is can be looked at at any time.
    fn progress(&self, _progress: &Arc<Progress>) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {}

/// The event log of a run, and whoever watches it.
///
/// It goes on after a crash where [`LogMark::resume`] says; [`crate::Tail`] has the two ways of doing
/// so.
///
/// ```
/// use formant_runtime::event::Event;
/// use formant_runtime::{LogMark, Tail, Quiet, Recorder};
///
/// let folder = tempfile::tempdir().unwrap();
/// let mut recorder = Recorder::open(folder.path(), LogMark::default(), &Quiet)?;
/// recorder.record_now(&Event::RunFinished { seconds: 1.0 })?;
/// let mark = recorder.end();
/// drop(recorder);
///
/// let from = mark.resume(folder.path(), Tail::Unsynced)?;
/// assert_eq!(Recorder::open(folder.path(), from, &Quiet)?.end(), mark);
/// # Ok::<(), formant_runtime::RuntimeError>(())
/// ```
pub struct Recorder<'o> {
    log: EventLog,
    observer: &'o dyn Observer,
}

impl<'o> Recorder<'o> {
    /// Opens a folder's log and cuts off what lies behind the mark: it will happen again.
    pub fn open(
        folder: &Path,
        from: LogMark,
        observer: &'o dyn Observer,
    ) -> Result<Self, RuntimeError> {
        Ok(Self { log: EventLog::open(folder, from)?, observer })
    }

    /// Appends an event; readers see it after a [`Recorder::flush`].
    pub fn record(&mut self, event: &Event) -> Result<(), RuntimeError> {
        self.log.write(event)?;
        self.observer.event(event);
        Ok(())
    }

    /// Appends an event that readers see at once.
    pub fn record_now(&mut self, event: &Event) -> Result<(), RuntimeError> {
        self.record(event)?;
        self.flush()
    }

    /// Makes everything so far durable and says where that is.
    pub fn sync(&mut self) -> Result<LogMark, RuntimeError> {
        self.log.sync()
    }

    /// Hands everything so far to the operating system, so that a reader sees whole lines.
    pub fn flush(&mut self) -> Result<(), RuntimeError> {
        self.log.flush()
    }

    /// Where the log ends.
    pub fn end(&self) -> LogMark {
        self.log.end()
    }

    /// Whoever watches.
    pub fn observer(&self) -> &'o dyn Observer {
        self.observer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EVENTS_FILE, Tail};
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::Mutex;

    struct Listener(Mutex<Vec<Event>>);

    impl Observer for Listener {
        fn event(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
    }

    #[test]
    fn what_a_mark_does_not_know_of_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let open = |mark: LogMark| {
            Recorder::open(
                folder.path(),
                mark.resume(folder.path(), Tail::Unsynced).unwrap(),
                &Quiet,
            )
        };
        let event = Event::RunFinished { seconds: 1.0 };
        let mut recorder = open(LogMark::default()).unwrap();
        recorder.record_now(&event).unwrap();
        let one = recorder.end();
        recorder.record_now(&event).unwrap();
        let two = recorder.end();
        drop(recorder);
        assert_eq!(open(one).unwrap().end(), one);
        let path = folder.path().join(EVENTS_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), one.bytes);
        // Cut in the middle of a line, and shorter than the mark says.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"ev").unwrap();
        assert_eq!(open(two).unwrap().end(), one);
    }

    #[test]
    fn whoever_watches_is_told_of_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener(Mutex::default());
        let mut recorder = Recorder::open(folder.path(), LogMark::default(), &listener).unwrap();
        let events = [1.0, 2.0].map(|seconds| Event::RunFinished { seconds });
        recorder.record(&events[0]).unwrap();
        recorder.record_now(&events[1]).unwrap();
        assert_eq!(*listener.0.lock().unwrap(), events);
        let text = std::fs::read_to_string(folder.path().join(EVENTS_FILE)).unwrap();
        assert_eq!(text.lines().count(), 2);
    }
}
