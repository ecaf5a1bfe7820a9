//! What every engine must keep to, as functions over any engine, run on both.

use crate::floats::Floats;
use crate::reference::Reference;
use core::num::NonZeroU32;
use formant_numerics::{
    BatchPlan, Batches, Cpu, Criterion, Descent, Detail, EVALUATION_BATCH, Engine, Form, Head,
    Meter, Model, Moments, NetworkSpec, Norm, NumericsError, Objective, Optimiser, Part, Patience,
    Phase, Rng, Rule, Samples, Scope, Shape, Spectral, Stream, Tally, Term, Weight, Weighted,
    Worker,
};
use std::sync::atomic::AtomicBool;

/// A promise and the check of it.
type Promise = (&'static str, fn(&dyn Engine));

/// What every engine promises, bit for bit.
const CONTRACT: &[Promise] = &[
    ("a phase is its steps", a_phase_is_its_steps),
    ("two workers give the same bits", two_workers_give_the_same_bits),
    ("a worker keeps no traces of a client", a_worker_keeps_no_traces_of_a_client),
    ("a term of weight zero is left out", a_term_of_weight_zero_is_left_out),
    ("a phase without samples does nothing", a_phase_without_samples_does_nothing),
    ("no patience still makes one step", no_patience_still_makes_one_step),
    ("a loss that is not finite is an error", a_loss_that_is_not_finite_is_an_error),
    ("an impossible term is refused before anything moves", an_impossible_term_is_refused),
    ("scoring and looking change nothing", scoring_and_looking_change_nothing),
    ("a score is what a look shows", a_score_is_what_a_look_shows),
    ("a step moves its part alone", a_step_moves_its_part_alone),
    ("weights and smoothing count in training alone", weights_count_in_training_alone),
];

fn check(spec: &NetworkSpec, input: Shape, classes: usize) {
    let reference = Reference::new(spec, input, classes).unwrap();
    let cpu = Cpu::new(spec.build(input, classes).unwrap());
    let engines: [(&str, &dyn Engine); 2] = [("cpu", &cpu), ("reference", &reference)];
    for (engine_name, engine) in engines {
        for (promise, check) in CONTRACT {
            // Says what a failed assertion was about.
            println!("{promise}: {engine_name}, {}", spec.name);
            check(engine);
        }
    }
}

#[test]
fn engines_of_a_perceptron_conform() {
    let spec = NetworkSpec { hidden: Some(vec![6]), ..NetworkSpec::named("mlp") };
    check(&spec, Shape::new(1, 4, 4), 4);
}

#[test]
fn engines_of_a_convolutional_network_conform() {
    check(&NetworkSpec::named("lenet5"), Shape::new(2, 16, 16), 3);
}

#[test]
fn engines_of_a_network_with_running_statistics_conform() {
    let (norm, width) = (Some(Norm::Batch), Some(2));
    let spec = NetworkSpec { norm, width, ..NetworkSpec::named("resnet18") };
    check(&spec, Shape::new(3, 16, 16), 4);
}

/// A client's phase, ready to be run again and again.
#[derive(Clone, Copy)]
struct Training<'a> {
    plan: BatchPlan<'a>,
    descent: Descent,
    objective: Objective<'a>,
}

impl<'a> Training<'a> {
    /// Two epochs with everything that leaves traces: a small last batch and a velocity.
    fn new(samples: &'a dyn Samples, train: &'a [u32], terms: &'a [Weighted<'a>]) -> Self {
        let (batch, epochs, patience) = (3, 2, Patience::Epochs);
        let optimiser = Optimiser {
            weight_decay: 1e-3,
            clip: Some(2.0),
            rule: Rule::momentum(0.9),
            ..Optimiser::sgd(0.01)
        };
        Self {
            plan: BatchPlan { samples, train, batch, epochs, patience },
            descent: Descent { optimiser, part: Part::All },
            objective: Objective { terms, ..Objective::CROSS_ENTROPY },
        }
    }

    fn run(&self, worker: &mut dyn Worker, model: &mut Model) -> Result<Meter, NumericsError> {
        let mut rng = order();
        let mut batches = Batches::new(self.plan, &mut rng);
        let (descent, objective) = (self.descent, self.objective);
        worker.train(model, &mut Phase { batches: &mut batches, descent, objective })
    }

    /// From the engine's first model, at a new worker.
    fn fresh(&self, engine: &dyn Engine) -> (Model, Meter) {
        let mut model = start(engine);
        let meter = self.run(&mut *engine.worker(EVALUATION_BATCH), &mut model).unwrap();
        assert_ne!(model, start(engine));
        (model, meter)
    }
}

/// The generator that orders batches.
fn order() -> Rng {
    Rng::new(4, Stream::Test, 1, 0)
}

