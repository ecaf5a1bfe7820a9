//! The divergence between singular values, with its exact gradient.
//!
//! The spectrum of a tensor is that of its `(out, in · kernel)` matrix: singular values, the largest first, which
//! neither an order of hidden units nor any other rotation of rows and columns changes. A vector has one, its
//! norm. With `g = ∂D/∂σ` the gradient is `U diag(g) Vᵀ`.

use super::divergence::Form;
use super::pointwise::{FLOOR, Sums};
use super::svd::Svd;
use crate::{Differentiable, Layout, Part, Tensor};
use core::ops::Range;

/// A tensor as a matrix.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) range: Range<usize>,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Matrix {
    /// The matrices of a part of a layout.
    pub(super) fn all(layout: &Layout, part: Part) -> Vec<Self> {
        let matrix = |tensor: &Tensor| {
            let rows = if tensor.shape.len() < 2 { 1 } else { tensor.shape[0] };
            Self { range: tensor.range.clone(), rows, columns: tensor.range.len() / rows }
        };
        layout.tensors_of(part).map(matrix).collect()
    }

    /// How many singular values it has.
    pub(super) fn values(&self) -> usize {
        self.rows.min(self.columns)
    }

    /// A place to decompose it.
    pub(super) fn svd(&self) -> Svd {
        Svd::new(self.values(), self.rows.max(self.columns))
    }

    /// Where the value lies that a decomposition has at a place: its shorter side comes first.
    fn place(&self, short: usize, long: usize) -> usize {
        let (row, column) = if self.rows <= self.columns { (short, long) } else { (long, short) };
        self.range.start + row * self.columns + column
    }

    /// Decomposes the matrix that some parameters have here.
    pub(super) fn decompose(&self, w: &[f32], svd: &mut Svd) {
        svd.decompose(|short, long| f64::from(w[self.place(short, long)]));
    }
}

/// `D(σ̂(w) ‖ σ̂(teacher))` over the matrices of a layout.
pub(super) struct SingularDivergence {
    form: Form,
    parts: Vec<Decomposed>,
    /// Of the teacher's kept values.
    total: f64,
}

struct Decomposed {
    matrix: Matrix,
    svd: Svd,
    /// Which values count, from the largest on.
    kept: Vec<bool>,
    /// `log q`.
    logs: Vec<f64>,
}

/// Values below this share of the largest have no direction.
const SMALLEST: f64 = 1e-12;

impl SingularDivergence {
    /// The term towards `teacher`. `choose` says of so many values, the largest first, which are kept.
    pub(super) fn new(
        matrices: &[Matrix],
        form: Form,
        choose: &mut dyn FnMut(usize) -> Vec<bool>,
        teacher: &[f32],
    ) -> Self {
        let mut total = 0.0;
        let parts = matrices.iter().map(|matrix| {
            let (mut svd, kept) = (matrix.svd(), choose(matrix.values()));
            matrix.decompose(teacher, &mut svd);
            let floored = svd.values.iter().map(|q| q.max(f64::from(FLOOR)));
            total +=
                floored.clone().zip(&kept).filter(|(_, kept)| **kept).map(|(q, _)| q).sum::<f64>();
            let logs = floored.map(libm::log).collect();
            Decomposed { matrix: matrix.clone(), svd, kept, logs }
        });
        Self { form, parts: parts.collect(), total }
    }
}

impl Decomposed {
    /// Which values count and have a direction: place, value and `log(p/q)`.
    fn acting(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let least = SMALLEST * self.svd.values.first().copied().unwrap_or(0.0);
        let values = self.svd.values.iter().zip(&self.logs).zip(&self.kept).enumerate();
        values
            .filter(move |(_, ((p, _), kept))| **kept && **p > least)
            .map(|(k, ((p, log), _))| (k, *p, libm::log(*p) - log))
    }
}

impl Differentiable for SingularDivergence {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        let mut sums = Sums::default();
        for part in &mut self.parts {
            part.matrix.decompose(w, &mut part.svd);
        }
        for (_, p, ratio) in self.parts.iter().flat_map(Decomposed::acting) {
            sums.total += p;
            sums.along += p * ratio;
        }
        let Some((value, slope)) = self.form.slope(f64::from(weight), sums, self.total) else {
            return 0.0;
        };
        for part in &self.parts {
            for (k, p, ratio) in part.acting() {
                // The right vectors carry their values along.
                let factor = slope.scale * (ratio + slope.shift) / p;
                for (short, u) in part.svd.left(k).iter().enumerate() {
                    let factor = factor * u;
                    for (long, v) in part.svd.right(k).iter().enumerate() {
                        gradient[part.matrix.place(short, long)] += (factor * v) as f32;
                    }
                }
            }
        }
        value
    }
}
