//! What a spectral term over a narrow low band adds to a training step of `cnn`, and what is left of that in short phases.
//!
//! Criterion measures one thing after the other, which says little on a machine whose speed changes. This takes turns: a few
//! steps of each kind, again and again, and the quickest of each. Ratios within one run are what counts.

#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "clippy.toml is about the library; a benchmark reads the clock and prints"
)]

use formant_numerics::{
    CpuWorker, Descent, Differentiable, Form, Length, Model, NetworkSpec, Objective, Optimiser,
    Part, Rng, Rule, Shape, Spectral, Stream, Term, Weighted, Worker,
};
use std::time::Instant;

const SHAPE: Shape = Shape::new(3, 32, 32);
const BATCH: usize = 10;

/// Steps of a phase, as short as they get in practice: its first one finds the memory cold.
const STEPS: usize = 5;

/// Milliseconds, the quickest so far.
#[derive(Clone, Copy)]
struct Quickest {
    step: f64,
    /// With the teacher's transform, by step.
    phase: f64,
    /// The term alone, over and over.
    alone: f64,
}

/// Adds a measurement in milliseconds, if it is the quickest.
fn timed<T>(quickest: &mut f64, steps: usize, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *quickest = quickest.min(start.elapsed().as_secs_f64() * 1e3 / steps as f64);
    done
}

fn phase(worker: &mut CpuWorker, model: &mut Model, terms: &[Weighted<'_>], to: &mut Quickest) {
    let optimiser = Optimiser { rule: Rule::momentum(0.9), ..Optimiser::sgd(1e-5) };
    let descent = Descent { optimiser, part: Part::All };
    let objective = Objective { terms, ..Objective::CROSS_ENTROPY };
    let Quickest { step, phase, alone } = to;
    let student = model.parameters.clone();
    let mut teachers = timed(phase, STEPS, || {
        worker.begin();
        let mut teachers =
            worker.teachers(terms, &model.parameters).expect("a ratio within bounds");
        for _ in 0..STEPS {
            timed(step, 1, || worker.descend(model, descent, &objective, &mut teachers))
                .expect("a step that stays finite");
        }
        teachers
    });
    let mut gradient = vec![0.0; student.len()];
    for term in &mut teachers {
        for _ in 0..STEPS {
            timed(alone, 1, || term.add(1e-6, &student, &mut gradient));
        }
    }
}

fn main() {
    let laps = std::env::var("LAPS").ok().and_then(|laps| laps.parse().ok()).unwrap_or(200);
    let network = NetworkSpec::named("cnn").build(SHAPE, 10).expect("a catalogue name");
    let mut rng = Rng::new(1, Stream::Test, 0, 0);
    let (mut model, teacher) = (network.init(&mut rng), network.init(&mut rng).parameters);
    let mut worker = CpuWorker::new(network.clone(), BATCH);
    worker.inputs.extend((0..BATCH * SHAPE.len()).map(|_| rng.normal() as f32));
    worker.labels.extend((0..BATCH).map(|_| rng.below(10) as u32));
    let mut kinds = vec![("no term".to_owned(), vec![])];
    for (length, tau) in [Length::Exact, Length::Fast]
        .into_iter()
        .flat_map(|length| [0.02, 0.1].map(|tau| (length, tau)))
    {
        for form in [Form::Normalized, Form::Generalized] {
            let term = Spectral { form, length, tau, ..Spectral::towards(&teacher) };
            kinds.push((format!("{length:?}, {tau}, {form:?}"), vec![1e-6 * Term::Spectral(term)]));
        }
    }
    let slowest = Quickest { step: f64::MAX, phase: f64::MAX, alone: f64::MAX };
    let mut quickest = vec![slowest; kinds.len()];
    for _ in 0..laps {
        for ((_, terms), quickest) in kinds.iter().zip(&mut quickest) {
            phase(&mut worker, &mut model, terms, quickest);
        }
    }
    println!("cnn, batch {BATCH}, {laps} laps, quickest, ms");
    println!("| term | step | added | phase of {STEPS}, by step | added | alone |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for ((name, terms), of) in kinds.iter().zip(&quickest) {
        let added = |with: f64, without: f64| format!("{:.0} %", 100.0 * (with / without - 1.0));
        let (step, phase) = (added(of.step, quickest[0].step), added(of.phase, quickest[0].phase));
        let alone = if terms.is_empty() { "–".to_owned() } else { format!("{:.2}", of.alone) };
        println!("| {name} | {:.2} | {step} | {:.2} | {phase} | {alone} |", of.step, of.phase);
    }
}
