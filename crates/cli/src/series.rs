//! `formant run --seeds`: one experiment with several seeds.

use crate::args::RunArgs;
use crate::args::report::ReportArgs;
use crate::exporting;
use crate::extension;
use crate::folder;
use crate::interrupt::stop_flag;
use crate::output::{note, pasteable, print, print_json};
use crate::program;
use crate::progress::{Bars, LateBar, lock};
use crate::run::{draft, introduction, result, threads};
use formant_experiment::QUICKSTART;
use formant_methods::Zoo;
use formant_report::RunLog;
use formant_runtime::{Parts, RunPlan};
use formant_study::{Observer, Seeds, Series, SeriesData, series_folders, series_logs};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// Runs all seeds that `--seeds` asks for.
pub(crate) fn run(args: RunArgs, seeds: &str, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    // Everything that can be refused is refused before a folder is made.
    let seeds = Seeds::parse(seeds)?;
    let draft = draft(&args.experiment, QUICKSTART, zoo)?;
    let series = Series::new(&draft, &seeds, args.series.redivide, &threads(args.threads))?;
    if let Some(out) = &args.out {
        folder::check_unused(out)?;
    }
    let (mut data, progress) = (SeriesData::default(), Progress::new(&series, args.quiet));
    series.check(&mut data, &progress)?;
    let folder = folder::make(args.out, &series.shared().name)?;
    series.create(&folder)?;
    follow(&series, &folder, &mut data, &progress, args.json)
}

/// Goes on with those that are not finished.
pub(crate) fn resume(folder: &Path, args: &RunArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let more = extension::asked_for(&args.experiment.set, &args.add_method)?;
    let mut data = SeriesData::default();
    if more.is_something() {
        let longer = extension::experiment(folder, &more, &[], zoo)?;
        Series::extend(folder, &longer, &mut data, &formant_study::Silent, zoo)?;
    }
    let series = Series::open(folder, &threads(args.threads), zoo)?;
    let progress = Progress::new(&series, args.quiet);
    follow(&series, folder, &mut data, &progress, args.json)
}

fn follow(
    series: &Series,
    folder: &Path,
    data: &mut SeriesData,
    progress: &Progress,
    json: bool,
) -> anyhow::Result<ExitCode> {
    if !series.run(folder, data, progress, &*stop_flag()?)? {
        let (program, done) = (program::name(), series.finished(folder)?);
        note!(
            "interrupted, {done} of {} seeds are finished; go on with: {program} run --resume {}",
            series.seeds().len(),
            pasteable(folder)
        );
        return Ok(ExitCode::from(130));
    }
    let (logs, _) = series_logs(folder)?;
    formant_report::write_series_reports(folder, &logs)?;
    if json {
        print_json(&everything(folder, &logs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = table(&logs)?;
    if !progress.quiet {
        text.insert(0, '\n');
        writeln!(text, "\nrun folders {}/seed-*", folder.display())?;
        writeln!(text, "report      {}", folder.join("report.html").display())?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the reports of a series' folder and prints its table.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let folder = args.run_dir.as_path();
    let (logs, planned) = series_logs(folder)?;
    if logs.is_empty() {
        anyhow::bail!(
            "{}: none of its {planned} seeds has begun\nhint: go on with `formant run --resume {}`",
            folder.display(),
            pasteable(folder)
        );
    }
    let exported = exporting::write(&args.exports, &logs)?;
    let written = formant_report::write_series_reports(folder, &logs)?;
    if args.json {
        for line in exported {
            note!("{line}");
        }
        print_json(&everything(folder, &logs)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = table(&logs)?;
    let finished = logs.iter().filter(|log| log.seconds.is_some()).count();
    if finished < planned {
        writeln!(
            text,
            "\nnote: {finished} of {planned} seeds are finished; figures are of what there is"
        )?;
    }
    text.push('\n');
    for path in written {
        writeln!(text, "wrote {}", path.display())?;
    }
    for line in exported {
        writeln!(text, "{line}")?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Means, what ± covers, and the differences.
fn table(logs: &[RunLog]) -> anyhow::Result<String> {
    let (rows, found) =
        (formant_report::over_seeds(logs)?, formant_report::significance(logs, None)?);
    let mut text = formant_report::seed_table(&rows);
    let seeds: Vec<_> = found.seeds.iter().map(u64::to_string).collect();
    let seeds = seeds.join(", ");
    if logs.len() > 1 {
        writeln!(text, "\nMean ± standard deviation over the seeds {seeds}: {}.", found.covers)?;
    }
    text.push_str(&formant_report::difference_table(&found.contests));
    Ok(text)
}

fn everything(folder: &Path, logs: &[RunLog]) -> anyhow::Result<serde_json::Value> {
    let folders = series_folders(folder)?;
    let runs: Vec<_> = logs.iter().zip(&folders).map(|(log, folder)| result(log, folder)).collect();
    Ok(serde_json::json!({
        "series_dir": folder,
        "formant": logs.first().map(|log| log.started.formant.clone()),
        "rows": formant_report::over_seeds(logs)?,
        "significance": formant_report::significance(logs, None)?,
        "runs": runs,
    }))
}

/// A heading for every seed, with the bars of a run below it.
struct Progress {
    quiet: bool,
    seeds: Vec<u64>,
    parts: Arc<Mutex<Parts>>,
    reading: RefCell<Option<LateBar>>,
}

impl Progress {
    fn new(series: &Series, quiet: bool) -> Self {
        let seeds = series.seeds();
        let parts = Arc::new(Mutex::new(Parts::equal(seeds.len())));
        Self { quiet, seeds, parts, reading: RefCell::new(None) }
    }
}

impl Observer for Progress {
    fn data_read(&self, done: usize, total: usize) {
        let mut reading = self.reading.borrow_mut();
        reading.get_or_insert_with(|| LateBar::new(0)).at(done, total);
    }

    fn run_found(&self) {
        lock(&self.parts).skip();
    }

    fn run_started(&self, plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        if let Some(bar) = self.reading.borrow_mut().take() {
            bar.finish();
        }
        let bars = Bars::part_of(self.quiet, &self.parts);
        let seed = plan.header.seed;
        let place = self.seeds.iter().position(|known| *known == seed).map_or(1, |place| place + 1);
        let heading = format!("seed {seed} ({place} of {})", self.seeds.len());
        // What the runs have in common is said once.
        let heading =
            if place == 1 { format!("{}\n{heading}", introduction(plan)) } else { heading };
        bars.announce(&plan.header, heading);
        Box::new(bars)
    }
}