fn start(engine: &dyn Engine) -> Model {
    engine.network().init(&mut Rng::new(1, Stream::Test, 0, 0))
}

/// Another model, to be a teacher.
fn teacher(engine: &dyn Engine) -> Model {
    engine.network().init(&mut Rng::new(2, Stream::Test, 0, 0))
}

fn samples(engine: &dyn Engine, len: usize) -> Floats {
    let network = engine.network();
    Floats::random(network.input(), network.classes(), len)
}

/// Terms of all kinds towards a model. Few entries of the spectra, which a slow engine computes one by
/// one.
fn terms<'a>(teacher: &'a Model, features: &'a [f32], labels: &'a [u32]) -> [Weighted<'a>; 4] {
    let teacher = &teacher.parameters;
    let every = NonZeroU32::MIN.saturating_add(1);
    let spectral =
        Spectral { scope: Scope::PerLayer, tau: 0.01, every, ..Spectral::towards(teacher) };
    [
        Weight::Share(0.1).of(Term::Proximal { anchor: teacher }),
        0.01 * Term::Linear { direction: teacher },
        0.5 * Term::Spectral(spectral),
        0.1 * Term::Head { features, labels },
    ]
}

fn a_phase_is_its_steps(engine: &dyn Engine) {
    let (samples, teacher) = (samples(engine, 10), teacher(engine));
    let (features, labels) = (vec![0.3; 2 * engine.network().features()], [1, 0]);
    let terms = terms(&teacher, &features, &labels);
    let training = Training::new(&samples, &[0, 1, 2, 4, 6, 7, 9], &terms);

    let (mut model, mut meter) = (start(engine), Meter::default());
    let mut worker = engine.worker(EVALUATION_BATCH);
    let mut rng = order();
    let mut batches = Batches::new(training.plan, &mut rng);
    worker.begin();
    while let Some(batch) = batches.next() {
        worker.take(batch);
        let value = worker.step(&mut model, training.descent, &training.objective).unwrap();
        let added = worker.terms().unwrap();
        assert!(added.is_finite() && added != 0.0, "{added} of {value}");
        meter.count(worker.labels().len(), value, worker.terms());
    }
    assert_eq!((meter.steps, meter.samples), (6, 14));
    assert_eq!(training.fresh(engine), (model, meter));
}

fn two_workers_give_the_same_bits(engine: &dyn Engine) {
    let samples = samples(engine, 8);
    let training = Training::new(&samples, &[0, 1, 2, 3, 5], &[]);
    let mut models = [start(engine), start(engine)];
    // Room for more samples than there are makes no difference.
    let mut workers = [3, 100].map(|batch| engine.worker(batch));
    let meters = [0, 1].map(|i| training.run(&mut *workers[i], &mut models[i]).unwrap());
    assert_eq!(meters[0], meters[1]);
    assert_eq!(models[0], models[1]);
}

fn a_worker_keeps_no_traces_of_a_client(engine: &dyn Engine) {
    let (samples, teacher) = (samples(engine, 20), teacher(engine));
    let (features, labels) = (vec![0.3; 2 * engine.network().features()], [1, 0]);
    let terms = terms(&teacher, &features, &labels);
    let training = Training::new(&samples, &[0, 1, 2, 3, 4], &terms[..3]);
    let plain = Descent { optimiser: Optimiser::sgd(0.01), part: Part::Body };
    let without_velocity = Training { descent: plain, ..training };
    let rule = Rule::AdamW(Moments::default());
    let optimiser = Optimiser { rule, weight_decay: 0.1, ..Optimiser::sgd(1e-3) };
    let with_moments = Training { descent: Descent { optimiser, part: Part::All }, ..training };
    let all = [training, with_moments, without_velocity, with_moments];
    let expected = all.map(|training| training.fresh(engine));

    let mut worker = engine.worker(EVALUATION_BATCH);
    for _ in 0..2 {
        // A client with larger batches, one that diverges, and one that is only scored.
        let others: Vec<u32> = (5..20).collect();
        let mut large = Training::new(&samples, &others, &terms);
        large.plan.batch = 9;
        large.run(&mut *worker, &mut start(engine)).unwrap();
        let mut lost = start(engine);
        lost.parameters.fill(f32::NAN);
        lost.buffers.fill(f32::NAN);
        assert!(training.run(&mut *worker, &mut lost).is_err());
        worker.score(&lost, &samples, &others, Detail::PLAIN);

        for (training, expected) in all.iter().zip(&expected) {
            let mut model = start(engine);
            let meter = training.run(&mut *worker, &mut model).unwrap();
            assert_eq!(*expected, (model, meter));
        }
    }
}

