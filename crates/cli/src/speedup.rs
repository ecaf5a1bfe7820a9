//! `formant speedup`: what the wait-free schedule saves, in time to a target PM accuracy.

use crate::args::SpeedupArgs;
use crate::interrupt::stop_flag;
use crate::output::{colour_on_stdout, markdown_table, print, print_json};
use crate::progress::Bars;
use crate::run::{draft, introduction, threads};
use formant_experiment::SPEEDUP;
use formant_methods::Zoo;
use formant_report::timeline_text;
use formant_runtime::{Parts, RunPlan};
use formant_study::{Gain, Observer, Speedup, Targets};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) fn speedup(args: &SpeedupArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let targets = Targets::new(args.targets.clone())?;
    let speedup = Speedup {
        draft: draft(&args.experiment, SPEEDUP, zoo)?,
        epochs: args.epochs.clone(),
        targets,
        last: threads(args.threads),
    };
    let parts = Arc::new(Mutex::new(Parts::equal(speedup.runs())));
    let watch = EveryRun { quiet: args.quiet, parts };
    let Some(comparison) = speedup.run(&args.out, &watch, &*stop_flag()?)? else {
        eprintln!("interrupted; the same command goes on where it stopped");
        return Ok(ExitCode::from(130));
    };
    let svg = comparison.write(&args.out)?;
    if args.json {
        print_json(&comparison.gains)?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = usize::from(console_width());
    let mut text = table(&comparison.gains);
    text.push_str("\nOne round of one method under each schedule, by the virtual clock:\n\n");
    text.push_str(&timeline_text(&comparison.timelines, columns, colour_on_stdout()));
    writeln!(text, "\ntimeline    {}", svg.display())?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The usual bars for every run of the comparison.
struct EveryRun {
    quiet: bool,
    parts: Arc<Mutex<Parts>>,
}

impl Observer for EveryRun {
    fn run_found(&self) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).skip();
    }

    fn run_started(&self, plan: &RunPlan) -> Box<dyn formant_runtime::Observer> {
        let bars = Bars::part_of(self.quiet, &self.parts);
        bars.announce(&plan.header, introduction(plan));
        Box::new(bars)
    }
}

fn console_width() -> u16 {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    given.unwrap_or_else(|| console::Term::stdout().size_checked().map_or(100, |(_, width)| width))
}

fn table(gains: &[Gain]) -> String {
    let seconds = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.1} s"));
    let factor = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.2}×"));
    let heading = [
        "method",
        "personal epochs",
        "target PM",
        "rounds",
        "compute-and-wait",
        "wait-free",
        "speedup",
        "paper",
        "shared : personal : network",
    ];
    let mut cells = vec![heading.map(str::to_owned)];
    if let Some(other) = gains.first().map(|gain| gain.metric).filter(|m| !m.is_accuracy()) {
        cells[0][2] = format!("target PM {}", other.title());
    }
    for gain in gains {
        cells.push([
            gain.method.clone(),
            gain.personal_epochs.to_string(),
            format!("{:.0} %", gain.target * 100.0),
            gain.rounds.map_or("–".into(), |round| round.to_string()),
            seconds(gain.compute_and_wait),
            seconds(gain.wait_free),
            factor(gain.speedup),
            factor(gain.paper),
            format!(
                "{:.2} : {:.2} : {:.2} s",
                gain.shared_seconds, gain.personal_seconds, gain.communication_seconds
            ),
        ]);
    }
    let mut text = markdown_table(&cells);
    text.push_str(
        "\n- Time until the clients' personal models reach the target, by the virtual clock. Both schedules train \
         the same models, bit for bit; a – was never reached.\n\
         - paper: its Table 4, CIFAR-10 at α = 0.1 with targets of 40 % and 80 %; it does not say which devices and links it assumes.\n\
         - shared : personal : network: mean seconds a round of a client's two phases and of its transfers. With everybody in every round, overlap can save at most a factor of 2, where personal phase and network take equally long and the shared phase takes nothing.\n",
    );
    text
}
