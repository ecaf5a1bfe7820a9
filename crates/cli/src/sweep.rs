//! `formant sweep`: all combinations of a grid, scored on the validation split.

use crate::args::{Rank, SweepArgs};
use crate::interrupt::stop_flag;
use crate::run::{experiment, threads};
use anyhow::{Context, bail};
use formant_experiment::Override;
use formant_report::RunLog;
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, Quiet, files};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Evaluations at the end of a run over which a score is averaged: less noise than the last one,
/// and no reward for a lucky round as the best one would give.
const TAIL: usize = 5;

/// The score of one combination with one seed, one line of `results.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Score {
    key: String,
    method: String,
    setting: String,
    seed: u64,
    gm: Option<f64>,
    pm: Option<f64>,
    failed: bool,
}

/// A combination over all its seeds.
#[derive(Debug, Serialize)]
struct Ranked {
    method: String,
    setting: String,
    score: Option<f64>,
    gm: Option<f64>,
    pm: Option<f64>,
    seeds: usize,
    failed: usize,
}

pub(crate) fn sweep(args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let combinations = combinations(&args.grid)?;
    let seeds = if args.seeds.is_empty() { vec![args.experiment.seed.unwrap_or(1)] } else { args.seeds.clone() };
    // Everything is checked before anything runs.
    for combination in &combinations {
        experiment(&args.experiment, &overrides(args, combination, seeds[0])?)
            .with_context(|| format!("in the combination {}", combination.join(" ")))?;
    }
    files::create_folder(&args.out)?;
    let results = args.out.join("results.jsonl");
    let mut done = read_results(&results)?;
    let stop = stop_flag()?;
    let bar = ProgressBar::new((combinations.len() * seeds.len()) as u64);
    if args.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    bar.set_style(ProgressStyle::with_template("{bar:28.cyan/dim} {pos}/{len}  {eta} left  {msg}")?);
    let mut scores = Vec::new();
    for combination in &combinations {
        for seed in &seeds {
            bar.set_message(format!("{} seed {seed}", combination.join(" ")));
            let overrides = overrides(args, combination, *seed)?;
            let found = run_one(args, &overrides, (combination, *seed), &mut done, &stop)?;
            let Some(found) = found else {
                bar.abandon();
                eprintln!("interrupted; the same command goes on where it stopped");
                return Ok(ExitCode::from(130));
            };
            for score in found.iter().filter(|s| !done.contains_key(&s.key)) {
                append(&results, score)?;
            }
            done.extend(found.iter().map(|s| (s.key.clone(), s.clone())));
            scores.extend(found);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let ranking = rank(&scores, args.rank);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&ranking)?);
    } else {
        print_ranking(&ranking);
    }
    Ok(ExitCode::SUCCESS)
}

/// The changes that make one run of the sweep.
fn overrides(args: &SweepArgs, combination: &[String], seed: u64) -> anyhow::Result<Vec<Override>> {
    let mut changes = combination.iter().map(|c| Override::parse(c)).collect::<Result<Vec<_>, _>>()?;
    changes.push(Override::new(&["evaluation", "split"], "validation"));
    changes.push(Override::new(&["seed"], i64::try_from(seed).context("a seed is too large")?));
    changes.extend(threads(args.threads));
    Ok(changes)
}

