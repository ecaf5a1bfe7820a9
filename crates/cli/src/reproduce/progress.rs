//! How far a reproduction is.

use crate::output::note;
use crate::progress::{Ticker, Watch, lock, short};
use formant_runtime::{Progress, RunPlan};
use formant_study::{Estimate, Observer, Part, Reproduction};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Until so much time has passed, the calibration says how long it will take; then the parts themselves.
const BELIEF: Duration = Duration::from_secs(20);

/// Between two lines about one and the same part, where nobody looks.
const PAUSE: Duration = Duration::from_secs(60);

/// A bar over all parts, by their estimated times; where nobody looks, a line for each part.
pub(super) struct PartBar {
    bar: ProgressBar,
    /// Estimated milliseconds of each part, by its hash.
    times: HashMap<String, f64>,
    total: f64,
    started: Instant,
    state: RefCell<State>,
    plain: bool,
}

#[derive(Default)]
struct State {
    done: f64,
    parts: usize,
}

impl PartBar {
    pub(super) fn new(
        study: &Reproduction,
        left: &[usize],
        estimate: &Estimate,
        quiet: bool,
    ) -> Self {
        let hash = |place: &usize| study.parts()[*place].hash.clone();
        // No part is done in no time.
        let times: HashMap<String, f64> = left
            .iter()
            .zip(&estimate.seconds)
            .map(|(place, seconds)| (hash(place), (seconds * 1e3).max(1.0)))
            .collect();
        let total: f64 = times.values().sum();
        let terminal = std::io::stderr().is_terminal();
        let target = if quiet || !terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:20.cyan/dim} {msg}") {
            bar.set_style(style.progress_chars("━━─"));
        }
        let plain = !terminal && !quiet;
        Self { bar, times, total, started: Instant::now(), state: RefCell::default(), plain }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// What is left, given what was done and how long that has taken.
fn left(total: f64, done: f64, elapsed: Duration) -> Duration {
    let rest = (total - done).max(0.0);
    let pace =
        if elapsed > BELIEF && done > 0.0 { elapsed.as_secs_f64() * 1e3 / done } else { 1.0 };
    Duration::try_from_secs_f64(rest * pace / 1e3).unwrap_or_default()
}

impl Observer for PartBar {
    fn part_started(&self, part: &Part, _: &RunPlan) -> Box<dyn formant_runtime::Observer + '_> {
        let state = self.state.borrow();
        let line = Arc::new(Line {
            bar: self.bar.clone(),
            name: format!("{}/{} {}", state.parts + 1, self.times.len(), part.name),
            before: state.done,
            own: self.times.get(&part.hash).copied().unwrap_or(0.0),
            total: self.total,
            started: self.started,
            said: self.plain.then(|| Mutex::new(Instant::now())),
        });
        Box::new(Follower { line, ticker: Mutex::new(None) })
    }

    fn part_renewed(&self, part: &Part, why: &str) {
        let (name, hash) = (&part.name, &part.hash);
        let text =
            format!("note: {name} begins anew: {why}; it is set aside in parts/{hash}.damaged");
        self.bar.suspend(|| note!("{text}"));
    }

    fn part_done(&self, part: &Part) {
        let mut state = self.state.borrow_mut();
        state.done += self.times.get(&part.hash).copied().unwrap_or(0.0);
        state.parts += 1;
        self.bar.set_position(state.done as u64);
        if self.plain {
            let rest = short(left(self.total, state.done, self.started.elapsed()));
            eprintln!("{}/{} {}  {rest} left", state.parts, self.times.len(), part.name);
        }
    }

    fn lap_started(&self, method: &str, lap: usize) {
        self.bar.set_message(format!("measuring {method}, lap {lap}"));
    }
}

/// What is said while one part runs.
struct Line {
    bar: ProgressBar,
    name: String,
    before: f64,
    own: f64,
    total: f64,
    started: Instant,
    /// When a line was last written, where nobody looks.
    said: Option<Mutex<Instant>>,
}

impl Line {
    /// A share of the part is done.
    fn at(&self, share: f64) {
        let done = self.before + self.own * share;
        self.bar.set_position(done as u64);
        let rest = short(left(self.total, done, self.started.elapsed()));
        if let Some(said) = &self.said {
            let mut said = lock(said);
            if said.elapsed() > PAUSE {
                *said = Instant::now();
                eprintln!("{}  {:.0} %  {rest} left", self.name, share * 100.0);
            }
        }
        self.bar.set_message(format!("{rest} left  {}", self.name));
    }
}

/// Follows the run of one part.
struct Follower {
    line: Arc<Line>,
    ticker: Mutex<Option<Ticker>>,
}

impl formant_runtime::Observer for Follower {
    fn progress(&self, progress: &Arc<Progress>) {
        let (watch, line) = (Mutex::new(Watch::new(progress)), self.line.clone());
        let ticker = Ticker::start(move || {
            let mut watch = lock(&watch);
            watch.look();
            line.at(watch.forecast().share());
        });
        *lock(&self.ticker) = Some(ticker);
    }
}

/// A word about the calibration, which takes seconds.
pub(super) struct Laps(ProgressBar);

impl Laps {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Laps {
    fn lap_started(&self, method: &str, _lap: usize) {
        self.0.set_message(format!("calibrating: {method}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_first_the_estimate_counts_and_later_the_clock() {
        let seconds = |text: Duration| text.as_secs();
        assert_eq!(seconds(left(100_000.0, 10_000.0, Duration::from_secs(5))), 90);
        assert_eq!(seconds(left(100_000.0, 50_000.0, Duration::from_secs(100))), 100);
        assert_eq!(seconds(left(100_000.0, 0.0, Duration::from_secs(100))), 100);
        assert_eq!(seconds(left(0.0, 0.0, Duration::ZERO)), 0);
    }
}
