//! How fast this machine trains each method, in the words of an experiment.

use crate::{Observer, StudyError};
use formant_methods::{Entry, FedAvg};
use formant_runtime::{MethodPlan, Pace, Pacer, RunPlan};
use serde::Serialize;
use std::time::{Duration, Instant};

/// What everything is compared with, under the name that it has among the methods.
pub const PLAIN: &str = "plain SGD";

/// Fewest laps of each method.
pub(crate) const LAPS: usize = 3;

/// How long to measure, and for which devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    seconds: f64,
    slowdown: f64,
}

impl Effort {
    /// `seconds` to measure each method; how many times slower (`slowdown`) the experiment's devices are
    /// than a core of this machine. Both must be above 0.
    pub fn new(seconds: f64, slowdown: f64) -> Result<Self, StudyError> {
        for (flag, value) in [("--slowdown", slowdown), ("--seconds", seconds)] {
            if !(value > 0.0 && value < 1e9) {
                return Err(StudyError::NotPositive { flag, value });
            }
        }
        Ok(Self { seconds, slowdown })
    }

    /// How long measuring a plan takes, if no lap is longer than its share.
    pub fn total(&self, plan: &RunPlan) -> Duration {
        Duration::from_secs_f64(self.seconds * (plan.methods.len() + 1) as f64)
    }

    /// How long measuring a plan will take in all, if so many laps have taken so long: there is a least number of them.
    pub fn forecast(&self, plan: &RunPlan, laps: usize, elapsed: Duration) -> Duration {
        let least = LAPS * (plan.methods.len() + 1);
        let by_laps = elapsed.mul_f64(least as f64 / laps.max(1) as f64);
        if laps > 0 { by_laps.max(self.total(plan)) } else { self.total(plan).max(elapsed) }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// The network.
    pub network: String,
    /// The batch size of plain SGD, and of methods without one of their own.
    pub batch: usize,
    /// Plain SGD on one core.
    pub samples_per_second: f64,
    /// How many times slower the experiment's devices are.
    pub slowdown: f64,
    /// All methods.
    pub methods: Vec<MethodFigures>,
}

/// What was measured for one method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MethodFigures {
    /// Its label.
    pub method: String,
    /// Samples a second of one core in the shared phase.
    pub shared: Option<f64>,
    /// Samples a second of one core in the personal phase.
    pub personal: Option<f64>,
    /// Time of a sample in the shared phase, in units of plain training.
    pub cost: Option<f64>,
    /// Time of a sample in the personal phase, in units of plain training.
    pub personal_cost: Option<f64>,
}

/// Measures plain training and every method of a plan.
pub fn measure(
    plan: &RunPlan,
    effort: Effort,
    observer: &dyn Observer,
) -> Result<DeviceFigures, StudyError> {
    let paces = paces(plan, effort, observer)?;
    let plain = paces.plain.shared.ok_or(StudyError::NoSamples)?;
    // Two decimals: a measurement has no more.
    let cost = |pace: Option<f64>| pace.map(|pace| (pace / plain * 100.0).round().max(1.0) / 100.0);
    let rate = |pace: Option<f64>| pace.map(|pace| 1.0 / pace);
    let methods = plan.methods.iter().zip(&paces.methods).map(|(method, pace)| MethodFigures {
        method: method.label.clone(),
        shared: rate(pace.shared),
        personal: rate(pace.personal),
        cost: cost(pace.shared),
        personal_cost: cost(pace.personal),
    });
    Ok(DeviceFigures {
        network: plan.header.network.clone(),
        batch: plan.methods[0].shared.base.batch,
        samples_per_second: 1.0 / plain,
        slowdown: effort.slowdown,
        methods: methods.collect(),
    })
}

/// Seconds for a sample.
struct Paces {
    plain: Pace,
    methods: Vec<Pace>,
}

/// Plain training with the settings of a method.
pub(crate) fn plain_beside(method: &MethodPlan) -> Result<MethodPlan, StudyError> {
    let built = Entry::of::<FedAvg>("").build(&toml::Table::new())?;
    Ok(MethodPlan { label: PLAIN.into(), method: built.method, ..method.clone() })
}

/// Plain training and the methods take turns, so that a machine that is busy for a while is busy for all of
/// them.
fn paces(plan: &RunPlan, effort: Effort, observer: &dyn Observer) -> Result<Paces, StudyError> {
    let plain = plain_beside(&plan.methods[0])?;
    let mut measured = Vec::new();
    for method in std::iter::once(&plain).chain(&plan.methods) {
        measured.push((&method.label, Pacer::new(plan, method)?, Pace::default()));
    }
    let (started, patience) = (Instant::now(), effort.total(plan));
    let mut lap = 0;
    while lap < LAPS || started.elapsed() < patience {
        lap += 1;
        for (label, pacer, fastest) in &mut measured {
            observer.lap_started(label, lap);
            *fastest = fastest.or_faster(pacer.lap()?);
            observer.lap_done(started.elapsed());
        }
    }
    let mut all = measured.into_iter().map(|(_, _, fastest)| fastest);
    Ok(Paces { plain: all.next().unwrap_or_default(), methods: all.collect() })
}
