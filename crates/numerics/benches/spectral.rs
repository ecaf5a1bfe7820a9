//! What the spectral term adds to a training step: value and gradient, in every form and scope.
//!
//! Throughput counts parameters.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use formant_numerics::{
    Form, NetworkSpec, Rng, Scope, Shape, SpectralDivergence, Spectrum, Stream, Term,
};
use std::sync::Arc;
use std::time::Duration;

fn spectral(c: &mut Criterion) {
    let mut group = c.benchmark_group("spectral");
    group.sample_size(10).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(2));
    for (name, shape) in [("lenet5", Shape::new(1, 28, 28)), ("cnn", Shape::new(3, 32, 32))] {
        let network = NetworkSpec::named(name).build(shape, 10).expect("a catalogue name");
        let mut rng = Rng::new(1, Stream::Test, 0, 0);
        let (student, teacher) = (network.init(&mut rng), network.init(&mut rng));
        let mut gradient = vec![0.0; student.parameters.len()];
        group.throughput(Throughput::Elements(gradient.len() as u64));
        for scope in [Scope::Flat, Scope::PerLayer] {
            let plans = Arc::new(Spectrum::new(network.layout(), scope));
            for form in [Form::Normalized, Form::Raw, Form::Generalized, Form::Complex] {
                let mut term =
                    SpectralDivergence::new(plans.clone(), form, 1.0, &teacher.parameters)
                        .expect("a ratio of one");
                let id = BenchmarkId::new(name, format!("{form:?}, {scope:?}"));
                group.bench_function(id, |b| {
                    b.iter(|| term.add(1e-6, &student.parameters, &mut gradient));
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, spectral);
criterion_main!(benches);
