//! One spectral term, whatever its spectrum is made of.

use super::planar::PlanarDivergence;
use super::planes::{Across, Planes};
use super::singular::{Matrix, SingularDivergence};
use super::truncation::kept_entries;
use super::{Form, Length, Scope, SpectralDivergence, Spectrum};
use crate::{Differentiable, Layout, NumericsError, Part};
use std::sync::Arc;

/// What a worker plans once for all terms over one scope.
#[derive(Clone)]
pub struct SpectralPlans(Plans);

#[derive(Clone)]
enum Plans {
    Lines(Arc<Spectrum>),
    Planes(Arc<Planes<f32>>),
    Matrices(Arc<[Matrix]>),
}

impl core::fmt::Debug for SpectralPlans {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Plans::Lines(spectrum) => write!(f, "{spectrum:?}"),
            Plans::Planes(planes) => write!(f, "planes of {} tensors", planes.sheets.len()),
            Plans::Matrices(matrices) => write!(f, "{} matrices", matrices.len()),
        }
    }
}

impl SpectralPlans {
    /// For a part of models of a layout. The length is that of one-dimensional transforms alone.
    pub fn new(layout: &Layout, part: Part, scope: Scope, length: Length) -> Self {
        let planes = |across| Plans::Planes(Arc::new(Planes::new(layout, part, across)));
        Self(match scope {
            Scope::Flat | Scope::PerLayer => {
                Plans::Lines(Arc::new(Spectrum::new(layout, scope, length)))
            }
            Scope::TwoD => planes(Across::Units),
            Scope::Kernel => planes(Across::Kernels),
            Scope::Singular => Plans::Matrices(Matrix::all(layout, part).into()),
        })
    }

    /// The term towards a teacher, over the lowest `⌈τN⌉` entries of every spectrum.
    pub fn term(
        &self,
        form: Form,
        tau: f64,
        teacher: &[f32],
    ) -> Result<SpectralTerm, NumericsError> {
        let mut choose = |n: usize| {
            let kept = kept_entries(tau, n);
            (0..n).map(|rank| rank < kept).collect::<Vec<bool>>()
        };
        if !(tau > 0.0 && tau <= 1.0) {
            return Err(NumericsError::Truncation { tau });
        }
        Ok(SpectralTerm(match &self.0 {
            Plans::Lines(plans) => {
                Term::Lines(SpectralDivergence::new(plans.clone(), form, tau, teacher)?)
            }
            Plans::Planes(planes) => {
                Term::Planes(PlanarDivergence::new(planes.clone(), form, &mut choose, teacher))
            }
            Plans::Matrices(_) if form == Form::Complex => return Err(NumericsError::NoPhase),
            Plans::Matrices(matrices) => {
                Term::Matrices(SingularDivergence::new(matrices, form, &mut choose, teacher))
            }
        }))
    }
}

/// `D(ŝ(w) ‖ ŝ(teacher))` as a term of an objective in `w`.
#[derive(Debug)]
pub struct SpectralTerm(Term);

enum Term {
    Lines(SpectralDivergence),
    Planes(PlanarDivergence),
    Matrices(SingularDivergence),
}

impl core::fmt::Debug for Term {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Lines(_) => "lines",
            Self::Planes(_) => "planes",
            Self::Matrices(_) => "matrices",
        })
    }
}

impl Differentiable for SpectralTerm {
    fn add(&mut self, weight: f32, w: &[f32], gradient: &mut [f32]) -> f64 {
        match &mut self.0 {
            Term::Lines(term) => term.add(weight, w, gradient),
            Term::Planes(term) => term.add(weight, w, gradient),
            Term::Matrices(term) => term.add(weight, w, gradient),
        }
    }
}

#[cfg(test)]
mod tests;
