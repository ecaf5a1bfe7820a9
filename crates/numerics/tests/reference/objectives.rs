//! Every loss, every term, every part and every setting of the optimiser on both engines.

use crate::closeness::{Closeness, assert_values};
use crate::floats::Floats;
use crate::reference::Reference;
use core::num::NonZeroU32;
use formant_numerics::{
    Band, Cpu, Criterion, Descent, Engine, Form, Length, Loss, Model, Moments, NetworkSpec, Norm,
    Objective, Optimiser, Part, Rng, Rule, Samples, Scope, Shape, Spectral, Stream, Term, Weight,
    Weighted, softmax,
};

const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];
const PARTS: [Part; 3] = [Part::All, Part::Body, Part::Head];
const BATCH: usize = 5;
const CLASSES: usize = 4;

/// Both engines of one network.
struct Pair {
    cpu: Cpu,
    reference: Reference,
    samples: Floats,
}

/// Steps on one batch after the other.
#[derive(Clone, Copy)]
struct Steps<'a> {
    objective: Objective<'a>,
    descent: Descent,
    count: usize,
    /// See [`Closeness::gradient`].
    gradient: f64,
}

impl Pair {
    fn new(spec: &NetworkSpec, input: Shape) -> Self {
        Self {
            cpu: Cpu::new(spec.build(input, CLASSES).unwrap()),
            reference: Reference::new(spec, input, CLASSES).unwrap(),
            samples: Floats::random(input, CLASSES, 4 * BATCH),
        }
    }

    fn mlp() -> Self {
        let spec = NetworkSpec { hidden: Some(vec![6]), ..NetworkSpec::named("mlp") };
        Self::new(&spec, Shape::new(1, 4, 4))
    }

    fn resnet() -> Self {
        let (norm, width) = (Some(Norm::Batch), Some(2));
        let spec = NetworkSpec { norm, width, ..NetworkSpec::named("resnet18") };
        Self::new(&spec, Shape::new(3, 16, 16))
    }

    fn draw(&self, seed: u64) -> Model {
        self.cpu.network().init(&mut Rng::new(seed, Stream::Test, 0, 0))
    }

    /// Trains on an engine; the objective of each step, and what terms have added to it.
    fn train(&self, engine: &dyn Engine, steps: &Steps<'_>) -> (Vec<f64>, Model) {
        let mut worker = engine.worker(BATCH);
        let mut model = self.draw(1);
        let all: Vec<u32> = (0..self.samples.len() as u32).collect();
        worker.begin();
        let values = all.chunks(BATCH).take(steps.count).flat_map(|batch| {
            worker.load(&self.samples, batch);
            let value = worker.step(&mut model, steps.descent, &steps.objective).unwrap();
            [value, worker.terms().unwrap_or(0.0)]
        });
        (values.collect(), model)
    }

    fn check(&self, place: &str, steps: &Steps<'_>) {
        let (found, expected) = (self.train(&self.cpu, steps), self.train(&self.reference, steps));
        assert_eq!(found.0.len(), 2 * steps.count);
        for (step, (found, expected)) in found.0.iter().zip(&expected.0).enumerate() {
            let (step, what) = (step / 2, ["objective", "terms"][step % 2]);
            assert_values(&format!("{what} of step {step} of {place}"), *found, *expected);
        }
        let (layout, before) = (self.cpu.network().layout(), &self.draw(1));
        let (count, gradient) = (steps.count, steps.gradient);
        let close = Closeness { place, layout, before, steps: count, gradient };
        close.assert_models(&found.1, &expected.1);
    }
}

