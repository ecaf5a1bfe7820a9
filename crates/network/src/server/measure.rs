//! How much of something there may be in some time: calls of a client, lines of a log.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many seconds' worth may come at once.
const BURST: f64 = 10.0;

/// Tokens that come at a steady rate, up to a burst of ten seconds' worth.
pub(crate) struct Bucket {
    /// A second.
    rate: f64,
    state: Mutex<State>,
}

struct State {
    tokens: f64,
    at: Instant,
    /// Refused since the last that was not.
    refused: u64,
}

impl Bucket {
    pub(crate) fn new(rate: f64) -> Self {
        let state = State { tokens: rate * BURST, at: Instant::now(), refused: 0 };
        Self { rate, state: Mutex::new(state) }
    }

    /// Takes a token, if one is there: then how many were refused since the last time.
    pub(crate) fn take(&self, now: Instant) -> Option<u64> {
        let mut state = self.lock();
        let since: Duration = now.saturating_duration_since(state.at);
        state.tokens = (state.tokens + since.as_secs_f64() * self.rate).min(self.rate * BURST);
        state.at = now.max(state.at);
        if state.tokens < 1.0 {
            state.refused += 1;
            return None;
        }
        state.tokens -= 1.0;
        Some(std::mem::take(&mut state.refused))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let bucket = Bucket::new(2.0);
        let start = Instant::now();
        let taken = |at: Duration| (0..100).filter_map(|_| bucket.take(start + at)).count();
        assert_eq!(taken(Duration::ZERO), 20);
        assert_eq!(taken(Duration::from_millis(1_500)), 3);
        // What was refused is told once.
        assert_eq!(bucket.take(start + Duration::from_secs(2)), Some(97));
        assert_eq!(taken(Duration::from_secs(3_600)), 20);
        // A clock that goes back gives nothing away.
        assert_eq!(taken(Duration::ZERO), 0);
    }
}
