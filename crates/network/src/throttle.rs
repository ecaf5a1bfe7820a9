//! A cap on bytes per second, shared by whoever draws from it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Most bytes per second, in one direction.
#[derive(Debug, Clone)]
pub struct Throttle {
    rate: f64,
    /// When everything that was let through has gone over a line of this rate.
    clear: Arc<Mutex<Instant>>,
}

/// What may go at once after a pause, in seconds of the line.
const BURST: Duration = Duration::from_millis(20);
/// Most bytes of one read or write under a cap: the line stays even.
pub(crate) const PIECE: usize = 16 * 1024;

impl Throttle {
    /// A cap at so many bytes per second; at least one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { rate: bytes_per_second.max(1) as f64, clear: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Notes bytes that have gone, and says when the next may.
    pub(crate) fn spend(&self, bytes: usize, now: Instant) -> Instant {
        let mut clear = self.clear.lock().unwrap_or_else(PoisonError::into_inner);
        *clear = (*clear).max(now) + Duration::from_secs_f64(bytes as f64 / self.rate);
        clear.checked_sub(BURST).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time_and_a_pause_is_no_credit() {
        let throttle = Throttle::new(1_000);
        let start = Instant::now() + Duration::from_secs(1);
        assert_eq!(throttle.spend(500, start), start + Duration::from_millis(480));
        assert_eq!(throttle.spend(500, start), start + Duration::from_millis(980));
        let later = start + Duration::from_secs(60);
        assert_eq!(throttle.clone().spend(1_000, later), later + Duration::from_millis(980));
    }
}
