//! Pauses between tries.

use std::time::Duration;

/// Pauses that grow, each a little different from everybody else's.
pub(crate) struct Backoff {
    pause: Duration,
    salt: u64,
}

impl Backoff {
    pub(crate) const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(15);

    pub(crate) fn new(server: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let salt = format!("{server} {} {:?}", std::process::id(), now.ok());
        Self { pause: Self::FIRST, salt: xxhash_rust::xxh3::xxh3_64(salt.as_bytes()) }
    }

    /// The pause after so many failures in a row of something that is no connection.
    pub(crate) fn after(failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            more => Self::FIRST.saturating_mul(1 << more.min(20)).min(Self::LONGEST),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.pause = Self::FIRST;
    }

    /// Between half of the pause and all of it.
    pub(crate) fn next(&mut self) -> Duration {
        self.salt = xxhash_rust::xxh3::xxh3_64(&self.salt.to_le_bytes());
        let share = 0.5 + 0.5 * (self.salt as f64 / u64::MAX as f64);
        let pause = self.pause.mul_f64(share);
        self.pause = (2 * self.pause).min(Self::LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew() {
        let mut backoff = Backoff::new("x");
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.next()).collect();
        assert!(pauses[0] >= Backoff::FIRST / 2 && pauses[0] <= Backoff::FIRST);
        assert!(pauses[11] >= Backoff::LONGEST / 2 && pauses[11] <= Backoff::LONGEST);
        backoff.reset();
        assert!(backoff.next() <= Backoff::FIRST);
        assert_ne!(Backoff::new("a").next(), Backoff::new("b").next());
    }
}
