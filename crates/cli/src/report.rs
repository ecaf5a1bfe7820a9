//! `formant report`.

use crate::args::ReportArgs;
use crate::output::{colour_on_stdout, print, print_json};
use crate::series;
use formant_report::{ReportError, RunLog};
use formant_runtime::EVENTS_FILE;
use formant_study::Series;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The remedy, which stands behind a semicolon, gets a line of its own.
pub(crate) fn hinted(error: &ReportError) -> anyhow::Error {
    anyhow::anyhow!(error.to_string().replacen("; ", "\nhint: ", 1))
}

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if Series::is_one(&args.run_dir) {
        return series::report(&args.run_dir, args.json);
    }
    let log = RunLog::read(&args.run_dir.join(EVENTS_FILE)).map_err(|error| hinted(&error))?;
    let rows = formant_report::rows(&log);
    let written = formant_report::write_reports(&args.run_dir).map_err(|error| hinted(&error))?;
    if args.json {
        print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = formant_report::table(&rows, colour_on_stdout()) + "\n";
    for path in written {
        writeln!(text, "wrote {}", path.display())?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