/// Runs one combination with one seed, or finds it among the finished ones.
fn run_one(
    args: &SweepArgs,
    overrides: &[Override],
    (combination, seed): (&[String], u64),
    done: &mut HashMap<String, Score>,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Vec<Score>>> {
    let experiment = experiment(&args.experiment, overrides)?;
    // Threads do not change a result, so they are no part of what identifies it.
    let mut identity = experiment.to_table();
    identity.remove("runtime");
    identity.remove("method");
    let key = |method: &formant_experiment::MethodSetting| {
        format!("{identity}|{}|{}|{}", method.name, method.parameters, method.train)
    };
    let keys: Vec<String> = experiment.methods().iter().map(key).collect();
    if let Some(found) = keys.iter().map(|k| done.get(k).cloned()).collect::<Option<Vec<_>>>() {
        return Ok(Some(found));
    }
    let plan = experiment.plan()?;
    let folder = args.out.join("run");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    }
    if sim::run(&plan, &folder, &Quiet, stop)? == Outcome::Interrupted {
        return Ok(None);
    }
    let log = RunLog::read(&folder.join(EVENTS_FILE))?;
    let rows = formant_report::rows(&log);
    let setting = combination.join(" ");
    let scores = log.methods.iter().zip(&rows).zip(keys).map(|((method, row), key)| {
        let tail: Vec<_> = method.evaluations.values().rev().take(TAIL).collect();
        let mean = |of: fn(&formant_report::Evaluation) -> Option<f64>| {
            let values: Option<Vec<f64>> = tail.iter().map(|e| of(e)).collect();
            values.filter(|v| !v.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
        };
        Score {
            key,
            method: method.info.label.clone(),
            setting: setting.clone(),
            seed,
            gm: mean(|e| e.gm).filter(|_| method.info.generic),
            pm: mean(|e| e.pm).filter(|_| method.info.personal),
            failed: row.failed_phases > 0 || row.stopped.is_some(),
        }
    });
    Ok(Some(scores.collect()))
}

/// Every combination of the grid, as `KEY=VALUE` lists.
fn combinations(grid: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for axis in grid {
        let Some((key, values)) = axis.split_once('=') else {
            bail!("`--grid {axis}` has no `=`\nhint: write --grid KEY=V1,V2, e.g. --grid method.lambda=0.1,1");
        };
        let values: Vec<&str> = values.split(',').map(str::trim).filter(|v| !v.is_empty()).collect();
        if values.is_empty() {
            bail!("`--grid {axis}` has no values\nhint: write --grid KEY=V1,V2, e.g. --grid method.lambda=0.1,1");
        }
        all = all
            .iter()
            .flat_map(|base| {
                values.iter().map(move |value| {
                    let mut next = base.clone();
                    next.push(format!("{}={value}", key.trim()));
                    next
                })
            })
            .collect();
    }
    Ok(all)
}

fn read_results(path: &Path) -> anyhow::Result<HashMap<String, Score>> {
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // A line torn by a crash is a combination that will run again.
    let scores = text.lines().filter_map(|line| serde_json::from_str::<Score>(line).ok());
    Ok(scores.map(|score| (score.key.clone(), score)).collect())
}

fn append(path: &Path, score: &Score) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(score)?)?;
    Ok(())
}

fn rank(scores: &[Score], by: Rank) -> Vec<Ranked> {
    let mut groups: Vec<(String, String, Vec<&Score>)> = Vec::new();
    for score in scores {
        match groups.iter_mut().find(|(m, s, _)| *m == score.method && *s == score.setting) {
            Some((_, _, group)) => group.push(score),
            None => groups.push((score.method.clone(), score.setting.clone(), vec![score])),
        }
    }
    let mean = |values: Vec<Option<f64>>| -> Option<f64> {
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    let mut ranking: Vec<Ranked> = groups
        .into_iter()
        .map(|(method, setting, group)| {
            let gm = mean(group.iter().map(|s| s.gm).collect());
            let pm = mean(group.iter().map(|s| s.pm).collect());
            let score = match (by, gm, pm) {
                (Rank::Gm, Some(gm), _) | (_, Some(gm), None) => Some(gm),
                (Rank::Both, Some(gm), Some(pm)) => Some(0.5 * (gm + pm)),
                (_, _, pm) => pm,
            };
            let failed = group.iter().filter(|s| s.failed).count();
            Ranked { method, setting, score, gm, pm, seeds: group.len(), failed }
        })
        .collect();
    // Settings that failed anywhere come last, whatever they scored.
    ranking.sort_by(|a, b| {
        (a.failed > 0, a.score.is_none())
            .cmp(&(b.failed > 0, b.score.is_none()))
            .then(b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)))
    });
    ranking
}

fn print_ranking(ranking: &[Ranked]) {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2}", 100.0 * x));
    let method = ranking.iter().map(|r| r.method.len()).max().unwrap_or(0).max(6);
    println!("| {:>5} | {:>5} | {:>5} | {:method$} | setting", "score", "GM", "PM", "method");
    println!("| ----: | ----: | ----: | {:-<method$} | ---", "");
    for row in ranking {
        let failed = if row.failed > 0 { format!("  ({} of {} seeds failed)", row.failed, row.seeds) } else { String::new() };
        println!(
            "| {:>5} | {:>5} | {:>5} | {:method$} | {}{failed}",
            percent(row.score),
            percent(row.gm),
            percent(row.pm),
            row.method,
            row.setting
        );
    }
}
