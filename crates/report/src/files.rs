//! The reports as files in a run's folder.

use formant_runtime::EVENTS_FILE;
use formant_runtime::files::{Replacement, Synced, Writers, replace};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{ReportError, RunLog, html, html_of, markdown, series_markdown};

/// Reads `events.jsonl` in a run's folder and writes `report.md` and `report.html` next to it.
///
/// Gives back the two paths. Each file appears whole or not at all: readers of an earlier report
/// never see half of a new one.
pub fn write_reports(run_dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let log = RunLog::read(&run_dir.join(EVENTS_FILE))?;
    write(run_dir, [("report.md", markdown(&log)), ("report.html", html_of(&log))])
}

/// Writes `report.md` and `report.html` of one experiment with several seeds into the folder that holds its runs.
/// The logs may be of some of the seeds only.
pub fn write_series_reports(folder: &Path, logs: &[RunLog]) -> Result<Vec<PathBuf>, ReportError> {
    write(folder, [("report.md", series_markdown(logs)?), ("report.html", html(logs))])
}

fn write(folder: &Path, reports: [(&str, String); 2]) -> Result<Vec<PathBuf>, ReportError> {
    reports
        .into_iter()
        .map(|(name, text)| {
            let file = folder.join(name);
            // Somebody else may write the report of the same folder at the same moment.
            let how =
                Replacement { writers: Writers::Many, ..Replacement::synced(Synced::Content) };
            match replace(&file, how, |file| file.write_all(text.as_bytes())) {
                Ok(()) => Ok(file),
                Err(source) => Err(ReportError::Unwritable { file, source }),
            }
        })
        .collect()
}
