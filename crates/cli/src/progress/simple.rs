//! Plain bars, for work that is no run.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

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
