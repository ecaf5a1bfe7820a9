//! `formant reproduce`: the paper's tables and figures.

mod progress;

use crate::args::reproduce::ReproduceArgs;
use crate::interrupt::stop_flag;
use crate::output::{note, pasteable, print, print_json};
use crate::program;
use crate::run::threads;
use formant_methods::Zoo;
use formant_report::results::{self, Layout, Results};
use formant_runtime::quantity::bytes;
use formant_study::{
    Ended, Estimate, PRESETS, Reproduction, Request, Scale, Shard, StudyError, Tuned, write_results,
};
use progress::{Laps, PartBar};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn reproduce(args: ReproduceArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name else {
        if args.collect || args.dry_run || args.shard.is_some() {
            anyhow::bail!(
                "which table?\nhint: name one, such as `{} reproduce cifar10`; without anything else, all are listed",
                program::name()
            );
        }
        return list(args.data_dir.as_deref(), args.json);
    };
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse)?;
    let scale: Scale = args.scale.into();
    let request = Request {
        name: name.clone(),
        scale,
        data_dir: args.data_dir,
        set: args.set,
        only: args.only,
        seeds: args.seeds,
        tuned: args.tuned.as_deref().map(Tuned::read).transpose()?,
        last: threads(args.threads),
    };
    let mut study = Reproduction::new(request, zoo)?;
    let out = args
        .out
        .unwrap_or_else(|| Path::new("runs").join("reproduce").join(format!("{name}-{scale}")));
    if args.collect {
        let results = study.collect(&out)?;
        if results.runs.is_empty() {
            return Err(StudyError::NothingCollected { folder: out }.into());
        }
        return show(&results, &out, args.json, args.quiet);
    }
    study.check_data()?;
    let places = study.shard(shard);
    let left = study.unfinished(&out, &places);
    let laps = Laps::new(args.quiet);
    let estimate = study.estimate(&left, &laps)?;
    laps.finish();
    let plan =
        Announced { study: &study, out: &out, all: places.len(), left: left.len(), estimate };
    if args.dry_run {
        if args.json {
            print_json(&plan.json())?;
        } else {
            print(&plan.text())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.quiet {
        note!("{}", plan.text().trim_end());
    }
    let bar = PartBar::new(&study, &left, &plan.estimate, args.quiet);
    let ended = study.run(&out, &left, &bar, &*stop_flag()?)?;
    bar.finish();
    match ended {
        Ended::Interrupted => {
            note!("interrupted; the same command goes on where it stopped");
            return Ok(ExitCode::from(130));
        }
        Ended::Elsewhere(parts) => note!(
            "note: other processes are at work on {parts} of these parts; the same command with --collect makes the table when they are done"
        ),
        Ended::Complete => {}
    }
    let results = study.collect(&out)?;
    if shard != Shard::WHOLE && !results.missing.is_empty() {
        let (count, command) = (results.missing.len(), results.commands.join(" "));
        let command = command.replacen("formant", program::name(), 1);
        note!(
            "this shard is done; {count} parts are left to others. When they are there: {command} --collect --out {}",
            pasteable(&out)
        );
        return Ok(ExitCode::SUCCESS);
    }
    show(&results, &out, args.json, args.quiet)
}

/// What lies ahead.
struct Announced<'s> {
    study: &'s Reproduction,
    out: &'s Path,
    all: usize,
    left: usize,
    estimate: Estimate,
}

impl Announced<'_> {
    fn text(&self) -> String {
        let (all, left) = (self.all, self.left);
        let threads =
            self.study.parts().first().map_or(1, |part| part.experiment.runtime.threads());
        let there = all - left;
        let mut text =
            format!("{all} parts, {there} of them there already in {}\n", self.out.display());
        if left == 0 {
            return text;
        }
        let _ = writeln!(
            text,
            "about {} on this machine with {threads} thread{}, about {} of disk: an estimate from a few measured steps",
            spoken(self.estimate.total()),
            if threads == 1 { "" } else { "s" },
            bytes(self.estimate.disk),
        );
        text
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "out": self.out,
            "parts": self.all,
            "left": self.left,
            "seconds": self.estimate.total().as_secs_f64(),
            "disk_bytes": self.estimate.disk,
        })
    }
}

/// A time in words: nobody needs the seconds of an hour.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=99 => format!("{} s", seconds.max(1)),
        100..=5_399 => format!("{} min", (seconds + 30) / 60),
        5_400..=172_799 => format!("{:.1} h", seconds as f64 / 3_600.0),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

fn show(results: &Results, out: &Path, json: bool, quiet: bool) -> anyhow::Result<ExitCode> {
    let written = write_results(results, out)?;
    if json {
        print(&results.text()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = results::tables(results, &Layout::default());
    if !quiet {
        text.push('\n');
        for path in written {
            writeln!(text, "wrote {}", path.display())?;
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn list(data_dir: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let dir: PathBuf = formant_data::data_dir(data_dir);
    let mut rows = Vec::new();
    let mut cells = vec![["name", "paper", "what", "data"].map(str::to_owned)];
    for preset in PRESETS {
        let (of, summary) = (preset.of_the_paper()?, preset.summary()?);
        let (source, is_there) = preset.data(Scale::Desk, &dir)?;
        let state = if is_there { source.clone() } else { format!("{source} (not there)") };
        rows.push(json!({
            "name": preset.name, "of_the_paper": of, "summary": summary,
            "data": source, "data_is_there": is_there,
        }));
        cells.push([preset.name.into(), of, summary, state]);
    }
    if as_json {
        print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = program::name();
    let mut text = columns(&cells);
    writeln!(text, "\nrun one:  {program} reproduce NAME [--scale desk|paper] [--dry-run]")?;
    if rows.iter().any(|row| row["data_is_there"] == false) {
        writeln!(
            text,
            "data that are not there: {program} data get cifar10|cifar100|inat2017 fetches them (looked in {})",
            dir.display()
        )?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Words in columns.
fn columns(cells: &[[String; 4]]) -> String {
    let widths: Vec<usize> = (0..4)
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in cells {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  ").trim_end());
    }
    text
}
