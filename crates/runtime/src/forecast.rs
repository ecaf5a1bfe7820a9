//! How long a run will still take, from what it has done so far.
//!
//! No clock is read here: whoever watches says how much time has passed and how far the run is. The price
//! of a sample is measured for each method and for both kinds of work by themselves. It follows what
//! happens: old seconds fade, so that a machine that is busy for a while, or a method whose later rounds
//! cost more, is noticed. What has not been measured yet is taken from what has: another method by the
//! costs that the experiment gives, scoring as a share of training.

use crate::{Position, Stage, Workload};
use core::time::Duration;

/// What scoring a sample takes, in units of training one, until it is measured: the pass forwards without
/// the two backwards.
const SCORING: f64 = 1.0 / 3.0;

/// Seconds of work below which a price says nothing.
const BASIS: f64 = 1.0;

/// Seconds after which a measurement has lost most of its weight: a share of all the time so far, and no
/// less than this.
const MEMORY: f64 = 30.0;

/// What a kind of work was seen to take.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    seconds: f64,
    samples: f64,
    /// Seconds that were looked at, none of them faded.
    looked: f64,
}

impl Seen {
    fn add(&mut self, seconds: f64, samples: f64, memory: f64) {
        let kept = (-seconds / memory).exp();
        self.seconds = self.seconds * kept + seconds;
        self.samples = self.samples * kept + samples;
        self.looked += seconds;
    }

    /// Seconds a sample.
    fn price(&self) -> Option<f64> {
        (self.looked >= BASIS && self.samples > 0.0).then(|| self.seconds / self.samples)
    }
}

/// How long a run will still take.
///
/// ```
/// use core::time::Duration;
/// use formant_runtime::{Forecast, MethodWork, Position, Workload};
///
/// let work = MethodWork { rounds: vec![100; 10], evaluated: vec![], scored: 0, cost: 1.0 };
/// let mut forecast = Forecast::new(Workload { methods: vec![work] });
/// forecast.observe(Duration::ZERO, &Position::default());
/// assert_eq!(forecast.remaining(), None);
/// // A quarter of the first round after five seconds.
/// forecast.observe(Duration::from_secs(5), &Position { trained: 25, ..Position::default() });
/// assert_eq!(forecast.remaining(), Some(Duration::from_secs(195)));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Forecast {
    load: Workload,
    /// By method: training and scoring.
    seen: Vec<[Seen; 2]>,
    last: Option<(Duration, Position)>,
}

impl Forecast {
    /// Before anything of the work is done.
    pub fn new(load: Workload) -> Self {
        let seen = vec![Default::default(); load.methods.len()];
        Self { load, seen, last: None }
    }

    /// So long after it began (or went on), a run is so far.
    pub fn observe(&mut self, elapsed: Duration, at: &Position) {
        if let Some((before, was)) = self.last
            && let Some(work) = self.load.methods.get(was.method)
        {
            let seconds = elapsed.saturating_sub(before).as_secs_f64();
            let memory = MEMORY.max(elapsed.as_secs_f64() / 4.0);
            let start = work.done(&was);
            let end = if at.method == was.method {
                work.done(at)
            } else {
                [work.training(), work.scoring()]
            };
            // All of the time goes to what was under way, whatever it was spent on.
            let spent = match was.stage {
                Stage::Training => [seconds, 0.0],
                Stage::Scoring => [0.0, seconds],
            };
            for kind in 0..2 {
                let samples = end[kind].saturating_sub(start[kind]) as f64;
                if samples > 0.0 || spent[kind] > 0.0 {
                    self.seen[was.method][kind].add(spent[kind], samples, memory);
                }
            }
        }
        self.last = Some((elapsed, *at));
    }

    /// Time until the method under way is done; none without a basis.
    pub fn remaining_of_method(&self) -> Option<Duration> {
        let (_, at) = self.last?;
        self.left(at.method, &at).map(seconds)
    }

    /// Time until the whole run is done; none without a basis.
    pub fn remaining(&self) -> Option<Duration> {
        let (_, at) = self.last?;
        let mut sum = self.left(at.method, &at)?;
        for method in at.method + 1..self.load.methods.len() {
            sum += self.left(method, &Position::default())?;
        }
        Some(seconds(sum))
    }

