//! `formant sweep`: all combinations of a grid, scored on the validation split.

use crate::args::SweepArgs;
use crate::grid::combinations;
use crate::interrupt::stop_flag;
use crate::output::{print, print_json};
use crate::ranking::{Score, rank, table};
use crate::run::{experiment, threads};
use anyhow::{Context, bail};
use formant_data::Federation;
use formant_experiment::{Experiment, MethodSetting, Override};
use formant_methods::Zoo;
use formant_report::RunLog;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Quiet, RuntimeError, files};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Evaluations at the end of a run over which a score is averaged: less noise than the last one,
/// and no reward for a lucky round as the best one would give.
const TAIL: usize = 5;

pub(crate) fn sweep(args: &SweepArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let combinations = combinations(&args.grid)?;
    let seeds = match args.seeds.as_slice() {
        // The experiment's own, from its file, --set or --seed.
        [] => vec![experiment(&args.experiment, &[], zoo)?.seed as i64],
        seeds => seeds.to_vec(),
    };
    let mut data = SharedData::default();
    let jobs = check_all(args, &combinations, &seeds, &mut data, zoo)?;
    files::create_folder(&args.out)?;
    let _lock = files::lock(&args.out)?;
    let results = args.out.join("results.jsonl");
    let mut done = read_results(&results)?;
    let stop = stop_flag()?;
    let bar = ProgressBar::new(jobs.len() as u64);
    if args.quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_style(ProgressStyle::with_template(
        "{bar:28.cyan/dim} {pos}/{len}  {eta} left  {msg}",
    )?);
    let mut scores = Vec::new();
    for job in &jobs {
        bar.set_message(format!("{} seed {}", job.setting, job.seed));
        let keys = job.keys()?;
        let finished: Option<Vec<Score>> = keys.iter().map(|k| done.get(k).cloned()).collect();
        if let Some(finished) = finished {
            scores.extend(finished);
        } else if let Some(fresh) = job.run(&args.out, &mut data, &stop)? {
            for score in fresh.iter().filter(|s| !done.contains_key(&s.key)) {
                append(&results, score)?;
            }
            done.extend(fresh.iter().map(|s| (s.key.clone(), s.clone())));
            scores.extend(fresh);
        } else {
            bar.abandon();
            eprintln!("interrupted; the same command goes on where it stopped");
            return Ok(ExitCode::from(130));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let ranking = rank(&scores, args.rank);
    if args.json {
        print_json(&ranking)?;
    } else {
        print(&table(&ranking))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One combination with one seed.
struct Job {
    setting: String,
    seed: i64,
    experiment: Experiment,
}

/// Builds every run of the sweep, so that whatever is wrong is refused before anything runs.
fn check_all(
    args: &SweepArgs,
    combinations: &[Vec<String>],
    seeds: &[i64],
    data: &mut SharedData,
    zoo: &Zoo,
) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    // Only these can still fail when a run is wired up, and most sweeps vary neither.
    let mut wired = HashSet::new();
    for combination in combinations {
        let setting = combination.join(" ");
        for seed in seeds {
            let in_combination = || format!("in the combination {setting}");
            let mut changes =
                combination.iter().map(|c| Override::parse(c)).collect::<Result<Vec<_>, _>>()?;
            changes.push(Override::new(&["evaluation", "split"], "validation"));
            changes.push(Override::new(&["seed"], *seed));
            // A sweep is after a setting; whoever wants the models runs that.
            changes.push(Override::new(&["runtime", "keep"], "none"));
            changes.extend(threads(args.threads));
            let experiment =
                experiment(&args.experiment, &changes, zoo).with_context(in_combination)?;
            let table = experiment.to_table();
            let division = (table.get("data").map(ToString::to_string), experiment.seed);
            if wired.insert((division, network(&table))) {
                let federation = data.federation(&experiment).with_context(in_combination)?;
                experiment.plan_on(federation).with_context(in_combination)?;
            }
            jobs.push(Job { setting: setting.clone(), seed: *seed, experiment });
        }
    }
    Ok(jobs)
}

fn network(table: &toml::Table) -> Option<String> {
    table.get("network").map(ToString::to_string)
}

/// The federation of the last run: a sweep over hyper-parameters divides its data once.
#[derive(Default)]
struct SharedData(Option<(String, Federation)>);

impl SharedData {
    fn federation(&mut self, experiment: &Experiment) -> anyhow::Result<Federation> {
        let table = experiment.to_table();
        let key = format!("{:?} {}", table.get("data"), experiment.seed);
        match &self.0 {
            Some((known, federation)) if *known == key => Ok(federation.clone()),
            _ => {
                let federation = experiment.federation()?;
                self.0 = Some((key, federation.clone()));
                Ok(federation)
            }
        }
    }
}

impl Job {
    /// What identifies a result, for each method. Threads do not change it, so they are no part.
    fn keys(&self) -> anyhow::Result<Vec<String>> {
        let mut identity = self.experiment.to_table();
        identity.remove("runtime");
        identity.remove("method");
        let key = |setting: &MethodSetting| {
            let train = self.experiment.train_of(setting)?;
            Ok(format!("{identity}|{}|{}|{train}", setting.name(), setting.method.parameters))
        };
        self.experiment.methods.iter().map(key).collect()
    }

    /// Runs it; `None` if it was interrupted.
    fn run(
        &self,
        out: &Path,
        data: &mut SharedData,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Vec<Score>>> {
        let plan = self.experiment.plan_on(data.federation(&self.experiment)?)?;
        let folder = out.join("run");
        clear(&folder)?;
        if sim::run(&plan, &folder, &Quiet, stop)? == Outcome::Interrupted {
            return Ok(None);
        }
        let log = RunLog::read(&folder.join(EVENTS_FILE))?;
        let rows = formant_report::rows(&log);
        let methods = log.methods.iter().zip(&rows).zip(self.keys()?);
        let scores = methods.map(|((method, row), key)| {
            let tail: Vec<_> = method.evaluations.values().rev().take(TAIL).collect();
            let mean = |of: fn(&formant_report::Evaluation) -> Option<f64>| {
                let values: Option<Vec<f64>> = tail.iter().map(|e| of(e)).collect();
                values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
            };
            Score {
                key,
                method: method.info.label.clone(),
                setting: self.setting.clone(),
                seed: self.seed,
                gm: mean(|e| e.gm).filter(|_| method.info.generic),
                pm: mean(|e| e.pm).filter(|_| method.info.personal),
                failed: row.failed_phases > 0 || row.stopped.is_some(),
            }
        });
        Ok(Some(scores.collect()))
    }
}

/// Removes the run before this one, and nothing that is no run.
fn clear(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    // Every run begins by locking its folder.
    if !folder.join("lock").is_file() {
        bail!(
            "{} is in the way: it is no run of a sweep\nhint: choose another folder with --out",
            folder.display()
        );
    }
    std::fs::remove_dir_all(folder)
        .map_err(|error| RuntimeError::file("clear", folder, error).into())
}

fn read_results(path: &Path) -> anyhow::Result<HashMap<String, Score>> {
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
    // A line torn by a crash is a combination that will run again.
    let scores = text.lines().filter_map(|line| serde_json::from_str::<Score>(line).ok());
    Ok(scores.map(|score| (score.key.clone(), score)).collect())
}

fn append(path: &Path, score: &Score) -> anyhow::Result<()> {
    use std::io::Write as _;
    let fail = |error| RuntimeError::file("write", path, error);
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(fail)?;
    writeln!(file, "{}", serde_json::to_string(score)?).map_err(fail)?;
    Ok(())
}
