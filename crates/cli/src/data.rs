//! `formant data`.

use crate::args::{DataArgs, DataCommand};
use crate::data_export::export;
use crate::output::print;
use crate::{data_get, data_import, data_show};
use formant_data::{CATALOGUE, CatalogueEntry, data_dir};
use formant_methods::Zoo;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn data(args: DataArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    match args.command {
        DataCommand::List { data_dir } => list(data_dir.as_deref()),
        DataCommand::Show(args) => data_show::show(&args, zoo),
        DataCommand::Export(args) => export(&args, zoo),
        DataCommand::Import(args) => data_import::import(&args),
        DataCommand::Check(args) => data_import::check(&args),
        DataCommand::Get(args) => data_get::get(&args),
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

/// Whether all files of a dataset are there, in its own folder or directly in the data folder.
fn place(entry: &CatalogueEntry, dir: &Path) -> &'static str {
    if entry.files.is_empty() {
        return "embedded";
    }
    let holds = |folder: &Path| {
        entry
            .files
            .iter()
            .all(|file| folder.join(file).is_file() || folder.join(format!("{file}.gz")).is_file())
    };
    if holds(&dir.join(entry.folder)) || holds(dir) { "found" } else { "not found" }
}
