//! Against the definition and against the library, in `f64`.

use super::super::Matrix;
use super::*;
use crate::{Rng, Stream};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;

fn draw(d: usize) -> Vec<f32> {
    let mut rng = Rng::new(5, Stream::Test, 0, 0);
    (0..d).map(|_| rng.normal() as f32).collect()
}

struct Both {
    matrix: Matrix,
    resampling: Resampling,
}

impl Both {
    fn new(d: usize) -> Self {
        let grid = grid(d).unwrap();
        let matrix = Matrix::new(grid);
        let resampling = Resampling::new(d, grid, &matrix.frequencies());
        Self { matrix, resampling }
    }

    fn scratch(&self) -> (Vec<Bins>, Vec<Lanes>) {
        let columns = vec![Bins::default(); self.matrix.scratch()];
        (columns, vec![Lanes::default(); self.resampling.eighths()])
    }

    /// The bins as the matrix has them.
    fn forward(&self, x: &[f32]) -> Vec<Bins> {
        let Self { matrix, resampling } = self;
        let (mut columns, mut eighths) = self.scratch();
        let mut bins = vec![Bins::default(); matrix.blocks()];
        resampling.divide(x, &mut eighths);
        let gather = |strips, to: &mut [Bins]| resampling.gather(&eighths, strips, to);
        matrix.split_columns_of(gather, &mut columns, &mut bins);
        for (group, bins) in bins.chunks_exact_mut(matrix.columns()).enumerate() {
            matrix.split_rows(bins);
            resampling.weights().weigh(group, bins);
        }
        bins
    }

    /// `Re Σ_k a_k e^{−2πi kn/d}`.
    fn back(&self, mut bins: Vec<Bins>) -> Vec<f32> {
        let Self { matrix, resampling } = self;
        let (mut columns, mut eighths) = self.scratch();
        for (group, bins) in bins.chunks_exact_mut(matrix.columns()).enumerate() {
            resampling.weights().weigh(group, bins);
            matrix.join_rows(bins);
        }
        let scatter = |from: &[Bins], strips| resampling.scatter(from, strips, &mut eighths);
        matrix.join_columns_to(&bins, &mut columns, scatter);
        let mut x = vec![0.0; resampling.len];
        resampling.unite(&eighths, &mut x);
        x
    }

    /// Block and lane of the bins `0..=d/2`, and whether a bin stands there as its mirror image.
    fn places(&self) -> Vec<(usize, usize, bool)> {
        let (n, rows, columns) = (self.matrix.len(), self.matrix.rows(), self.matrix.columns());
        let mut position = vec![0; columns];
        for (at, c) in self.matrix.frequencies().into_iter().enumerate() {
            position[c] = at;
        }
        let place = |k: usize| {
            let is_mirror = k % rows > rows / 2;
            let k = if is_mirror { n - k } else { k };
            let (r, c) = (k % rows, k / rows);
            (r / LANES * columns + position[c], r % LANES, is_mirror)
        };
        (0..=self.resampling.len / 2).map(place).collect()
    }

    /// The bins `0..=d/2`.
    fn spectrum(&self, x: &[f32]) -> Vec<Complex64> {
        let bins = self.forward(x);
        let bin = |(block, l, is_mirror): (usize, usize, bool)| {
            let (re, im) = (f64::from(bins[block].re.0[l]), f64::from(bins[block].im.0[l]));
            Complex64::new(re, if is_mirror { -im } else { im })
        };
        self.places().into_iter().map(bin).collect()
    }
}

/// The spectrum in double precision, by the library.
fn wide(x: &[f32]) -> Vec<Complex64> {
    let plan = RealFftPlanner::<f64>::new().plan_fft_forward(x.len());
    let mut input: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let mut output = plan.make_output_vec();
    plan.process(&mut input, &mut output).unwrap();
    output
}

/// Root mean square and greatest error, in units of the root mean square of what is wanted.
fn errors(found: &[Complex64], wanted: &[Complex64]) -> (f64, f64) {
    assert_eq!(found.len(), wanted.len());
    let mean = |sum: f64| (sum / wanted.len() as f64).sqrt();
    let size = mean(wanted.iter().map(Complex64::norm_sqr).sum());
    let off = || found.iter().zip(wanted).map(|(a, b)| (a - b).norm_sqr());
    (mean(off().sum()) / size, off().fold(0.0, f64::max).sqrt() / size)
}

