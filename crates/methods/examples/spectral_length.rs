//! What `fft_length = "fast"` changes: the table in docs/SPECTRAL.md.
//!
//! `cargo run --release -p formant-methods --example spectral_length`

use formant_data::Dataset;
use formant_numerics::{
    Form, Layout, Length, Model, Network, NetworkSpec, Part, Rng, Scope, Sgd, SpectralDivergence,
    Spectrum, Stream, Term, Worker, vector,
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
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let (init, other) = (network.init(&mut rng), network.init(&mut rng));
        // As a federation has it: a common start, then clients that see other digits.
        let low = trained(&*network, &init, &dataset, |label| label < 5)?;
        let high = trained(&*network, &init, &dataset, |label| label >= 5)?;
        let all = trained(&*network, &init, &dataset, |_| true)?;
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
    network: &dyn Network,
    init: &Model,
    dataset: &Dataset,
    wanted: impl Fn(usize) -> bool,
) -> Result<Model, Box<dyn Error>> {
    let images = &dataset.train;
    let mut order: Vec<u32> =
        (0..images.len() as u32).filter(|i| wanted(images.label(*i as usize))).collect();
    order.truncate(3_000);
    let (mut model, mut worker) = (init.clone(), Worker::new(network, 20));
    let mut rng = Rng::new(2, Stream::Test, 0, 0);
    let sgd = Sgd { learning_rate: 0.05, momentum: 0.5, weight_decay: 0.0, clip: None };
    worker.begin_phase();
    for _ in 0..3 {
        rng.shuffle(&mut order);
        for batch in order.chunks(20) {
            worker.inputs.resize(batch.len() * network.input().len(), 0.0);
            images.gather(batch, &mut worker.inputs);
            images.gather_labels(batch, &mut worker.labels);
            worker.step(network, &mut model, (&sgd, Part::All), &mut [])?;
        }
    }
    Ok(model)
}
