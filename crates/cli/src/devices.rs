//! `formant devices`: how fast this machine trains, in the words of an experiment.

use crate::args::DevicesArgs;
use crate::output::{markdown_table, print, print_json};
use crate::run::{experiment, grouped};
use anyhow::bail;
use formant_experiment::Override;
use formant_methods::Zoo;
use formant_runtime::{MethodPlan, Pace, Pacer, RunPlan, median_client};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What was measured for one method.
#[derive(Debug, Serialize)]
struct Row {
    method: String,
    /// Samples a second of one core.
    shared: Option<f64>,
    personal: Option<f64>,
    /// Time of a sample, in units of plain training.
    cost: Option<f64>,
    personal_cost: Option<f64>,
}

/// What everything is compared with, and all methods.
#[derive(Debug, Serialize)]
struct Figures {
    network: String,
    batch: usize,
    /// Plain SGD on one core.
    samples_per_second: f64,
    slowdown: f64,
    methods: Vec<Row>,
}

/// Fewest laps of each method.
const LAPS: usize = 3;

pub(crate) fn devices(args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    for (flag, value) in [("--slowdown", args.slowdown), ("--seconds", args.seconds)] {
        if !(value > 0.0 && value < 1e9) {
            bail!("{flag} takes a number above 0, and {value} is none\nhint: for example {flag} 5");
        }
    }
    // Rules that need a clock are no reason not to measure one.
    let any_speed = Override::new(&["devices", "samples_per_second"], 1.0);
    let plan = experiment(&args.experiment, &[any_speed])?.plan()?;
    let paces = measure(&plan, args)?;
    let figures = figures(&plan, &paces, args.slowdown)?;
    if args.json {
        print_json(&figures)?;
    } else {
        print(&text(&plan, &figures)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Plain training first, then every method. They take turns, so that a machine that is busy for a while
/// is busy for all of them.
fn measure(plan: &RunPlan, args: &DevicesArgs) -> anyhow::Result<Vec<Pace>> {
    let first = &plan.methods[0];
    let plain = MethodPlan {
        label: "plain SGD".into(),
        method: Zoo::standard().build("fedavg", &toml::Table::new())?.method,
        shared: first.shared,
        personal: first.personal,
    };
    let target =
        if args.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let total = args.seconds * (plan.methods.len() + 1) as f64;
    let bar = ProgressBar::with_draw_target(Some((total * 1_000.0) as u64), target);
    if let Ok(style) = ProgressStyle::with_template("measuring {bar:28.cyan/dim} {msg}") {
        bar.set_style(style.progress_chars("━━─"));
    }
    let mut pacers = Vec::new();
    for method in std::iter::once(&plain).chain(&plan.methods) {
        pacers.push(Pacer::new(plan, method)?);
    }
    let mut paces = vec![Pace::default(); pacers.len()];
    let (started, patience) = (Instant::now(), Duration::from_secs_f64(total));
    for lap in 0.. {
        if lap >= LAPS && started.elapsed() >= patience {
            break;
        }
        for (place, pacer) in pacers.iter_mut().enumerate() {
            let label = place.checked_sub(1).map_or("plain SGD", |i| &plan.methods[i].label);
            bar.set_message(format!("{label}, lap {}", lap + 1));
            paces[place] = paces[place].or_faster(pacer.lap()?);
            bar.set_position(started.elapsed().as_millis() as u64);
        }
    }
    bar.finish_and_clear();
    Ok(paces)
}

fn figures(plan: &RunPlan, paces: &[Pace], slowdown: f64) -> anyhow::Result<Figures> {
    let Some(plain) = paces.first().and_then(|pace| pace.shared) else {
        bail!("the client in the middle has no samples to train on\nhint: raise data.min_samples");
    };
    // Two decimals: a measurement has no more.
    let cost = |pace: Option<f64>| pace.map(|pace| (pace / plain * 100.0).round().max(1.0) / 100.0);
    let rate = |pace: Option<f64>| pace.map(|pace| 1.0 / pace);
    let methods = plan.methods.iter().zip(&paces[1..]).map(|(method, pace)| Row {
        method: method.label.clone(),
        shared: rate(pace.shared),
        personal: rate(pace.personal),
        cost: cost(pace.shared),
        personal_cost: cost(pace.personal),
    });
    Ok(Figures {
        network: plan.header.network.clone(),
        batch: plan.methods[0].shared.first.batch,
        samples_per_second: 1.0 / plain,
        slowdown,
        methods: methods.collect(),
    })
}

fn text(plan: &RunPlan, figures: &Figures) -> anyhow::Result<String> {
    let rate = |rate: Option<f64>| rate.map_or("–".into(), |rate| grouped(rate.round() as usize));
    let cost = |cost: Option<f64>| cost.map_or("–".into(), |cost| format!("{cost:.2}"));
    let heading = ["method", "shared, samples/s", "cost", "personal, samples/s", "cost"];
    let mut cells = vec![heading.map(str::to_owned)];
    cells.push([
        "plain SGD".into(),
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
