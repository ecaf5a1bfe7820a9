//! `formant sweep`: all combinations of a grid, scored on the validation split.

use crate::args::SweepArgs;
use crate::interrupt::stop_flag;
use crate::job_bar::JobBar;
use crate::output::{print, print_json};
use crate::ranking::table;
use crate::run::{draft, threads};
use formant_experiment::QUICKSTART;
use formant_methods::Zoo;
use formant_study::{Grid, Sweep, rank};
use std::process::ExitCode;

pub(crate) fn sweep(args: &SweepArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let grid = Grid::parse(&args.grid)?;
    let draft = draft(&args.experiment, QUICKSTART, zoo)?;
    let mut sweep = Sweep::new(&draft, &grid, &args.seeds, &threads(args.threads))?;
    let bar = JobBar::new(sweep.parts(), args.quiet)?;
    let scores = sweep.run(&args.out, &bar, &*stop_flag()?);
    bar.clear();
    let Some(scores) = scores? else {
        eprintln!("interrupted; the same command goes on where it stopped");
        return Ok(ExitCode::from(130));
    };
    let ranking = rank(&scores, args.rank.into());
    if args.json {
        print_json(&ranking)?;
    } else {
        print(&table(&ranking))?;
    }
    Ok(ExitCode::SUCCESS)
}
