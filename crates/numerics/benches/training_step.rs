//! Images per second of whole training steps, by one worker and by two at once.
//!
//! Two workers on two cores should train twice as many images as one; what is missing is memory
//! bandwidth, or a neighbour on the machine.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "clippy.toml is about the library; a benchmark reads the clock and starts threads"
)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use formant_numerics::{
    CpuWorker, Descent, Model, NetworkSpec, Objective, Optimiser, Part, Rng, Rule, Shape, Stream,
    Tape, Worker,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SHAPE: Shape = Shape::new(3, 32, 32);
const CLASSES: usize = 10;

/// One client's memory, ready to step.
struct Client {
    worker: CpuWorker,
    model: Model,
}

impl Client {
    fn new(network: &Arc<Tape>, batch: usize, client: u64) -> Self {
        let mut rng = Rng::new(1, Stream::Test, 0, client);
        let model = network.init(&mut rng);
        let mut worker = CpuWorker::new(network.clone(), batch);
        worker.inputs.extend((0..batch * SHAPE.len()).map(|_| rng.normal() as f32));
        worker.labels.extend((0..batch).map(|_| rng.below(CLASSES) as u32));
        Self { worker, model }
    }

    fn steps(&mut self, count: u64) {
        let optimiser = Optimiser {
            weight_decay: 1e-4,
            clip: None,
            rule: Rule::momentum(0.9),
            ..Optimiser::sgd(1e-4)
        };
        for _ in 0..count {
            let descent = Descent { optimiser, part: Part::All };
            let outcome = self.worker.step(&mut self.model, descent, &Objective::CROSS_ENTROPY);
            assert!(outcome.is_ok(), "training diverged");
        }
    }
}

/// The time that all clients take for `count` steps each, every one in its own thread.
fn together(clients: &mut [Client], count: u64) -> Duration {
    let start = Instant::now();
    if let [client] = clients {
        client.steps(count);
    } else {
        std::thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| client.steps(count));
            }
        });
    }
    start.elapsed()
}

fn training_step(c: &mut Criterion) {
    let mut group = c.benchmark_group("training_step");
    group.warm_up_time(Duration::from_secs(1));
    for (name, batch, seconds) in [("cnn", 10, 6), ("cnn", 64, 8), ("resnet18", 32, 20)] {
        let network = NetworkSpec::named(name).build(SHAPE, CLASSES).expect("a catalogue name");
        group.sample_size(10).measurement_time(Duration::from_secs(seconds));
        for workers in [1, 2] {
            let mut clients: Vec<Client> =
                (0..workers).map(|i| Client::new(&network, batch, i)).collect();
            group.throughput(Throughput::Elements(workers * batch as u64));
            let id =
                BenchmarkId::new(format!("{name}, batch {batch}"), format!("{workers} workers"));
            group.bench_function(id, |b| {
                b.iter_custom(|count| together(&mut clients, count));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, training_step);
criterion_main!(benches);
