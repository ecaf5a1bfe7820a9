//! `formant run`.

use crate::args::{ExperimentArgs, RunArgs};
use crate::extension;
use crate::folder;
use crate::interrupt::stop_flag;
use crate::output::{colour_on_stdout, note, pasteable, print, print_json};
use crate::program;
use crate::progress::{Bars, LateBar};
use crate::ranks::Team;
use crate::series;
use crate::suggestion;
use anyhow::Context;
use formant_experiment::{Experiment, Origin, Override, QUICKSTART};
use formant_methods::Zoo;
use formant_model::folder::MODELS;
use formant_report::RunLog;
use formant_runtime::quantity::{bytes, count};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, RunPlan, Scored};
use formant_study::{Draft, Series, Tuned};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: RunArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    if let Some(seeds) = args.series.seeds.clone() {
        return series::run(args, &seeds, zoo);
    }
    if let Some(folder) = args.resume.as_ref().filter(|folder| Series::is_one(folder)) {
        return series::resume(folder, &args, zoo);
    }
    let mut team = Team::gather()?;
    if let Some(done) = team.follow(&args, zoo) {
        return done;
    }
    // Everything that can be refused is refused before a folder is made.
    let (plan, run_dir) = if let Some(run_dir) = args.resume {
        let more = extension::asked_for(&args.experiment.set, &args.add_method)?;
        if more.is_something() {
            extension::check_alone(&run_dir)?;
        }
        let resumed = extension::experiment(&run_dir, &more, &threads(args.threads), zoo)?;
        team.call(&resumed)?;
        let mut plan = plan(&resumed, &team)?;
        team.muster(&mut plan, &resumed)?;
        if more.is_something() {
            sim::check_extension(&plan, &run_dir)?;
            extension::write(&run_dir, &resumed)?;
        }
        team.settle(&run_dir, &plan)?;
        (plan, run_dir)
    } else {
        let experiment = experiment(&args.experiment, &threads(args.threads), zoo)?;
        if let Some(out) = &args.out {
            folder::check_unused(out)?;
        }
        team.call(&experiment)?;
        let mut plan = plan(&experiment, &team)?;
        team.muster(&mut plan, &experiment)?;
        let run_dir = folder::claim(args.out, &experiment)?;
        if let Err(error) = team.settle(&run_dir, &plan) {
            folder::give_back(&run_dir);
            return Err(error);
        }
        (plan, run_dir)
    };
    let bars = Bars::new(args.quiet);
    bars.announce(&plan.header, introduction(&plan) + &team.introduction());
    team.warn(&run_dir);
    for remark in &plan.federation.dataset.remarks {
        note!("note: {remark}");
    }
    if let Some(note) = models_left_out(&plan) {
        note!("{note}");
    }
    if plan.evaluation.patience.is_some() && plan.evaluation.split == Scored::Test {
        note!(
            "note: evaluation.patience looks at the test set, so the figures will flatter the methods
      --set evaluation.split=validation decides by samples that are not tested on"
        );
    }
    let outcome = team.extend(&plan, &run_dir, &bars, &*stop_flag()?);
    drop((bars, team));
    let outcome = outcome?;
    if outcome == Outcome::Interrupted {
        let (program, run_dir) = (program::name(), pasteable(&run_dir));
        note!("interrupted; go on with: {program} run --resume {run_dir}");
        return Ok(ExitCode::from(130));
    }
    let log = RunLog::read(&run_dir.join(EVENTS_FILE))?;
    formant_report::write_reports(&run_dir)?;
    if args.json {
        print_json(&result(&log, &run_dir))?;
    } else {
        print(&summary(&log, &run_dir, args.quiet)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Wires an experiment up, with a bar while its data are read.
fn plan(experiment: &Experiment, team: &Team) -> anyhow::Result<RunPlan> {
    let bar = LateBar::new(0);
    let federation = experiment.federation_with(&mut |done, total| bar.at(done, total));
    bar.finish();
    let federation = federation?;
    let is_shared = team.is_many();
    let plan = if is_shared {
        experiment.plan_among_others(federation)
    } else {
        experiment.plan_on(federation)
    };
    Ok(plan?)
}

/// A run as JSON.
pub(crate) fn result(log: &RunLog, run_dir: &Path) -> serde_json::Value {
    let finished = log.methods.iter().filter_map(|m| Some((&m.info.label, m.finish.as_ref()?)));
    let fingerprints: serde_json::Map<_, _> = finished
        .filter_map(|(label, f)| Some((label.clone(), f.fingerprint.clone()?.into())))
        .collect();
    serde_json::json!({
        "run_dir": run_dir,
        "formant": log.started.formant,
        "seed": log.started.seed,
        "split": log.started.split,
        "rows": formant_report::rows(log),
        "fingerprints": fingerprints,
    })
}

fn summary(log: &RunLog, run_dir: &Path, quiet: bool) -> anyhow::Result<String> {
    let mut text = formant_report::table(&formant_report::rows(log), colour_on_stdout());
    if !quiet {
        text.insert(0, '\n');
        writeln!(text, "\nrun folder  {}", run_dir.display())?;
        writeln!(text, "report      {}", run_dir.join("report.html").display())?;
        let models = run_dir.join(MODELS);
        if models.is_dir() {
            writeln!(text, "models      {}", models.display())?;
        }
        text.push_str(&next(log, run_dir));
    }
    Ok(text)
}

/// What to try after a first run.
fn next(log: &RunLog, run_dir: &Path) -> String {
    let labels = log.methods.iter().map(|method| method.info.label.as_str());
    let folders = formant_model::folder::method_folders(labels);
    let personal = folders.iter().rev().find_map(|folder| {
        let model = run_dir.join(MODELS).join(folder).join("personal/0.safetensors");
        model.is_file().then(|| pasteable(&model))
    });
    // Elsewhere than in the usual folder, the data would not be found by their name.
    let data = log.started.config.get("data");
    let is_near = data.is_none_or(|data| data.get("dir").is_none());
    let source = data.and_then(|data| data.get("source")?.as_str());
    let source =
        source.map_or_else(|| log.started.dataset.clone(), |path| pasteable(Path::new(path)));
    let predict = personal.filter(|_| is_near).map_or(String::new(), |model| {
        format!("            formant evaluate {model} --data {source}\n")
    });
    if log.started.name != "quickstart" {
        let (program, experiment) = (program::name(), pasteable(&run_dir.join("experiment.toml")));
        return format!(
            "\nnext        {program} data show {experiment}     who holds which labels\n"
        );
    }
    let text = format!(
        "
next        formant run --set data.alpha=0.1        clients that differ more
            formant data show                       who holds which labels
            formant init                            an experiment of your own
{predict}"
    );
    program::renamed(&text).into_owned()
}

/// Says which models are not kept because they would pass the limit, with their size.
fn models_left_out(plan: &RunPlan) -> Option<String> {
    let kept = plan.kept();
    let beyond: u64 = kept.iter().map(|kept| kept.beyond).sum();
    if beyond == 0 {
        return None;
    }
    let left_out = plan.methods.iter().zip(&kept).filter(|(_, kept)| kept.beyond > 0);
    let labels: Vec<&str> = left_out.map(|(method, _)| method.label.as_str()).collect();
    let what = if kept.iter().all(|kept| kept.generic) { "personal models" } else { "models" };
    let all: u64 = beyond + kept.iter().map(|kept| kept.bytes).sum::<u64>();
    Some(format!(
        "note: {what} of {} ({}) are not kept: all models would take {}, and runtime.keep_limit is {}
      --set runtime.keep_limit={}GB keeps them",
        labels.join(", "),
        bytes(beyond),
        bytes(all),
        bytes(plan.keep_limit),
        all.div_ceil(1_000_000_000),
    ))
}

/// The experiment of the command line, with some more changes.
pub(crate) fn experiment(
    args: &ExperimentArgs,
    more: &[Override],
    zoo: &Zoo,
) -> anyhow::Result<Experiment> {
    Ok(draft(args, QUICKSTART, zoo)?.experiment(more)?)
}

/// The experiment of the command line, or one that is built in, for a study to vary.
pub(crate) fn draft(args: &ExperimentArgs, built_in: &str, zoo: &Zoo) -> anyhow::Result<Draft> {
    let changes = args.set.iter().map(|text| Override::parse(text));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    let mut draft = match (&args.experiment, other_data(args, &changes)?) {
        (Some(path), _) => Draft::read(path, zoo)?,
        (None, Some(origin)) => {
            let text = suggestion::of(&origin, zoo)?;
            let (program, source) = (program::name(), &origin.source);
            note!(
                "note: the experiment is drawn up for {source}: {program} init --data {source} shows it"
            );
            Draft::new(text.parse().context("the experiment that suits the data")?, zoo)
        }
        (None, None) => Draft::new(built_in.parse().context("the built-in experiment")?, zoo),
    };
    draft.choose_methods(&args.methods)?;
    for change in changes {
        draft.change(change);
    }
    if let Some(seed) = args.seed {
        draft.change(Override::new(&["seed"], seed));
    }
    if let Some(dir) = &args.data_dir {
        // A resumed run must find the data from wherever it is resumed.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        draft.change(Override::new(&["data", "dir"], dir.display().to_string()));
    }
    if let Some(tuned) = &args.tuned {
        draft.take(&Tuned::read(tuned)?)?;
    }
    Ok(draft)
}

/// The data that changes ask for in place of the quickstart's: what that says of clients and rates was chosen
/// for its own.
fn other_data(args: &ExperimentArgs, changes: &[Override]) -> anyhow::Result<Option<Origin>> {
    let Some(mut origin) = Origin::changed(changes)? else { return Ok(None) };
    if origin == Origin::of("mnist-small") {
        return Ok(None);
    }
    origin.dir = args.data_dir.clone().or(origin.dir);
    Ok(Some(origin))
}

/// `--threads` as a change to the experiment.
pub(crate) fn threads(given: Option<i64>) -> Vec<Override> {
    given.map(|threads| Override::new(&["runtime", "threads"], threads)).into_iter().collect()
}

pub(crate) fn introduction(plan: &RunPlan) -> String {
    let header = &plan.header;
    let images: usize = header.clients.iter().flatten().map(|c| c.train).sum();
    let later = match plan.federation.newcomers.clients.len() {
        0 => String::new(),
        1 => ", one more joins later".into(),
        many => format!(", {many} more join later"),
    };
    format!(
        "{}: {} on {} ({} parameters), {} clients with {} training samples in all{later}, {} rounds, {} thread{}",
        header.name,
        match header.methods.len() {
            1 => header.methods[0].title.clone(),
            n => format!("{n} methods"),
        },
        header.dataset,
        count(header.parameters as u64),
        header.clients.len(),
        count(images as u64),
        header.rounds,
        plan.threads,
        if plan.threads == 1 { "" } else { "s" },
    )
}
