//! Points in time, virtual or real.

use core::ops::{Add, Sub};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// Time since the beginning of a run, in nanoseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// A time in seconds. A negative one, or NaN, is the beginning.
    pub fn from_seconds(seconds: f64) -> Self {
        // A float's conversion saturates: nothing overflows before 584 years.
        Self((seconds * 1e9).round() as u64)
    }

    /// The time in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// The time between; nothing if the other is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Time::from_seconds(1.5);
        assert_eq!((t + Duration::from_millis(500)).seconds(), 2.0);
        assert_eq!(t - Time::from_seconds(2.0), Duration::ZERO);
        assert_eq!(Time::from_seconds(-1.0), Time::ZERO);
        assert_eq!(Time(u64::MAX) + Duration::from_secs(1), Time(u64::MAX));
    }
}