/// One plain step over all parameters.
fn one_step(objective: Objective<'_>) -> Steps<'_> {
    let descent = Descent { optimiser: Optimiser::sgd(0.1), part: Part::All };
    Steps { objective, descent, count: 1, gradient: 2e-6 }
}

#[test]
fn losses_agree() {
    let pair = Pair::mlp();
    let shift = [0.5, -2.0, 0.0, 1.25];
    let mut targets: Vec<f32> = (0..BATCH * CLASSES).map(|i| (i * i % 7) as f32 * 0.4).collect();
    softmax(&mut targets, CLASSES);
    // One target is sure, one is missing.
    targets[..CLASSES].copy_from_slice(&[0.0, 1.0, 0.0, 0.0]);
    targets[CLASSES..2 * CLASSES].fill(0.0);
    let losses = [
        Loss::CrossEntropy,
        Loss::Shifted { shift: &shift },
        Loss::Guided { weight: 1.5, targets: &targets },
    ];
    let weights = [0.25, 3.0, 1.0, 1.5];
    let criteria = [
        Criterion::PLAIN,
        Criterion { smoothing: 0.1, weights: None },
        Criterion { smoothing: 0.0, weights: Some(&weights) },
        Criterion { smoothing: 0.4, weights: Some(&weights) },
    ];
    for loss in losses {
        for criterion in criteria {
            for part in PARTS {
                let mut steps = one_step(Objective { loss, criterion, terms: &[] });
                steps.descent.part = part;
                pair.check(&format!("{loss:?}, {criterion:?}, {part:?}"), &steps);
            }
        }
    }
}

#[test]
fn terms_agree() {
    let pair = Pair::mlp();
    let other = pair.draw(2).parameters;
    let features: Vec<f32> = (0..5 * 6).map(|i| (i * i % 11) as f32 * 0.3).collect();
    let head = Term::Head { features: &features, labels: &[0, 3, 2, 2, 1] };
    let terms = [
        0.7 * Term::Proximal { anchor: &other },
        -1.3 * Term::Linear { direction: &other },
        0.8 * head,
    ];
    for part in PARTS {
        for (nth, term) in terms.iter().enumerate() {
            let terms = core::slice::from_ref(term);
            let mut steps = one_step(Objective { terms, ..Objective::CROSS_ENTROPY });
            steps.descent.part = part;
            pair.check(&format!("term {nth}, {part:?}"), &steps);
        }
        let mut steps = one_step(Objective { terms: &terms, ..Objective::CROSS_ENTROPY });
        steps.descent.part = part;
        pair.check(&format!("all terms, {part:?}"), &steps);
    }
}

/// Weights that make each form pull about as much as the loss does.
fn weighted(form: Form, spectral: Spectral<'_>) -> Weighted<'_> {
    let weight = match form {
        Form::Normalized => 20.0,
        Form::Raw => 0.01,
        Form::Generalized => 0.05,
        Form::Complex => 0.5,
    };
    weight * Term::Spectral(Spectral { form, ..spectral })
}

#[test]
fn spectral_terms_agree() {
    let pair = Pair::mlp();
    let teacher = &pair.draw(2).parameters;
    for form in FORMS {
        for scope in [Scope::Flat, Scope::PerLayer, Scope::Plain] {
            for length in [Length::Exact, Length::Fast] {
                for tau in [1.0, 0.7, 0.5, 0.1] {
                    let spectral =
                        Spectral { form, scope, length, tau, ..Spectral::towards(teacher) };
                    let terms = [weighted(form, spectral)];
                    let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
                    let place = format!("{form:?}, {scope:?}, {length:?}, tau {tau}");
                    pair.check(&place, &Steps { gradient: 5e-6, ..one_step(objective) });
                }
            }
        }
    }
}

#[test]
fn bands_parts_and_shares_agree() {
    let pair = Pair::mlp();
    let teacher = &pair.draw(2).parameters;
    for form in FORMS {
        for (scope, band) in [
            (Scope::Flat, Band::High),
            (Scope::Flat, Band::Random(3)),
            (Scope::PerLayer, Band::High),
            (Scope::Plain, Band::Random(4)),
        ] {
            for (part, tau) in [(Part::All, 0.2), (Part::Body, 0.2), (Part::Body, 1.0)] {
                let spectral = Spectral { scope, band, part, tau, ..Spectral::towards(teacher) };
                for weight in [weighted(form, spectral).weight, Weight::Share(0.2)] {
                    let terms = [weight.of(Term::Spectral(Spectral { form, ..spectral }))];
                    let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
                    let place = format!("{form:?}, {scope:?}, {band:?}, {part:?}, {weight:?}");
                    pair.check(&place, &Steps { gradient: 1e-5, ..one_step(objective) });
                }
            }
        }
    }
}

#[test]
fn terms_on_every_second_step_agree() {
    let pair = Pair::mlp();
    let teacher = &pair.draw(2).parameters;
    for form in FORMS {
        let every = NonZeroU32::MIN.saturating_add(1);
        let spectral =
            Spectral { scope: Scope::PerLayer, tau: 0.4, every, ..Spectral::towards(teacher) };
        let terms = [weighted(form, spectral)];
        let objective = Objective { terms: &terms, ..Objective::CROSS_ENTROPY };
        let steps = Steps { count: 4, gradient: 2e-5, ..one_step(objective) };
        pair.check(&format!("{form:?} on every second step"), &steps);
    }
}

#[test]
fn all_settings_of_the_optimiser_agree_on_all_parts() {
    let plain = Optimiser::sgd(0.05);
    let ahead = Rule::Sgd { momentum: 0.9, nesterov: true };
    // Adam divides a gradient by its size: where there is next to none, the quotient is that of two
    // roundings, unless more than those is added to the divisor.
    let moments = Moments { epsilon: 1e-2, ..Moments::default() };
    let adam = Optimiser { rule: Rule::Adam(moments), ..Optimiser::sgd(0.01) };
    let settings = [
        Optimiser { rule: Rule::momentum(0.9), ..plain },
        Optimiser { weight_decay: 0.1, ..plain },
        Optimiser { clip: Some(0.2), ..plain },
        Optimiser { clip: Some(1e6), ..plain },
        Optimiser { rule: Rule::momentum(0.5), weight_decay: 0.01, clip: Some(0.5), ..plain },
        Optimiser { rule: ahead, ..plain },
        Optimiser { rule: ahead, weight_decay: 0.01, clip: Some(0.5), ..plain },
        adam,
        Optimiser { weight_decay: 0.1, clip: Some(0.5), ..adam },
        Optimiser { rule: Rule::AdamW(moments), weight_decay: 0.5, ..adam },
        Optimiser { rule: Rule::AdamW(moments), weight_decay: 0.5, clip: Some(0.5), ..adam },
    ];
    for (pair, gradient) in [(Pair::mlp(), 2e-6), (Pair::resnet(), 5e-5)] {
        for optimiser in settings {
            for part in PARTS {
                let (objective, descent) = (Objective::CROSS_ENTROPY, Descent { optimiser, part });
                let steps = Steps { objective, descent, count: 3, gradient };
                pair.check(&format!("{optimiser:?}, {part:?}"), &steps);
            }
        }
    }
}
