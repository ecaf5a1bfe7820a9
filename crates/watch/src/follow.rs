//! Looks at a log, and at a server, again and again.

use crate::line::{TAIL, recent};
use crate::{Live, Target, status};
use formant_report::RunLog;
use formant_runtime::EVENTS_FILE;
use formant_runtime::event::Side;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// A report that took long to make is made again after so many times as long: most of a core is left to the run.
const REST: u32 = 20;

/// What was seen last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) live: Live,
    /// The report, once there is a log.
    pub(crate) report: Option<Arc<str>>,
}

pub(crate) struct Follower {
    target: Target,
    stop: Arc<AtomicBool>,
    seen: watch::Sender<Seen>,
    /// Length and time of change of every log, when it was read.
    read: Vec<Mark>,
    /// When the next report may be made.
    due: Instant,
    names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Mark {
    path: PathBuf,
    bytes: u64,
}

impl Follower {
    pub(crate) fn new(target: Target, stop: Arc<AtomicBool>) -> (Self, watch::Receiver<Seen>) {
        let (seen, receiver) = watch::channel(Seen::default());
        let (read, names, due) = (Vec::new(), Vec::new(), Instant::now());
        (Self { target, stop, seen, read, due, names }, receiver)
    }

    /// Looks until it is told to stop.
    pub(crate) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let mut now = self.seen.borrow().clone();
            self.look(&mut now);
            self.seen.send_if_modified(|seen| {
                let changed = seen.live != now.live;
                *seen = now;
                changed
            });
            std::thread::sleep(PAUSE);
        }
    }

    fn look(&mut self, now: &mut Seen) {
        let mut problem = None;
        if let Some(folder) = self.target.folder.clone() {
            let logs = logs(&folder);
            if let Some(newest) = logs.last() {
                now.live.quiet = quiet(&newest.path);
                now.live.recent = recent(&tail(&newest.path), &self.names);
            }
            if logs != self.read && !logs.is_empty() && Instant::now() >= self.due {
                problem = self.read(logs, now);
            } else {
                problem.clone_from(&now.live.problem);
            }
        }
        let is_server = now.live.side == Side::Server || self.target.folder.is_none();
        if let Some(ops) = self.target.ops.as_ref().filter(|_| is_server) {
            match status::fetch(ops) {
                Ok(status) => now.live.status = Some(status),
                Err(error) => {
                    now.live.status = None;
                    let text = error.to_string();
                    problem = problem.or(text.lines().next().map(str::to_owned));
                }
            }
        }
        now.live.problem = problem;
    }

    /// Reads the logs and draws their report; says why if that fails.
    fn read(&mut self, logs: Vec<Mark>, now: &mut Seen) -> Option<String> {
        let started = Instant::now();
        let read: Result<Vec<RunLog>, _> = logs.iter().map(|log| RunLog::read(&log.path)).collect();
        self.read = logs;
        let outcome = match read {
            Ok(logs) => {
                if let Some(newest) = logs.last() {
                    self.names.clone_from(&newest.started.names);
                    let Live { version, quiet, recent, status, .. } = std::mem::take(&mut now.live);
                    now.live =
                        Live { version: version + 1, quiet, recent, status, ..Live::of(newest) };
                }
                now.report = Some(formant_report::html(&logs).into());
                None
            }
            // A log that is being written may end in the middle of its first line.
            Err(error) => Some(error.to_string()),
        };
        self.due = Instant::now() + started.elapsed() * REST;
        outcome
    }
}

/// The log of a folder, or those of a series' folders, the one that changed last behind the others.
fn logs(folder: &Path) -> Vec<Mark> {
    let mark = |path: PathBuf| {
        let metadata = path.metadata().ok().filter(|metadata| metadata.len() > 0)?;
        Some((metadata.modified().ok()?, Mark { path, bytes: metadata.len() }))
    };
    if let Some((_, own)) = mark(folder.join(EVENTS_FILE)) {
        return vec![own];
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let seeds =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("seed-"));
    let mut found: Vec<_> =
        seeds.filter_map(|entry| mark(entry.path().join(EVENTS_FILE))).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.path.cmp(&b.1.path)));
    found.into_iter().map(|(_, mark)| mark).collect()
}

/// The end of a file, as far as it can be read.
fn tail(path: &Path) -> Vec<u8> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    read().unwrap_or_default()
}

/// Whole seconds since a file has changed, in steps so that the page need not hear of each.
fn quiet(path: &Path) -> u64 {
    let changed = path.metadata().and_then(|metadata| metadata.modified());
    let seconds = changed.ok().and_then(|at| at.elapsed().ok()).map_or(0, |past| past.as_secs());
    if seconds < 10 { 0 } else { seconds / 10 * 10 }
}
