//! `formant data`.

use crate::args::{DataArgs, DataCommand, DataSplitArgs, ExperimentArgs};
use crate::data_export::export;
use crate::output::{colour_on_stdout, print};
use crate::run;
use anyhow::bail;
use formant_data::{CATALOGUE, CatalogueEntry, data_dir, show};
use formant_methods::Zoo;
use formant_runtime::files::{self, Synced};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn data(args: DataArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    match args.command {
        DataCommand::List { data_dir } => list(data_dir.as_deref()),
        DataCommand::Show(args) => show(&args, zoo),
        DataCommand::Export(args) => export(&args, zoo),
        DataCommand::Split(args) => split(&args, zoo),
    }
}

fn list(dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    let dir = data_dir(dir);
    let mut text = String::new();
    for entry in CATALOGUE {
        let (name, shape, classes) = (entry.name, entry.shape.to_string(), entry.classes);
        let (place, summary) = (place(entry, &dir), entry.summary);
        writeln!(text, "{name:14} {shape:9} {classes:>3} classes  {place:9}  {summary}")?;
    }
    writeln!(text, "\nlooked in {}; change it with --data-dir or FORMANT_DATA", dir.display())?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether all files of a dataset are there.
fn place(entry: &CatalogueEntry, dir: &Path) -> &'static str {
    match entry.is_in(dir) {
        _ if entry.files.is_empty() => "embedded",
        true => "found",
        false => "not found",
    }
}

fn show(args: &ExperimentArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let federation = run::experiment(args, &[], zoo)?.federation()?;
    let heat_map = show::heat_map(&federation, colour_on_stdout());
    print(&format!("{}\n{heat_map}", show::table(&federation)))?;
    Ok(ExitCode::SUCCESS)
}

fn split(args: &DataSplitArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    if args.out.exists() && !args.force {
        bail!(
            "{} exists already\nhint: name another file with --out, or replace it with --force",
            args.out.display()
        );
    }
    let federation = run::experiment(&args.experiment, &[], zoo)?.federation()?;
    files::write(&args.out, federation.to_json().as_bytes(), Synced::Content)?;
    print(&format!(
        "wrote the samples of {} clients to {}\n",
        federation.clients.len(),
        args.out.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
