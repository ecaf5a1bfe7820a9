//! `formant speedup`: what the wait-free schedule saves, in time to a target PM accuracy.

use crate::args::SpeedupArgs;
use crate::interrupt::stop_flag;
use crate::output::{colour_on_stdout, markdown_table, print, print_json};
use crate::progress::Bars;
use crate::run::{experiment_or, introduction, threads};
use anyhow::bail;
use formant_experiment::{Override, SPEEDUP};
use formant_report::{Activity, MethodLog, RunLog, Timeline, timeline_svg, timeline_text};
use formant_runtime::files::{self, Synced};
use formant_runtime::sim::{self, Outcome};
use formant_runtime::{EVENTS_FILE, RuntimeError, first_difference};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// One figure of the table.
#[derive(Debug, Serialize)]
struct Row {
    method: String,
    personal_epochs: usize,
    target: f64,
    /// Rounds until the target was reached.
    rounds: Option<usize>,
    /// Virtual seconds until then.
    compute_and_wait: Option<f64>,
    wait_free: Option<f64>,
    speedup: Option<f64>,
    /// What the paper has at this place, for its own targets on CIFAR-10.
    paper: Option<f64>,
    /// Mean seconds a round of a client's shared phase, personal phase, and transfers.
    shared_seconds: f64,
    personal_seconds: f64,
    communication_seconds: f64,
}

/// The paper's Table 5: speedups for 3 and 5 personal epochs, each for a low and a high target.
const PAPER: [(&str, [[f64; 2]; 2]); 3] = [
    ("scd", [[1.82, 1.56], [2.21, 1.85]]),
    ("ditto", [[1.97, 1.38], [2.87, 1.93]]),
    ("fedrod", [[1.75, 1.54], [2.42, 2.19]]),
];

const SCHEDULES: [&str; 2] = ["compute-and-wait", "wait-free"];

