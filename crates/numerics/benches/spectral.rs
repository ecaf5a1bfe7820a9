//! What the spectral term adds to a training step: value and gradient, in every form, scope and length.
//!
//! Throughput counts parameters.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use formant_numerics::{
    Differentiable, Form, Length, NetworkSpec, Rng, Scope, Shape, SpectralDivergence, Spectrum,
    Stream,
};
use std::sync::Arc;
use std::time::Duration;

fn spectral(c: &mut Criterion) {
    let mut group = c.benchmark_group("spectral");
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(2));
    let shapes = [Shape::new(1, 28, 28), Shape::new(3, 32, 32), Shape::new(3, 32, 32)];
    for (name, shape) in ["lenet5", "cnn", "resnet18"].into_iter().zip(shapes) {
        let network = NetworkSpec::named(name).build(shape, 10).expect("a catalogue name");
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let (student, teacher) = (network.init(&mut rng), network.init(&mut rng));
        let mut gradient = vec![0.0; student.parameters.len()];
        group.throughput(Throughput::Elements(gradient.len() as u64));
        for (scope, length) in [Scope::Flat, Scope::PerLayer]
            .into_iter()
            .flat_map(|scope| [Length::Exact, Length::Fast].map(|length| (scope, length)))
        {
            let plans = Arc::new(Spectrum::new(network.layout(), scope, length));
            for form in [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex] {
                for tau in [1.0, 0.1] {
                    let mut term =
                        SpectralDivergence::new(plans.clone(), form, tau, &teacher.parameters)
                            .expect("a ratio within bounds");
                    let id = format!("{form:?}, {scope:?}, {length:?}, tau {tau}");
                    group.bench_function(BenchmarkId::new(name, id), |b| {
                        b.iter(|| term.add(1e-6, &student.parameters, &mut gradient));
                    });
                }
            }
        }
    }
    group.finish();
}

criterion_group!(benches, spectral);
criterion_main!(benches);
