//! Our matrix product beside the `gemm` crate, on the shapes that training spends its time in.
//!
//! As plain products: what the convolutions save by never writing a column matrix is not seen here.
//! Throughput counts multiply-adds.
#![expect(unsafe_code, reason = "the interface of the `gemm` crate is one unsafe function")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use formant_numerics::bench::{Extents, FullyConnected, Product};
use formant_numerics::{Rng, Stream};
use std::time::Duration;

/// What the product is, and `m × n × k`.
const SHAPES: [(&str, (usize, usize, usize)); 7] = [
    ("cnn conv2, batch 10", (64, 1_000, 800)),
    ("cnn conv2, batch 64", (64, 6_400, 800)),
    ("cnn fc1 weights, batch 10", (512, 1_600, 10)),
    ("cnn fc1 weights, batch 64", (512, 1_600, 64)),
    ("resnet stage 1, batch 8", (64, 8_192, 576)),
    ("resnet stage 3, batch 8", (256, 512, 2_304)),
    ("resnet stage 4, batch 8", (512, 128, 4_608)),
];

fn random(len: usize, client: u64) -> Vec<f32> {
    let mut rng = Rng::new(1, Stream::Test, 0, client);
    (0..len).map(|_| rng.normal() as f32).collect()
}

/// The other crate's `C = A·B`, row-major; `transposed` reads `B` as `n × k`.
fn theirs((m, n, k): (usize, usize, usize), a: &[f32], b: &[f32], transposed: bool, c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    let (column, row) = if transposed { (k, 1) } else { (1, n) };
    // SAFETY: the three matrices have the sizes and strides that are passed, as asserted above, and
    // the target does not overlap the operands, being borrowed mutably.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            b.as_ptr(),
            column as isize,
            row as isize,
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    group.sample_size(15).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_millis(1_500));
    let mut product = Product::default();
    for (name, (m, n, k)) in SHAPES {
        let (a, b) = (random(m * k, 1), random(k * n, 2));
        let mut out = vec![0.0; m * n];
        group.throughput(Throughput::Elements((m * n * k) as u64));
        group.bench_function(BenchmarkId::new("ours", name), |bench| {
            bench.iter(|| product.multiply(Extents { m, n, k }, &a, &b, &mut out));
        });
        group.bench_function(BenchmarkId::new("gemm crate", name), |bench| {
            bench.iter(|| theirs((m, n, k), &a, &b, false, &mut out));
        });
    }
    for batch in [10, 64] {
        let (outputs, k) = (512, 1_600);
        let (x, w) = (random(batch * k, 1), random(outputs * k, 2));
        let mut layer = FullyConnected::new(&w, k, batch);
        let mut y = vec![0.0; batch * outputs];
        let name = format!("cnn fc1, batch {batch}");
        group.throughput(Throughput::Elements((batch * outputs * k) as u64));
        group.bench_function(BenchmarkId::new("ours", &name), |bench| {
            bench.iter(|| layer.forward(&x, &mut y));
        });
        group.bench_function(BenchmarkId::new("gemm crate", &name), |bench| {
            bench.iter(|| theirs((batch, outputs, k), &x, &w, true, &mut y));
        });
    }
    group.finish();
}

criterion_group!(benches, products);
criterion_main!(benches);
