//! For how long ranks could have been heard, and were not.

use std::time::{Duration, Instant};

/// The most that counts between two looks. A process that was stopped for minutes could not hear anybody meanwhile, and
/// what was said to it then is still to be read.
const MOST: Duration = Duration::from_secs(1);

/// Time in which a rank listens.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    now: Duration,
    looked: Option<Instant>,
    /// When each rank was heard last.
    heard: Vec<Duration>,
}

impl Clock {
    pub(crate) fn of(ranks: usize) -> Self {
        Self { heard: vec![Duration::ZERO; ranks], ..Self::default() }
    }

    /// Whoever listens looks.
    pub(crate) fn look(&mut self, now: Instant) {
        let before = self.looked.replace(now).unwrap_or(now);
        self.now += now.saturating_duration_since(before).min(MOST);
    }

    /// A rank was heard, or something was taken by it.
    pub(crate) fn hear(&mut self, rank: usize) {
        if let Some(heard) = self.heard.get_mut(rank) {
            *heard = self.now;
        }
    }

    /// For how long a rank was not.
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.heard.get(rank).map_or(Duration::ZERO, |heard| self.now.saturating_sub(*heard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_heard_is_silent() {
        let (begun, mut clock) = (Instant::now(), Clock::of(3));
        for second in 0..=70 {
            clock.look(begun + Duration::from_secs(second));
            clock.hear(1);
            if second == 30 {
                // A part of something long.
                clock.hear(2);
            }
        }
        let silences = [0, 1, 2].map(|rank| clock.silence(rank).as_secs());
        assert_eq!(silences, [70, 0, 40]);
    }

    #[test]
    fn who_was_stopped_itself_blames_nobody() {
        let (begun, mut clock) = (Instant::now(), Clock::of(2));
        clock.look(begun);
        clock.look(begun + Duration::from_secs(3_600));
        assert_eq!(clock.silence(1), MOST);
        clock.look(begun + Duration::from_secs(1));
        assert_eq!(clock.silence(1), MOST, "clocks do not go back");
    }
}
