//! Against a transform in double precision.

use super::super::Matrix;
use super::*;
use crate::{Rng, Stream};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;

fn draw(d: usize) -> Vec<f32> {
    let mut rng = Rng::new(6, Stream::Test, 0, 0);
    (0..d).map(|_| rng.normal() as f32).collect()
}

/// Numbers on a circle of `len`, how many frequencies of it are wanted, and whether it is cut without interpolation.
fn cases() -> Vec<(usize, usize, usize, bool)> {
    let fast = |d: usize, entries| (d, shape(d).unwrap().len(), entries, true);
    let exact = |d, entries| (d, d, entries, false);
    // Every number of halves, bands that end where the filters let most through, and lengths of every kind.
    vec![
        fast(262_147, 30),
        fast(262_147, 5_000),
        fast(262_147, 15_000),
        fast(290_000, 12_000),
        fast(290_000, 36_250),
        fast(294_912, 36_864),
        fast(878_538, 17_695),
        exact(262_144 + 3, 30),
        exact(262_147, 5_000),
        exact(270_000, 10_000),
        exact(270_000, 30_000),
        exact(300_007, 37_501),
        exact(333_333, 20_833),
        exact(700_001, 14_001),
        exact(878_538, 88),
        exact(878_538, 17_571),
        exact(878_539, 109_818),
    ]
}

/// The first entries of the spectrum of `x` with zeros behind it, in double precision.
fn wide(x: &[f32], len: usize, entries: usize) -> Vec<Complex64> {
    let plan = RealFftPlanner::<f64>::new().plan_fft_forward(len);
    let mut input: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    input.resize(len, 0.0);
    let mut output = plan.make_output_vec();
    plan.process(&mut input, &mut output).unwrap();
    output.truncate(entries);
    output
}

/// The points, in memory that was used before.
fn spread(decimation: &Decimation, x: &[f32]) -> Vec<f32> {
    let mut room = vec![f32::NAN; decimation.room()];
    decimation.spread(x, &mut room);
    decimation.points(&mut room).to_vec()
}

/// The way back.
fn back(decimation: &Decimation, points: &[f32], d: usize) -> Vec<f32> {
    let (mut room, mut x) = (vec![f32::NAN; decimation.room()], vec![0.0; d]);
    decimation.points(&mut room).copy_from_slice(points);
    decimation.back(&mut room, &mut x);
    x
}

#[test]
fn low_frequencies_are_those_of_the_whole() {
    for (d, len, entries, is_matrix) in cases() {
        let grid = cut(len, entries, is_matrix).unwrap();
        let decimation = Decimation::new(d, len, grid, entries, &Matrix::new(grid).frequencies());
        let mut x = draw(d);
        x[d - 1] = 100.0;
        x[0] = -50.0;
        let points = spread(&decimation, &x);
        let wanted = wide(&x, len, entries);
        let kernel = Kernel::new(WIDTH, PI * BANDWIDTH);
        let kernel = decimation.filters.as_ref().map(|_| &kernel);
        let found = wide(&points, grid.len(), entries);
        let (mut off, mut size) = (0.0, 0.0);
        for (k, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            let found = found * undone(&decimation.halvings, kernel, (len, grid.len()), k);
            off += (found - wanted).norm_sqr();
            size += wanted.norm_sqr();
        }
        let error = (off / size).sqrt();
        assert!(error < 4e-7, "{d} of {len}, {entries}: {error}");
    }
}

#[test]
fn the_way_back_is_the_transpose() {
    for (d, len, entries, is_matrix) in cases() {
        let grid = cut(len, entries, is_matrix).unwrap();
        let decimation = Decimation::new(d, len, grid, entries, &Matrix::new(grid).frequencies());
        let (x, a) = (draw(d), draw(grid.len()));
        let (points, back) = (spread(&decimation, &x), back(&decimation, &a, d));
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let norms = f64::from(crate::vector::norm(&points) as f32)
            * f64::from(crate::vector::norm(&a) as f32);
        let (there, here) = (dot(&points, &a), dot(&x, &back));
        assert!((there - here).abs() < 1e-8 * norms, "{d} of {len}: {there} and {here}");
    }
}

#[test]
fn bits_are_the_same_without_vector_instructions() {
    for (d, len, entries, is_matrix) in cases() {
        let grid = cut(len, entries, is_matrix).unwrap();
        let decimation = Decimation::new(d, len, grid, entries, &Matrix::new(grid).frequencies());
        let (x, a) = (draw(d), draw(grid.len()));
        let run = || (spread(&decimation, &x), back(&decimation, &a, d));
        assert!(run() == crate::gemm::with_portable(run), "{d} of {len}");
    }
}
