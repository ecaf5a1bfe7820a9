//! The reports as files in a run's folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{ReportError, RunLog, html, markdown};

/// Reads `events.jsonl` in a run's folder and writes `report.md` and `report.html` next to it.
///
/// Gives back the two paths. Each file appears whole or not at all: readers of an earlier report
/// never see half of a new one.
pub fn write_reports(run_dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let log = RunLog::read(&run_dir.join("events.jsonl"))?;
    let reports = [("report.md", markdown(&log)), ("report.html", html(&log))];
    reports
        .into_iter()
        .map(|(name, text)| {
            let file = run_dir.join(name);
            match replace(run_dir, name, &text) {
                Ok(()) => Ok(file),
                Err(source) => Err(ReportError::Unwritable { file, source }),
            }
        })
        .collect()
}

/// Writes beside the old file, then renames over it; within one folder a rename is atomic.
fn replace(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    // Two writers of one folder, be they threads or processes, must not share a temporary file.
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".{name}.{}.{writer}.tmp", process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, folder.join(name)));
    if written.is_err() {
        // The error that matters is the first one; a file that was never made cannot be removed.
        let _ = fs::remove_file(&temporary);
    }
    written
}
