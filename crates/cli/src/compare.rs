//! `formant compare`.

use crate::args::compare::CompareArgs;
use crate::output::{note, print, print_json};
use crate::report::hinted;
use formant_report::{ExportFile, RunLog};
use formant_runtime::EVENTS_FILE;
use formant_study::run_folders;
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let folders = run_folders(&args.run_dirs)?;
    let logs = folders.iter().map(|folder| RunLog::read(&folder.join(EVENTS_FILE)));
    let logs = logs.collect::<Result<Vec<_>, _>>().map_err(|error| hinted(&error))?;
    for (folder, _) in folders.iter().zip(&logs).filter(|(_, log)| log.seconds.is_none()) {
        note!("note: {} has not finished; figures are of its rounds so far", folder.display());
    }
    let found = formant_report::compare(logs, args.baseline.as_deref());
    let found = found.map_err(|error| hinted(&error))?;
    let mut files = Vec::new();
    let csv = args.csv.iter().map(|path| (path, formant_report::comparison_csv(&found)));
    let latex =
        args.latex.iter().map(|path| (path, formant_report::comparison_latex(&found).into_bytes()));
    files.extend(csv.chain(latex).map(|(path, bytes)| ExportFile::new(path, bytes)));
    formant_report::write_exports(&files, args.force).map_err(|error| hinted(&error))?;
    for file in &files {
        note!("wrote {}", file.path.display());
    }
    if args.json {
        let mut value = serde_json::to_value(&found)?;
        value["run_dirs"] = serde_json::to_value(&folders)?;
        print_json(&value)?;
    } else {
        print(&formant_report::comparison_table(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}
