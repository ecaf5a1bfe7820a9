//! One spectral term, whatever its spectrum is made of.

use super::plan::{DECIMATED, NARROW};
use super::planar::PlanarDivergence;
use super::planes::{Across, Planes};
use super::singular::{Matrix, SingularDivergence};
use super::truncation::{Band, kept_entries};
use super::{Form, Length, Scope, SpectralDivergence, Spectrum};
use crate::{Differentiable, Layout, NumericsError, Part, Rng, Stream};
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
    /// For a part of models of a layout, and any band. The length is that of one-dimensional transforms alone.
    pub fn new(layout: &Layout, part: Part, scope: Scope, length: Length) -> Self {
        Self::planned(layout, part, scope, length, None)
    }

    /// The same for terms over one band, with quicker transforms if it is a [narrow](Self::is_narrow) one.
    pub fn for_band(
        layout: &Layout,
        part: Part,
        scope: Scope,
        length: Length,
        (tau, band): (f64, Band),
    ) -> Self {
        let lowest = Self::is_narrow(layout, tau, band).then_some(tau);
        Self::planned(layout, part, scope, length, lowest)
    }

    /// Whether terms over a band may have quicker transforms than those over any.
    pub fn is_narrow(layout: &Layout, tau: f64, band: Band) -> bool {
        band == Band::Low && tau <= NARROW && layout.parameters() >= DECIMATED
    }

    fn planned(
        layout: &Layout,
        part: Part,
        scope: Scope,
        length: Length,
        lowest: Option<f64>,
    ) -> Self {
        let planes = |across| Plans::Planes(Arc::new(Planes::new(layout, part, across)));
        Self(match scope {
            Scope::Flat | Scope::PerLayer | Scope::Plain => Plans::Lines(Arc::new(match lowest {
                Some(tau) => Spectrum::lowest(layout, part, scope, length, tau),
                None => Spectrum::of_part(layout, part, scope, length),
            })),
            Scope::TwoD => planes(Across::Units),
            Scope::Kernel => planes(Across::Kernels),
            Scope::Singular => Plans::Matrices(Matrix::all(layout, part).into()),
        })
    }

    /// The term towards a teacher, over `⌈τN⌉` entries of every spectrum.
    pub fn term(
        &self,
        form: Form,
        tau: f64,
        band: Band,
        teacher: &[f32],
    ) -> Result<SpectralTerm, NumericsError> {
        let mut choose = |n: usize| chosen(n, tau, band);
        if !(tau > 0.0 && tau <= 1.0) {
            return Err(NumericsError::Truncation { tau });
        }
        Ok(SpectralTerm(match &self.0 {
            Plans::Lines(plans) => {
                Term::Lines(SpectralDivergence::in_band(plans.clone(), form, tau, band, teacher)?)
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

/// Which of `n` entries, from the lowest to the highest, a band keeps.
fn chosen(n: usize, tau: f64, band: Band) -> Vec<bool> {
    let kept = kept_entries(tau, n);
    let mut ranks: Vec<usize> = (0..n).collect();
    match band {
        Band::Low => {}
        Band::High => ranks.reverse(),
        Band::Random(number) => {
            Rng::new(u64::from(number), Stream::Band, n as u64, 0).shuffle(&mut ranks);
        }
    }
    let mut found = vec![false; n];
    ranks[..kept].iter().for_each(|rank| found[*rank] = true);
    found
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
