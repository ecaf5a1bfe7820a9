//! `formant data show`.

use crate::args::ExperimentArgs;
use crate::args::data::{Rows, ShowArgs};
use crate::output::{check_free, colour_on_stdout, note, print, print_json};
use crate::progress::LateBar;
use crate::run;
use formant_data::show::{self, SheetRows};
use formant_data::{ClientData, Federation, Split};
use formant_methods::Zoo;
use formant_runtime::files::{self, Synced};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn show(args: &ShowArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    for path in [&args.png, &args.svg].into_iter().flatten() {
        check_free(path, args.force)?;
    }
    let experiment = run::experiment(&with_source(&args.experiment), &[], zoo)?;
    let bar = LateBar::new(0);
    let federation = experiment.federation_with(&mut |done, total| bar.at(done, total));
    bar.finish();
    let federation = federation?;
    if args.json {
        print_json(&everything(&federation))?;
    } else {
        let (overview, table) = (show::overview(&federation.dataset), show::table(&federation));
        let heat_map = show::heat_map(&federation, colour_on_stdout());
        print(&format!("{overview}\n{table}\n{heat_map}"))?;
    }
    pictures(args, &federation)?;
    Ok(ExitCode::SUCCESS)
}

/// An experiment is named, or data of which the experiment is drawn up.
fn with_source(args: &ExperimentArgs) -> ExperimentArgs {
    let mut args = args.clone();
    let is_experiment = |path: &Path| path.extension().is_some_and(|extension| extension == "toml");
    if let Some(source) = args.experiment.take_if(|path| !is_experiment(path)) {
        let source = toml::Value::String(source.display().to_string());
        args.set.insert(0, format!("data.source={source}"));
    }
    args
}

fn pictures(args: &ShowArgs, federation: &Federation) -> anyhow::Result<()> {
    if let Some(path) = &args.png {
        let rows = match args.rows {
            Rows::Class => SheetRows::Classes,
            Rows::Client => SheetRows::Clients,
        };
        match show::sheet(federation, rows)? {
            Some(picture) => files::write(path, &picture, Synced::Content)?,
            None => {
                note!("note: no sheet is written: the samples are rows of numbers, not pictures");
            }
        }
    }
    if let Some(path) = &args.svg {
        files::write(path, show::svg(federation).as_bytes(), Synced::Content)?;
    }
    Ok(())
}

fn everything(federation: &Federation) -> Value {
    let dataset = &federation.dataset;
    let counts = show::class_counts(dataset);
    let classes = dataset.class_names.iter().zip(counts);
    let classes =
        classes.map(|(name, [train, test])| json!({ "name": name, "train": train, "test": test }));
    let holder = |own: &ClientData| {
        json!({
            "train": own.size(Split::Train),
            "validation": own.size(Split::Validation),
            "test": own.size(Split::Test),
            "labels": federation.labels_of(own, Split::All),
        })
    };
    let clients = federation.clients.iter().map(holder);
    let newcomers = federation.newcomers.clients.iter().map(holder);
    let columns = show::columns(dataset).map(|columns| {
        let column = |column: &show::ColumnSummary| {
            json!({
                "name": column.name,
                "kind": if column.categories.is_some() { "category" } else { "number" },
                "mean": column.mean.map(|(mean, _)| mean),
                "std": column.mean.map(|(_, std)| std),
                "missing": column.missing,
                "categories": column.categories,
            })
        };
        columns.iter().map(column).collect::<Vec<_>>()
    });
    let mut all = json!({
        "name": dataset.name,
        "train": dataset.train.len(),
        "test": dataset.test.len(),
        "shape": dataset.shape,
        "values": dataset.values,
        "normalisation": dataset.train.normalisation(),
        "classes": classes.collect::<Vec<_>>(),
        "owners": dataset.owners.as_ref().map(|owners| &owners.names),
        "remarks": dataset.remarks,
        "columns": columns,
        "clients": clients.collect::<Vec<_>>(),
    });
    if newcomers.len() > 0 {
        all["newcomers"] = newcomers.collect();
    }
    all
}
