//! What this machine's arithmetic can reach: products of large square matrices.
#![expect(unsafe_code, reason = "the interface of the `gemm` crate is one unsafe function")]

use crate::stopwatch::{Tally, together};
use formant_numerics::bench::{Extents, Product};
use formant_numerics::{Rng, Stream};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Products at once, each by one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    threads: u32,
    /// Rows and columns
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=8_192))]
    size: u32,
    /// Seconds to measure each
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seconds to warm up before
    #[arg(long, default_value_t = 0.5)]
    warm_up: f64,
}

struct Matrices {
    size: usize,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    ours: Product,
}

impl Matrices {
    fn new(size: usize, stream: u64) -> Self {
        let mut rng = Rng::new(1, Stream::Test, 0, stream);
        let mut random = || (0..size * size).map(|_| rng.normal() as f32).collect();
        Self { size, a: random(), b: random(), c: vec![0.0; size * size], ours: Product::default() }
    }

    fn ours(&mut self) {
        let n = self.size;
        self.ours.multiply(Extents { m: n, n, k: n }, &self.a, &self.b, &mut self.c);
    }

    fn theirs(&mut self) {
        let n = self.size;
        assert!([&self.a, &self.b, &self.c].iter().all(|matrix| matrix.len() == n * n));
        // SAFETY: all three are square row-major matrices of `n` rows, as asserted above, and the
        // target is borrowed mutably, so that it overlaps neither operand.
        unsafe {
            gemm::gemm(
                n,
                n,
                n,
                self.c.as_mut_ptr(),
                1,
                n as isize,
                false,
                self.a.as_ptr(),
                1,
                n as isize,
                self.b.as_ptr(),
                1,
                n as isize,
                0.0f32,
                1.0f32,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every measurement")]
pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    let size = args.size as usize;
    let mut matrices: Vec<_> =
        (0..u64::from(args.threads)).map(|i| Matrices::new(size, i)).collect();
    let times = (args.warm_up, args.seconds);
    let gflops = |tallies: &[Tally]| Tally::rate(tallies) * 2.0 * (size as f64).powi(3) / 1e9;
    let theirs = gflops(&together(&mut matrices, times, Matrices::theirs));
    let ours = gflops(&together(&mut matrices, times, Matrices::ours));
    Ok(json!({ "size": size, "gemm_crate_gflops": theirs, "formant_gflops": ours }))
}