fn a_term_of_weight_zero_is_left_out(engine: &dyn Engine) {
    let samples = samples(engine, 6);
    let teacher = vec![f32::NAN; start(engine).parameters.len()];
    let spectral = Spectral { form: Form::Raw, tau: 7.0, ..Spectral::towards(&teacher) };
    let idle = [
        Weight::Share(0.0).of(Term::Proximal { anchor: &teacher }),
        -0.0 * Term::Linear { direction: &teacher },
        0.0 * Term::Spectral(spectral),
        0.0 * Term::Head { features: &teacher[..engine.network().features()], labels: &[0] },
    ];
    let train = [0, 1, 2, 3, 4];
    let [with, without] = [&idle[..], &[]].map(|t| Training::new(&samples, &train, t));
    assert_eq!(with.fresh(engine), without.fresh(engine));
}

fn a_phase_without_samples_does_nothing(engine: &dyn Engine) {
    let (samples, never) = (samples(engine, 3), AtomicBool::new(false));
    let mut worker = engine.worker(EVALUATION_BATCH);
    for patience in [Patience::Epochs, Patience::Batches(5), Patience::Flag(&never)] {
        let mut training = Training::new(&samples, &[], &[]);
        training.plan.patience = patience;
        let mut model = start(engine);
        assert_eq!(training.run(&mut *worker, &mut model).unwrap(), Meter::default());
        assert_eq!(model, start(engine));
    }
    assert_eq!(worker.score(&start(engine), &samples, &[], Detail::PLAIN), Tally::default());
}

fn no_patience_still_makes_one_step(engine: &dyn Engine) {
    let (samples, now) = (samples(engine, 8), AtomicBool::new(true));
    let mut training = Training::new(&samples, &[0, 1, 2, 3, 4, 5, 6], &[]);
    // Epochs do not count where patience does.
    training.plan.epochs = 0;
    let mut phase = |patience| {
        training.plan.patience = patience;
        training.fresh(engine)
    };
    let (model, meter) = phase(Patience::Batches(0));
    assert_eq!((meter.steps, meter.samples), (1, 3));
    for patience in [Patience::Batches(1), Patience::Flag(&now)] {
        assert_eq!(phase(patience), (model.clone(), meter));
    }
    // Three batches an epoch, so the fifth is in the second one.
    assert_eq!(phase(Patience::Batches(5)).1.samples, 7 + 6);
}

fn a_loss_that_is_not_finite_is_an_error(engine: &dyn Engine) {
    let mut samples = samples(engine, 6);
    let size = samples.shape.len();
    samples.values[4 * size..5 * size].fill(f32::NAN);
    let mut training = Training::new(&samples, &[0, 2, 3, 4, 5], &[]);
    training.plan.batch = 2;
    // In which step the sample comes.
    let mut rng = order();
    let mut batches = Batches::new(training.plan, &mut rng);
    let mut step = 1;
    while !batches.next().expect("all samples come").indices().contains(&4) {
        step += 1;
    }
    let diverged = NumericsError::Diverged { step, what: "the objective" };
    let mut worker = engine.worker(EVALUATION_BATCH);
    for _ in 0..2 {
        let error = training.run(&mut *worker, &mut start(engine)).unwrap_err();
        assert_eq!(error, diverged);
    }
    // Nor is a term's value taken if it is not finite.
    let mut anchor = start(engine).parameters;
    anchor[0] = f32::INFINITY;
    let terms = [1.0 * Term::Proximal { anchor: &anchor }];
    let training = Training::new(&samples, &[0], &terms);
    let error = training.run(&mut *worker, &mut start(engine)).unwrap_err();
    assert_eq!(error, NumericsError::Diverged { step: 1, what: "the objective" });
}

fn an_impossible_term_is_refused(engine: &dyn Engine) {
    let (samples, teacher) = (samples(engine, 6), teacher(engine));
    let terms = [0.0, -0.5, 1.5].map(|tau| {
        let spectral = Spectral::towards(&teacher.parameters);
        1.0 * Term::Spectral(Spectral { form: Form::Complex, tau, ..spectral })
    });
    let mut worker = engine.worker(EVALUATION_BATCH);
    for (term, tau) in terms.iter().zip([0.0, -0.5, 1.5]) {
        let training = Training::new(&samples, &[0, 1], core::slice::from_ref(term));
        let mut model = start(engine);
        let error = training.run(&mut *worker, &mut model).unwrap_err();
        assert_eq!(error, NumericsError::Truncation { tau });
        assert_eq!(model, start(engine));
    }
}