#[test]
fn bins_are_those_of_the_definition_at_lengths_of_every_kind() {
    // 0 to 7 modulo 8, among them primes (22,031 and 22,037), with one number that stands out.
    for d in [22_024, 22_025, 22_026, 22_027, 22_028, 22_031, 22_037, 22_030] {
        let mut x = draw(d);
        x[d - 1] = 100.0;
        let found = Both::new(d).spectrum(&x);
        let roots: Vec<Complex64> =
            (0..d).map(|k| Complex64::cis(-core::f64::consts::TAU * k as f64 / d as f64)).collect();
        let norm = crate::vector::norm(&x);
        for k in (0..40).chain((40..d / 2).step_by(457)).chain(d / 2 - 40..=d / 2) {
            let terms = x.iter().enumerate();
            let want: Complex64 = terms.map(|(n, x)| roots[(k * n) % d] * f64::from(*x)).sum();
            assert!((found[k] - want).norm() < 3e-6 * norm, "{d}, {k}: {} for {want}", found[k]);
        }
    }
}

#[test]
fn rounding_is_comparable_to_the_librarys() {
    for d in [44_426, 62_006, 878_538] {
        let x = draw(d);
        let wanted = wide(&x);
        let plan = RealFftPlanner::<f32>::new().plan_fft_forward(d);
        let mut output = plan.make_output_vec();
        plan.process(&mut x.clone(), &mut output).unwrap();
        let library: Vec<_> =
            output.iter().map(|z| Complex64::new(f64::from(z.re), f64::from(z.im))).collect();
        let library = errors(&library, &wanted);
        let own = errors(&Both::new(d).spectrum(&x), &wanted);
        // 2.6e-7, 2.8e-7 and 3.9e-7 in the mean against the library's 2.8e-7, 2.5e-7 and 2.9e-7. The greatest are
        // those of the highest frequencies, which the kernel weakens most: 4e-6 against 1e-6.
        assert!(own.0 < 5e-7 && own.1 < 6e-6, "{d}: {own:?}, and the library's {library:?}");
    }
}

#[test]
fn the_way_back_is_the_transpose() {
    for d in [44_426, 62_006, 22_031, 878_538] {
        let both = Both::new(d);
        // Coefficients on the bins 0..=d/2.
        let drawn = draw(2 * (d / 2 + 1));
        let mut bins = vec![Bins::default(); both.matrix.blocks()];
        let mut wanted = vec![Complex64::default(); d / 2 + 1];
        for (k, (block, l, is_mirror)) in both.places().into_iter().enumerate() {
            let (re, im) = (drawn[2 * k], drawn[2 * k + 1]);
            bins[block].re.0[l] = re;
            bins[block].im.0[l] = if is_mirror { -im } else { im };
            // Re Σ a_k e^{−…} is half of the inverse's sum over bins and mirror images, conjugated.
            let half = if k == 0 || 2 * k == d { 1.0 } else { 0.5 };
            let im = if half == 1.0 { 0.0 } else { f64::from(im) };
            wanted[k] = Complex64::new(half * f64::from(re), -half * im);
        }
        let plan = RealFftPlanner::<f64>::new().plan_fft_inverse(d);
        let mut output = plan.make_output_vec();
        plan.process(&mut wanted, &mut output).unwrap();
        let found = both.back(bins);
        let off: f64 = found.iter().zip(&output).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
        let size: f64 = output.iter().map(|x| x * x).sum();
        assert!((off / size).sqrt() < 5e-7, "{d}: {}", (off / size).sqrt());
    }
}

#[test]
fn bits_are_the_same_without_vector_instructions() {
    let (x, both) = (draw(30_011), Both::new(30_011));
    let run = || {
        let bins = both.forward(&x);
        (both.back(bins.clone()), bins)
    };
    assert!(run() == crate::gemm::with_portable(run));
}
