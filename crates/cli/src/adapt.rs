//! `formant adapt`.

use crate::args::adapt::{AdaptArgs, By};
use crate::folder::finished_experiment;
use crate::output::{check_free, colour_on_stdout, note, pasteable, print, print_json};
use crate::progress::LateBar;
use crate::run;
use anyhow::bail;
use formant_data::{ClientData, Description, Federation, Newcomers, OwnSplit, Reading};
use formant_experiment::{Evaluation, Experiment};
use formant_methods::Zoo;
use formant_methods::schema::suggest;
use formant_model::folder::{self, GENERIC, MODELS};
use formant_model::{Role, encode, read_card};
use formant_numerics::{Model, Pulse};
use formant_report::{NewcomerEntry, NewcomerRow, RunLog, newcomer_svg, newcomer_table};
use formant_runtime::event::Approach;
use formant_runtime::executor::{Adaptation, Adapting, Executor, Threads};
use formant_runtime::files::{self, Synced};
use formant_runtime::{EVENTS_FILE, Legacy, RunPlan};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// What newcomers came to with one method.
struct Outcome {
    method: usize,
    entry: NewcomerEntry,
    round: usize,
    found: Vec<Adaptation>,
}

pub(crate) fn adapt(args: &AdaptArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    for path in [&args.svg, &args.save].into_iter().flatten() {
        check_free(path, args.force)?;
    }
    let experiment = finished_experiment(&args.run_dir, &run::threads(args.threads), zoo)?;
    let methods = chosen(&experiment, &args.methods)?;
    if args.save.is_some() && methods.len() != 1 {
        bail!(
            "the run has {} methods, and one model can be saved\nhint: choose one with --method",
            methods.len()
        );
    }
    let plan = experiment.plan_on(federation(args, &experiment, methods[0])?)?;
    let epochs = experiment.evaluation.adapt_epochs.unwrap_or(Evaluation::ADAPT_EPOCHS);
    let epochs = args.epochs.map_or(epochs, usize::from);
    let outcomes = outcomes(args, &plan, &methods, epochs)?;
    let entries: Vec<NewcomerEntry> = outcomes.iter().map(|o| o.entry.clone()).collect();
    if entries.iter().all(|entry| entry.rows.is_empty()) {
        bail!(
            "the newcomers have no samples to be scored on\nhint: bring more data, or lower data.train_fraction in a new run"
        );
    }
    let metric = plan.evaluation.metrics.first();
    let mut written = Vec::new();
    if let Some(path) = &args.svg {
        let svg = newcomer_svg(&entries, metric).unwrap_or_default();
        files::write(path, svg.as_bytes(), Synced::Content)?;
        written.push(path);
    }
    if let (Some(path), [outcome]) = (&args.save, &*outcomes) {
        save(path, args.by, &plan, outcome)?;
        written.push(path);
    }
    if args.json {
        let methods = outcomes.iter().map(|outcome| {
            json!({
                "label": plan.methods[outcome.method].label,
                "round": outcome.round,
                "newcomers": outcome.entry.rows,
            })
        });
        print_json(&json!({
            "run_dir": args.run_dir,
            "metric": metric,
            "epochs": epochs,
            "methods": methods.collect::<Vec<_>>(),
            "written": written,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let table = newcomer_table(&entries, metric, colour_on_stdout());
    let mut text = table.trim_start().to_owned();
    if !args.quiet {
        for (place, path) in written.iter().enumerate() {
            writeln!(text, "{}wrote {}", if place == 0 { "\n" } else { "" }, pasteable(path))?;
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The places of the methods that are meant: all, or those with a label.
fn chosen(experiment: &Experiment, labels: &[String]) -> anyhow::Result<Vec<usize>> {
    let known = || experiment.methods.iter().map(|method| method.label.as_str());
    if labels.is_empty() {
        return Ok((0..experiment.methods.len()).collect());
    }
    let mut places = Vec::new();
    for label in labels {
        let exact = known().position(|known| known == label);
        let alike = || known().position(|known| known.to_lowercase() == label.to_lowercase());
        let Some(place) = exact.or_else(alike) else {
            let hint = suggest(label, known(), "methods of the run");
            bail!("the run has no method `{label}`\nhint: {hint}");
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// The newcomers of the run, or somebody with data of their own.
fn federation(
    args: &AdaptArgs,
    experiment: &Experiment,
    method: usize,
) -> anyhow::Result<Federation> {
    let bar = LateBar::new(0);
    let mut progress = |done, total| {
        if !args.quiet {
            bar.at(done, total);
        }
    };
    let federation = match &args.data {
        Some(data) => own_federation(args, data, experiment, method, &mut progress),
        None if experiment.data.new_clients.is_none() => bail!(
            "the run in {} had no new clients\nhint: bring data of a new one with --data, or run the experiment with --set data.new_clients=K",
            args.run_dir.display()
        ),
        None => Ok(experiment.federation_with(&mut progress)?),
    };
    bar.finish();
    federation
}

/// A federation of which nothing is there but a newcomer.
fn own_federation(
    args: &AdaptArgs,
    path: &Path,
    experiment: &Experiment,
    method: usize,
    progress: formant_data::Progress<'_>,
) -> anyhow::Result<Federation> {
    if !path.exists() {
        bail!("{} is not there\nhint: check the path of --data", path.display());
    }
    let labels = experiment.methods.iter().map(|method| method.label.as_str());
    let name = folder::method_folders(labels).swap_remove(method);
    let model = args.run_dir.join(MODELS).join(name).join(GENERIC);
    Legacy::check_kept(&model)?;
    let card = read_card(&model)?;
    let description = Description {
        shape: card.input,
        class_names: card.classes,
        normalisation: card.normalisation,
        values: card.values,
        schema: card.schema,
    };
    // The newcomer's number follows all that there are.
    let log = RunLog::read(&args.run_dir.join(EVENTS_FILE))?;
    let others = log.started.clients.len() + experiment.data.new_clients.unwrap_or(0);
    let data = &experiment.data;
    let split = OwnSplit {
        train_fraction: data.train_fraction,
        validation_fraction: data.validation_fraction,
        seed: data.seed.unwrap_or(experiment.seed),
        client: others,
    };
    let reading = Reading {
        options: args.options(),
        threads: experiment.runtime.threads(),
        memory: formant_runtime::available(),
        ..Reading::default()
    };
    let (dataset, newcomer) = description.own(path, &reading, split, progress)?;
    Ok(Federation {
        repaired: None,
        dataset: Arc::new(dataset),
        clients: vec![ClientData::default(); others],
        names: None,
        newcomers: Newcomers { clients: vec![newcomer], names: None },
    })
}

fn outcomes(
    args: &AdaptArgs,
    plan: &RunPlan,
    methods: &[usize],
    epochs: usize,
) -> anyhow::Result<Vec<Outcome>> {
    let bar = LateBar::new(methods.len() * plan.federation.newcomers.clients.len());
    let done = || {
        if !args.quiet {
            bar.advance(1);
        }
    };
    let metric = plan.evaluation.metrics.first();
    let outcomes = std::thread::scope(|scope| {
        let mut threads = Threads::new(plan, scope);
        let outcome = |&method: &usize| {
            let legacy = Legacy::read(plan, method, &args.run_dir)?;
            let asked = Adapting {
                method,
                model: &legacy.model,
                broadcast: legacy.broadcast.as_ref(),
                epochs,
                keep: args.save.is_some(),
                done: &done,
                pulse: Pulse::NONE,
            };
            let found = threads.adapt(&asked)?;
            let rows = plan.adapted(method, legacy.round, &found);
            let rows = rows.iter().map(|adapted| NewcomerRow::new(adapted, metric)).collect();
            let entry = NewcomerEntry::new(&plan.header.methods[method], rows);
            let is_whole = legacy.broadcast.is_some();
            if !is_whole && plan.methods[method].method.entry().personal && !args.quiet {
                note!(
                    "note: {} is fine-tuned alone: the folder does not have what its own rule begins with",
                    plan.methods[method].label
                );
            }
            Ok(Outcome { method, entry, round: legacy.round, found })
        };
        methods.iter().map(outcome).collect::<anyhow::Result<Vec<_>>>()
    });
    bar.finish();
    outcomes
}

/// Writes the model of the one newcomer there is.
fn save(path: &Path, by: Option<By>, plan: &RunPlan, outcome: &Outcome) -> anyhow::Result<()> {
    let model = |approach| -> Option<&Model> {
        let newcomer = outcome.found.first()?;
        let progress = match approach {
            Approach::FineTuning => Some(&newcomer.fine_tuned),
            Approach::Own => newcomer.own.as_ref(),
        };
        progress?.model.as_ref()
    };
    let found = match by {
        Some(by) => model(by.approach()),
        None => model(Approach::Own).or_else(|| model(Approach::FineTuning)),
    };
    let method = &plan.methods[outcome.method];
    let Some(model) = found.filter(|model| model.is_finite()) else {
        bail!("{} has no such model\nhint: leave out --by", method.label);
    };
    let role = Role::Personal { client: plan.federation.clients.len(), name: None };
    let card = plan.card_of(method, role, outcome.round);
    let bytes = encode(plan.engine.network().layout(), &card, model)?;
    Ok(files::write(path, &bytes, Synced::Content)?)
}
