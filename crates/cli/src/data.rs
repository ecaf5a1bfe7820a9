//! `formant data`.

use crate::args::{DataArgs, DataCommand, ExperimentArgs};
use crate::output::colour_on_stdout;
use crate::run;
use formant_data::{CATALOGUE, data_dir, show};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn data(args: DataArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        DataCommand::List { data_dir } => list(data_dir.as_deref()),
        DataCommand::Show(args) => show(&args),
    }
}

fn list(dir: Option<&Path>) -> anyhow::Result<ExitCode> {
    let dir = data_dir(dir);
    for entry in CATALOGUE {
        let place = if entry.files.is_empty() {
            "embedded"
        } else if dir.join(entry.folder).is_dir() {
            "found"
        } else {
            "not found"
        };
        println!("{:14} {:9} {:>3} classes  {:9}  {}", entry.name, entry.shape.to_string(), entry.classes, place, entry.summary);
    }
    println!("\nlooked in {}; change it with --data-dir or FORMANT_DATA", dir.display());
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ExperimentArgs) -> anyhow::Result<ExitCode> {
    let federation = run::experiment(args, &[])?.federation()?;
    print!("{}", show::table(&federation));
    println!();
    print!("{}", show::heat_map(&federation, colour_on_stdout()));
    Ok(ExitCode::SUCCESS)
}
