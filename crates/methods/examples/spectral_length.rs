//! What `fft_length = "fast"` changes: the table in docs/SPECTRAL.md.
//!
//! `cargo run --release -p formant-methods --example spectral_length`

#![expect(
    clippy::disallowed_macros,
    reason = "clippy.toml is about the library; an example prints"
)]

use formant_data::Dataset;
use formant_numerics::{
    BatchPlan, Batches, Cpu, Descent, Differentiable, Engine, Form, Layout, Length, Model,
    NetworkSpec, Objective, Optimiser, Part, Patience, Phase, Rng, Rule, Scope, SpectralDivergence,
    Spectrum, Stream, vector,
};
use std::error::Error;
use std::sync::Arc;

const FORMS: [Form; 4] = [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex];

/// How many times as many frequencies as parameters count as all.
const FINE: usize = 16;

const HEADER: &str = "\
| student, teacher | form | τ | D exact | D fast differs by | cosine exact, fast | exact, fine | fast, fine |
| --- | --- | --- | --- | --- | --- | --- | --- |";

fn main() -> Result<(), Box<dyn Error>> {
    let dataset = Dataset::load("mnist-small", None)?;
    for name in ["lenet5", "cnn"] {
        let network = NetworkSpec::named(name).build(dataset.train.shape(), 10)?;
        let engine = Cpu::new(network.clone());
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let (init, other) = (network.init(&mut rng), network.init(&mut rng));
        // As a federation has it: a common start, then clients that see other digits.
        let low = trained(&engine, &init, &dataset, |label| label < 5)?;
        let high = trained(&engine, &init, &dataset, |label| label >= 5)?;
        let all = trained(&engine, &init, &dataset, |_| true)?;
        let lengths = [Length::Exact, Length::Fast]
            .map(|length| Arc::new(Spectrum::new(network.layout(), Scope::Flat, length)));
        let [d, n] = [lengths[0].entries(), lengths[1].entries()];
        // The spectrum is a continuous function of the frequency; this comes close to all of it.
        let fine = Arc::new(Spectrum::new(&Layout::single(FINE * d), Scope::Flat, Length::Fast));
        println!("\n{name}: d = {d}, N = {n} (+{:.1} %)\n", 100.0 * (n - d) as f64 / d as f64);
        println!("{HEADER}");
        let pairs = [
            ("two random models", &init, &other),
            ("digits 0 to 4, digits 5 to 9", &low, &high),
            ("all digits, digits 0 to 4", &all, &low),
        ];
        for (pair, w, v) in pairs {
            let (w, v) = (&w.parameters[..], &v.parameters[..]);
            for form in FORMS {
                for tau in [0.1, 0.5, 1.0] {
                    let (a, exact) = evaluate(&lengths[0], form, tau, (w, v))?;
                    let (b, fast) = evaluate(&lengths[1], form, tau, (w, v))?;
                    let mut padded = [w.to_vec(), v.to_vec()];
                    for x in &mut padded {
                        x.resize(FINE * d, 0.0);
                    }
                    let (_, mut most) = evaluate(&fine, form, tau, (&padded[0], &padded[1]))?;
                    most.truncate(d);
                    println!(
                        "| {pair} | {form:?} | {tau} | {a:.4e} | {:.1e} | {:.3} | {:.3} | {:.3} |",
                        (b - a).abs() / a.abs(),
                        cosine(&exact, &fast),
                        cosine(&exact, &most),
                        cosine(&fast, &most),
                    );
                }
            }
        }
    }
    Ok(())
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    vector::dot(a, b) / (vector::norm(a) * vector::norm(b))
}

fn evaluate(
    plans: &Arc<Spectrum>,
    form: Form,
    tau: f64,
    (w, v): (&[f32], &[f32]),
) -> Result<(f64, Vec<f32>), Box<dyn Error>> {
    let mut term = SpectralDivergence::new(plans.clone(), form, tau, v)?;
    let mut gradient = vec![0.0; w.len()];
    Ok((term.add(1.0, w, &mut gradient), gradient))
}

/// Three epochs on the images whose label passes.
fn trained(
    engine: &dyn Engine,
    init: &Model,
    dataset: &Dataset,
    wanted: impl Fn(usize) -> bool,
) -> Result<Model, Box<dyn Error>> {
    let samples = &*dataset.train;
    let mut train: Vec<u32> =
        (0..samples.len() as u32).filter(|i| wanted(samples.label(*i as usize))).collect();
    train.truncate(3_000);
    let mut model = init.clone();
    let mut rng = Rng::new(2, Stream::Test, 0, 0);
    let optimiser = Optimiser {
        weight_decay: 0.0,
        clip: None,
        rule: Rule::momentum(0.5),
        ..Optimiser::sgd(0.05)
    };
    let patience = Patience::Epochs;
    let plan = BatchPlan { samples, train: &train, batch: 20, epochs: 3, patience };
    let mut phase = Phase {
        batches: &mut Batches::new(plan, &mut rng),
        descent: Descent { optimiser, part: Part::All },
        objective: Objective::CROSS_ENTROPY,
    };
    engine.worker(20).train(&mut model, &mut phase)?;
    Ok(model)
}
