//! `formant report`.

use crate::args::report::ReportArgs;
use crate::exporting;
use crate::output::{colour_on_stdout, note, print, print_json};
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
        return series::report(args);
    }
    let log = RunLog::read(&args.run_dir.join(EVENTS_FILE)).map_err(|error| hinted(&error))?;
    let logs = [log];
    let exported = exporting::write(&args.exports, &logs).map_err(|error| hinted(&error))?;
    let written = formant_report::write_reports(&args.run_dir).map_err(|error| hinted(&error))?;
    if args.json {
        for line in exported {
            note!("{line}");
        }
        print_json(&formant_report::record(&logs[0]))?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = formant_report::rows(&logs[0]);
    let mut text = formant_report::table(&rows, colour_on_stdout()) + "\n";
    for path in written {
        writeln!(text, "wrote {}", path.display())?;
    }
    for line in exported {
        writeln!(text, "{line}")?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
