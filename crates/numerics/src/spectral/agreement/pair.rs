//! Two spectra side by side, and what bands of them have in common.

use super::super::svd::Svd;
use super::{BANDS, Bands};
use realfft::num_complex::Complex;
use serde::{Deserialize, Serialize};

/// How far a student `a` agrees with a teacher `b` in a band. None of it rewards size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// `Re⟨a, b⟩ / (‖a‖ ‖b‖)`, phases and vectors included: 1 if one is a multiple of the other.
    pub cosine: f64,
    /// `‖a − b‖² / ‖b‖²`.
    pub distance: f64,
    /// Correlation of `log |a|` with `log |b|`, entry by entry.
    pub magnitudes: f64,
    /// `Σ P log(P/Q)` of the magnitudes, each divided by their sum in the band.
    pub divergence: f64,
    /// The teacher's energy an entry, as a multiple of its mean over all bands: 1 everywhere for noise.
    pub energy: f64,
}

/// The spectra of two models.
#[derive(Debug)]
pub struct SpectralPair {
    magnitudes: Vec<Magnitudes>,
    products: Products,
}

/// Of one coefficient.
#[derive(Debug, Clone, Copy)]
struct Magnitudes {
    student: f64,
    teacher: f64,
    count: f64,
}

#[derive(Debug)]
enum Products {
    /// `Re(a conj b)` of each coefficient.
    Fourier(Vec<f64>),
    /// Of each matrix the first of its coefficients, how many they are, and `⟨u_k, u'_l⟩ ⟨σ_k v_k, σ'_l v'_l⟩`
    /// for all pairs of them: components of different rank are not orthogonal to each other.
    Singular(Vec<(usize, usize, Vec<f64>)>),
}

/// Fourier coefficients of both.
pub(super) struct Entries {
    pub(super) student: Vec<Complex<f64>>,
    pub(super) teacher: Vec<Complex<f64>>,
}

/// Singular values and vectors of both, matrix by matrix.
pub(super) struct Triplets<'a> {
    pub(super) student: &'a [Svd],
    pub(super) teacher: &'a [Svd],
}

/// Magnitudes below this count as this, so that no logarithm is infinite.
const FLOOR: f64 = 1e-30;

impl SpectralPair {
    pub(super) fn fourier(entries: &Entries, counts: &[f64]) -> Self {
        let both = || entries.student.iter().zip(&entries.teacher);
        let magnitudes = both().zip(counts).map(|((a, b), count)| Magnitudes {
            student: a.norm(),
            teacher: b.norm(),
            count: *count,
        });
        let products = both().map(|(a, b)| a.re * b.re + a.im * b.im);
        Self { products: Products::Fourier(products.collect()), magnitudes: magnitudes.collect() }
    }

    pub(super) fn singular(Triplets { student, teacher }: Triplets<'_>) -> Self {
        let (mut magnitudes, mut products) = (Vec::new(), Vec::new());
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (a, b) in student.iter().zip(teacher) {
            let (from, n) = (magnitudes.len(), a.values.len());
            magnitudes.extend(a.values.iter().zip(&b.values).map(|(a, b)| Magnitudes {
                student: *a,
                teacher: *b,
                count: 1.0,
            }));
            let all = (0..n).flat_map(|k| (0..n).map(move |l| (k, l)));
            let all = all.map(|(k, l)| dot(a.left(k), b.left(l)) * dot(a.right(k), b.right(l)));
            products.push((from, n, all.collect()));
        }
        Self { magnitudes, products: Products::Singular(products) }
    }

    /// What the two have in common in every band, and over all of them.
    pub fn by(&self, bands: &Bands) -> (Vec<Agreement>, Agreement) {
        let count = BANDS.len() - 1;
        let mut sums = vec![Sums::default(); count];
        for (at, band) in self.magnitudes.iter().zip(&bands.0) {
            sums[usize::from(*band)].add(*at);
        }
        match &self.products {
            Products::Fourier(products) => {
                for ((product, at), band) in products.iter().zip(&self.magnitudes).zip(&bands.0) {
                    sums[usize::from(*band)].product += at.count * product;
                }
            }
            Products::Singular(matrices) => {
                for (from, n, products) in matrices {
                    let bands = &bands.0[*from..from + n];
                    for (k, band) in bands.iter().enumerate() {
                        let same = bands.iter().zip(&products[k * n..][..*n]);
                        sums[usize::from(*band)].product +=
                            same.filter(|(other, _)| *other == band).map(|(_, x)| x).sum::<f64>();
                    }
                }
            }
        }
        let mut all = Sums::default();
        for band in &sums {
            all.join(band);
        }
        if let Products::Singular(matrices) = &self.products {
            // Across bands too.
            all.product =
                matrices.iter().map(|(_, _, products)| products.iter().sum::<f64>()).sum();
        }
        let mean = all.teacher / all.count;
        (sums.iter().map(|band| band.agreement(mean)).collect(), all.agreement(mean))
    }
}

/// Sums over a band, each coefficient as often as it stands in the full spectrum.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    student: f64,
    teacher: f64,
    product: f64,
    /// Of magnitudes, and of `p log(p/q)`.
    p: f64,
    q: f64,
    along: f64,
    /// Of logarithms, their squares and their product.
    log_p: f64,
    log_q: f64,
    log_pp: f64,
    log_qq: f64,
    log_pq: f64,
}

impl Sums {
    fn add(&mut self, Magnitudes { student, teacher, count }: Magnitudes) {
        let (p, q) = (student.max(FLOOR), teacher.max(FLOOR));
        let (log_p, log_q) = (libm::log(p), libm::log(q));
        self.join(&Self {
            count,
            student: count * student * student,
            teacher: count * teacher * teacher,
            product: 0.0,
            p: count * p,
            q: count * q,
            along: count * p * (log_p - log_q),
            log_p: count * log_p,
            log_q: count * log_q,
            log_pp: count * log_p * log_p,
            log_qq: count * log_q * log_q,
            log_pq: count * log_p * log_q,
        });
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.student += other.student;
        self.teacher += other.teacher;
        self.product += other.product;
        self.p += other.p;
        self.q += other.q;
        self.along += other.along;
        self.log_p += other.log_p;
        self.log_q += other.log_q;
        self.log_pp += other.log_pp;
        self.log_qq += other.log_qq;
        self.log_pq += other.log_pq;
    }

    fn agreement(&self, mean: f64) -> Agreement {
        let n = self.count;
        let variance = |squares: f64, sum: f64| (squares - sum * sum / n).max(0.0);
        let spread = variance(self.log_pp, self.log_p) * variance(self.log_qq, self.log_q);
        Agreement {
            cosine: self.product / (self.student * self.teacher).sqrt(),
            distance: (self.student - 2.0 * self.product + self.teacher) / self.teacher,
            magnitudes: (self.log_pq - self.log_p * self.log_q / n) / spread.sqrt(),
            divergence: (self.along / self.p - libm::log(self.p / self.q)).max(0.0),
            energy: self.teacher / n / mean,
        }
    }
}
