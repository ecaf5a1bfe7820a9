//! `formant report` and `formant compare`.

use crate::args::{CompareArgs, ReportArgs};
use crate::output::{colour_on_stdout, print, print_json};
use formant_report::{ReportError, RunLog};
use formant_runtime::EVENTS_FILE;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The remedy, which stands behind a semicolon, gets a line of its own.
pub(crate) fn hinted(error: &ReportError) -> anyhow::Error {
    anyhow::anyhow!(error.to_string().replacen("; ", "\nhint: ", 1))
}

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let logs = args.run_dirs.iter().map(|folder| RunLog::read(&folder.join(EVENTS_FILE)));
    let logs = logs.collect::<Result<Vec<_>, _>>().map_err(|error| hinted(&error))?;
    let rows = formant_report::over_seeds(&logs).map_err(|error| hinted(&error))?;
    if args.json {
        print_json(&rows)?;
    } else {
        let seeds: Vec<_> = logs.iter().map(|log| log.started.seed.to_string()).collect();
        let table = formant_report::seed_table(&rows);
        let read = "mean ± standard deviation over the seeds";
        print(&format!("{table}\n{read} {}\n", seeds.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
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
