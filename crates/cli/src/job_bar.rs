//! A bar over the jobs of a sweep or a tuning.

use crate::output::note;
use crate::progress::{NowAndThen, Ticker, Watch, left, lock};
use formant_runtime::{Parts, Progress, RunPlan};
use formant_study::{Job, Observer, Winner};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A bar over all jobs that moves within them as well.
pub(crate) struct JobBar {
    shown: Arc<Mutex<Shown>>,
    /// Absent when quiet.
    ticker: Option<Ticker>,
}

struct Shown {
    bar: ProgressBar,
    parts: Parts,
    job: String,
    /// Since the job began; none if it has results already.
    watch: Option<Watch>,
    lines: NowAndThen,
}

impl Shown {
    fn show(&mut self) {
        let (mut elapsed, mut rest, mut share) = (Duration::ZERO, None, 0.0);
        if let Some(watch) = &mut self.watch {
            watch.look();
            (elapsed, rest) = (watch.elapsed(), watch.forecast().remaining());
            share = watch.forecast().share();
        }
        let rest = left(self.parts.remaining(elapsed, rest));
        let (done, jobs) = (self.parts.current(), self.parts.count());
        self.bar.set_position(((done as f64 + share) * STEPS) as u64);
        self.bar.set_message(format!("{done}/{jobs}  {rest}  {}", self.job));
        if self.bar.is_hidden() && self.lines.is_due(self.parts.elapsed() + elapsed) {
            eprintln!("{done}/{jobs}  {rest}  {}", self.job);
        }
    }
}

/// Steps of the bar in each job.
const STEPS: f64 = 100.0;

impl JobBar {
    pub(crate) fn new(parts: Parts, quiet: bool) -> anyhow::Result<Self> {
        let steps = (parts.count() as f64 * STEPS) as u64;
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:28.cyan/dim} {wide_msg}")?;
        bar.set_style(style.progress_chars("━━─"));
        let (job, watch, lines) = (String::new(), None, NowAndThen::default());
        let shown = Arc::new(Mutex::new(Shown { bar, parts, job, watch, lines }));
        let ticking = shown.clone();
        let ticker = (!quiet).then(|| Ticker::start(move || lock(&ticking).show()));
        Ok(Self { shown, ticker })
    }

    /// Takes the bar away.
    pub(crate) fn clear(self) {
        drop(self.ticker);
        lock(&self.shown).bar.finish_and_clear();
    }
}

impl Observer for JobBar {
    fn job_started(&self, job: &Job) {
        let mut shown = lock(&self.shown);
        shown.job = format!("{} seed {}", job.setting, job.seed);
    }

    fn job_run(&self, _plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        Box::new(OneJob(self.shown.clone()))
    }

    fn job_done(&self, _job: &Job) {
        let mut shown = lock(&self.shown);
        match shown.watch.take() {
            Some(watch) => shown.parts.finish(watch.elapsed()),
            None => shown.parts.skip(),
        }
    }

    fn jobs_spared(&self, count: usize) {
        let mut shown = lock(&self.shown);
        (0..count).for_each(|_| shown.parts.skip());
    }

    fn search_done(&self, winner: &Winner) {
        let shown = lock(&self.shown);
        if self.ticker.is_some() {
            shown.bar.suspend(|| note!("{}", crate::tune::line(winner)));
        }
    }
}

/// Tells the bar of the run of a job.
struct OneJob(Arc<Mutex<Shown>>);

impl formant_runtime::Observer for OneJob {
    fn progress(&self, progress: &Arc<Progress>) {
        lock(&self.0).watch = Some(Watch::new(progress));
    }
}
