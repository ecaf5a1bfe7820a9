//! Progress: a bar per method with round, GM, PM and time left, a line for all of them, and plain bars for other
//! work.

mod line;
mod simple;
mod ticker;

pub(crate) use line::{left, short};
pub(crate) use simple::{ByteBar, LateBar};
pub(crate) use ticker::{NowAndThen, Ticker};

use formant_runtime::event::{Event, Metric, RunStarted};
use formant_runtime::{Forecast, Observer, Parts, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use line::{Line, wrapped};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps of a bar.
const STEPS: u64 = 1_000;

/// Bars on a terminal; a line now and then and one per finished method elsewhere; nothing when quiet.
pub(crate) struct Bars {
    screen: Arc<Screen>,
    /// Goes first, so that nothing is drawn behind whoever prints next.
    ticker: Option<Ticker>,
}

/// What is drawn, and where.
struct Screen {
    multi: MultiProgress,
    state: Mutex<State>,
    is_terminal: bool,
}

#[derive(Default)]
struct State {
    rounds: usize,
    width: usize,
    titles: Vec<(String, String)>,
    /// The method under way: its label, its round and its bar.
    method: String,
    round: usize,
    bar: Option<ProgressBar>,
    /// The method that has ended last.
    ended: String,
    /// The line below all bars, if there is more than one to come.
    total: Option<ProgressBar>,
    scores: String,
    /// What they are by.
    metric: Metric,
    /// Printed with the first event: a run that is refused has none.
    introduction: Option<String>,
    watch: Option<Watch>,
    parts: Option<Arc<Mutex<Parts>>>,
    lines: NowAndThen,
}

/// A run under way and how long it will still take.
pub(crate) struct Watch {
    started: Instant,
    progress: Arc<Progress>,
    forecast: Forecast,
}

impl Watch {
    pub(crate) fn new(progress: &Arc<Progress>) -> Self {
        let forecast = Forecast::new(progress.workload().clone());
        let mut watch = Self { started: Instant::now(), progress: progress.clone(), forecast };
        watch.look();
        watch
    }

    /// Looks how far it is.
    pub(crate) fn look(&mut self) {
        self.forecast.observe(self.started.elapsed(), &self.progress.position());
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// Share of the method's samples that are trained.
    fn share_of_method(&self) -> f64 {
        let at = self.progress.position();
        let Some(work) = self.progress.workload().methods.get(at.method) else { return 1.0 };
        let open = work
            .rounds
            .get(at.rounds)
            .map_or(0.0, |round| (at.trained as f64 / (*round).max(1) as f64).min(1.0));
        (at.rounds as f64 + open) / work.rounds.len().max(1) as f64
    }
}

impl Bars {
    /// Bars for one run.
    pub(crate) fn new(quiet: bool) -> Self {
        Self::start(quiet, None)
    }

    /// Bars for one of several runs that follow each other: the total line then says which part it is, and how long
    /// all of them will take. The part ends with the run; whoever finds one that was done before skips it.
    pub(crate) fn part_of(quiet: bool, parts: &Arc<Mutex<Parts>>) -> Self {
        Self::start(quiet, Some(parts.clone()))
    }

    fn start(quiet: bool, parts: Option<Arc<Mutex<Parts>>>) -> Self {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let screen = Arc::new(Screen {
            multi: MultiProgress::with_draw_target(target),
            state: Mutex::new(State { parts, ..State::default() }),
            is_terminal: std::io::stderr().is_terminal(),
        });
        let ticking = screen.clone();
        let ticker = (!quiet).then(|| Ticker::start(move || ticking.tick()));
        Self { screen, ticker }
    }

    /// Names the methods, also of a run that is resumed and whose header is not recorded again.
    pub(crate) fn announce(&self, header: &RunStarted, introduction: String) {
        let mut state = self.screen.state();
        state.introduction = Some(introduction);
        state.rounds = header.rounds;
        state.metric = header.metrics.first();
        state.titles = header.methods.iter().map(|m| (m.label.clone(), m.title.clone())).collect();
        let widest = state.titles.iter().map(|(_, title)| title.chars().count()).max();
        // As wide as the word in front of the last line.
        state.width = widest.unwrap_or(0).max(if state.has_total() { 5 } else { 0 });
    }
}

impl State {
    /// Whether there is more to come than the method under way.
    fn has_total(&self) -> bool {
        self.titles.len() > 1 || self.parts.is_some()
    }

    fn title(&self) -> &str {
        let known = self.titles.iter().find(|(label, _)| *label == self.method);
        known.map_or(&self.method, |(_, title)| title)
    }

    /// What the method under way says.
    fn line(&self, time: String) -> Line {
        Line {
            title: self.title().into(),
            width: self.width,
            count: format!("{:>4}/{}", self.round, self.rounds),
            scores: self.scores.clone(),
            time,
        }
    }

    /// What is said of all methods and parts.
    fn total(&self) -> Option<(Line, f64)> {
        let watch = self.watch.as_ref().filter(|_| self.has_total())?;
        let (mut elapsed, mut rest) = (watch.elapsed(), watch.forecast().remaining());
        let mut share = watch.forecast().share();
        let mut part = String::new();
        if let Some(parts) = &self.parts {
            let parts = lock(parts);
            rest = parts.remaining(elapsed, rest);
            elapsed += parts.elapsed();
            let (current, count) = (parts.current(), parts.count().max(1));
            part = format!("part {} of {count}, ", (current + 1).min(count));
            share = match rest {
                Some(rest) => {
                    let (so_far, rest) = (elapsed.as_secs_f64(), rest.as_secs_f64());
                    so_far / (so_far + rest).max(f64::MIN_POSITIVE)
                }
                None => (current as f64 + share) / count as f64,
            };
        }
        let line = Line {
            title: "total".into(),
            width: self.width,
            count: format!("{:>4} %", (100.0 * share).floor()),
            scores: format!("  {part}{} so far,", short(elapsed)),
            time: left(rest),
        };
        Some((line, share))
    }
}

impl Screen {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Shows how far it is, whatever has happened.
    fn tick(&self) {
        let mut state = self.state();
        let Some(watch) = &mut state.watch else { return };
        watch.look();
        let at = watch.progress.position();
        // A run that goes on in the middle of a round opens none.
        if state.bar.is_none()
            && let Some((label, _)) = state.titles.get(at.method).cloned()
            && label != state.ended
        {
            self.begin(&mut state, &label);
            state.round = (at.rounds + 1).min(state.rounds);
        }
        if self.is_terminal {
            Self::draw(&state);
        } else {
            Self::write_now_and_then(&mut state);
        }
    }

    fn draw(state: &State) {
        let Some(watch) = &state.watch else { return };
        if let Some(bar) = &state.bar {
            let line = state.line(left(watch.forecast().remaining_of_method()));
            put(bar, &line, watch.share_of_method());
        }
        if let (Some(bar), Some((line, share))) = (&state.total, state.total()) {
            put(bar, &line, share);
        }
    }

    fn write_now_and_then(state: &mut State) {
        let Some(watch) = &state.watch else { return };
        let (elapsed, rest) = (watch.elapsed(), watch.forecast().remaining_of_method());
        if state.method.is_empty() || !state.lines.is_due(elapsed) {
            return;
        }
        eprintln!("{}", state.line(left(rest)).plain());
        if let Some((line, _)) = state.total() {
            eprintln!("{}", line.plain());
        }
    }

    /// Says what is about to run, once.
    fn introduce(&self, state: &mut State) {
        if let Some(text) = state.introduction.take() {
            let columns = if self.is_terminal { columns() } else { usize::MAX };
            eprintln!("{}", wrapped(&text, columns));
        }
    }

    fn begin(&self, state: &mut State, method: &str) {
        method.clone_into(&mut state.method);
        state.scores.clear();
        let bar = match &state.total {
            Some(total) => self.multi.insert_before(total, ProgressBar::new(STEPS)),
            None => self.multi.add(ProgressBar::new(STEPS)),
        };
        state.bar = Some(bar);
        if state.total.is_none() && state.has_total() {
            state.total = Some(self.multi.add(ProgressBar::new(STEPS)));
        }
    }

    fn follow(&self, state: &mut State, event: &Event) {
        match event {
            Event::RoundStarted { method, round, .. }
            | Event::RoundFinished { method, round, .. } => {
                if state.bar.is_none() {
                    self.begin(state, method);
                }
                state.round = *round;
            }
            Event::Evaluated(scores) => {
                let metric = state.metric;
                let gm = scores.gm.as_ref().and_then(|gm| gm.figure(metric));
                let pm = scores.pm.as_ref().and_then(|pm| pm.by(metric)).map(|pm| pm.weighted);
                let by = (!metric.is_accuracy()).then(|| format!("  {}", metric.title()));
                let gm = gm.map(|gm| format!("  GM {:5.1}", 100.0 * gm));
                let pm = pm.map(|pm| format!("  PM {:5.1}", 100.0 * pm));
                state.scores = [by, gm, pm].into_iter().flatten().collect();
            }
            Event::MethodFinished { method, rounds, seconds, stopped, best_round, .. } => {
                let end = match (stopped, best_round) {
                    (Some(_), Some(best)) => format!("  stopped, round {best} was the best"),
                    (Some(_), None) => "  stopped early".to_owned(),
                    (None, _) => String::new(),
                };
                let time = short(Duration::try_from_secs_f64(*seconds).unwrap_or_default());
                (state.method, state.round) = (method.clone(), *rounds);
                let line = state.line(format!("{time}{end}"));
                if let Some(bar) = state.bar.take() {
                    put(&bar, &line, *rounds as f64 / state.rounds.max(1) as f64);
                    bar.abandon();
                }
                if !self.is_terminal {
                    eprintln!("{}", line.plain());
                }
                state.ended = std::mem::take(&mut state.method);
                return;
            }
            Event::RunFinished { .. } => {
                if let (Some(parts), Some(watch)) = (&state.parts, &state.watch) {
                    lock(parts).finish(watch.elapsed());
                }
                if let Some(total) = state.total.take() {
                    total.finish_and_clear();
                }
                state.watch = None;
            }
            _ => return,
        }
        if let Some(watch) = &mut state.watch {
            watch.look();
        }
        if self.is_terminal {
            Self::draw(state);
        }
    }
}

/// Draws a line with its bar, as wide as the terminal is now.
fn put(bar: &ProgressBar, line: &Line, share: f64) {
    let (title, width, text) = line.fit(columns());
    let bar_of = |width| format!("{{bar:{width}.cyan/dim}} ");
    let drawn = if width > 0 { bar_of(width) } else { String::new() };
    let template = format!("{{prefix}} {drawn}{{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.progress_chars("━━─"));
    }
    bar.set_prefix(title);
    bar.set_message(text);
    bar.set_position((share * STEPS as f64) as u64);
}

/// As wide as the terminal is now.
fn columns() -> usize {
    usize::from(console::Term::stderr().size().1)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Bars {
    fn event(&self, event: &Event) {
        if self.ticker.is_none() {
            return;
        }
        let mut state = self.screen.state();
        self.screen.introduce(&mut state);
        self.screen.follow(&mut state, event);
    }

    fn progress(&self, progress: &Arc<Progress>) {
        let mut state = self.screen.state();
        if self.ticker.is_some() {
            self.screen.introduce(&mut state);
        }
        state.watch = Some(Watch::new(progress));
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.ticker = None;
        let mut state = self.screen.state();
        if let Some(bar) = state.bar.take() {
            bar.abandon();
        }
        if let Some(total) = state.total.take() {
            total.finish_and_clear();
        }
    }
}
