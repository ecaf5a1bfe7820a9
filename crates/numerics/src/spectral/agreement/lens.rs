//! From parameters to coefficients, and which band each belongs to.

use super::super::planes::{Across, PlaneMemory, Planes};
use super::super::singular::Matrix;
use super::super::svd::Svd;
use super::pair::{Entries, SpectralPair, Triplets};
use super::{BANDS, SpectrumKind};
use crate::{Layout, Part, Rng};
use core::ops::Range;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Looks at models of a layout in one kind of spectrum.
pub struct AgreementLens {
    parameters: usize,
    means: Means,
    /// The band of each coefficient.
    bands: Bands,
    /// How many entries of the full spectrum a coefficient stands for.
    counts: Vec<f64>,
    /// Coefficients of one tensor, among which random bands are drawn.
    strata: Vec<Range<usize>>,
}

impl core::fmt::Debug for AgreementLens {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AgreementLens of {} coefficients", self.counts.len())
    }
}

/// Which coefficient belongs to which band.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bands(pub(super) Vec<u8>);

enum Means {
    Lines(Vec<Line>),
    Planes(Box<Planes<f64>>),
    Matrices(Vec<Matrix>),
}

struct Line {
    range: Range<usize>,
    transform: Arc<dyn RealToComplex<f64>>,
}

/// The band of an entry that so many of all lie below.
fn band(below: usize, of: usize) -> u8 {
    let share = below as f64 / of.max(1) as f64;
    BANDS[1..BANDS.len() - 1].iter().filter(|edge| share >= **edge).count() as u8
}

impl AgreementLens {
    /// For models of a layout.
    pub fn new(layout: &Layout, kind: SpectrumKind) -> Self {
        let tensors = || layout.tensors_of(Part::All);
        let mut lens = Self {
            parameters: layout.parameters(),
            means: Means::Lines(Vec::new()),
            bands: Bands(Vec::new()),
            counts: Vec::new(),
            strata: Vec::new(),
        };
        match kind {
            SpectrumKind::Flat => lens.lines(core::iter::once(layout.range(Part::All))),
            SpectrumKind::PerLayer => lens.lines(tensors().map(|tensor| tensor.range.clone())),
            SpectrumKind::TwoD => lens.planes(Planes::new(layout, Part::All, Across::Units)),
            SpectrumKind::Kernel => lens.planes(Planes::new(layout, Part::All, Across::Kernels)),
            SpectrumKind::Singular => lens.matrices(Matrix::all(layout, Part::All)),
        }
        lens
    }

    /// Coefficients of one more tensor, each with its band and its count.
    fn stratum(&mut self, coefficients: impl Iterator<Item = (u8, f64)>) {
        let from = self.counts.len();
        for (band, count) in coefficients {
            self.bands.0.push(band);
            self.counts.push(count);
        }
        self.strata.push(from..self.counts.len());
    }

    fn lines(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let mut planner = RealFftPlanner::new();
        let mut lines = Vec::new();
        for range in ranges.filter(|range| !range.is_empty()) {
            let n = range.len();
            let count = |k: usize| if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
            self.stratum((0..=n / 2).map(|k| (band(k, n / 2 + 1), count(k))));
            lines.push(Line { range, transform: planner.plan_fft_forward(n) });
        }
        self.means = Means::Lines(lines);
    }

    fn planes(&mut self, planes: Planes<f64>) {
        for sheet in &planes.sheets {
            let mut of_place = vec![0; sheet.entries()];
            for (below, place) in sheet.order.iter().enumerate() {
                of_place[*place] = band(below, sheet.entries());
            }
            let all = core::iter::repeat_n(&of_place, sheet.planes).flatten();
            self.stratum(all.map(|band| (*band, 1.0)));
        }
        self.means = Means::Planes(Box::new(planes));
    }

    fn matrices(&mut self, matrices: Vec<Matrix>) {
        for matrix in &matrices {
            let values = matrix.values();
            self.stratum((0..values).map(|k| (band(k, values), 1.0)));
        }
        self.means = Means::Matrices(matrices);
    }

    /// The bands, from low to high.
    pub fn bands(&self) -> Bands {
        self.bands.clone()
    }

    /// Bands of the same sizes in every tensor, of coefficients that are drawn at random.
    pub fn random_bands(&self, rng: &mut Rng) -> Bands {
        let mut bands = self.bands.clone();
        self.strata.iter().for_each(|stratum| rng.shuffle(&mut bands.0[stratum.clone()]));
        bands
    }

    /// The spectra of a student and a teacher, ready to be compared band by band.
    pub fn pair(&self, student: &[f32], teacher: &[f32]) -> SpectralPair {
        assert!(student.len() == self.parameters && teacher.len() == self.parameters);
        if let Means::Matrices(matrices) = &self.means {
            let of = |w: &[f32]| -> Vec<Svd> {
                let decomposed = |matrix: &Matrix| {
                    let mut svd = matrix.svd();
                    matrix.decompose(w, &mut svd);
                    svd
                };
                matrices.iter().map(decomposed).collect()
            };
            let (a, b) = (of(student), of(teacher));
            return SpectralPair::singular(Triplets { student: &a, teacher: &b });
        }
        let entries =
            Entries { student: self.coefficients(student), teacher: self.coefficients(teacher) };
        SpectralPair::fourier(&entries, &self.counts)
    }

    /// Orthonormal coefficients, in the order of the bands.
    fn coefficients(&self, w: &[f32]) -> Vec<Complex<f64>> {
        let mut found = vec![Complex::new(0.0, 0.0); self.counts.len()];
        let mut rest = &mut found[..];
        match &self.means {
            Means::Lines(lines) => {
                for line in lines {
                    let own;
                    (own, rest) = rest.split_at_mut(line.range.len() / 2 + 1);
                    line.transform(w, own);
                }
            }
            Means::Planes(planes) => {
                let mut memory: PlaneMemory<f64> = planes.memory();
                for sheet in &planes.sheets {
                    let scale = 1.0 / (sheet.entries() as f64).sqrt();
                    for plane in 0..sheet.planes {
                        let own;
                        (own, rest) = rest.split_at_mut(sheet.entries());
                        sheet.forward(plane, |i| f64::from(w[i]), &mut memory, own);
                        for z in own {
                            *z *= scale;
                        }
                    }
                }
            }
            Means::Matrices(_) => {}
        }
        found
    }
}

impl Line {
    fn transform(&self, w: &[f32], found: &mut [Complex<f64>]) {
        let mut values: Vec<f64> = w[self.range.clone()].iter().map(|x| f64::from(*x)).collect();
        // The lengths are those of the plan, which is all that can be wrong.
        if self.transform.process(&mut values, found).is_err() {
            found.fill(Complex::new(f64::NAN, f64::NAN));
        }
        let scale = 1.0 / (self.range.len() as f64).sqrt();
        for z in found {
            *z *= scale;
        }
    }
}
