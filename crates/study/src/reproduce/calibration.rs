//! How long parts will take on this machine, and how much disk: a few steps of each method are measured, and
//! multiplied by what there is to do. It is an estimate.

use super::part::{MEASURED_SECONDS, Part, share_at_work};
use crate::divided::SharedData;
use crate::pace::{LAPS as MEASURED_LAPS, plain_beside};
use crate::{Observer, StudyError};
use formant_experiment::Experiment;
use formant_methods::Moment;
use formant_numerics::{Detail, EVALUATION_BATCH, Rng, Stream};
use formant_runtime::{Footprint, Pace, Pacer, RunPlan, median_client};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use toml::Value;

/// Batches of a phase that is measured.
const BATCHES: usize = 4;
/// Laps of each method.
const LAPS: usize = 2;
/// Bytes of a client's lines in the log of a round, and of a client's place in that of an evaluation.
const ROUND_BYTES: f64 = 900.0;
const SCORE_BYTES: f64 = 24.0;

/// What some parts will take.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Seconds of each part, in the order in which they were asked for.
    pub seconds: Vec<f64>,
    /// Bytes that stay on disk, and what the largest part takes besides while it runs.
    pub disk: u64,
}

impl Estimate {
    /// All of the time.
    pub fn total(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds.iter().sum()).unwrap_or(Duration::MAX)
    }
}

pub(super) fn estimate(
    parts: &[&Part],
    data: &mut SharedData,
    observer: &dyn Observer,
) -> Result<Estimate, StudyError> {
    let mut known: HashMap<String, Calibrated> = HashMap::new();
    let (mut seconds, mut logs, mut states) = (Vec::new(), 0.0, 0.0_f64);
    for part in parts {
        if part.is_measurement() {
            let plan = part.experiment.plan_on(data.federation(&part.experiment)?)?;
            observer.lap_started(&part.name, 1);
            seconds.push(measuring(plan)?);
            continue;
        }
        let key = key(&part.experiment);
        if !known.contains_key(&key) {
            let plan = part.experiment.plan_on(data.federation(&part.experiment)?)?;
            observer.lap_started(&part.name, 1);
            known.insert(key.clone(), Calibrated::of(plan)?);
        }
        let Some(calibrated) = known.get(&key) else { continue };
        seconds.push(calibrated.seconds(&part.experiment));
        let turns = part.experiment.rounds as f64 * share_at_work(&part.experiment);
        let scored = evaluations(&part.experiment) * SCORE_BYTES;
        logs += calibrated.clients * (turns * ROUND_BYTES + scored);
        states = states.max(calibrated.states);
    }
    Ok(Estimate { seconds, disk: (logs + states) as u64 })
}

/// How long it takes to measure the steps of all methods: there is a time for each, and a least number of laps. The
/// pace of the first method stands for all.
fn measuring(mut plan: RunPlan) -> Result<f64, StudyError> {
    let method = plan.methods[0].clone();
    let held = plan.federation.clients[median_client(&plan)].train.len();
    let few = method.shared.base.batch.max(method.personal.base.batch);
    plan.federation.clients.iter_mut().for_each(|data| data.train.truncate(few));
    let pace = Pacer::new(&plan, &method)?.lap()?;
    let phases =
        [(pace.shared, method.shared.base.epochs), (pace.personal, method.personal.base.epochs)];
    let lap: f64 = phases.iter().map(|(pace, epochs)| pace.unwrap_or(0.0) * *epochs as f64).sum();
    let all = (plan.methods.len() + 1) as f64;
    // One lap more: each begins with a round that is not measured.
    Ok(all * MEASURED_SECONDS.max(lap * held as f64 * (MEASURED_LAPS + 1) as f64))
}

/// What decides how long a sample takes.
fn key(experiment: &Experiment) -> String {
    let mut table = experiment.to_table();
    for section in ["seed", "name", "rounds", "runtime", "federation", "evaluation"] {
        table.remove(section);
    }
    if let Some(Value::Table(data)) = table.get_mut("data") {
        for key in ["alpha", "seed", "dir"] {
            data.remove(key);
        }
    }
    if let Some(Value::Table(train)) = table.get_mut("train") {
        train.remove("participation");
    }
    table.to_string()
}

