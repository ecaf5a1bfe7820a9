//! `formant run`.

use crate::args::{ExperimentArgs, RunArgs};
use crate::interrupt::stop_flag;
use crate::output::colour_on_stdout;
use crate::progress::Bars;
use anyhow::{Context, bail};
use formant_experiment::{Experiment, Override, QUICKSTART, choose_methods};
use formant_report::RunLog;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, files};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The resolved experiment's name in a run folder.
const EXPERIMENT_FILE: &str = "experiment.toml";

pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let resumed = args.resume.is_some();
    let (experiment, run_dir) = match args.resume {
        Some(run_dir) => (resumed_experiment(&run_dir, args.threads)?, run_dir),
        None => {
            let experiment = experiment(&args.experiment, &threads(args.threads))?;
            let run_dir = match args.out {
                Some(dir) if dir.join(EXPERIMENT_FILE).exists() => bail!(
                    "{} holds a run already\nhint: go on with it by --resume {0}, or choose another folder with --out",
                    dir.display()
                ),
                Some(dir) => dir,
                None => fresh_folder(experiment.name()),
            };
            (experiment, run_dir)
        }
    };
    let plan = experiment.plan()?;
    files::create_folder(&run_dir)?;
    if !resumed {
        let text = toml::to_string(&experiment.to_table()).context("cannot write the experiment")?;
        files::write_atomic(&run_dir.join(EXPERIMENT_FILE), text.as_bytes())?;
    }
    if !args.quiet {
        eprintln!("{}", introduction(&plan));
    }
    let bars = Bars::new(args.quiet);
    bars.announce(&plan.header);
    let outcome = sim::run(&plan, &run_dir, &bars, &*stop_flag()?)?;
    if outcome == Outcome::Interrupted {
        eprintln!("interrupted; go on with: formant run --resume {}", run_dir.display());
        return Ok(ExitCode::from(130));
    }
    let log = RunLog::read(&run_dir.join(EVENTS_FILE))?;
    let reports = formant_report::write_reports(&run_dir)?;
    let rows = formant_report::rows(&log);
    if args.json {
        let result = serde_json::json!({
            "run_dir": run_dir,
            "formant": log.started.formant,
            "seed": log.started.seed,
            "split": log.started.split,
            "rows": rows,
        });
        println!("{}", serde_json::to_string_pretty(&result)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{}", formant_report::table(&rows, colour_on_stdout()));
    if !args.quiet {
        println!("run folder  {}", run_dir.display());
        for report in reports.iter().filter(|r| r.extension().is_some_and(|e| e == "html")) {
            println!("report      {}", report.display());
        }
        println!("\nnext        formant run --set data.alpha=0.1        clients that differ more");
        println!("            formant data show                       who holds which labels");
        println!("            formant init                            an experiment of your own");
    }
    Ok(ExitCode::SUCCESS)
}

/// The experiment of the command line.
pub(crate) fn experiment(args: &ExperimentArgs, more: &[Override]) -> anyhow::Result<Experiment> {
    let mut table = match &args.experiment {
        Some(path) => Experiment::read_table(path)?,
        None => QUICKSTART.parse().context("the built-in experiment")?,
    };
    choose_methods(&mut table, &args.methods)?;
    let mut overrides = Vec::new();
    for text in &args.set {
        overrides.push(Override::parse(text)?);
    }
    if let Some(seed) = args.seed {
        let seed = i64::try_from(seed).map_err(|_| {
            anyhow::anyhow!("--seed {seed} is too large\nhint: seeds go from 0 to {}", i64::MAX)
        })?;
        overrides.push(Override::new(&["seed"], seed));
    }
    if let Some(dir) = &args.data_dir {
        overrides.push(Override::new(&["data", "dir"], dir.display().to_string()));
    }
    overrides.extend_from_slice(more);
    let experiment = Experiment::parse(&table, &overrides);
    match &args.experiment {
        Some(path) => experiment.with_context(|| path.display().to_string()),
        None => Ok(experiment?),
    }
}

/// `--threads` as a change to the experiment.
pub(crate) fn threads(given: Option<usize>) -> Vec<Override> {
    given
        .map(|threads| Override::new(&["runtime", "threads"], i64::try_from(threads).unwrap_or(i64::MAX)))
        .into_iter()
        .collect()
}

fn resumed_experiment(run_dir: &Path, given: Option<usize>) -> anyhow::Result<Experiment> {
    let path = run_dir.join(EXPERIMENT_FILE);
    if !path.exists() {
        bail!(
            "{} is no run folder: it has no {EXPERIMENT_FILE}\nhint: name the folder that `formant run` printed, such as runs/quickstart-20260101-120000",
            run_dir.display()
        );
    }
    Ok(Experiment::read(&path, &threads(given))?)
}

/// `runs/NAME-TIME`, with a number behind it if that exists.
fn fresh_folder(name: &str) -> PathBuf {
    let safe: String =
        name.chars().map(|c| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '-' }).collect();
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let named = |suffix: &str| PathBuf::from("runs").join(format!("{safe}-{time}{suffix}"));
    let mut folder = named("");
    let mut count = 2;
    while folder.exists() {
        folder = named(&format!("-{count}"));
        count += 1;
    }
    folder
}

fn introduction(plan: &formant_runtime::RunPlan) -> String {
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
