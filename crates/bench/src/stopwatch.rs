//! Counting what several workers get done in a given time.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one worker did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) seconds: f64,
}

impl Tally {
    /// Repetitions a second of all workers together.
    pub(crate) fn rate(tallies: &[Self]) -> f64 {
        tallies.iter().map(|tally| tally.count as f64 / tally.seconds).sum()
    }

    /// Seconds of one repetition on one worker, averaged over the workers.
    pub(crate) fn seconds_each(tallies: &[Self]) -> f64 {
        tallies.len() as f64 / Self::rate(tallies)
    }

    pub(crate) fn total(tallies: &[Self]) -> u64 {
        tallies.iter().map(|tally| tally.count).sum()
    }
}

/// Repeats `work` on every worker at once, each in a thread of its own, for about `seconds`. Only
/// whole repetitions count, and the time of the last one counts with it.
pub(crate) fn together<W: Send>(
    workers: &mut [W],
    (warm_up, seconds): (f64, f64),
    work: impl Fn(&mut W) + Sync,
) -> Vec<Tally> {
    let start = Barrier::new(workers.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    repeat(worker, warm_up, work);
                    start.wait();
                    repeat(worker, seconds, work)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(tally) => tally,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

fn repeat<W>(worker: &mut W, seconds: f64, work: &impl Fn(&mut W)) -> Tally {
    let (limit, started) = (Duration::from_secs_f64(seconds.max(0.0)), Instant::now());
    let mut count = 0;
    loop {
        work(worker);
        count += 1;
        let elapsed = started.elapsed();
        if elapsed >= limit {
            return Tally { count, seconds: elapsed.as_secs_f64() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_and_times_average() {
        let tallies = [Tally { count: 10, seconds: 2.0 }, Tally { count: 15, seconds: 1.0 }];
        assert_eq!(Tally::rate(&tallies), 20.0);
        assert_eq!(Tally::seconds_each(&tallies), 0.1);
        assert_eq!(Tally::total(&tallies), 25);
    }

    #[test]
    fn everybody_works_at_least_once() {
        let mut workers = [0, 0];
        let tallies = together(&mut workers, (0.0, 0.0), |worker| *worker += 1);
        // Once to warm up, once that counts.
        assert_eq!(workers, [2, 2]);
        assert_eq!(Tally::total(&tallies), 2);
    }
}