    /// Share of all work that is done, by what it takes as far as that is known.
    pub fn share(&self) -> f64 {
        let Some((_, at)) = self.last else { return 0.0 };
        let (mut done, mut all) = (0.0, 0.0);
        for (method, work) in self.load.methods.iter().enumerate() {
            let prices = self.prices(method).unwrap_or([work.cost, SCORING * work.cost]);
            let whole = [work.training(), work.scoring()];
            let so_far = match method.cmp(&at.method) {
                core::cmp::Ordering::Less => whole,
                core::cmp::Ordering::Equal => work.done(&at),
                core::cmp::Ordering::Greater => [0, 0],
            };
            done += worth(so_far, prices);
            all += worth(whole, prices);
        }
        if all > 0.0 { (done / all).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// Seconds that are left of a method.
    fn left(&self, method: usize, at: &Position) -> Option<f64> {
        let Some(work) = self.load.methods.get(method) else { return Some(0.0) };
        let done = work.done(at);
        let left = [work.training() - done[0], work.scoring() - done[1]];
        if left == [0, 0] {
            return Some(0.0);
        }
        Some(worth(left, self.prices(method)?))
    }

    /// Seconds a sample of a method, trained and scored: measured, or else from what was.
    fn prices(&self, method: usize) -> Option<[f64; 2]> {
        let own = self.seen[method].map(|seen| seen.price());
        let training = own[0].or_else(|| self.plain_price().map(|plain| plain * self.cost(method)));
        // Models of one network are scored alike, unless they are fine-tuned first.
        let others = || mean(self.seen.iter().filter_map(|seen| seen[1].price()));
        let scoring = own[1].or_else(others);
        match (training, scoring) {
            (Some(training), scoring) => {
                // What a term adds to training costs nothing when models are scored.
                let plain = || training / self.cost(method) * SCORING;
                Some([training, scoring.unwrap_or_else(plain)])
            }
            (None, Some(scoring)) => Some([scoring / SCORING * self.cost(method), scoring]),
            (None, None) => None,
        }
    }

    /// Seconds a sample of plain training, by all methods that were measured.
    fn plain_price(&self) -> Option<f64> {
        let measured = self.seen.iter().enumerate();
        mean(measured.filter_map(|(method, seen)| Some(seen[0].price()? / self.cost(method))))
    }

    fn cost(&self, method: usize) -> f64 {
        self.load.methods.get(method).map_or(1.0, |work| work.cost.max(f64::MIN_POSITIVE))
    }
}

fn worth(samples: [u64; 2], prices: [f64; 2]) -> f64 {
    samples[0] as f64 * prices[0] + samples[1] as f64 * prices[1]
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Several runs that follow each other, such as the seeds of an experiment or the shards of a study, each
/// with the share of the work that it is.
///
/// ```
/// use core::time::Duration;
/// use formant_runtime::Parts;
///
/// let mut parts = Parts::new([1.0, 1.0, 2.0]);
/// assert_eq!((parts.current(), parts.count()), (0, 3));
/// // Ten seconds into the first, with ten more to go.
/// let ten = Duration::from_secs(10);
/// assert_eq!(parts.remaining(ten, Some(ten)), Some(Duration::from_secs(70)));
/// parts.finish(2 * ten);
/// assert_eq!((parts.current(), parts.elapsed()), (1, 2 * ten));
/// // What the first one took says what the others will.
/// assert_eq!(parts.remaining(Duration::ZERO, None), Some(Duration::from_secs(60)));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    work: Vec<f64>,
    done: usize,
    /// Of parts that were run, seconds and work; a part that was there already counts for neither.
    took: Duration,
    ran: f64,
}

impl Parts {
    /// Parts by their work, in any unit.
    pub fn new(work: impl IntoIterator<Item = f64>) -> Self {
        Self { work: work.into_iter().collect(), ..Self::default() }
    }

    /// So many parts of the same work.
    pub fn equal(count: usize) -> Self {
        Self::new(std::iter::repeat_n(1.0, count))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.work.len()
    }

    /// The part under way, from 0.
    pub fn current(&self) -> usize {
        self.done
    }

    /// Time that all finished parts took.
    pub fn elapsed(&self) -> Duration {
        self.took
    }

    /// The part under way is done, after so long.
    pub fn finish(&mut self, took: Duration) {
        self.ran += self.work.get(self.done).copied().unwrap_or(0.0);
        self.took += took;
        self.done += 1;
    }

    /// The part under way was done before, in another session: it says nothing of what others take.
    pub fn skip(&mut self) {
        self.done += 1;
    }

    /// Time until all parts are done, if the one under way has taken so long and needs so much more; none
    /// without a basis.
    pub fn remaining(&self, elapsed: Duration, left: Option<Duration>) -> Option<Duration> {
        let now = self.work.get(self.done).copied().unwrap_or(0.0);
        let later: f64 = self.work.iter().skip(self.done + 1).sum();
        let took = self.took.as_secs_f64();
        let left = match left {
            Some(left) => left.as_secs_f64(),
            None if self.ran > 0.0 => (took / self.ran * now - elapsed.as_secs_f64()).max(0.0),
            None => return None,
        };
        let known = self.ran + now;
        let price = if known > 0.0 { (took + elapsed.as_secs_f64() + left) / known } else { 0.0 };
        Some(seconds(left + price * later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MethodWork;

    fn work(rounds: usize, scored: u64, cost: f64) -> MethodWork {
        let evaluated = if scored > 0 { (1..=rounds).collect() } else { Vec::new() };
        MethodWork { rounds: vec![1_000; rounds], evaluated, scored, cost }
    }

    fn at(method: usize, rounds: usize, trained: u64) -> Position {
        Position { method, rounds, evaluations: rounds, trained, ..Position::default() }
    }

    fn after(forecast: &mut Forecast, seconds: f64, at: Position) -> Option<f64> {
        forecast.observe(Duration::from_secs_f64(seconds), &at);
        forecast.remaining().map(|left| left.as_secs_f64())
    }

    fn is_close(found: Option<f64>, expected: f64) {
        let found = found.expect("a forecast");
        assert!((found - expected).abs() < 0.01 * expected, "{found} for {expected}");
    }

    #[test]
    fn nothing_is_said_without_a_basis_and_soon_there_is_one() {
        let mut forecast = Forecast::new(Workload { methods: vec![work(10, 0, 1.0)] });
        assert_eq!(forecast.remaining(), None);
        assert_eq!(after(&mut forecast, 0.0, at(0, 0, 0)), None);
        assert_eq!(after(&mut forecast, 0.5, at(0, 0, 10)), None, "too early");
        assert_eq!(forecast.remaining_of_method(), None);
        // In the middle of the first round.
        is_close(after(&mut forecast, 2.0, at(0, 0, 100)), 198.0);
        // Nothing is done for a long time: it takes longer than was thought, and not no time at all.
        let longer = after(&mut forecast, 10.0, at(0, 0, 100)).unwrap();
        assert!(longer > 500.0, "{longer}");
    }

    #[test]
    fn it_ends_with_nothing_left() {
        let mut forecast = Forecast::new(Workload { methods: vec![work(2, 0, 1.0); 2] });
        after(&mut forecast, 0.0, at(0, 0, 0));
        assert_eq!(forecast.share(), 0.0);
        is_close(after(&mut forecast, 4.0, at(0, 2, 0)), 4.0);
        assert_eq!(forecast.remaining_of_method(), Some(Duration::ZERO));
        assert!((forecast.share() - 0.5).abs() < 1e-9);
        assert_eq!(after(&mut forecast, 8.0, at(2, 0, 0)), Some(0.0));
        assert_eq!(forecast.share(), 1.0);
    }

    #[test]
    fn evaluations_count_and_are_measured_by_themselves() {
        let mut forecast = Forecast::new(Workload { methods: vec![work(10, 3_000, 1.0)] });
        after(&mut forecast, 0.0, at(0, 0, 0));
        let scoring = |scored, evaluations| Position {
            stage: Stage::Scoring,
            scored,
            evaluations,
            ..at(0, 1, 0)
        };
        // A millisecond a sample: nine rounds of a second, and ten evaluations of as much, as is thought at first.
        is_close(after(&mut forecast, 1.0, scoring(0, 0)), 9.0 + 10.0);
        // It takes three times as long as was thought.
        after(&mut forecast, 4.0, scoring(3_000, 0));
        is_close(after(&mut forecast, 4.0, at(0, 1, 0)), 9.0 + 27.0);
    }

    #[test]
    fn methods_to_come_cost_what_the_experiment_says_until_they_are_measured() {
        let methods = vec![work(1, 0, 1.0), work(1, 0, 3.0), work(1, 0, 2.0)];
        let mut forecast = Forecast::new(Workload { methods });
        after(&mut forecast, 0.0, at(0, 0, 0));
        is_close(after(&mut forecast, 2.0, at(1, 0, 0)), 6.0 + 4.0);
        // The second one takes 12 seconds and not 6; then the third one does not take 4.
        is_close(after(&mut forecast, 14.0, at(2, 0, 0)), 2.0 * f64::midpoint(2.0, 4.0));
    }

    #[test]
    fn later_rounds_that_cost_more_are_noticed() {
        let mut forecast = Forecast::new(Workload { methods: vec![work(400, 0, 1.0)] });
        after(&mut forecast, 0.0, at(0, 0, 0));
        let mut time = 0.0;
        for round in 1..=200 {
            time += if round <= 100 { 1.0 } else { 4.0 };
            after(&mut forecast, time, at(0, round, 0));
        }
        let left = forecast.remaining().unwrap().as_secs_f64();
        assert!((700.0..=800.0).contains(&left), "{left}");
    }

    #[test]
    fn a_resumed_run_is_judged_by_this_session() {
        let mut forecast = Forecast::new(Workload { methods: vec![work(100, 0, 1.0)] });
        after(&mut forecast, 0.0, at(0, 90, 0));
        is_close(after(&mut forecast, 10.0, at(0, 95, 0)), 10.0);
    }

    #[test]
    fn parts_that_were_there_already_say_nothing() {
        let mut parts = Parts::equal(4);
        parts.skip();
        assert_eq!(parts.remaining(Duration::ZERO, None), None);
        parts.finish(Duration::from_secs(5));
        assert_eq!(parts.remaining(Duration::ZERO, None), Some(Duration::from_secs(10)));
    }
}
