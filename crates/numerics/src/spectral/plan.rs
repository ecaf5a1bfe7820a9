//! Fourier plans for a layout: which parameters are transformed together, and at which length.

use super::fft::{cut, grid, shape, smooth};
use super::transform::{Memory, Size, Sizes, Transform};
use super::truncation::{Band, Kept, kept_entries};
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

/// From how many entries on, in networks of as many parameters, a narrow band of low frequencies goes through a shorter
/// transform. A part of results too.
pub(super) const DECIMATED: usize = 1 << 18;

/// No band above this share of the entries is cut; below it, [`cut`] decides.
pub(super) const NARROW: f64 = 0.125;

/// Planned transforms, shared by every phase of a worker.
pub struct Spectrum {
    pub(super) transforms: Vec<Transform>,
    /// The share of the lowest frequencies that is there, if not all are.
    lowest: Option<f64>,
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
        Self::planned(layout, part, scope, length, None)
    }

    /// Plans them for terms over the lowest `⌈τN⌉` entries alone, which long vectors have at a fraction of the time.
    pub fn lowest(layout: &Layout, part: Part, scope: Scope, length: Length, tau: f64) -> Self {
        Self::planned(layout, part, scope, length, Some(tau))
    }

    fn planned(
        layout: &Layout,
        part: Part,
        scope: Scope,
        length: Length,
        lowest: Option<f64>,
    ) -> Self {
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
            let size = lowest.and_then(|tau| decimated(size, d, tau)).unwrap_or(size);
            Transform::new(range, size, &mut planner, &mut sizes)
        };
        let transforms = ranges.into_iter().filter(|r| !r.is_empty()).map(plan).collect();
        Self { transforms, lowest, sizes, range: own }
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
        if let Some(lowest) = self.lowest
            && (band != Band::Low || tau > lowest)
        {
            return Err(NumericsError::NotPlanned { lowest });
        }
        Ok(self.transforms.iter().map(|t| Kept::new(&t.order, tau, band)).collect())
    }

    /// One transform of a given size.
    #[cfg(test)]
    pub(super) fn single(d: usize, size: Size) -> Self {
        let mut sizes = Sizes::default();
        let transform = Transform::new(0..d, size, &mut RealFftPlanner::new(), &mut sizes);
        Self { transforms: vec![transform], lowest: None, range: 0..d, sizes }
    }

    /// Memory for one term.
    pub(super) fn memory(&self) -> Memory {
        self.sizes.memory()
    }
}

/// The transform of a size that has its lowest `⌈τN⌉` entries alone, where that is quicker.
fn decimated(size: Size, d: usize, tau: f64) -> Option<Size> {
    let (len, is_matrix) = match size {
        Size::Matrix(dimensions) => (dimensions.len(), true),
        Size::Resampled(_) => (d, false),
        Size::Library(_) | Size::Plain(_) | Size::Decimated { .. } => return None,
    };
    let entries = kept_entries(tau, len);
    let grid = (len >= DECIMATED).then(|| cut(len, entries, is_matrix)).flatten()?;
    Some(Size::Decimated { len, grid, entries })
}

#[cfg(test)]
mod tests {
    use super::super::fft::Dimensions;
    use super::super::truncation::Order;
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
    fn narrow_bands_of_long_vectors_have_shorter_transforms() {
        let points = |d, length, tau| {
            let layout = Layout::single(d);
            let spectrum = Spectrum::lowest(&layout, Part::All, Scope::Flat, length, tau);
            let Order::Matrix { len, grid, .. } = spectrum.transforms[0].order else { return None };
            assert!(
                spectrum.kept(tau, Band::High).is_err() && spectrum.kept(1.0, Band::Low).is_err()
            );
            Some((len, grid))
        };
        // They are part of results and never change.
        assert_eq!(points(878_538, Length::Fast, 0.02), Some((884_736, 55_296)));
        assert_eq!(points(878_538, Length::Fast, 0.06), Some((884_736, 221_184)));
        assert_eq!(points(878_538, Length::Fast, 0.1), Some((884_736, 442_368)));
        assert_eq!(points(878_538, Length::Fast, 0.2), Some((884_736, 884_736)));
        assert_eq!(points(878_538, Length::Exact, 0.02), Some((878_538, 55_296)));
        assert_eq!(points(878_538, Length::Exact, 0.1), Some((878_538, 294_912)));
        assert_eq!(points(44_426, Length::Fast, 0.02), Some((46_080, 46_080)));
        assert_eq!(points(44_426, Length::Exact, 0.02), None, "the library's");
        for d in (DECIMATED..1 << 26).step_by(99_991) {
            for tau in [1e-4, 0.02, 0.06, NARROW] {
                let fast = shape(d).map_or(d, Dimensions::len);
                for (len, is_matrix) in [(fast, true), (d, false)] {
                    let grid = cut(len, kept_entries(tau, len), is_matrix).unwrap().len();
                    assert!(9 * len >= 16 * grid && len <= 16 * grid, "{d} {len} {tau}: {grid}");
                }
            }
        }
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
