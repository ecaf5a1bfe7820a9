//! `formant run`.

use crate::args::{ExperimentArgs, RunArgs};
use crate::folder;
use crate::interrupt::stop_flag;
use crate::output::{colour_on_stdout, pasteable, print, print_json};
use crate::progress::Bars;
use anyhow::Context;
use formant_experiment::{Experiment, Override, QUICKSTART, choose_methods};
use formant_report::RunLog;
use formant_runtime::EVENTS_FILE;
use formant_runtime::sim::{self, Outcome};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    // Everything that can be refused is refused before a folder is made.
    let (plan, run_dir) = if let Some(run_dir) = args.resume {
        let experiment = folder::resumed_experiment(&run_dir, &threads(args.threads))?;
        (experiment.plan()?, run_dir)
    } else {
        let experiment = experiment(&args.experiment, &threads(args.threads))?;
        if let Some(out) = &args.out {
            folder::check_unused(out)?;
        }
        let plan = experiment.plan()?;
        (plan, folder::claim(args.out, &experiment)?)
    };
    let bars = Bars::new(args.quiet);
    bars.announce(&plan.header, introduction(&plan));
    let outcome = sim::run(&plan, &run_dir, &bars, &*stop_flag()?)?;
    if outcome == Outcome::Interrupted {
        eprintln!("interrupted; go on with: formant run --resume {}", pasteable(&run_dir));
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

fn result(log: &RunLog, run_dir: &Path) -> serde_json::Value {
    let finished = log.methods.iter().filter_map(|m| Some((&m.info.label, m.finish.as_ref()?)));
    let fingerprints: serde_json::Map<_, _> =
        finished.map(|(label, f)| (label.clone(), f.fingerprint.clone().into())).collect();
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
        text.push_str(NEXT);
    }
    Ok(text)
}

/// What to try after a first run.
const NEXT: &str = "
next        formant run --set data.alpha=0.1        clients that differ more
            formant data show                       who holds which labels
            formant init                            an experiment of your own
";

/// The experiment of the command line.
pub(crate) fn experiment(args: &ExperimentArgs, more: &[Override]) -> anyhow::Result<Experiment> {
    experiment_or(args, more, QUICKSTART)
}

/// The experiment of the command line, or one that is built in.
pub(crate) fn experiment_or(
    args: &ExperimentArgs,
    more: &[Override],
    built_in: &str,
) -> anyhow::Result<Experiment> {
    let mut table = match &args.experiment {
        Some(path) => Experiment::read_table(path)?,
        None => built_in.parse().context("the built-in experiment")?,
    };
    choose_methods(&mut table, &args.methods)?;
    let mut overrides = Vec::new();
    for text in &args.set {
        overrides.push(Override::parse(text)?);
    }
    if let Some(seed) = args.seed {
        overrides.push(Override::new(&["seed"], seed));
    }
    if let Some(dir) = &args.data_dir {
        // A resumed run must find the data from wherever it is resumed.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        overrides.push(Override::new(&["data", "dir"], dir.display().to_string()));
    }
    overrides.extend_from_slice(more);
    let parsed = Experiment::parse(&table, &overrides);
    match &args.experiment {
        // The file is to blame only for what is wrong without the command line's changes too.
        Some(path) if parsed.is_err() && Experiment::parse(&table, &[]).is_err() => {
            parsed.with_context(|| path.display().to_string())
        }
        _ => Ok(parsed?),
    }
}

/// `--threads` as a change to the experiment.
pub(crate) fn threads(given: Option<i64>) -> Vec<Override> {
    given.map(|threads| Override::new(&["runtime", "threads"], threads)).into_iter().collect()
}

pub(crate) fn introduction(plan: &formant_runtime::RunPlan) -> String {
    let header = &plan.header;
    let images: usize = header.clients.iter().map(|c| c.train).sum();
    format!(
        "{}: {} on {} ({} parameters), {} clients with {} training images in all, {} rounds, {} thread{}",
        header.name,
        match header.methods.len() {
            1 => header.methods[0].title.clone(),
            n => format!("{n} methods"),
        },
        header.dataset,
        grouped(header.parameters),
        header.clients.len(),
        grouped(images),
        header.rounds,
        plan.threads,
        if plan.threads == 1 { "" } else { "s" },
    )
}

/// `44426` as `44,426`.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
