//! Progress: a bar per method with round, GM, PM and time left, and a plain one for other work.

use formant_runtime::Observer;
use formant_runtime::event::{Event, Metric};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bars on a terminal; a line per finished method elsewhere; nothing when quiet.
pub(crate) struct Bars {
    multi: MultiProgress,
    style: ProgressStyle,
    state: Mutex<State>,
    plain: bool,
    quiet: bool,
}

#[derive(Default)]
struct State {
    rounds: u64,
    width: usize,
    titles: HashMap<String, String>,
    bar: Option<ProgressBar>,
    scores: String,
    /// What they are by.
    metric: Metric,
    /// Printed with the first event: a run that is refused has none.
    introduction: Option<String>,
}

/// Steps of the bar within a round, so that a long round moves too.
const STEPS: u64 = 1_000;

impl Bars {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let template = "{prefix} {bar:28.cyan/dim} {msg}";
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("━━─");
        Self {
            multi: MultiProgress::with_draw_target(target),
            style,
            state: Mutex::default(),
            plain: !terminal,
            quiet,
        }
    }

    fn with_state(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Names the methods, also of a run that is resumed and whose header is not recorded again.
    pub(crate) fn announce(
        &self,
        header: &formant_runtime::event::RunStarted,
        introduction: String,
    ) {
        self.with_state(|state| {
            state.introduction = Some(introduction);
            state.rounds = header.rounds as u64;
            state.metric = header.metrics.first();
            state.titles =
                header.methods.iter().map(|m| (m.label.clone(), m.title.clone())).collect();
            state.width = state.titles.values().map(|t| t.chars().count()).max().unwrap_or(0);
        });
    }

    fn start(&self, state: &mut State, method: &str) {
        let bar = self.multi.add(ProgressBar::new(state.rounds * STEPS));
        let title = state.titles.get(method).map_or(method, String::as_str);
        bar.set_style(self.style.clone());
        bar.set_prefix(format!("{title:width$}", width = state.width));
        state.scores.clear();
        state.bar = Some(bar);
    }

    fn show(state: &State, round: usize) {
        if let Some(bar) = &state.bar {
            let left = short(bar.eta());
            bar.set_message(format!("{round:>4}/{}{}  {left} left", state.rounds, state.scores));
        }
    }

    fn follow(&self, state: &mut State, event: &Event) {
        match event {
            Event::RoundStarted { method, round, .. } => {
                if state.bar.is_none() {
                    self.start(state, method);
                    if let Some(bar) = &state.bar {
                        bar.set_position((*round as u64 - 1) * STEPS);
                        bar.reset_eta();
                    }
                }
                Self::show(state, *round);
            }
            Event::RoundFinished { round, .. } => {
                if let Some(bar) = &state.bar {
                    bar.set_position(*round as u64 * STEPS);
                }
                Self::show(state, *round);
            }
            Event::Evaluated(scores) => {
                let metric = state.metric;
                let gm = scores.gm.as_ref().and_then(|gm| gm.figure(metric));
                let pm = scores.pm.as_ref().and_then(|pm| pm.by(metric)).map(|pm| pm.weighted);
                let by = (!metric.is_accuracy()).then(|| format!("  {}", metric.title()));
                let gm = gm.map(|gm| format!("  GM {:5.1}", 100.0 * gm));
                let pm = pm.map(|pm| format!("  PM {:5.1}", 100.0 * pm));
                state.scores = [by, gm, pm].into_iter().flatten().collect();
                Self::show(state, scores.round);
            }
            Event::MethodFinished { method, rounds, seconds, stopped, best_round, .. } => {
                let end = match (stopped, best_round) {
                    (Some(_), Some(best)) => format!("  stopped, round {best} was the best"),
                    (Some(_), None) => "  stopped early".to_owned(),
                    (None, _) => String::new(),
                };
                let time = short(Duration::try_from_secs_f64(*seconds).unwrap_or_default());
                let text = format!("{rounds:>4}/{}{}  {time}{end}", state.rounds, state.scores);
                if let Some(bar) = state.bar.take() {
                    bar.abandon_with_message(text.clone());
                }
                if self.plain {
                    let title = state.titles.get(method).map_or(method.as_str(), String::as_str);
                    eprintln!("{title:width$} {text}", width = state.width);
                }
            }
            _ => {}
        }
    }
}

impl Observer for Bars {
    fn event(&self, event: &Event) {
        if self.quiet {
            return;
        }
        self.with_state(|state| {
            if let Some(introduction) = state.introduction.take() {
                eprintln!("{introduction}");
            }
            self.follow(state, event);
        });
    }

    fn client_done(&self, _method: &str, round: usize, done: usize, of: usize) {
        self.with_state(|state| {
            if let Some(bar) = &state.bar {
                let part = STEPS * done as u64 / of.max(1) as u64;
                bar.set_position((round as u64 - 1) * STEPS + part);
            }
        });
    }
}

/// A bar that is drawn only if the work takes more than a moment.
pub(crate) struct LateBar {
    bar: ProgressBar,
    start: Instant,
}

impl LateBar {
    pub(crate) fn new(steps: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        Self { bar, start: Instant::now() }
    }

    pub(crate) fn advance(&self, steps: usize) {
        if self.bar.is_hidden() && self.start.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps as u64);
    }

    /// So many steps are done, of so many.
    pub(crate) fn at(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.advance(done.saturating_sub(self.bar.position() as usize));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar for each file that comes, with its speed.
#[derive(Default)]
pub(crate) struct ByteBar {
    bar: Option<(String, ProgressBar)>,
}

impl ByteBar {
    /// So many bytes of a file are there, of so many if that is known.
    pub(crate) fn at(&mut self, file: &str, done: u64, total: Option<u64>) {
        let is_other = self.bar.as_ref().is_none_or(|(name, _)| name != file);
        if is_other {
            self.finish();
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(total, target).with_message(file.to_owned());
            let template =
                "{msg} {bar:28.cyan/dim} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━━─"));
            }
            bar.set_position(done);
            bar.reset_eta();
            self.bar = Some((file.to_owned(), bar));
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_position(done);
        }
    }

    pub(crate) fn finish(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// `0:07`, `12:30`, `1:02:03`.
pub(crate) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}
