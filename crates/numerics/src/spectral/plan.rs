//! Fourier plans for a layout: which parameters are transformed together, and at which length.

use super::fft::{grid, shape, smooth};
use super::transform::{Memory, Size, Sizes, Transform};
use super::truncation::{Band, Kept};
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
    /// A two-dimensional transform over `(out, in)` of every weight tensor for each position of its kernel, of
    /// vectors one over their length; low is a small radial frequency.
    #[serde(rename = "two-d")]
    TwoD,
    /// A two-dimensional transform over the kernel for each `(out, in)`; of matrices and vectors as [`Scope::TwoD`].
    Kernel,
    /// The singular values of each `(out, in · kernel)` matrix, the largest first.
    Singular,
    /// No transform: the parameters take the place of the bins, and `|w|` that of the magnitudes. A control: whatever
    /// a spectrum does, this does without one. The low band is then the first layers.
    Plain,
}

impl Scope {
    /// Their names in a file.
    pub const WORDS: &'static [&'static str] =
        &["flat", "per-layer", "two-d", "kernel", "singular", "plain"];
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

/// From how many parameters on a spectrum of exact length is resampled: the library takes three times as long there, and
/// hardly longer for small networks, whose results are those of the library. A part of results; it never changes.
const RESAMPLED: usize = 1 << 18;

/// Planned transforms, shared by every phase of a worker.
pub struct Spectrum {
    pub(super) transforms: Vec<Transform>,
    /// The parameters that are transformed.
    pub(super) range: Range<usize>,
    sizes: Sizes,
}

impl core::fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Spectrum of {} transforms, {} entries", self.transforms.len(), self.entries())
    }
}

impl Spectrum {
    /// Plans one-dimensional transforms for a layout: of everything, or of every tensor. Scopes of another kind
    /// have plans of their own ([`SpectralPlans`](super::SpectralPlans)).
    pub fn new(layout: &Layout, scope: Scope, length: Length) -> Self {
        Self::of_part(layout, Part::All, scope, length)
    }

    /// Plans the transforms for a part of a layout; what they say nothing about stays as it is.
    pub fn of_part(layout: &Layout, part: Part, scope: Scope, length: Length) -> Self {
        let own = layout.range(part);
        let ranges: Vec<Range<usize>> = match scope {
            Scope::Flat | Scope::Plain => core::iter::once(own.clone()).collect(),
            _ => layout.tensors_of(part).map(|tensor| tensor.range.clone()).collect(),
        };
        let mut planner = RealFftPlanner::<f32>::new();
        let mut sizes = Sizes::default();
        let plan = |range: Range<usize>| {
            let d = range.len();
            if scope == Scope::Plain {
                return Transform::new(range, Size::Plain(d), &mut planner, &mut sizes);
            }
            let size = match (shape(d), length) {
                (Some(matrix), _) if matrix.len() == d => Size::Matrix(matrix),
                (Some(matrix), Length::Fast) => Size::Matrix(matrix),
                (None, Length::Fast) => Size::Library(smooth(d)),
                (_, Length::Exact) if d < RESAMPLED => Size::Library(d),
                (_, Length::Exact) => grid(d).map_or(Size::Library(d), Size::Resampled),
            };
            Transform::new(range, size, &mut planner, &mut sizes)
        };
        let transforms = ranges.into_iter().filter(|r| !r.is_empty()).map(plan).collect();
        Self { transforms, sizes, range: own }
    }

    /// Entries of all spectra: `d` in total if the length is exact.
    pub fn entries(&self) -> usize {
        self.transforms.iter().map(Transform::len).sum()
    }

    /// For each transform, what a truncation keeps.
    pub(super) fn kept(&self, tau: f64, band: Band) -> Result<Vec<Kept>, NumericsError> {
        if !(tau > 0.0 && tau <= 1.0) {
            return Err(NumericsError::Truncation { tau });
        }
        Ok(self.transforms.iter().map(|t| Kept::new(&t.order, tau, band)).collect())
    }

    /// One transform of a given size.
    #[cfg(test)]
    pub(super) fn single(d: usize, size: Size) -> Self {
        let mut sizes = Sizes::default();
        let transform = Transform::new(0..d, size, &mut RealFftPlanner::new(), &mut sizes);
        Self { transforms: vec![transform], range: 0..d, sizes }
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
            assert!(spectrum.kept(tau, Band::Low).is_err());
        }
    }
}