fn evaluations(experiment: &Experiment) -> f64 {
    (experiment.rounds / experiment.evaluation.every.max(1) + 2) as f64
}

/// What was measured of one method on some data.
struct Calibrated {
    /// Seconds of a sample in plain training and in the method's phases, on one core.
    plain: f64,
    pace: Pace,
    /// Seconds of a sample that is scored, and of making a personal model, for each training sample.
    scoring: f64,
    making: f64,
    clients: f64,
    /// Training samples of a client, the mean.
    held: usize,
    /// Samples on which models are scored, by all and by the clients.
    scored: f64,
    workers: f64,
    /// Bytes of states on disk while it runs.
    states: f64,
}

impl Calibrated {
    fn of(mut plan: RunPlan) -> Result<Self, StudyError> {
        let clients = plan.federation.clients.len();
        let held: usize = plan.federation.clients.iter().map(|data| data.train.len()).sum();
        let local: usize = (0..clients).map(|client| plan.scored(client).len()).sum();
        let scored = (plan.scored_globally() + local) as f64;
        let footprint = Footprint::of(&plan);
        // A few batches are enough to know the pace.
        let batch = plan.methods.iter().map(|m| m.shared.base.batch.max(m.personal.base.batch));
        let few = BATCHES * batch.max().unwrap_or(1);
        plan.federation.clients.iter_mut().for_each(|data| data.train.truncate(few));
        for method in &mut plan.methods {
            method.shared.base.epochs = 1;
            method.personal.base.epochs = 1;
        }
        let method = plan.methods[0].clone();
        let plain = plain_beside(&method)?;
        let mut pacer = Pacer::new(&plan, &method)?;
        let mut beside = Pacer::new(&plan, &plain)?;
        let (mut pace, mut plain_pace, mut making) = (Pace::default(), Pace::default(), f64::MAX);
        for _ in 0..LAPS {
            pace = pace.or_faster(pacer.lap()?);
            plain_pace = plain_pace.or_faster(beside.lap()?);
            making = making.min(pacer.making()?);
        }
        let personal = method.method.entry().personal;
        Ok(Self {
            plain: plain_pace.shared.ok_or(StudyError::NoSamples)?,
            pace,
            scoring: scoring(&plan),
            making: if personal { making } else { 0.0 },
            clients: clients as f64,
            held: held / clients.max(1),
            scored,
            workers: plan.threads.min(clients).max(1) as f64,
            states: if personal { 4.0 } else { 1.0 } * footprint.model as f64 * clients as f64,
        })
    }

    /// Wall time of an experiment with one method.
    fn seconds(&self, experiment: &Experiment) -> f64 {
        let rounds = experiment.rounds;
        let Some(setting) = experiment.methods.first() else { return 0.0 };
        let training = setting.training_beside(&experiment.training);
        let of_round = |round: usize| {
            let hints = setting.method.method.hints(Moment { round, rounds });
            let own = self.pace.shared.unwrap_or(self.plain);
            let shared = if hints.is_plain { self.plain } else { own };
            let personal = match (hints.personal_phase, self.pace.personal) {
                (true, Some(pace)) => {
                    pace * hints.personal.samples(self.held, training.personal_epochs) as f64
                }
                _ => 0.0,
            };
            shared * hints.shared.samples(self.held, training.epochs) as f64 + personal
        };
        let turns: f64 = (1..=rounds).map(of_round).sum();
        let trained = turns * self.clients * share_at_work(experiment);
        let making = self.making * self.held as f64 * self.clients;
        let scored = evaluations(experiment) * (self.scored * self.scoring + making);
        (trained + scored) / self.workers
    }
}

/// Seconds of a sample that is scored.
fn scoring(plan: &RunPlan) -> f64 {
    let dataset = &plan.federation.dataset;
    let count = dataset.train.len().min(2 * EVALUATION_BATCH);
    let indices: Vec<u32> = (0..count as u32).collect();
    let model = plan.engine.network().init(&mut Rng::new(plan.seed, Stream::Init, 0, 0));
    let mut worker = plan.engine.worker(EVALUATION_BATCH);
    let mut fastest = f64::MAX;
    for _ in 0..LAPS {
        let started = Instant::now();
        let detail = Detail::of(&plan.evaluation.metrics);
        worker.score(&model, &*dataset.train, &indices, detail);
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    fastest / count.max(1) as f64
}
