//! `formant tables`: tables in documents, made from files of results.

use crate::args::reproduce::{TablesAddArgs, TablesArgs, TablesCommand};
use crate::output::{check_free, print};
use crate::report::hinted;
use anyhow::bail;
use formant_report::ReportError;
use formant_report::results::{Results, rewrite};
use formant_runtime::files::{self, Synced};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn tables(args: &TablesArgs) -> anyhow::Result<ExitCode> {
    if let Some(TablesCommand::Add(args)) = &args.command {
        return add(args);
    }
    let (mut text, mut drifted) = (String::new(), 0);
    for document in &args.documents {
        let before = String::from_utf8(files::read(document)?).map_err(|_| {
            anyhow::anyhow!("{} is no text\nhint: name a Markdown document", document.display())
        })?;
        let beside = document.parent().unwrap_or(Path::new(""));
        let mut load = |source: &str| -> Result<Results, ReportError> {
            let path = beside.join(source);
            let refuse = |reason: String| ReportError::Results { file: path.clone(), reason };
            let bytes = files::read(&path).map_err(|error| {
                refuse(error.to_string().lines().next().unwrap_or_default().to_owned())
            })?;
            let found = String::from_utf8(bytes).map_err(|error| refuse(error.to_string()))?;
            Results::parse(&path, &found)
        };
        let (after, drifts) =
            rewrite(document, &before, &mut load).map_err(|error| hinted(&error))?;
        for drift in &drifts {
            let (document, line) = (document.display(), drift.line);
            writeln!(text, "{document}, line {line}: not what {} says", drift.source)?;
        }
        drifted += drifts.len();
        if !args.check && after != before {
            files::write(document, after.as_bytes(), Synced::Content)?;
        }
    }
    if args.check && drifted > 0 {
        let names: Vec<String> =
            args.documents.iter().map(|document| document.display().to_string()).collect();
        bail!(
            "{}\nhint: write them anew with `formant tables {}`",
            text.trim_end(),
            names.join(" ")
        );
    }
    if !args.check {
        writeln!(text, "{drifted} table{} made anew", if drifted == 1 { "" } else { "s" })?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn add(args: &TablesAddArgs) -> anyhow::Result<ExitCode> {
    check_free(&args.out, args.force)?;
    let name = args.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut results = formant_study::results_of(&name, &args.runs)?;
    results.commands.clone_from(&args.commands);
    results.notes.clone_from(&args.notes);
    let text = results.text().map_err(|error| hinted(&error))?;
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files::create_folder(folder)?;
    }
    files::write(&args.out, text.as_bytes(), Synced::Content)?;
    let count = results.runs.len();
    print(&format!("wrote {count} results to {}\n", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}
