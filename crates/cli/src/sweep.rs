//! `formant sweep`: all combinations of a grid, scored on the validation split.

use crate::args::SweepArgs;
use crate::interrupt::stop_flag;
use crate::output::{print, print_json};
use crate::ranking::table;
use crate::run::{draft, threads};
use formant_experiment::QUICKSTART;
use formant_methods::Zoo;
use formant_study::{Grid, Job, Observer, Sweep, rank};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::process::ExitCode;

pub(crate) fn sweep(args: &SweepArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let grid = Grid::parse(&args.grid)?;
    let draft = draft(&args.experiment, QUICKSTART, zoo)?;
    let mut sweep = Sweep::new(&draft, &grid, &args.seeds, &threads(args.threads))?;
    let bar = JobBar::new(sweep.jobs().len(), args.quiet)?;
    let Some(scores) = sweep.run(&args.out, &bar, &*stop_flag()?)? else {
        bar.0.abandon();
        eprintln!("interrupted; the same command goes on where it stopped");
        return Ok(ExitCode::from(130));
    };
    bar.0.finish_and_clear();
    let ranking = rank(&scores, args.rank.into());
    if args.json {
        print_json(&ranking)?;
    } else {
        print(&table(&ranking))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar with a step for every job.
struct JobBar(ProgressBar);

impl JobBar {
    fn new(jobs: usize, quiet: bool) -> anyhow::Result<Self> {
        let bar = ProgressBar::new(jobs as u64);
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_style(ProgressStyle::with_template(
            "{bar:28.cyan/dim} {pos}/{len}  {eta} left  {msg}",
        )?);
        Ok(Self(bar))
    }
}

impl Observer for JobBar {
    fn job_started(&self, job: &Job) {
        self.0.set_message(format!("{} seed {}", job.setting, job.seed));
    }

    fn job_done(&self, _job: &Job) {
        self.0.inc(1);
    }
}
