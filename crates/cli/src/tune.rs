//! `formant tune`: hyper-parameters with equal budgets, chosen on the validation split.

use crate::args::tune::TuneArgs;
use crate::interrupt::stop_flag;
use crate::job_bar::JobBar;
use crate::output::{markdown_table, note, pasteable, print, print_json};
use crate::program;
use crate::run::threads;
use formant_methods::Zoo;
use formant_study::{Ending, Shard, TuneRequest, Tuned, Tuning, Winner};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The winners' name in the folder of a tuning.
const TUNED_FILE: &str = "tuned.toml";

pub(crate) fn tune(args: TuneArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse)?;
    let out = args.out.unwrap_or_else(|| folder(args.experiment.as_deref()));
    let mut command = format!("{} tune", program::name());
    if let Some(experiment) = &args.experiment {
        let _ = write!(command, " {}", pasteable(Path::new(experiment)));
    }
    let request = TuneRequest {
        experiment: args.experiment,
        scale: args.scale.map(Into::into),
        data_dir: args.data_dir,
        set: args.set,
        methods: args.methods,
        cells: args.cells,
        budget: args.budget.map(|budget| budget as usize),
        seeds: args.seeds,
        score: args.score.map(Into::into),
        last: threads(args.threads),
    };
    let mut tuning = Tuning::new(&request, zoo)?;
    let places = tuning.shard(shard);
    let ending = if args.collect {
        tuning.collect(&out, &places)?
    } else {
        if !args.quiet {
            tuning.remarks().iter().for_each(|remark| note!("note: {remark}"));
            note!("{}", announced(&tuning, places.len()));
        }
        let bar = JobBar::new(tuning.parts(&places), args.quiet)?;
        let ending = tuning.run(&out, &places, &bar, &*stop_flag()?);
        bar.clear();
        ending?
    };
    let files: Vec<PathBuf> =
        [Some(out.join(TUNED_FILE)), args.write].into_iter().flatten().collect();
    if !ending.tuned.winners.is_empty() {
        for file in &files {
            ending.tuned.write(file, &command)?;
        }
    }
    if args.json {
        print_json(&ending.tuned.winners)?;
    } else {
        let mut text = table(&ending.tuned);
        if !args.quiet && !ending.tuned.winners.is_empty() {
            text.push('\n');
            files.iter().try_for_each(|file| writeln!(text, "wrote {}", file.display()))?;
        }
        print(&text)?;
    }
    Ok(said(&ending, args.collect))
}

/// What is left to others or to the next time.
fn said(ending: &Ending, collected: bool) -> ExitCode {
    if ending.elsewhere > 0 {
        let count = ending.elsewhere;
        note!(
            "note: other processes are at work on {count} of these searches; --collect shows them when they are done"
        );
    }
    match ending.unfinished {
        0 => ExitCode::SUCCESS,
        count if collected => {
            note!("note: {count} searches are not finished; without --collect they are run");
            ExitCode::SUCCESS
        }
        _ => {
            note!("interrupted; the same command goes on where it stopped");
            ExitCode::from(130)
        }
    }
}

fn folder(experiment: Option<&str>) -> PathBuf {
    let name = experiment.and_then(|given| Path::new(given).file_stem());
    Path::new("runs").join("tune").join(name.unwrap_or("quickstart".as_ref()))
}

fn announced(tuning: &Tuning, searches: usize) -> String {
    let (budget, seeds) = (tuning.budget(), tuning.seeds().len());
    let seeds = if seeds == 1 { String::new() } else { format!(" with {seeds} seeds each") };
    let word = if searches == 1 { "search" } else { "searches" };
    format!("{searches} {word} (method and cell), each of at most {budget} settings{seeds}")
}

/// A winner in a line.
pub(crate) fn line(winner: &Winner) -> String {
    let cell = winner.cell_name();
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2}", 100.0 * x));
    format!(
        "{cell}{}{}: {} with {} ({} settings, {})",
        if cell.is_empty() { "" } else { " " },
        winner.method,
        percent(winner.score),
        winner.setting(),
        winner.settings,
        winner.verdict(),
    )
}

/// The winners as a Markdown table.
fn table(tuned: &Tuned) -> String {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.2}", 100.0 * x));
    let mut rows = vec![
        ["cell", "method", "score", "GM", "PM", "setting", "tried", "winner"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(tuned.winners.iter().map(|winner| {
        vec![
            winner.cell_name(),
            winner.method.clone(),
            percent(winner.score),
            percent(winner.gm),
            percent(winner.pm),
            winner.setting(),
            format!("{} of {}", winner.settings, winner.budget),
            winner.verdict(),
        ]
    }));
    markdown_table(&rows)
}