pub(crate) fn speedup(args: &SpeedupArgs) -> anyhow::Result<ExitCode> {
    if args.targets.is_empty() || args.targets.iter().any(|t| !(*t > 0.0 && *t <= 1.0)) {
        bail!("--targets takes accuracies between 0 and 1\nhint: for example --targets 0.8,0.95");
    }
    files::create_folder(&args.out)?;
    let stop = stop_flag()?;
    let (mut rows, mut timelines) = (Vec::new(), Vec::new());
    for epochs in &args.epochs {
        let mut logs = Vec::new();
        for schedule in SCHEDULES {
            let Some(log) = run(args, *epochs, schedule, &stop)? else {
                eprintln!("interrupted; the same command goes on where it stopped");
                return Ok(ExitCode::from(130));
            };
            logs.push(log);
        }
        for (waiting, free) in logs[0].methods.iter().zip(&logs[1].methods) {
            check_same_models(waiting, free)?;
            let targets = args.targets.iter().enumerate();
            rows.extend(targets.map(|(i, target)| row(waiting, free, *epochs, (i, *target))));
            if timelines.is_empty() {
                timelines = timelines_of(waiting, free, *epochs);
            }
        }
    }
    let svg = args.out.join("timeline.svg");
    files::write(&svg, timeline_svg(&timelines).as_bytes(), Synced::Content)?;
    files::write(
        &args.out.join("speedup.json"),
        serde_json::to_string_pretty(&rows)?.as_bytes(),
        Synced::Content,
    )?;
    if args.json {
        print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = usize::from(console_width());
    let mut text = table(&rows);
    text.push_str("\nOne round of one method under each schedule, by the virtual clock:\n\n");
    text.push_str(&timeline_text(&timelines, columns, colour_on_stdout()));
    writeln!(text, "\ntimeline    {}", svg.display())?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn console_width() -> u16 {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    given.unwrap_or_else(|| console::Term::stdout().size_checked().map_or(100, |(_, width)| width))
}

/// Runs all methods under one schedule, or reads what an earlier command has left.
fn run(
    args: &SpeedupArgs,
    epochs: usize,
    schedule: &str,
    stop: &AtomicBool,
) -> anyhow::Result<Option<RunLog>> {
    let mut changes = vec![
        Override::new(&["federation", "schedule"], schedule),
        Override::new(&["train", "personal_epochs"], epochs as i64),
        Override::new(&["name"], format!("{schedule}, {epochs} personal epochs")),
        Override::new(&["runtime", "keep"], "none"),
    ];
    changes.extend(threads(args.threads));
    let experiment = experiment_or(&args.experiment, &changes, SPEEDUP)?;
    let plan = experiment.plan()?;
    if plan.profile.is_instant() {
        bail!(
            "nothing takes time in this experiment, so nothing can be saved\nhint: set devices.samples_per_second and links.up and links.down"
        );
    }
    if let Some(method) = plan.methods.iter().find(|m| !plan.rules(m).personal.exists) {
        bail!(
            "`{}` has no personal phase that could run while an upload travels\nhint: choose others with --method, such as scd, ditto or fedrod",
            method.label
        );
    }
    let folder = args.out.join(format!("{schedule}-{epochs}"));
    let bars = Bars::new(args.quiet);
    bars.announce(&plan.header, introduction(&plan));
    match sim::run(&plan, &folder, &bars, stop) {
        Ok(Outcome::Interrupted) => return Ok(None),
        Ok(Outcome::Complete) | Err(RuntimeError::Complete { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let log = RunLog::read(&folder.join(EVENTS_FILE))?;
    let wanted = &plan.header.config;
    if let Some((path, before, now)) = first_difference(&log.started.config, wanted)
        && !path.starts_with("runtime")
    {
        bail!(
            "{} holds another run: `{path}` was {before} there and is {now} now\nhint: choose another folder with --out",
            folder.display()
        );
    }
    Ok(Some(log))
}

/// The whole comparison rests on this.
fn check_same_models(waiting: &MethodLog, free: &MethodLog) -> anyhow::Result<()> {
    let print = |log: &MethodLog| log.finish.as_ref().map(|finish| finish.fingerprint.clone());
    if print(waiting) != print(free) {
        bail!(
            "{}: the two schedules trained different models\nhint: compare them with federation.quorum = 1 and no deadline, where only the clock differs",
            waiting.info.title
        );
    }
    Ok(())
}

fn row(waiting: &MethodLog, free: &MethodLog, epochs: usize, (i, target): (usize, f64)) -> Row {
    let reached = |log: &MethodLog| {
        let mut evaluations = log.evaluations.iter();
        evaluations.find_map(|(round, e)| (e.pm? >= target).then_some((*round, e.clock?.pm)))
    };
    let (slow, fast) = (reached(waiting), reached(free));
    let speedup = slow.zip(fast).map(|((_, slow), (_, fast))| slow / fast);
    let column = [3, 5].iter().position(|known| *known == epochs);
    let paper = PAPER.iter().find(|(name, _)| *name == waiting.info.name);
    let paper =
        paper.zip(column).and_then(|((_, figures), column)| figures[column].get(i).copied());
    let mean = |kinds: &[Activity]| {
        let rounds = waiting.rounds.values();
        let of = rounds.flat_map(|r| &r.activities).filter(|(_, kind, _)| kinds.contains(kind));
        let total: f64 = of.map(|(_, _, span)| span.end - span.start).sum();
        let turns: usize = waiting.rounds.values().map(|round| round.participants).sum();
        total / turns.max(1) as f64
    };
    Row {
        method: waiting.info.title.clone(),
        personal_epochs: epochs,
        target,
        rounds: slow.map(|(round, _)| round),
        compute_and_wait: slow.map(|(_, seconds)| seconds),
        wait_free: fast.map(|(_, seconds)| seconds),
        speedup,
        paper,
        shared_seconds: mean(&[Activity::Shared]),
        personal_seconds: mean(&[Activity::Personal]),
        communication_seconds: mean(&[Activity::Download, Activity::Upload]),
    }
}

/// A round in which everything is under way, of the fastest, a middle and the slowest client.
fn timelines_of(waiting: &MethodLog, free: &MethodLog, epochs: usize) -> Vec<Timeline> {
    let round = waiting.rounds.len().min(3);
    let title = |schedule: &str| {
        format!("{}, {schedule}, {epochs} personal epochs, round {round}", waiting.info.title)
    };
    let all = SCHEDULES.into_iter().zip([waiting, free]);
    all.filter_map(|(schedule, log)| Timeline::new(title(schedule), log, round, 3)).collect()
}

fn table(rows: &[Row]) -> String {
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
    for row in rows {
        cells.push([
            row.method.clone(),
            row.personal_epochs.to_string(),
            format!("{:.0} %", row.target * 100.0),
            row.rounds.map_or("–".into(), |round| round.to_string()),
            seconds(row.compute_and_wait),
            seconds(row.wait_free),
            factor(row.speedup),
            factor(row.paper),
            format!(
                "{:.2} : {:.2} : {:.2} s",
                row.shared_seconds, row.personal_seconds, row.communication_seconds
            ),
        ]);
    }
    let mut text = markdown_table(&cells);
    text.push_str(
        "\n- Time until the clients' personal models reach the target, by the virtual clock. Both schedules train \
         the same models, bit for bit; a – was never reached.\n\
         - paper: its Table 5, CIFAR-10 at α = 0.1 with targets of 40 % and 80 %; it does not say which devices and links it assumes.\n\
         - shared : personal : network: mean seconds a round of a client's two phases and of its transfers. With everybody in every round, overlap can save at most a factor of 2, where personal phase and network take equally long and the shared phase takes nothing.\n",
    );
    text
}
