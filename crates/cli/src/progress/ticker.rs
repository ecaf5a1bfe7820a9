//! What happens every quarter of a second while something is shown.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const BETWEEN: Duration = Duration::from_millis(250);

/// A thread that calls something again and again until this value goes.
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(tick: impl Fn() + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(BETWEEN) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Nothing may be drawn behind whoever prints next. A tick that panicked has drawn nothing.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// When a log file gets its next line: soon at first, later less and less often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NowAndThen {
    next: Duration,
}

impl Default for NowAndThen {
    fn default() -> Self {
        Self { next: Duration::from_secs(10) }
    }
}

impl NowAndThen {
    /// Whether it is time for a line, so long after the beginning.
    pub(crate) fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed >= self.next;
        if is_due {
            let between = elapsed / 10;
            let bounds = (Duration::from_secs(30), Duration::from_secs(600));
            self.next = elapsed + between.clamp(bounds.0, bounds.1);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_now_and_then_and_ever_less_often() {
        let mut lines = NowAndThen::default();
        let due = (0..7_200).filter(|second| lines.is_due(Duration::from_secs(*second)));
        let due: Vec<u64> = due.collect();
        assert_eq!(due[..4], [10, 40, 70, 100]);
        assert!(due.windows(2).all(|pair| pair[1] - pair[0] >= 30));
        assert!(due.len() < 50, "{} lines in two hours", due.len());
    }
}
