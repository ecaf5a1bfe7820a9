//! `formant report`.

use crate::args::ReportArgs;
use crate::output::colour_on_stdout;
use formant_report::RunLog;
use formant_runtime::EVENTS_FILE;
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let log = RunLog::read(&args.run_dir.join(EVENTS_FILE))?;
    let rows = formant_report::rows(&log);
    let written = formant_report::write_reports(&args.run_dir)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", formant_report::table(&rows, colour_on_stdout()));
    for path in written {
        println!("wrote {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
