//! Fourier plans for a layout: which parameters are transformed together, and at which length.

use super::fft::{grid, shape, smooth};
use super::transform::{Memory, Size, Sizes, Transform};
use super::truncation::Kept;
use crate::{Layout, NumericsError, Part};
use core::ops::Range;
use realfft::RealFftPlanner;
use serde::{Deserialize, Serialize};

/// Over which vectors the transform runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// One transform of all parameters: the paper's.
    #[default]
    Flat,
    /// One transform per parameter tensor, concatenated; "low frequency" then stays inside a layer.
    PerLayer,
}

impl Scope {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["flat", "per-layer"];
}

/// How many entries the spectrum of `d` parameters has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// `d`: the paper's. A long vector is resampled to a length that is quick; its frequencies stay what they are.
    #[default]
    Exact,
    /// `N ≥ d`, the next length that is quick: zeros are appended, which samples the same spectrum
    /// at `N` frequencies instead of `d`. Each entry weighs `d/N`.
    Fast,
}

impl Length {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] = &["exact", "fast"];
}

/// Planned transforms, shared by every phase of a worker.
pub struct Spectrum {
    pub(super) transforms: Vec<Transform>,
    sizes: Sizes,
}

impl core::fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Spectrum of {} transforms, {} entries", self.transforms.len(), self.entries())
    }
}

impl Spectrum {
    /// Plans the transforms for a layout.
    pub fn new(layout: &Layout, scope: Scope, length: Length) -> Self {
        let ranges: Vec<Range<usize>> = match scope {
            Scope::Flat => core::iter::once(layout.range(Part::All)).collect(),
            Scope::PerLayer => layout.tensors().iter().map(|t| t.range.clone()).collect(),
        };
        let mut planner = RealFftPlanner::<f32>::new();
        let mut sizes = Sizes::default();
        let plan = |range: Range<usize>| {
            let d = range.len();
            let size = match (shape(d), length) {
                (Some(matrix), _) if matrix.len() == d => Size::Matrix(matrix),
                (Some(matrix), Length::Fast) => Size::Matrix(matrix),
                (None, Length::Fast) => Size::Library(smooth(d)),
                (_, Length::Exact) => grid(d).map_or(Size::Library(d), Size::Resampled),
            };
            Transform::new(range, size, &mut planner, &mut sizes)
        };
        let transforms = ranges.into_iter().filter(|r| !r.is_empty()).map(plan).collect();
        Self { transforms, sizes }
    }

    /// Entries of all spectra: `d` in total if the length is exact.
    pub fn entries(&self) -> usize {
        self.transforms.iter().map(Transform::len).sum()
    }

    /// For each transform, what a truncation keeps.
    pub(super) fn kept(&self, tau: f64) -> Result<Vec<Kept>, NumericsError> {
        if !(tau > 0.0 && tau <= 1.0) {
            return Err(NumericsError::Truncation { tau });
        }
        Ok(self.transforms.iter().map(|t| Kept::new(&t.order, tau)).collect())
    }

    /// One transform of a given size.
    #[cfg(test)]
    pub(super) fn single(d: usize, size: Size) -> Self {
        let mut sizes = Sizes::default();
        let transform = Transform::new(0..d, size, &mut RealFftPlanner::new(), &mut sizes);
        Self { transforms: vec![transform], sizes }
    }

    /// Memory for one term.
    pub(super) fn memory(&self) -> Memory {
        self.sizes.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fft::Dimensions;
    use super::*;

    #[test]
    fn lengths_are_part_of_results_and_never_change() {
        let fast = |d| Spectrum::new(&Layout::single(d), Scope::Flat, Length::Fast).entries();
        // A bias, a kernel, lenet5, cnn, and a length that is quick already.
        assert_eq!([1, 7, 2401].map(fast), [1, 8, 2430]);
        assert_eq!(fast(44_426), 46_080);
        assert_eq!(fast(878_538), 884_736);
        assert_eq!(fast(819_200), 819_200);
        assert_eq!(shape(11_173_962), Some(Dimensions { rows: 1024, columns: 11_520 }));
    }

    #[test]
    fn padding_is_at_most_an_eighth() {
        for d in (1 << 15..1 << 26).step_by(99_991) {
            let matrix = shape(d).unwrap();
            assert!(matrix.len() >= d && 8 * (matrix.len() - d) <= d, "{d}: {matrix:?}");
        }
    }

    #[test]
    fn a_ratio_must_be_within_bounds() {
        let spectrum = Spectrum::new(&Layout::single(9), Scope::Flat, Length::Exact);
        for tau in [0.0, 1.1, -1.0, f64::NAN] {
            assert!(spectrum.kept(tau).is_err());
        }
    }
}
