//! `formant report`.

use crate::args::ReportArgs;
use crate::output::{colour_on_stdout, print, print_json};
use formant_report::{ReportError, RunLog};
use formant_runtime::EVENTS_FILE;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    // The remedy, which stands behind a semicolon, gets a line of its own.
    let hinted = |e: ReportError| anyhow::anyhow!(e.to_string().replacen("; ", "\nhint: ", 1));
    let log = RunLog::read(&args.run_dir.join(EVENTS_FILE)).map_err(hinted)?;
    let rows = formant_report::rows(&log);
    let written = formant_report::write_reports(&args.run_dir).map_err(hinted)?;
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