fn scoring_and_looking_change_nothing(engine: &dyn Engine) {
    let samples = samples(engine, 8);
    let training = Training::new(&samples, &[0, 1, 2, 3, 4], &[]);
    let mut model = start(engine);
    let mut worker = engine.worker(EVALUATION_BATCH);
    let mut rng = order();
    let mut batches = Batches::new(training.plan, &mut rng);
    worker.begin();
    while let Some(batch) = batches.next() {
        let before = model.clone();
        let first = worker.score(&model, &samples, &[5, 6, 7], Detail::PLAIN);
        worker.take(batch);
        worker.look(&model);
        assert_eq!(model, before);
        worker.step(&mut model, training.descent, &training.objective).unwrap();
        assert_eq!(worker.score(&before, &samples, &[5, 6, 7], Detail::PLAIN), first);
    }
    assert_eq!(model, training.fresh(engine).0);
}

fn a_score_is_what_a_look_shows(engine: &dyn Engine) {
    let network = engine.network();
    let (features, classes) = (network.features(), network.classes());
    // More than one batch of a score.
    let samples = samples(engine, EVALUATION_BATCH + 6);
    let all: Vec<u32> = (0..samples.len() as u32).rev().collect();
    let training = Training::new(&samples, &all[..9], &[]);
    let (model, _) = training.fresh(engine);
    let mut worker = engine.worker(EVALUATION_BATCH);
    let score = worker.score(&model, &samples, &all, Detail::PLAIN);
    let (head, place) = (Head::of(network), network.layout().range(Part::Head));
    let mut seen = Tally::default();
    for batch in all.chunks(7) {
        worker.load(&samples, batch);
        let labels: Vec<u32> = batch.iter().map(|i| samples.label(*i as usize) as u32).collect();
        assert_eq!(worker.labels(), labels);
        let (output, of) = worker.look(&model);
        assert_eq!(of, labels);
        assert_eq!(output.features.len(), batch.len() * features);
        let mut logits = vec![0.0; batch.len() * classes];
        head.add_logits(&model.parameters[place.clone()], output.features, &mut logits);
        let pairs = logits.iter().zip(output.logits);
        assert!(pairs.map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).all(|error| error < 1e-5));
        seen.count(output.logits, &labels, Detail::PLAIN);
    }
    assert_eq!(score.right, seen.right);
    assert!((score.loss - seen.loss).abs() < 1e-5 * seen.loss, "{score:?} for {seen:?}");
}

fn a_step_moves_its_part_alone(engine: &dyn Engine) {
    let (samples, teacher) = (samples(engine, 6), teacher(engine));
    let (features, labels) = (vec![0.3; 2 * engine.network().features()], [1, 0]);
    let terms = terms(&teacher, &features, &labels);
    let layout = engine.network().layout();
    let before = start(engine);
    for (part, other) in [(Part::Body, Part::Head), (Part::Head, Part::Body)] {
        let mut training = Training::new(&samples, &[0, 1, 2, 3, 4], &terms);
        training.descent.part = part;
        let (after, _) = training.fresh(engine);
        let moved = |part| {
            let place = layout.range(part);
            after.parameters[place.clone()] != before.parameters[place]
        };
        assert!(moved(part) && !moved(other));
        // Running statistics follow the batches whatever learns.
        assert_eq!(after.buffers != before.buffers, !before.buffers.is_empty());
    }
}

fn weights_count_in_training_alone(engine: &dyn Engine) {
    let (samples, classes) = (samples(engine, 8), engine.network().classes());
    let plain = Training::new(&samples, &[0, 1, 2, 3, 4], &[]);
    let weights: Vec<f32> = (0..classes).map(|class| 1.0 + class as f32).collect();
    let trained = |criterion| {
        let objective = Objective { criterion, ..plain.objective };
        Training { objective, ..plain }.fresh(engine)
    };
    let (even, smooth) = (vec![2.0; classes], Criterion { smoothing: 0.25, weights: None });
    let expected = plain.fresh(engine);
    assert_eq!(trained(Criterion::PLAIN), expected);
    assert_ne!(trained(smooth).0, expected.0);
    assert_ne!(trained(Criterion { smoothing: 0.0, weights: Some(&weights) }).0, expected.0);
    // Weights that are all the same cancel, up to rounding.
    let same = trained(Criterion { smoothing: 0.0, weights: Some(&even) }).1;
    assert!((same.objective - expected.1.objective).abs() < 1e-3 * expected.1.objective);
    // After a step on a smoothed loss, a score is what it was.
    let mut worker = engine.worker(EVALUATION_BATCH);
    let before = worker.score(&start(engine), &samples, &[5, 6, 7], Detail::PLAIN);
    let objective = Objective { criterion: smooth, ..plain.objective };
    worker.load(&samples, &[0, 1]);
    worker.step(&mut start(engine), plain.descent, &objective).unwrap();
    assert_eq!(worker.score(&start(engine), &samples, &[5, 6, 7], Detail::PLAIN), before);
}
