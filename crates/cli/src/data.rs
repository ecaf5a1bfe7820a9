//! `formant data`.

use crate::args::{DataArgs, DataCommand, DataDescribeArgs, DataSplitArgs};
use crate::data_export::export;
use crate::output::print;
use crate::progress::LateBar;
use crate::{data_get, data_import, data_show, run};
use anyhow::bail;
use formant_data::{CATALOGUE, CatalogueEntry, data_dir};
use formant_methods::Zoo;
use formant_runtime::files::{self, Synced};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn data(args: DataArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    match args.command {
        DataCommand::List { data_dir } => list(data_dir.as_deref()),
        DataCommand::Show(args) => data_show::show(&args, zoo),
        DataCommand::Export(args) => export(&args, zoo),
        DataCommand::Split(args) => split(&args, zoo),
        DataCommand::Import(args) => data_import::import(&args),
        DataCommand::Check(args) => data_import::check(&args),
        DataCommand::Get(args) => data_get::get(&args),
        DataCommand::Describe(args) => describe(&args),
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
/// What a server must know of data that only its clients have.
fn describe(args: &DataDescribeArgs) -> anyhow::Result<ExitCode> {
    let bar = LateBar::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let origin = args.origin.origin(&args.source)?;
    let loaded = origin.load(threads, &mut |done, total| bar.at(done, total));
    bar.finish();
    let description = toml::Table::try_from(loaded?.description())?;
    let inner = toml::Table::from_iter([("description".to_owned(), description.into())]);
    let outer = toml::Table::from_iter([("data".to_owned(), inner.into())]);
    print(&outer.to_string())?;
    Ok(ExitCode::SUCCESS)
}
