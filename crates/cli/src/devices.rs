//! `formant devices`: how fast this machine trains, in the words of an experiment.

use crate::args::DevicesArgs;
use crate::output::{markdown_table, print, print_json};
use crate::progress::{NowAndThen, Ticker, left, lock};
use crate::run::experiment;
use formant_experiment::Override;
use formant_methods::Zoo;
use formant_runtime::quantity::count;
use formant_runtime::{RunPlan, median_client};
use formant_study::{DeviceFigures, Effort, Observer, PLAIN, measure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) fn devices(args: &DevicesArgs, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    let effort = Effort::new(args.seconds, args.slowdown)?;
    // Rules that need a clock are no reason not to measure one.
    let any_speed = Override::new(&["devices", "samples_per_second"], 1.0);
    let plan = experiment(&args.experiment, &[any_speed], zoo)?.plan()?;
    let bar = LapBar::new(&plan, effort, args.quiet);
    let figures = measure(&plan, effort, &bar);
    bar.clear();
    let figures = figures?;
    if args.json {
        print_json(&figures)?;
    } else {
        print(&text(&plan, &figures)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar over the time that measuring will take.
struct LapBar<'a> {
    shown: Arc<Mutex<Shown>>,
    plan: &'a RunPlan,
    effort: Effort,
    /// Absent when quiet.
    ticker: Option<Ticker>,
}

struct Shown {
    bar: ProgressBar,
    started: Instant,
    total: Duration,
    laps: usize,
    lap: String,
    lines: NowAndThen,
}

impl Shown {
    fn show(&mut self) {
        let elapsed = self.started.elapsed();
        let rest = self.total.checked_sub(elapsed).filter(|rest| !rest.is_zero());
        let text = format!("{}  {}", left(rest), self.lap);
        // The end comes with the last lap, and not when time is up.
        let most = self.total.mul_f64(0.99);
        self.bar.set_length(self.total.as_millis() as u64);
        self.bar.set_position(elapsed.min(most).as_millis() as u64);
        self.bar.set_message(text.clone());
        if self.bar.is_hidden() && self.lines.is_due(elapsed) {
            eprintln!("measuring  {text}");
        }
    }
}

impl<'a> LapBar<'a> {
    fn new(plan: &'a RunPlan, effort: Effort, quiet: bool) -> Self {
        let target =
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let total = effort.total(plan);
        let bar = ProgressBar::with_draw_target(Some(total.as_millis() as u64), target);
        if let Ok(style) = ProgressStyle::with_template("measuring {bar:28.cyan/dim} {wide_msg}") {
            bar.set_style(style.progress_chars("━━─"));
        }
        let (started, lap, lines) = (Instant::now(), String::new(), NowAndThen::default());
        let shown = Shown { bar, started, total, laps: 0, lap, lines };
        let shown = Arc::new(Mutex::new(shown));
        let ticking = shown.clone();
        let ticker = (!quiet).then(|| Ticker::start(move || lock(&ticking).show()));
        Self { shown, plan, effort, ticker }
    }

    /// Takes the bar away.
    fn clear(self) {
        drop(self.ticker);
        lock(&self.shown).bar.finish_and_clear();
    }
}

impl Observer for LapBar<'_> {
    fn lap_started(&self, method: &str, lap: usize) {
        lock(&self.shown).lap = format!("{method}, lap {lap}");
    }

    fn lap_done(&self, elapsed: Duration) {
        let mut shown = lock(&self.shown);
        shown.laps += 1;
        shown.total = self.effort.forecast(self.plan, shown.laps, elapsed);
    }
}

fn text(plan: &RunPlan, figures: &DeviceFigures) -> anyhow::Result<String> {
    let rate = |rate: Option<f64>| rate.map_or("–".into(), |rate| count(rate.round() as u64));
    let cost = |cost: Option<f64>| cost.map_or("–".into(), |cost| format!("{cost:.2}"));
    let heading = ["method", "shared, samples/s", "cost", "personal, samples/s", "cost"];
    let mut cells = vec![heading.map(str::to_owned)];
    cells.push([
        PLAIN.into(),
        rate(Some(figures.samples_per_second)),
        "1.00".into(),
        "–".into(),
        "–".into(),
    ]);
    for row in &figures.methods {
        cells.push([
            row.method.clone(),
            rate(row.shared),
            cost(row.cost),
            rate(row.personal),
            cost(row.personal_cost),
        ]);
    }
    let client = median_client(plan);
    let samples = plan.federation.clients[client].train.len();
    let mut text = markdown_table(&cells);
    writeln!(
        text,
        "\n- One core of this machine, {} with batches of {} (plain SGD, and methods without a size of their own), client {client} with {samples} samples; the fastest lap counts.\n\
         - cost: time of a sample in units of plain SGD. A – has nothing to train.\n\n\
         In an experiment whose devices are {}:\n",
        figures.network,
        figures.batch,
        if figures.slowdown == 1.0 {
            "like this core".into()
        } else {
            format!("{} times slower than this core", figures.slowdown)
        },
    )?;
    let speed = figures.samples_per_second / figures.slowdown;
    writeln!(text, "[devices]\nsamples_per_second = {}", digits(speed))?;
    for row in &figures.methods {
        writeln!(text, "\n# in the [[method]] with the label {:?}", row.method)?;
        for (key, cost) in [("cost", row.cost), ("personal_cost", row.personal_cost)] {
            if let Some(cost) = cost {
                writeln!(text, "train.{key} = {cost:.2}")?;
            }
        }
    }
    Ok(text)
}

/// At least four digits that count, as TOML writes a number.
fn digits(x: f64) -> String {
    let places = (3 - x.abs().log10().floor() as i32).clamp(0, 12);
    let unit = 10f64.powi(places.max(0));
    let rounded = (x * unit).round() / unit;
    format!("{rounded:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_a_point() {
        assert_eq!(
            [1234.567, 51.234_5, 0.012_345_6, 98_765.4].map(digits),
            ["1235.0", "51.23", "0.01235", "98765.0"]
        );
    }
}
